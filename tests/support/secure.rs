//! Upstreams and agents that speak HTTP/2 or TLS.

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

/// A certificate for 127.0.0.1 that is its own authority.
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
    der: CertificateDer<'static>,
    secret: Vec<u8>,
    _folder: tempfile::TempDir,
}

impl Identity {
    pub fn new() -> Identity {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        Identity { certificate, key, der: made.cert.der().clone(), secret: made.signing_key.serialize_der(), _folder: folder }
    }

    /// A connection of an agent that trusts this identity and offers these protocols.
    pub async fn connect(&self, address: SocketAddr, protocols: &[&str]) -> TlsStream<TcpStream> {
        self.try_connect(address, protocols, None).await.unwrap()
    }

    /// What an agent connects with that trusts all of these.
    pub fn trusted(identities: &[&Identity]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        identities.iter().for_each(|identity| roots.add(identity.der.clone()).unwrap());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
    }

    /// The same of an agent that shows a certificate of its own, if it has one.
    pub async fn try_connect(
        &self,
        address: SocketAddr,
        protocols: &[&str],
        own: Option<&Identity>,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots);
        let mut config = match own {
            None => config.with_no_client_auth(),
            Some(own) => config.with_client_auth_cert(vec![own.der.clone()], PrivatePkcs8KeyDer::from(own.secret.clone()).into()).unwrap(),
        };
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(address).await.unwrap();
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await
    }

    /// Lets only those in who show the certificate of `client`.
    pub fn demanding(&self, client: &Identity) -> TlsAcceptor {
        let mut roots = RootCertStore::empty();
        roots.add(client.der.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivatePkcs8KeyDer::from(self.secret.clone()).into();
        let config = config.with_client_cert_verifier(verifier).with_single_cert(vec![self.der.clone()], key).unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    fn acceptor(&self, protocols: &[&str]) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivatePkcs8KeyDer::from(self.secret.clone()).into();
        let mut config = config.with_no_client_auth().with_single_cert(vec![self.der.clone()], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A request as hyper saw it.
pub struct Seen {
    pub version: Version,
    pub authority: Option<String>,
    pub host: Option<String>,
    pub target: String,
    pub body: Bytes,
    pub connection: usize,
}

/// An upstream built from hyper's own server, which answers every POST with what it got. Of paths, those that end in `/hold` wait until released,
/// `/early` are answered before their body is read, and until released it is not; streams of `/refused` and `/broken` are reset.
pub struct Server {
    pub address: SocketAddr,
    pub seen: Arc<Mutex<Vec<Seen>>>,
    pub release: Arc<tokio::sync::Semaphore>,
}

impl Server {
    /// With TLS where there is an identity, and with this many streams to a connection of HTTP/2.
    pub async fn new(identity: Option<(&Identity, &[&str])>, streams: u32) -> Server {
        Server::at(([127, 0, 0, 1], 0).into(), identity, streams).await
    }

    pub async fn at(address: SocketAddr, identity: Option<(&Identity, &[&str])>, streams: u32) -> Server {
        let listener = TcpListener::bind(address).await.unwrap();
        let acceptor = identity.map(|(identity, protocols)| identity.acceptor(protocols));
        let server =
            Server { address: listener.local_addr().unwrap(), seen: Arc::default(), release: Arc::new(tokio::sync::Semaphore::new(0)) };
        let (seen, release) = (server.seen.clone(), server.release.clone());
        let count = Arc::new(AtomicUsize::new(0));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = count.fetch_add(1, Ordering::Relaxed);
                let (acceptor, seen, release) = (acceptor.clone(), seen.clone(), release.clone());
                tokio::spawn(async move {
                    let service = hyper::service::service_fn(move |request| answer(request, connection, seen.clone(), release.clone()));
                    let mut builder = auto::Builder::new(TokioExecutor::new());
                    builder.http2().max_concurrent_streams(streams);
                    match acceptor {
                        None => drop(builder.serve_connection(TokioIo::new(stream), service).await),
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                drop(builder.serve_connection(TokioIo::new(stream), service).await);
                            }
                        }
                    }
                });
            }
        });
        server
    }

    /// Version and connection of every request that arrived.
    pub fn carried(&self) -> Vec<(Version, usize)> {
        self.seen.lock().unwrap().iter().map(|seen| (seen.version, seen.connection)).collect()
    }
}

async fn answer(
    request: Request<Incoming>,
    connection: usize,
    all: Arc<Mutex<Vec<Seen>>>,
    release: Arc<tokio::sync::Semaphore>,
) -> Result<Response<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>> {
    let (head, body) = request.into_parts();
    if head.uri.path().ends_with("/early") {
        tokio::spawn(async move {
            release.acquire().await.unwrap().forget();
            drop(body);
        });
        return Ok(Response::builder().status(413).body(Full::default())?);
    }
    let body = body.collect().await?.to_bytes();
    all.lock().unwrap().push(Seen {
        version: head.version,
        authority: head.uri.authority().map(|authority| authority.to_string()),
        host: head.headers.get("host").map(|host| host.to_str().unwrap().to_owned()),
        target: head.uri.path_and_query().unwrap().to_string(),
        body: body.clone(),
        connection,
    });
    if head.uri.path().ends_with("/hold") {
        release.acquire().await.unwrap().forget();
    }
    let reset = |reason: h2::Reason| Err(h2::Error::from(reason).into());
    match head.uri.path().rsplit('/').next() {
        Some("refused") => reset(h2::Reason::REFUSED_STREAM),
        Some("broken") => reset(h2::Reason::INTERNAL_ERROR),
        _ => Ok(Response::builder().header("content-type", "application/json").body(Full::new(body))?),
    }
}
