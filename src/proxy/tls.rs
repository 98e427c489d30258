//! TLS on both sides, by rustls with ring.

mod expiry;

use std::{fs, io::BufReader, path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};

use crate::config::{Connection, Http2, Problem, Tls};

/// What agents are shown; nothing where no certificate is configured.
pub fn server(tls: &Tls) -> Result<Option<Arc<ServerConfig>>, Problem> {
    if tls.certificate.is_empty() {
        return Ok(None);
    }
    let (chain, key) = identity("tls", &tls.certificate, &tls.key)?;
    let problem = |key: &str, what: String| Problem { file: None, key: key.into(), what };
    let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let config = config.map_err(|error| problem("tls", error.to_string()))?;
    let config = match tls.client_ca.as_str() {
        "" => config.with_no_client_auth(),
        file => {
            let roots = authorities("tls.client_ca", file)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build();
            config.with_client_cert_verifier(verifier.map_err(|error| problem("tls.client_ca", error.to_string()))?)
        }
    };
    let config = config.with_single_cert(chain, key);
    let mut config = config.map_err(|error| problem("tls.key", format!("certificate and key do not go together: {error}")))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Some(Arc::new(config)))
}

/// How providers are trusted, what they are shown, and which protocols they are offered.
pub fn client(connection: &Connection) -> Result<Arc<ClientConfig>, Problem> {
    let problem = |error: rustls::Error| Problem { file: None, key: "connection".into(), what: error.to_string() };
    let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().map_err(problem)?;
    let config = config.with_root_certificates(roots(&connection.ca_file)?);
    let mut config = match connection.certificate.as_str() {
        "" => config.with_no_client_auth(),
        certificate => {
            let (chain, key) = identity("connection", certificate, &connection.key)?;
            config.with_client_auth_cert(chain, key).map_err(problem)?
        }
    };
    config.alpn_protocols = match connection.http2 {
        Http2::Never => vec![b"http/1.1".to_vec()],
        Http2::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        Http2::Always => vec![b"h2".to_vec()],
    };
    Ok(Arc::new(config))
}

/// When the certificates of a PEM file end, in seconds since 1970; nothing where there is none.
pub fn end(file: &str) -> Option<i64> {
    if file.is_empty() {
        return None;
    }
    expiry::of(&certificates("", file).ok()?)
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
    authorities("connection.ca_file", ca_file)
}

/// The authorities of a PEM file, which `key` names.
pub fn authorities(key: &str, file: &str) -> Result<RootCertStore, Problem> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(key, file)? {
        let problem = |error| Problem { file: None, key: key.into(), what: format!("{file} holds no usable authority: {error}") };
        roots.add(certificate).map_err(problem)?;
    }
    Ok(roots)
}

/// What one shows of oneself, from the files under `at`.
fn identity(at: &str, certificate: &str, key: &str) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Problem> {
    let chain = certificates(&format!("{at}.certificate"), certificate)?;
    let problem = |what: String| Problem { file: None, key: format!("{at}.key"), what };
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| problem(format!("no private key in {key}: {error}")))?;
    Ok((chain, secret))
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
