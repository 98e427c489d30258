//! TLS on both sides, by rustls with ring.

use std::{fs, io::BufReader, path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::config::{Http2, Problem, Tls};

/// What agents are shown; nothing where no certificate is configured.
pub fn server(tls: &Tls) -> Result<Option<Arc<ServerConfig>>, Problem> {
    if tls.certificate.is_empty() {
        return Ok(None);
    }
    let chain = certificates("tls.certificate", &tls.certificate)?;
    let problem = |what: String| Problem { file: None, key: "tls.key".into(), what };
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| problem(format!("no private key in {}: {error}", tls.key)))?;
    let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = config.and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
    let mut config = config.map_err(|error| problem(format!("certificate and key do not go together: {error}")))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(Arc::new(config)))
}

/// How providers are trusted and which protocols they are offered.
pub fn client(ca_file: &str, http2: Http2) -> Result<Arc<ClientConfig>, Problem> {
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = config.map_err(|error| Problem { file: None, key: "connection".into(), what: error.to_string() })?;
    let mut config = config.with_root_certificates(roots(ca_file)?).with_no_client_auth();
    config.alpn_protocols = match http2 {
        Http2::Never => vec![b"http/1.1".to_vec()],
        Http2::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Http2::Always => vec![b"h2".to_vec()],
    };
    Ok(Arc::new(config))
}

/// Bytes that nobody can guess. Should the system have none to give, what is hashed with them is only less private, never wrong.
pub fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    if ring::default_provider().secure_random.fill(&mut bytes).is_err() {
        tracing::warn!("no randomness to be had");
    }
    bytes
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The authorities of `ca_file`, or else the system's, or else (a container without any) Mozilla's as they were at build time.
fn roots(ca_file: &str) -> Result<RootCertStore, Problem> {
    let mut roots = RootCertStore::empty();
    if ca_file.is_empty() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        return Ok(roots);
    }
    for certificate in certificates("connection.ca_file", ca_file)? {
        let problem =
            |error| Problem { file: None, key: "connection.ca_file".into(), what: format!("{ca_file} holds no usable authority: {error}") };
        roots.add(certificate).map_err(problem)?;
    }
    Ok(roots)
}

fn certificates(key: &str, file: &str) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let problem = |what: String| Problem { file: None, key: key.into(), what };
    let opened = fs::File::open(Path::new(file)).map_err(|error| problem(format!("{file} cannot be read: {error}")))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_reader_iter(BufReader::new(opened)).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(problem(format!("{file} holds no certificate; expected PEM"))),
        Err(error) => Err(problem(format!("{file} is not PEM: {error}"))),
    }
}
