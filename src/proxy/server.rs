//! Accepts connections of agents: HTTP/1.1 and HTTP/2, with or without TLS.

use std::{
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use hyper::{
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use prometheus_client::metrics::gauge::Gauge;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout, timeout_at},
};
use tokio_rustls::TlsAcceptor;

use super::{
    lifecycle::Draining,
    live::Live,
    metrics::Metrics,
    patience::{Ending, Head, Limits, Patient, Watched},
    repoll::Repoll,
};
use crate::config::{Config, Problem};

/// How long an agent may take to agree on TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// File descriptors that are none of agents and upstreams: files, the admin listener, the runtime's, a ledger's.
const SPARE_FDS: usize = 32;

pub struct Server {
    /// Closed when accepting ends, while connections go on.
    listener: TcpListener,
    live: Arc<Live>,
    /// As many connections as there may be.
    room: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

impl Server {
    /// Listens at once; nothing is accepted before [`Server::run`].
    pub async fn bind(config: &Config, live: Arc<Live>) -> Result<Server, Problem> {
        let listener = TcpListener::bind(&config.listen).await;
        let listener = listener.map_err(|error| Problem {
            file: None,
            key: "listen".into(),
            what: format!("cannot listen on {}: {error}", config.listen),
        })?;
        let room = Arc::new(Semaphore::new(room(config.admission.connections)));
        let metrics = live.load().proxy.metrics.clone();
        Ok(Server { listener, live, room, metrics })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts until told to stop. While there is no room, connections wait at the system's door.
    pub async fn run(self, draining: &Draining) {
        let mut stop = pin!(draining.stopped());
        loop {
            let accepted = tokio::select! {
                accepted = self.accept() => accepted,
                () = &mut stop => return,
            };
            match accepted {
                Ok((stream, place)) => {
                    let (stopped, cutting) = (draining.stopped(), draining.cutting());
                    let connection = connection(self.live.clone(), self.metrics.clone(), stream, place, stopped, cutting);
                    drop(draining.connections.spawn(connection));
                }
                Err(error) => {
                    // Out of file descriptors, most likely; it gets better when a connection ends.
                    self.metrics.accept_errors.of(&[]).inc();
                    tracing::warn!(cause = %error, "cannot accept");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn accept(&self) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
        let place = self.room.clone().acquire_owned().await.map_err(io::Error::other)?;
        Ok((self.listener.accept().await?.0, place))
    }
}

/// How many connections there may be: an exchange takes a file descriptor on either side.
fn room(configured: usize) -> usize {
    let fds = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.map_or(usize::MAX, |fds| fds as usize);
    match configured {
        0 => (fds.saturating_sub(SPARE_FDS) / 2).clamp(8, Semaphore::MAX_PERMITS),
        configured => configured.min(Semaphore::MAX_PERMITS),
    }
}

async fn connection(
    live: Arc<Live>,
    metrics: Arc<Metrics>,
    mut stream: TcpStream,
    place: OwnedSemaphorePermit,
    stopped: impl Future<Output = ()> + Send + 'static,
    cutting: impl Future<Output = ()>,
) {
    let _open = Open::new(&metrics);
    let _ = stream.set_nodelay(true);
    let keep_alive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(15));
    let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&keep_alive);
    let (tls, patience) = {
        let serving = live.load();
        (serving.tls.clone(), serving.patience())
    };
    let mut stopped = Box::pin(stopped);
    let served = async {
        match tls {
            None => {
                let begun = tokio::select! {
                    biased;
                    begun = Protocol::begun(&mut stream, patience) => begun,
                    () = &mut stopped => None,
                };
                if let Some((protocol, start)) = begun {
                    serve(live, stream, start, protocol, stopped).await;
                }
            }
            Some(tls) => {
                // Larger by far than what carries a connection once it is open.
                let agreed = Box::pin(agree(tls, live, stream, stopped)).await;
                if let Some(served) = agreed {
                    served.await;
                }
            }
        }
    };
    tokio::select! {
        () = served => {}
        () = cutting => {}
    }
    drop(place);
}

/// Serves a connection with TLS, if there is agreement on that in time.
async fn agree(
    tls: TlsAcceptor,
    live: Arc<Live>,
    stream: TcpStream,
    mut stopped: impl Future<Output = ()> + Unpin + Send + 'static,
) -> Option<Served> {
    let agreed = tokio::select! {
        biased;
        agreed = timeout(HANDSHAKE, tls.accept(stream)) => agreed,
        () = &mut stopped => return None,
    };
    match agreed {
        Ok(Ok(stream)) => {
            let protocol = Protocol::agreed(stream.get_ref().1.alpn_protocol());
            return Some(serve(live, stream, &[], protocol, stopped));
        }
        Ok(Err(error)) => tracing::debug!(cause = %error, "no TLS with an agent"),
        Err(_) => tracing::debug!("an agent did not finish its TLS handshake"),
    }
    None
}

/// A connection that is counted.
struct Open(Gauge);

impl Open {
    fn new(metrics: &Metrics) -> Open {
        let gauge = metrics.connections.of(&[]);
        gauge.inc();
        Open(gauge)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[derive(Clone, Copy)]
enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    /// By what an agent says first, if it does in time, and as much of that as is no longer to be read.
    async fn begun(stream: &mut TcpStream, patience: Limits) -> Option<(Protocol, &'static [u8])> {
        // The beginning of HTTP/2's preface, and of no method of HTTP/1.
        const PREFACE: &[u8] = b"PRI ";
        let (mut start, mut taken) = ([0; PREFACE.len()], 0);
        let mut until = Instant::now() + patience.silence;
        loop {
            let come = taken + timeout_at(until, stream.peek(&mut start[taken..])).await.ok()?.ok()?;
            let protocol = match &start[..come] {
                PREFACE => Protocol::Http2,
                so_far if come == taken || !PREFACE.starts_with(so_far) => Protocol::Http1,
                _ => {
                    // A look would show the same again at once, so these are taken to wait for what follows.
                    stream.read_exact(&mut start[taken..come]).await.ok()?;
                    if taken == 0 {
                        until = Instant::now() + patience.head;
                    }
                    taken = come;
                    continue;
                }
            };
            return Some((protocol, &PREFACE[..taken]));
        }
    }

    /// By what was agreed on with TLS.
    fn agreed(alpn: Option<&[u8]>) -> Protocol {
        if alpn == Some(b"h2") { Protocol::Http2 } else { Protocol::Http1 }
    }
}

/// A connection that is served.
type Served = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves a connection of which `start` has been read.
fn serve(
    live: Arc<Live>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    start: &'static [u8],
    protocol: Protocol,
    stopped: impl Future<Output = ()> + Unpin + Send + 'static,
) -> Served {
    let serving = live.load_full();
    let head = match protocol {
        Protocol::Http1 => Head::http1(),
        Protocol::Http2 => Head::http2(),
    };
    let coming = head.clone();
    let service = service_fn(move |request| {
        let asked = coming.came();
        // Each request is under the configuration that is in force when it comes.
        let answer = live.load().proxy.answer(request);
        async move { answer.await.map(|answer| answer.map(|body| Ending::new(body, asked))) }
    });
    let stream = TokioIo::new(Watched::new(start, stream, head.clone()));
    let patience = serving.patience();
    match protocol {
        Protocol::Http1 => {
            let connection = serving.http1.serve_connection(stream, service).with_upgrades();
            Box::pin(run(Patient::new(connection, http1::UpgradeableConnection::graceful_shutdown, stopped, head, patience)))
        }
        Protocol::Http2 => {
            let connection = serving.http2.serve_connection(stream, service);
            Box::pin(run(Patient::new(connection, http2::Connection::graceful_shutdown, stopped, head, patience)))
        }
    }
}

async fn run(connection: impl Future<Output = Option<hyper::Result<()>>> + Unpin) {
    match Repoll::new(connection).await {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::debug!(cause = %error, "a connection of an agent ended"),
        None => tracing::debug!("an agent did not ask in time"),
    }
}
