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
mod patience;
mod payload;
mod pool;
mod relay;
pub mod reload;
mod reply;
mod repoll;
mod routes;
mod server;
pub mod steer;
mod summarizer;
mod tap;
mod target;
mod tls;
mod traces;
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
    decide::{Decide, Decision, Report},
    discover::Windows,
    downstream::{Answering, Broken, Down, Run},
    error::Error,
    headers::Rewrite,
    metrics::Metrics,
    payload::Payload,
    relay::{Held, Verdict},
    reply::Reply,
    traces::Traces,
};
pub use self::{
    call::Call,
    routes::{Policies, Route, Routes},
};
use crate::{
    config::{self, Config, Problem, Websocket},
    wire::overflow::{Class, Classified},
};

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
        let run = Run::new(exchange(self.clone(), request, down.clone()));
        Answering::new(down, run)
    }
}

/// One exchange, from the head of a request to the end of its answer.
async fn exchange(proxy: Arc<Proxy>, mut request: Request<Incoming>, down: Down) -> Result<Option<Run>, Broken> {
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
            return reply::refuse(&down, &error, format).await.map(|()| None);
        }
    };
    call.trace = trace;
    let place = proxy.admission.admit(&proxy.limits, call.tenant, started);
    let mut reply = Reply::new(proxy.clone(), Arc::new(call), down, started);
    match place {
        Ok(place) => reply.place = Some(place),
        Err(error) => {
            reply.unread = Some(upload);
            return Ok(Some(Run::last(reply.refuse(error))));
        }
    }
    Ok(Some(match upgrade {
        Some(_) if reply.call.format.is_some() && proxy.websocket == Websocket::Refuse => Run::last(reply.refuse(Error::UpgradeRefused)),
        Some(upgrade) => Run::last(tunnel::run(upgrade, Payload::stream(upload), reply)),
        None => match answer(&proxy, upload, &mut reply).await {
            Ok(answer) => Run::last(reply.pass(answer)),
            Err(error) => Run::last(reply.refuse(error)),
        },
    }))
}

/// The answer that the agent gets: upstream's to what it asked, or to less of it.
async fn answer(proxy: &Proxy, mut upload: Incoming, reply: &mut Reply) -> Result<Held, Error> {
    let Some(format) = reply.call.reads else {
        let payload = upload::pass(upload, proxy.request_idle).await?;
        return reply.ask(payload, Rewrite::default()).await.map(Held::new);
    };

    if let Err(error) = reply.hold(http_body::Body::size_hint(&upload).lower()) {
        reply.unread = Some(upload);
        return Err(error);
    }
    let original = match upload::collect(&mut upload, proxy.max_chat_bytes, proxy.request_idle).await {
        Ok(original) => original,
        Err(error) => {
            reply.unread = matches!(error, Error::TooLarge(_)).then_some(upload);
            return Err(error);
        }
    };
    reply.hold(original.len() as u64)?;
    let collected = Instant::now();
    reply.line.bytes_in = Some(original.len() as u64);
    let plain = encoding::decode(&reply.call.headers, &original, proxy.max_chat_bytes);
    // A few bytes may decode to many.
    reply.hold(plain.as_ref().map_or(0, |plain| plain.len() as u64))?;
    let decision = match plain {
        Some(plain) => loop {
            match reply.consider(format, &plain, |decide, incoming| decide.before_send(incoming)).await {
                Some(Ok(decision)) => break Ok((decision, plain)),
                Some(Err(wait)) => wait.over().await,
                None => break Err("panic"),
            }
        },
        None => Err("undecodable"),
    };
    let (plain, edited, ticket) = match decision {
        Err(cause) => {
            reply.line.report = Report { cause: Some(cause), ..Report::default() };
            return reply.ask(Payload::Whole(original), Rewrite::default()).await.map(Held::new);
        }
        Ok((Decision::Refuse(report), _)) => return Err(Error::Refused(decide::too_long(format, &report))),
        Ok((Decision::Pass(report), plain)) => {
            reply.line.report = report;
            (plain, None, None)
        }
        Ok((Decision::Send(rewrite), plain)) => {
            reply.line.report = rewrite.report;
            (plain, Some(rewrite.body), Some(rewrite.ticket))
        }
    };
    reply.line.added = Some(collected.elapsed());

    let rewrite = Rewrite { length: edited.as_ref().map(|body| body.len()), again: false };
    let first = reply.ask(Payload::Whole(edited.clone().unwrap_or_else(|| original.clone())), rewrite).await?;
    let (first, refusal) = match relay::judge(first, format, reply).await {
        Verdict::Pass(answer) => return Ok(answer),
        Verdict::Refused(first, refusal) => (first, refusal),
    };

    // Refused, and nothing that matters has gone down yet. There is one more try; whatever becomes of it, this first refusal is what the
    // agent gets if not an answer, because agents heal themselves by its words and numbers.
    reply.asking = None;
    let status = first.head.status.as_u16();
    if is_overflow(&refusal, status, reply) {
        reply.line.overflow = Some(refusal.rule);
        let sent = edited.unwrap_or_else(|| plain.clone());
        let harder = reply.consider(format, &plain, move |decide, incoming| decide.after_overflow(incoming, &sent, &refusal)).await;
        let Some(decide::Rewrite { body, report, ticket }) = harder.flatten() else { return Ok(first) };
        reply.line.retried = Some("harder");
        let rewrite = Rewrite { length: Some(body.len()), again: true };
        let Ok(second) = reply.ask(Payload::Whole(body), rewrite).await else { return Ok(first) };
        return Ok(match relay::judge(second, format, reply).await {
            Verdict::Pass(second) if second.can_stand_for(&first, reply.began()) => {
                reply.line.report = report;
                proxy.decide.accepted(&ticket);
                second
            }
            Verdict::Pass(_) => first,
            Verdict::Refused(second, refusal) => {
                let status = second.head.status.as_u16();
                // Still too long says nothing against the edits.
                if matches!(status, 400 | 422) && !is_overflow(&refusal, status, reply) {
                    proxy.decide.quarantine(ticket);
                }
                first
            }
        });
    }
    match ticket {
        Some(ticket) if matches!(status, 400 | 422) => {
            reply.line.retried = Some("original");
            proxy.decide.quarantine(ticket);
            let second = reply.ask(Payload::Whole(original), Rewrite { length: None, again: true }).await;
            Ok(second.map_or(first, Held::new))
        }
        _ => Ok(first),
    }
}

/// From this share of the window on, a refusal without a reason is taken for an overflow.
const NEARLY_FULL: f64 = 0.8;

/// Whether a refusal means that the request is too long, and may be answered by a shorter one.
fn is_overflow(refusal: &Classified, status: u16, reply: &Reply) -> bool {
    let policy = reply.call.route.policies.of(&reply.line.report.model).overflow.clone();
    policy.retry
        && match refusal.class {
            // Some say nothing at all; a request that nearly fills its window was too long for them.
            Class::None => refusal.needs_estimate() && reply.line.report.pressure().is_some_and(|pressure| pressure >= NEARLY_FULL),
            Class::Input | Class::InputPlusOutput | Class::Bytes => true,
            Class::RateCeiling => status == 413 || policy.rate_ceiling_429,
        }
}

/// Locks what whoever panicked while holding it left whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
