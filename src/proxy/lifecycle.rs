//! From start to exit: listen, run, and on SIGTERM let what runs come to its end.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    task::JoinHandle,
};

use super::{Proxy, admin::Admin, decide::Decide, pool::seconds, server::Server};
use crate::config::{Config, Problem};

/// How often unused connections are looked through.
const PRUNE: Duration = Duration::from_secs(15);

/// A proxy that is listening.
pub struct Running {
    pub address: SocketAddr,
    pub admin: Option<SocketAddr>,
    draining: Arc<Draining>,
    proxy: Arc<Proxy>,
    accepting: JoinHandle<()>,
    others: Vec<JoinHandle<()>>,
    grace: Duration,
}

/// Starts a proxy. Upstream need not be there yet. With `admin_is_asked_for`, an admin address that is taken is a problem; without, the
/// proxy does without.
pub async fn start(config: &Config, decide: Decide, admin_is_asked_for: bool) -> Result<Running, Problem> {
    let proxy = Arc::new(Proxy::new(config, decide)?);
    let server = Server::bind(config, proxy.clone()).await?;
    let draining = Arc::new(Draining::default());
    let problem = |key: &str, error: io::Error| Problem { file: None, key: key.into(), what: error.to_string() };
    let address = server.address().map_err(|error| problem("listen", error))?;

    let mut others = Vec::new();
    let mut admin = None;
    if config.admin != "off" {
        match Admin::bind(&config.admin, draining.clone()).await {
            Ok(bound) => {
                admin = bound.address().ok();
                others.push(tokio::spawn(bound.run()));
            }
            Err(error) if admin_is_asked_for => {
                return Err(problem("admin", io::Error::new(error.kind(), format!("cannot listen on {}: {error}", config.admin))));
            }
            Err(error) => tracing::warn!(address = config.admin, cause = %error, "no admin listener"),
        }
    }
    others.push(tokio::spawn(prune(proxy.clone())));
    let accepting = {
        let draining = draining.clone();
        tokio::spawn(async move { server.run(&draining).await })
    };
    tracing::info!(%address, admin = admin.map(tracing::field::display), "listening");
    Ok(Running { address, admin, draining, proxy, accepting, others, grace: seconds(config.grace) })
}

impl Running {
    /// Stops accepting, and waits for the running answers, but no longer than the grace period. Whether all came to their end.
    pub async fn drain(self) -> bool {
        self.draining.begin();
        drop(self.accepting.await);
        self.proxy.tunnels.close();
        let all = async {
            self.draining.finished().await;
            self.proxy.tunnels.wait().await;
        };
        let complete = tokio::time::timeout(self.grace, all).await.is_ok();
        self.others.iter().for_each(JoinHandle::abort);
        complete
    }
}

/// Runs until SIGTERM or SIGINT and then to the end of the running answers; a second signal ends it at once.
pub async fn run(running: Running) -> io::Result<()> {
    let mut signals = Signals::new()?;
    let name = signals.next().await;
    running.draining.begin();
    tracing::info!(signal = name, "draining");
    tokio::select! {
        complete = running.drain() => match complete {
            true => tracing::info!("ended"),
            false => tracing::warn!("the grace period is over; cutting what still runs"),
        },
        name = signals.next() => tracing::warn!(signal = name, "ended at once"),
    }
    Ok(())
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

async fn prune(proxy: Arc<Proxy>) {
    let mut ticks = tokio::time::interval(PRUNE);
    loop {
        ticks.tick().await;
        proxy.routes.all().for_each(|route| route.pool.prune());
        proxy.decide.prune();
    }
}

/// Whether the end has begun, and which connections it waits for.
pub struct Draining {
    begun: watch::Sender<bool>,
    connections: std::sync::Mutex<Option<GracefulShutdown>>,
}

impl Default for Draining {
    fn default() -> Self {
        Draining { begun: watch::Sender::new(false), connections: std::sync::Mutex::new(Some(GracefulShutdown::new())) }
    }
}

impl Draining {
    pub fn has_begun(&self) -> bool {
        *self.begun.borrow()
    }

    pub fn begin(&self) {
        self.begun.send_replace(true);
    }

    /// Returns when the end has begun.
    pub async fn begun(&self) {
        let mut begun = self.begun.subscribe();
        drop(begun.wait_for(|begun| *begun).await);
    }

    /// Makes the end wait for a connection. One that was accepted in the very last moment is not waited for.
    pub fn watcher(&self) -> Watcher {
        let connections = self.connections.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        connections.as_ref().map_or_else(|| GracefulShutdown::new().watcher(), GracefulShutdown::watcher)
    }

    /// Lets every watched connection finish what it is doing, and waits for them.
    async fn finished(&self) {
        let connections = self.connections.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(connections) = connections {
            connections.shutdown().await;
        }
    }
}
