//! Carries requests to providers and answers back.
//!
//! `exchange` is the only function that knows the order of events; everything it calls knows one thing.

mod access;
mod admin;
mod admission;
mod call;
pub mod decide;
mod discover;
mod downstream;
mod encoding;
mod error;
mod events;
mod headers;
pub mod lifecycle;
mod live;
pub mod log;
pub mod metrics;
mod news;
mod patience;
mod payload;
mod pool;
mod relay;
pub mod reload;
mod reply;
mod repoll;
mod routes;
mod server;
mod settlement;
pub mod steer;
mod summarizer;
mod tap;
mod target;
mod tenant;
mod tls;
mod traces;
mod tries;
mod tunnel;
mod upload;
mod upstream;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use http::Request;
use hyper::body::Incoming;
use tokio_util::task::TaskTracker;

use self::{
    access::Access,
    admission::Admission,
    decide::Decide,
    discover::Windows,
    downstream::{Answering, Down, Run},
    error::Error,
    metrics::Metrics,
    payload::Payload,
    reply::Reply,
    traces::Traces,
};
pub use self::{
    call::Call,
    routes::{Policies, Route, Routes},
};
use crate::config::{self, Config, Problem, Websocket};

/// What all exchanges under one configuration share.
pub struct Proxy {
    pub routes: Routes,
    access: Access,
    limits: config::Admission,
    websocket: Websocket,
    annotate: bool,
    max_chat_bytes: u64,
    request_idle: Duration,
    traces: Option<Arc<Traces>>,
    /// What follows outlives the configuration.
    decide: Arc<Decide>,
    windows: Arc<Windows>,
    admission: Arc<Admission>,
    metrics: Arc<Metrics>,
    /// What tenants are hashed with.
    key: [u8; 32],
    /// Upgraded connections, which outlive their exchange.
    tunnels: TaskTracker,
}

impl Proxy {
    pub fn new(config: &Config, decide: Decide) -> Result<Proxy, Problem> {
        let windows = Windows::new(config.discover, config.discover_wait);
        let key = decide.tenant_key().unwrap_or_else(tls::random);
        let (admission, metrics, tunnels) = (Arc::default(), Arc::default(), TaskTracker::new());
        Proxy::under(config, None, Arc::new(decide), Arc::new(windows), admission, metrics, key, tunnels)
    }

    /// This proxy under another configuration.
    pub fn renewed(&self, config: &Config) -> Result<Proxy, Problem> {
        let windows = match self.windows.is_set_to(config.discover, config.discover_wait) {
            true => self.windows.clone(),
            false => Arc::new(Windows::new(config.discover, config.discover_wait)),
        };
        let (decide, admission, metrics) = (self.decide.clone(), self.admission.clone(), self.metrics.clone());
        Proxy::under(config, Some(self), decide, windows, admission, metrics, self.key, self.tunnels.clone())
    }

    #[expect(clippy::too_many_arguments, reason = "what outlives a configuration, each once")]
    fn under(
        config: &Config,
        earlier: Option<&Proxy>,
        decide: Arc<Decide>,
        windows: Arc<Windows>,
        admission: Arc<Admission>,
        metrics: Arc<Metrics>,
        key: [u8; 32],
        tunnels: TaskTracker,
    ) -> Result<Proxy, Problem> {
        config.check_secrets()?;
        Ok(Proxy {
            routes: Routes::new(config, earlier.map(|earlier| &earlier.routes))?,
            traces: Traces::new(config, earlier.and_then(|earlier| earlier.traces.as_ref()), &metrics)?,
            access: Access::new(&config.access)?,
            limits: config.admission.clone(),
            websocket: config.websocket,
            annotate: config.annotate,
            max_chat_bytes: config.max_chat_bytes,
            request_idle: config::seconds(config.connection.idle_timeout),
            decide,
            windows,
            admission,
            metrics,
            key,
            tunnels,
        })
    }

    /// Begins the exchange that answers `request`.
    pub fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Answering {
        let down = Down::default();
        let run = exchange(self.clone(), request, down.clone());
        Answering::new(down, run)
    }
}

/// One exchange, from the head of a request to the end of its answer. What need not wait for anything is done at once, so that little is
/// carried along. With HTTP/2 that is within the task of the whole connection, so nothing of it may take long or panic.
fn exchange(proxy: Arc<Proxy>, mut request: Request<Incoming>, down: Down) -> Run {
    let started = Instant::now();
    let upgrade = headers::is_upgrade(request.headers()).then(|| hyper::upgrade::on(&mut request));
    let (head, upload) = request.into_parts();
    let trace = proxy.traces.as_ref().and_then(|traces| traces.begin(&head.headers));
    let asked = (head.method.clone(), head.uri.clone());
    let call = match head.method {
        http::Method::CONNECT => Err((Error::NoTunnel, None)),
        _ => Call::of(head, &proxy.routes, &proxy.access, &proxy.key),
    };
    let mut call = match call {
        Ok(call) => call,
        Err((error, format)) => {
            proxy.metrics.refused(&error);
            events::refused(&asked, &error, format, trace);
            // What it brought is read before it is told, or a large body would take the refusal with it.
            tokio::spawn(upload::discard(upload));
            return Run::last(async move { reply::refuse(&down, &error, format).await });
        }
    };
    call.trace = trace;
    let place = proxy.admission.admit(&proxy.limits, call.tenant, started);
    let mut reply = Reply::new(proxy.clone(), call, asked.1.path().to_owned(), down, started);
    match place {
        Ok(place) => reply.place = Some(place),
        Err(error) => {
            reply.unread = Some(upload);
            return Run::last(reply.refuse(error));
        }
    }
    match upgrade {
        Some(_) if reply.call.format.is_some() && proxy.websocket == Websocket::Refuse => Run::last(reply.refuse(Error::UpgradeRefused)),
        Some(upgrade) => Run::last(tunnel::run(upgrade, Payload::stream(upload), reply)),
        None => Run::new(async move {
            Ok(Some(match tries::answer(&proxy, upload, &mut reply).await {
                Ok(answer) => Run::last(reply.pass(answer)),
                Err(error) => Run::last(reply.refuse(error)),
            }))
        }),
    }
}

/// Locks what whoever panicked while holding it left whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
