//! Brings spans to the collector, in the background. Nobody waits for it: what it cannot keep up with is dropped and counted.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{CONTENT_TYPE, USER_AGENT},
    uri::PathAndQuery,
};
use prost::Message;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    attributes::text,
    context::digits,
    otlp::{Export, Resource, ResourceSpans, Scope, ScopeSpans, Span},
};
use crate::{
    config::{Base, Config, Connection, Http2, Problem, secret},
    proxy::{
        headers::{self, Rewrite},
        metrics::Metrics,
        payload::Payload,
        pool::Pool,
        target, tls,
        upstream::{self, Ask},
    },
};

/// Spans that wait at most; as many as OpenTelemetry's own processors keep.
const QUEUE: usize = 2048;
/// Spans in one request.
const BATCH: usize = 512;
/// How long the first span of a batch waits for others.
const GATHER: Duration = Duration::from_secs(1);
/// How long the collector may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// When a batch that the collector could not take is sent again.
const AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

enum Item {
    Span(Box<Span>),
    /// What came before is to be sent now; dropped when it has been.
    Flush(oneshot::Sender<()>),
}

/// The way to the collector.
pub struct Exporter {
    queue: mpsc::Sender<Item>,
    metrics: Arc<Metrics>,
    /// What it was made of, to know when to make another.
    pool: Arc<Pool>,
    secret: Option<String>,
}

impl Exporter {
    /// Has to be called where tasks can be started.
    pub fn new(config: &Config, metrics: Arc<Metrics>) -> Result<Exporter, Problem> {
        let problem = |what: String| Problem { file: None, key: "traces.endpoint".into(), what };
        let base = base(config)?;
        let target = match base.prefix.ends_with("/v1/traces") {
            true => base.prefix.parse().ok(),
            false => target::join(&base, "/v1/traces", None).ok(),
        };
        let target = target.ok_or_else(|| problem("no path of a collector".into()))?;
        let secret = secret::read("traces.headers", &config.traces.headers)?;
        let headers = headers(secret.as_deref().unwrap_or_default())?;
        let pool = Pool::new(base, connection(config)).map(Arc::new);
        let pool = pool.map_err(|error| Problem { key: blamed(config, &error.key).into(), ..error })?;
        let (queue, spans) = mpsc::channel(QUEUE);
        let collector = Collector { pool: pool.clone(), target, headers, resource: resource(config), metrics: metrics.clone() };
        tokio::spawn(collector.run(spans));
        Ok(Exporter { queue, metrics, pool, secret })
    }

    /// Whether one made now would be this one.
    pub fn is_of(&self, config: &Config) -> bool {
        let secret = secret::read("traces.headers", &config.traces.headers);
        base(config).is_ok_and(|base| self.pool.is_of(&base, &connection(config))) && secret.is_ok_and(|secret| secret == self.secret)
    }

    pub fn send(&self, span: Span) {
        if self.queue.try_send(Item::Span(Box::new(span))).is_err() {
            self.metrics.spans.of(&["dropped"]).inc();
        }
    }

    /// Waits until what was given to [`Exporter::send`] has been sent, or could not be.
    pub async fn flush(&self, until: Instant) {
        let (done, sent) = oneshot::channel();
        let flush = async {
            if self.queue.send(Item::Flush(done)).await.is_ok() {
                drop(sent.await);
            }
        };
        drop(timeout_at(until, flush).await);
    }
}

fn base(config: &Config) -> Result<Base, Problem> {
    let problem = |accepted: &str| format!("{:?} is not accepted; expected {accepted}", config.traces.endpoint);
    Base::parse(&config.traces.endpoint).map_err(|accepted| Problem { file: None, key: "traces.endpoint".into(), what: problem(accepted) })
}

/// The knob of ours behind that of a connection.
fn blamed<'a>(config: &Config, key: &'a str) -> &'a str {
    match key {
        "connection.ca_file" if !config.traces.ca_file.is_empty() => "traces.ca_file",
        key if key.starts_with("connection") => key,
        _ => "traces.endpoint",
    }
}

fn connection(config: &Config) -> Connection {
    // That providers speak HTTP/2 without TLS says nothing of the collector.
    let http2 = if config.connection.http2 == Http2::Always { Http2::Auto } else { config.connection.http2 };
    let mut connection = Connection { http2, ..config.connection.clone() };
    if !config.traces.ca_file.is_empty() {
        connection.ca_file.clone_from(&config.traces.ca_file);
    }
    connection
}

/// `name=value`, with escapes in the value, as OpenTelemetry writes a list of headers in a variable.
fn headers(secret: &str) -> Result<HeaderMap, Problem> {
    let what = "is not read; expected name=value, one a line or with commas in between";
    let problem = || Problem { file: None, key: "traces.headers".into(), what: what.into() };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    headers.insert(USER_AGENT, HeaderValue::from_static(headers::PLIMSOLL));
    for pair in secret.split([',', '\n']).map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or_else(problem)?;
        let name: HeaderName = name.trim().parse().map_err(|_| problem())?;
        let mut value = HeaderValue::try_from(unescaped(value.trim())).map_err(|_| problem())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Escapes of a percent sign and two digits resolved; any other percent sign stands for itself.
fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped =
            after.get(..2).filter(|_| *first == b'%').and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        out.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    out
}

/// Tells this process from others of its service.
static INSTANCE: OnceLock<String> = OnceLock::new();

fn resource(config: &Config) -> Resource {
    let attributes = vec![
        text("service.name", &config.traces.service),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", INSTANCE.get_or_init(|| digits(&tls::random()[..16]))),
    ];
    Resource { attributes }
}

struct Collector {
    pool: Arc<Pool>,
    target: PathAndQuery,
    headers: HeaderMap,
    resource: Resource,
    metrics: Arc<Metrics>,
}

impl Collector {
    /// Until nobody is left who could send a span.
    async fn run(self, mut queue: mpsc::Receiver<Item>) {
        let mut works = true;
        while let Some(first) = queue.recv().await {
            let (mut spans, mut waiting) = (Vec::new(), Vec::new());
            let until = Instant::now() + GATHER;
            let mut next = Some(first);
            while let Some(item) = next {
                match item {
                    Item::Span(span) => spans.push(*span),
                    Item::Flush(done) => waiting.push(done),
                }
                next = match spans.len() < BATCH && waiting.is_empty() {
                    true => timeout_at(until, queue.recv()).await.ok().flatten(),
                    false => None,
                };
            }
            let count = spans.len() as u64;
            if count == 0 {
                continue;
            }
            let patience = if waiting.is_empty() { &AGAIN[..] } else { &[] };
            let outcome = self.bring(spans, patience).await;
            self.metrics.spans.of(&[if outcome.is_ok() { "exported" } else { "failed" }]).inc_by(count);
            match &outcome {
                Ok(()) if !works => tracing::info!("traces are exported again"),
                Err(cause) if works => tracing::warn!(cause, "traces cannot be exported"),
                _ => {}
            }
            works = outcome.is_ok();
            self.pool.prune();
        }
    }

    async fn bring(&self, spans: Vec<Span>, mut again: &[Duration]) -> Result<(), String> {
        let scope = Scope { name: "plimsoll".into(), version: env!("CARGO_PKG_VERSION").into() };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
        let resource_spans = vec![ResourceSpans { resource: Some(self.resource.clone()), scope_spans }];
        let body = bytes::Bytes::from(Export { resource_spans }.encode_to_vec());
        loop {
            let cause = match timeout(PATIENCE, self.post(body.clone())).await {
                Ok(Ok(status)) if status.is_success() => return Ok(()),
                // These are said to pass; any other says that it would be refused again.
                Ok(Ok(status)) if !matches!(status.as_u16(), 429 | 502..=504) => return Err(format!("status {}", status.as_u16())),
                Ok(Ok(status)) => format!("status {}", status.as_u16()),
                Ok(Err(cause)) => cause,
                Err(_) => "timeout".into(),
            };
            let [pause, rest @ ..] = again else { return Err(cause) };
            sleep(*pause).await;
            again = rest;
        }
    }

    async fn post(&self, body: bytes::Bytes) -> Result<StatusCode, String> {
        let Collector { pool, target, headers, .. } = self;
        let rewrite = Rewrite::default();
        let ask = Ask { method: &Method::POST, target, headers, extensions: &Extensions::new(), rewrite, upgrade: false, onward: None };
        let mut answer = upstream::send(pool, &ask, Payload::Whole(body)).await.map_err(|error| match error.unreached() {
            Some((at, why)) => format!("{at}: {why}"),
            None => error.name().into(),
        })?;
        // Read to its end, the connection can be used again.
        while let Some(Ok(_)) = answer.body.frame().await {}
        Ok(answer.head.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bounded_what_the_collector_cannot_keep_up_with_is_dropped_and_counted() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = Config::default();
        config.traces.endpoint = format!("http://{}", silent.local_addr().unwrap());
        let metrics = Arc::<Metrics>::default();
        let exporter = Exporter::new(&config, metrics.clone()).unwrap();
        for _ in 0..QUEUE + 7 {
            exporter.send(Span::default());
        }
        assert_eq!(metrics.spans.of(&["dropped"]).get(), 7, "nobody has taken any yet");
        exporter.flush(Instant::now()).await;
    }

    #[test]
    fn headers_are_read_as_opentelemetry_writes_them() {
        let read = headers("api-key=a%20b%,x-scope-orgid=team=1\n\nAuthorization=Bearer t").unwrap();
        let value = |name: &str| read[name].to_str().unwrap();
        assert_eq!((value("api-key"), value("x-scope-orgid"), value("authorization")), ("a b%", "team=1", "Bearer t"));
        for wrong in ["no-value", "sp ace=x", "a=%0A"] {
            let problem = headers(wrong).unwrap_err();
            assert!(problem.key == "traces.headers" && !problem.to_string().contains(wrong), "{problem}");
        }
    }
}
