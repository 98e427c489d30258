//! Accepts connections of agents: HTTP/1.1 and HTTP/2, with or without TLS.

use std::{net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::Watcher},
};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use super::{Proxy, lifecycle::Draining, repoll::Repoll, tls};
use crate::config::{Config, Problem};

/// How long an agent may take to agree on TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);

pub struct Server {
    /// Closed when accepting ends, while connections go on.
    listener: TcpListener,
    service: Arc<Service>,
}

/// What connections need.
struct Service {
    tls: Option<TlsAcceptor>,
    proxy: Arc<Proxy>,
    connections: auto::Builder<TokioExecutor>,
}

impl Server {
    /// Listens at once; nothing is accepted before [`Server::run`].
    pub async fn bind(config: &Config, proxy: Arc<Proxy>) -> Result<Server, Problem> {
        let listener = TcpListener::bind(&config.listen).await;
        let listener = listener.map_err(|error| Problem {
            file: None,
            key: "listen".into(),
            what: format!("cannot listen on {}: {error}", config.listen),
        })?;
        let tls = tls::server(&config.tls)?.map(|config: Arc<ServerConfig>| TlsAcceptor::from(config));
        Ok(Server { listener, service: Arc::new(Service { tls, proxy, connections: connections(config.keep_alive) }) })
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts until told to stop.
    pub async fn run(self, draining: &Draining) {
        let mut stop = pin!(draining.begun());
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut stop => return,
            };
            match accepted {
                Ok((stream, _)) => drop(tokio::spawn(self.service.clone().connection(stream, draining.watcher()))),
                Err(error) => {
                    // Out of file descriptors, most likely; it gets better when a connection ends.
                    tracing::warn!(cause = %error, "cannot accept");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

impl Service {
    async fn connection(self: Arc<Self>, stream: TcpStream, watcher: Watcher) {
        let _ = stream.set_nodelay(true);
        let keep_alive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(15));
        let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&keep_alive);
        match &self.tls {
            None => self.serve(stream, watcher).await,
            Some(tls) => match tokio::time::timeout(HANDSHAKE, tls.accept(stream)).await {
                Ok(Ok(stream)) => self.serve(stream, watcher).await,
                Ok(Err(error)) => tracing::debug!(cause = %error, "no TLS with an agent"),
                Err(_) => tracing::debug!("an agent did not finish its TLS handshake"),
            },
        }
    }

    async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, watcher: Watcher) {
        let proxy = self.proxy.clone();
        let service = service_fn(move |request| proxy.answer(request));
        let connection = self.connections.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
        if let Err(error) = Repoll::new(watcher.watch(connection)).await {
            tracing::debug!(cause = %error, "a connection of an agent ended");
        }
    }
}

fn connections(keep_alive: f64) -> auto::Builder<TokioExecutor> {
    let keep_alive = Duration::from_secs_f64(keep_alive.max(1.0));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(keep_alive).preserve_header_case(true).auto_date_header(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(Duration::from_secs(20))
        // Windows large enough that a request of megabytes is not held up by round trips.
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20);
    builder
}
