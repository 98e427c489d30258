//! Accepts connections of agents: HTTP/1.1 and HTTP/2, with or without TLS.

use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use http::Version;
use hyper::service::service_fn;
use hyper_util::{rt::TokioIo, server::graceful::Watcher};
use prometheus_client::metrics::gauge::Gauge;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::{
    lifecycle::Draining,
    live::Live,
    metrics::Metrics,
    patience::{Ending, Head, Patient, Watched},
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

    pub fn address(&self) -> std::io::Result<SocketAddr> {
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
                Ok((stream, place)) => drop(tokio::spawn(connection(
                    self.live.clone(),
                    self.metrics.clone(),
                    stream,
                    place,
                    draining.watcher(),
                    draining.cutting(),
                ))),
                Err(error) => {
                    // Out of file descriptors, most likely; it gets better when a connection ends.
                    self.metrics.accept_errors.of(&[]).inc();
                    tracing::warn!(cause = %error, "cannot accept");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn accept(&self) -> std::io::Result<(TcpStream, OwnedSemaphorePermit)> {
        let place = self.room.clone().acquire_owned().await.map_err(std::io::Error::other)?;
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
    stream: TcpStream,
    place: OwnedSemaphorePermit,
    watcher: Watcher,
    cutting: impl Future<Output = ()>,
) {
    let _open = Open::new(&metrics);
    let _ = stream.set_nodelay(true);
    let keep_alive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(15));
    let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&keep_alive);
    let tls = live.load().tls.clone();
    let served = async {
        match tls {
            None => serve(live, stream, watcher).await,
            Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                Ok(Ok(stream)) => serve(live, stream, watcher).await,
                Ok(Err(error)) => tracing::debug!(cause = %error, "no TLS with an agent"),
                Err(_) => tracing::debug!("an agent did not finish its TLS handshake"),
            },
        }
    };
    tokio::select! {
        () = served => {}
        () = cutting => {}
    }
    drop(place);
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

async fn serve(live: Arc<Live>, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, watcher: Watcher) {
    let serving = live.load_full();
    let head = Head::default();
    let coming = head.clone();
    let service = service_fn(move |request| {
        coming.is_whole();
        let one = (request.version() < Version::HTTP_2).then(|| coming.clone());
        // Each request is under the configuration that is in force when it comes.
        let answer = live.load().proxy.answer(request);
        async move { answer.await.map(|answer| answer.map(|body| Ending::new(body, one))) }
    });
    let stream = TokioIo::new(Watched::new(stream, head.clone()));
    let connection = serving.connections.serve_connection_with_upgrades(stream, service).into_owned();
    match Repoll::new(Patient::new(watcher.watch(connection), head, serving.patience())).await {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::debug!(cause = %error, "a connection of an agent ended"),
        None => tracing::debug!("an agent did not ask in time"),
    }
}
