//! Traces: a span for each exchange, a child of it for each time that upstream was asked, and one for each call of a summary.
//!
//! Where the agent sends a `traceparent` its span is the parent, and it has said whether there is anything to record. What is recorded is told
//! upstream; what is not leaves no trace, in the headers neither.

mod attributes;
mod context;
mod export;
mod otlp;

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use self::{
    attributes::{Attributes, number, text},
    context::{Parent, SpanId, TraceId, digits},
    export::Exporter,
    otlp::{Code, Kind, Span, Status},
};
use super::{error::Error, events::Line, metrics::Metrics, pool::Pool, tls};
use crate::{
    config::{self, Config, Problem},
    wire::usage::Usage,
};

pub use self::context::Onward;

/// Bits of a span's flags: that the next one says anything, and that the parent is another process's.
const KNOWS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;
/// A trace that is sampled.
const SAMPLED: u32 = 1;

/// Decides what is traced, and takes spans.
pub struct Traces {
    config: config::Traces,
    exporter: Exporter,
}

impl Traces {
    /// Nothing where no collector is configured. `earlier` ones stay where nothing has changed.
    pub fn new(config: &Config, earlier: Option<&Arc<Traces>>, metrics: &Arc<Metrics>) -> Result<Option<Arc<Traces>>, Problem> {
        if config.traces.endpoint.is_empty() {
            return Ok(None);
        }
        match earlier.filter(|earlier| earlier.config == config.traces && earlier.exporter.is_of(config)) {
            Some(same) => Ok(Some(same.clone())),
            None => Ok(Some(Arc::new(Traces { config: config.traces.clone(), exporter: Exporter::new(config, metrics.clone())? }))),
        }
    }

    /// The trace of an exchange that begins now; nothing where it is not recorded.
    pub fn begin(self: &Arc<Self>, headers: &HeaderMap) -> Option<Trace> {
        let random = tls::random();
        let (mut own, mut id) = (TraceId::default(), SpanId::default());
        own.copy_from_slice(&random[..16]);
        id.copy_from_slice(&random[16..24]);
        let parent = Parent::of(headers);
        let recorded = match &parent {
            Some(parent) => parent.is_sampled(),
            None => self.config.sample >= 1.0 || share(random) < self.config.sample,
        };
        // Where the system has no randomness to give, there is no trace either.
        let recorded = recorded && random != [0; 32];
        let trace = parent.as_ref().map_or(own, |parent| parent.trace);
        recorded.then(|| Trace(Arc::new(Recorded { traces: self.clone(), trace, id, parent, began: SystemTime::now() })))
    }

    /// Waits until the spans that have ended are with the collector, but no longer than that.
    pub async fn flush(&self, within: Duration) {
        self.exporter.flush(Instant::now() + within).await;
    }
}

/// The trace of an exchange.
#[derive(Clone)]
pub struct Trace(Arc<Recorded>);

struct Recorded {
    traces: Arc<Traces>,
    trace: TraceId,
    /// The exchange's own span.
    id: SpanId,
    parent: Option<Parent>,
    began: SystemTime,
}

impl Trace {
    /// As logs and people know it.
    pub fn id(&self) -> String {
        digits(&self.0.trace)
    }

    /// The exchange is over.
    pub fn end(&self, line: &Line) {
        self.close(attributes::exchange(line));
    }

    /// There was no exchange: the request was refused before it was known where it would go.
    pub fn refused(&self, method: &str, path: &str, format: &str, error: &Error) {
        self.close((method.to_owned(), attributes::refused(method, path, format, error), true));
    }

    fn close(&self, (name, attributes, wrong): (String, Attributes, bool)) {
        let remote = if self.0.parent.is_some() { IS_REMOTE } else { 0 };
        let parent = self.0.parent.as_ref().map_or(Vec::new(), |parent| parent.span.to_vec());
        let flags = KNOWS_REMOTE | remote;
        self.send(Span { name, attributes, flags, ..self.span(&self.0.id, parent, Kind::Server, self.0.began, wrong) });
    }

    /// A request to `pool` begins, on behalf of the exchange.
    pub fn asks(&self, pool: &Pool, chat: Option<(&'static str, &str)>) -> Asking {
        let random = tls::random();
        let mut id = SpanId::default();
        id.copy_from_slice(&random[..8]);
        let mut attributes = chat.map_or(Attributes::new(), |(provider, model)| attributes::generation(provider, model));
        let name = chat.map_or_else(|| "request".to_owned(), |(_, model)| attributes::chat(model));
        attributes.push(text("server.address", pool.base.host()));
        let port = pool.base.authority.port_u16().unwrap_or(if pool.base.secure { 443 } else { 80 });
        attributes.push(number("server.port", port.into()));
        // Until it is answered: who waits for it may leave.
        Asking { trace: self.clone(), id, name, attributes, began: SystemTime::now(), error: Some("cancelled".into()) }
    }

    fn span(&self, id: &SpanId, parent: Vec<u8>, kind: Kind, began: SystemTime, wrong: bool) -> Span {
        let now = nanoseconds(SystemTime::now());
        Span {
            trace_id: self.0.trace.to_vec(),
            span_id: id.to_vec(),
            trace_state: self.0.parent.as_ref().map_or_else(String::new, |parent| parent.state.clone()),
            parent_span_id: parent,
            kind: kind.into(),
            start_time_unix_nano: nanoseconds(began),
            end_time_unix_nano: now.max(nanoseconds(began)),
            status: wrong.then(|| Status { code: Code::Error.into() }),
            ..Span::default()
        }
    }

    fn send(&self, span: Span) {
        self.0.traces.exporter.send(Span { flags: span.flags | SAMPLED, ..span });
    }
}

/// A request to an upstream, which is over when this is dropped.
pub struct Asking {
    trace: Trace,
    id: SpanId,
    name: String,
    attributes: Attributes,
    began: SystemTime,
    error: Option<String>,
}

impl Asking {
    /// What upstream is told.
    pub fn onward(&self) -> Option<Onward> {
        Onward::new(&self.trace.0.trace, &self.id, self.trace.0.parent.as_ref())
    }

    pub fn note(&mut self, key: &'static str, value: &str) {
        self.attributes.push(text(key, value));
    }

    pub fn count(&mut self, key: &'static str, value: u64) {
        self.attributes.push(number(key, value));
    }

    /// The head of the answer is there.
    pub fn answered(&mut self, status: StatusCode) {
        self.attributes.push(number("http.response.status_code", status.as_u16().into()));
        self.error = (status.is_client_error() || status.is_server_error()).then(|| status.as_u16().to_string());
    }

    /// There is no answer, or none that is of use.
    pub fn failed(&mut self, name: &str) {
        self.error = Some(name.to_owned());
    }

    pub fn used(&mut self, usage: Option<Usage>) {
        self.attributes.extend(usage.into_iter().flat_map(attributes::usage));
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let mut attributes = std::mem::take(&mut self.attributes);
        attributes.extend(self.error.as_deref().map(|error| text("error.type", error)));
        let parent = self.trace.0.id.to_vec();
        let span = self.trace.span(&self.id, parent, Kind::Client, self.began, self.error.is_some());
        self.trace.send(Span { name: std::mem::take(&mut self.name), attributes, flags: KNOWS_REMOTE, ..span });
    }
}

/// A number from 0 to 1 that has nothing to do with the ids.
fn share(random: [u8; 32]) -> f64 {
    f64::from(u32::from_le_bytes([random[24], random[25], random[26], random[27]])) / f64::from(u32::MAX)
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
