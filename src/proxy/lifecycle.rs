//! From start to exit: listen, run, and on SIGTERM let what runs come to its end.

use std::{io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    task::JoinHandle,
};
use tokio_util::task::TaskTracker;

use super::{
    admin::Admin,
    decide::Decide,
    live::Live,
    metrics::{Metrics, OVERDUE},
    reload::{Reload, Source},
    server::Server,
};
use crate::config::{Config, Problem, seconds};

/// How often unused connections are looked through.
const PRUNE: Duration = Duration::from_secs(15);
/// How long it takes at most to cut what still runs.
const CUT: Duration = Duration::from_secs(1);
/// How long the last spans may take, within the grace period.
const FLUSH: Duration = Duration::from_secs(5);

/// A proxy that is listening.
pub struct Running {
    pub address: SocketAddr,
    pub admin: Option<SocketAddr>,
    pub metrics: Arc<Metrics>,
    draining: Arc<Draining>,
    live: Arc<Live>,
    reload: Arc<Reload>,
    accepting: JoinHandle<()>,
    others: Vec<JoinHandle<()>>,
}

/// Starts a proxy. Upstream need not be there yet. With `admin_is_asked_for`, an admin address that is taken is a problem; without, the
/// proxy does without.
pub async fn start(config: &Config, decide: Decide, admin_is_asked_for: bool) -> Result<Running, Problem> {
    start_from(config, None, decide, admin_is_asked_for).await
}

/// Starts a proxy that reads its configuration again from `source`.
pub async fn start_from(config: &Config, source: Option<Source>, decide: Decide, admin_is_asked_for: bool) -> Result<Running, Problem> {
    let live = Arc::new(Live::new(config, decide)?);
    let reload = Arc::new(Reload::new(live.clone(), source.clone()));
    let server = Server::bind(config, live.clone()).await?;
    let draining = Arc::new(Draining::default());
    let problem = |key: &str, error: io::Error| Problem { file: None, key: key.into(), what: error.to_string() };
    let address = server.address().map_err(|error| problem("listen", error))?;
    let metrics = live.load().proxy.metrics.clone();

    let mut others = Vec::new();
    let mut admin = None;
    if config.admin != "off" {
        match Admin::bind(&config.admin, draining.clone(), live.clone(), reload.clone()).await {
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
    others.push(tokio::spawn(prune(live.clone())));
    if source.is_some() {
        others.push(tokio::spawn(reload.clone().watch()));
    }
    if has_keys(config) && !address.ip().is_loopback() {
        tracing::warn!(
            "whoever reaches this address asks with the providers' keys of this proxy: neither access.tokens nor tls.client_ca says who may"
        );
    }
    let accepting = {
        let draining = draining.clone();
        tokio::spawn(async move { server.run(&draining).await })
    };
    tracing::info!(%address, admin = admin.map(tracing::field::display), "listening");
    Ok(Running { address, admin, metrics, draining, live, reload, accepting, others })
}

/// Whether providers' keys are put in for anybody who asks.
fn has_keys(config: &Config) -> bool {
    let Config { access, tls, credential, route, .. } = config;
    let named = [&credential.openai, &credential.anthropic].into_iter().chain(route.iter().map(|route| &route.credential));
    access.tokens.is_empty() && tls.client_ca.is_empty() && named.into_iter().any(|named| !named.is_empty())
}

impl Running {
    /// Puts another configuration in force, whole or not at all.
    pub fn renew(&self, config: &Config) -> Result<(), Problem> {
        self.live.renew(config)
    }

    /// Waits, not for long, until the spans that have ended are with the collector.
    pub async fn flush(&self) {
        flush(&self.live, FLUSH).await;
    }

    /// Fails readiness, then stops accepting, and waits for the running answers, but no longer than the grace period. How many exchanges and upgraded
    /// connections it cuts.
    pub async fn drain(self) -> usize {
        let (delay, grace) = {
            let config = &self.live.load().config;
            (seconds(config.drain_delay), seconds(config.grace))
        };
        self.draining.begin();
        self.metrics.draining.of(&[]).set(1);
        tokio::time::sleep(delay).await;
        self.draining.stop();
        drop(self.accepting.await);
        let tunnels = self.live.load().proxy.tunnels.clone();
        tunnels.close();
        self.draining.connections.close();
        let mut connections = pin!(self.draining.connections.wait());
        let all = async {
            connections.as_mut().await;
            tunnels.wait().await;
        };
        let stopped = tokio::time::Instant::now();
        let cut = match tokio::time::timeout(grace, all).await {
            Ok(()) => 0,
            Err(_) => {
                let cut = usize::try_from(self.metrics.in_flight.of(&[]).get()).unwrap_or(0);
                self.metrics.draining.of(&[]).set(OVERDUE);
                self.draining.cut();
                // Each exchange says so in its own line of the log.
                drop(tokio::time::timeout(CUT, connections).await);
                cut
            }
        };
        flush(&self.live, grace.saturating_sub(stopped.elapsed()).min(FLUSH)).await;
        self.others.iter().for_each(JoinHandle::abort);
        cut
    }
}

/// Runs until SIGTERM or SIGINT and then to the end of the running answers; a second signal ends it at once. SIGHUP reads the configuration again.
pub async fn run(running: Running, mut signals: Signals) -> io::Result<()> {
    let name = loop {
        if let Some(name) = signals.next().await {
            break name;
        }
        let reload = running.reload.clone();
        // It is reported where it happens.
        drop(tokio::task::spawn_blocking(move || reload.now()).await);
    };
    running.draining.begin();
    let live = running.live.clone();
    tracing::info!(signal = name, "draining");
    tokio::select! {
        cut = running.drain() => match cut {
            0 => tracing::info!("ended"),
            cut => tracing::warn!(cut, "the grace period is over; cutting what still runs"),
        },
        name = signals.end() => tracing::warn!(signal = name, "ended at once"),
    }
    drop(tokio::task::spawn_blocking(move || live.load().proxy.decide.flush()).await);
    Ok(())
}

/// Brings the spans that have ended to the collector.
async fn flush(live: &Live, within: Duration) {
    if let Some(traces) = &live.load_full().proxy.traces {
        traces.flush(within).await;
    }
}

/// Lets this process open as many files as the system allows it. Without that, half a thousand streams are the end.
pub fn raise_limits() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(cause = %error, "cannot raise the limit of open files");
    }
}

/// What this process is told from outside. From its making on no signal ends the process by itself, so it is made before anybody hears of us.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    pub fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The name of one that ends us; nothing for SIGHUP.
    async fn next(&mut self) -> Option<&'static str> {
        tokio::select! {
            _ = self.terminate.recv() => Some("SIGTERM"),
            _ = self.interrupt.recv() => Some("SIGINT"),
            _ = self.hang_up.recv() => None,
        }
    }

    async fn end(&mut self) -> &'static str {
        loop {
            if let Some(name) = self.next().await {
                return name;
            }
        }
    }
}

async fn prune(live: Arc<Live>) {
    let mut ticks = tokio::time::interval(PRUNE);
    loop {
        ticks.tick().await;
        let live = live.load();
        live.proxy.routes.all().for_each(|route| route.pool.prune());
        live.proxy.decide.prune();
    }
}

/// How far the end has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Stage {
    Running,
    /// Readiness says no.
    Begun,
    /// Nothing is accepted.
    Stopped,
    /// What still runs is cut.
    Cut,
}

/// Whether the end has begun, and which connections it waits for.
pub struct Draining {
    stage: watch::Sender<Stage>,
    /// Of agents. Once nothing is accepted, each finishes what it is doing.
    pub connections: TaskTracker,
}

impl Default for Draining {
    fn default() -> Self {
        Draining { stage: watch::Sender::new(Stage::Running), connections: TaskTracker::new() }
    }
}

impl Draining {
    pub fn has_begun(&self) -> bool {
        *self.stage.borrow() >= Stage::Begun
    }

    pub fn begin(&self) {
        self.stage.send_if_modified(|stage| {
            let news = *stage < Stage::Begun;
            if news {
                *stage = Stage::Begun;
            }
            news
        });
    }

    fn stop(&self) {
        self.stage.send_replace(Stage::Stopped);
    }

    /// Returns when nothing more is to be accepted.
    pub fn stopped(&self) -> impl Future<Output = ()> + use<> {
        self.reaches(Stage::Stopped)
    }

    fn cut(&self) {
        self.stage.send_replace(Stage::Cut);
    }

    /// Returns when what still runs is cut.
    pub fn cutting(&self) -> impl Future<Output = ()> + use<> {
        self.reaches(Stage::Cut)
    }

    fn reaches(&self, wanted: Stage) -> impl Future<Output = ()> + use<> {
        let mut stage = self.stage.subscribe();
        async move { drop(stage.wait_for(|stage| *stage >= wanted).await) }
    }
}
