//! The one line that is logged for each exchange. It holds numbers, names and sizes, never a credential or a word of a message.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use http::{HeaderMap, Method, StatusCode, Uri};

use super::{
    call::Call,
    decide::Report,
    error::Error,
    metrics::{Metrics, OVERDUE, provider},
    routes::Route,
    traces::Trace,
};
use crate::wire::{Format, usage::Usage};

/// Filled in as the exchange goes on, counted and written when it is dropped, which also happens when the agent leaves.
pub struct Line {
    metrics: Arc<Metrics>,
    started: Instant,
    pub method: Method,
    pub path: String,
    pub route: Arc<Route>,
    pub format: &'static str,
    /// OpenTelemetry's name for it.
    pub provider: &'static str,
    /// The trace that this belongs to: the agent's, or ours.
    trace: Option<String>,
    /// It, where it is recorded.
    recorded: Option<Trace>,
    pub report: Report,
    pub status: Option<StatusCode>,
    /// Bytes of the request's body as it came.
    pub bytes_in: Option<u64>,
    /// Bytes of the body that was sent instead.
    pub bytes_sent: Option<u64>,
    /// Bytes of the answer's body.
    pub bytes_out: u64,
    /// From the end of the request to the asking of upstream: our own work.
    pub added: Option<Duration>,
    /// From the beginning to the head of the answer.
    pub first: Option<Duration>,
    /// What was asked a second time: `harder` or `original`.
    pub retried: Option<&'static str>,
    /// The first connection was dead.
    pub replayed: bool,
    /// The rule by which upstream's refusal was told to be an overflow.
    pub overflow: Option<&'static str>,
    pub usage: Option<Usage>,
    /// How it ended.
    pub end: &'static str,
}

impl Line {
    /// `path` is that of the call as the agent spelt it, without its query.
    pub fn new(call: &Call, path: String, started: Instant, metrics: Arc<Metrics>) -> Line {
        metrics.in_flight.of(&[]).inc();
        Line {
            metrics,
            started,
            method: call.method.clone(),
            path,
            route: call.route.clone(),
            format: call.reads.map_or("none", |format| format.name()),
            provider: provider(call.route.pool.base.host()),
            trace: call.trace.as_ref().map(Trace::id).or_else(|| trace(&call.headers)),
            recorded: call.trace.clone(),
            report: Report::default(),
            status: None,
            bytes_in: None,
            bytes_sent: None,
            bytes_out: 0,
            added: None,
            first: None,
            retried: None,
            replayed: false,
            overflow: None,
            usage: None,
            end: "agent_gone",
        }
    }

    /// The head of the answer is there.
    pub fn head(&mut self, status: StatusCode) {
        self.status = Some(status);
        self.first.get_or_insert(self.started.elapsed());
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let took = self.started.elapsed();
        if self.end == "agent_gone" && self.metrics.draining.of(&[]).get() == OVERDUE {
            self.end = "cut";
        }
        self.metrics.in_flight.of(&[]).dec();
        self.metrics.exchange(self, took);
        if let Some(trace) = &self.recorded {
            trace.end(self);
        }
        let milliseconds = |duration: Duration| (duration.as_secs_f64() * 1e4).round() / 10.0;
        tracing::info!(
            target: "plimsoll::exchange",
            status = self.status.map(|status| status.as_u16()),
            method = self.method.as_str(),
            path = short(&self.path),
            route = self.route.name,
            format = self.format,
            model = Some(short(&self.report.model)).filter(|model| !model.is_empty()),
            ms = milliseconds(took),
            ttfb_ms = self.first.map(milliseconds),
            added_ms = self.added.map(milliseconds),
            bytes_in = self.bytes_in,
            bytes_sent = self.bytes_sent,
            bytes_out = self.bytes_out,
            trigger = self.report.trigger,
            tokens_before = self.report.tokens.map(|(before, _)| before),
            tokens_after = self.report.tokens.map(|(_, after)| after),
            pressure = self.report.pressure(),
            rungs = (!self.report.rungs.is_empty()).then(|| self.report.rungs.join(",")),
            epoch = Some(self.report.epoch).filter(|epoch| *epoch > 0),
            edited = self.report.edited.then_some(true),
            cause = self.report.cause,
            overflow = self.overflow,
            retried = self.retried,
            replayed = self.replayed.then_some(true),
            tokens_in = self.usage.and_then(|usage| usage.input),
            tokens_cached = self.usage.and_then(|usage| usage.cached),
            tokens_out = self.usage.and_then(|usage| usage.output),
            end = self.end,
            trace = self.trace.as_deref(),
            "exchange"
        );
    }
}

/// The line, and the span, of a request that was refused before it was known where it would go.
pub fn refused((method, uri): &(Method, Uri), error: &Error, format: Option<Format>, recorded: Option<Trace>) {
    let (status, format) = (error.status().as_u16(), format.map_or("none", Format::name));
    if let Some(trace) = &recorded {
        trace.refused(method.as_str(), uri.path(), format, error);
    }
    let trace = recorded.as_ref().map(Trace::id);
    let (method, path, end) = (short(method.as_str()), short(uri.path()), error.name());
    tracing::info!(target: "plimsoll::exchange", status, method, path, format, end, trace, "exchange");
}

/// As much of a name that an agent made up as is written.
fn short(name: &str) -> &str {
    const LONGEST: usize = 256;
    &name[..name.floor_char_boundary(LONGEST)]
}

/// The trace id of a W3C `traceparent`.
fn trace(headers: &HeaderMap) -> Option<String> {
    let id = headers.get("traceparent")?.to_str().ok()?.split('-').nth(1)?;
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}
