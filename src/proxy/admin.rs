//! For whoever watches over the process: health, metrics, what is in force. It listens on an address of its own, so that no path of an API is taken.
//!
//! Health and metrics are for everybody who reaches the address. The rest needs the admin token, or where there is none, a loopback address.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    sync::atomic::Ordering,
    time::{Duration, Instant, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{CONTENT_TYPE, HOST},
    uri::Authority,
};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use super::{lifecycle::Draining, live::Live, reload::Reload};

const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";

/// How long a client may take over a request.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Admin {
    listener: TcpListener,
    desk: Arc<Desk>,
}

impl Admin {
    pub async fn bind(address: &str, draining: Arc<Draining>, live: Arc<Live>, reload: Arc<Reload>) -> io::Result<Admin> {
        let listener = TcpListener::bind(address).await?;
        let loopback = listener.local_addr()?.ip().is_loopback();
        Ok(Admin { listener, desk: Arc::new(Desk { draining, live, reload, loopback }) })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until it is dropped, also while running answers come to their end.
    pub async fn run(self) {
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let desk = self.desk.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let desk = desk.clone();
                    async move { Ok::<_, Infallible>(desk.answer(request).await) }
                });
                let mut connections = http1::Builder::new();
                connections.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
                drop(connections.serve_connection(TokioIo::new(stream), service).await);
            });
        }
    }
}

struct Desk {
    draining: Arc<Draining>,
    live: Arc<Live>,
    reload: Arc<Reload>,
    loopback: bool,
}

impl Desk {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Full<Bytes>> {
        self.settle().await;
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        let (status, kind, text) = match request.uri().path() {
            "/healthz" => (StatusCode::OK, TEXT, "ok\n".into()),
            // Ready means: send me requests. Upstream has no say in it, or an outage there would take every proxy out of service.
            "/readyz" if self.draining.has_begun() => (StatusCode::SERVICE_UNAVAILABLE, TEXT, "draining\n".into()),
            "/readyz" => (StatusCode::OK, TEXT, "ready\n".into()),
            "/metrics" => (StatusCode::OK, METRICS, self.metrics()),
            "/status" | "/reload" if !self.admits(&request) => {
                (StatusCode::UNAUTHORIZED, TEXT, "the admin token is needed, or a loopback address where there is none\n".into())
            }
            "/status" if reads => (StatusCode::OK, JSON, self.status()),
            "/reload" if *request.method() == Method::POST => self.clone().reload().await,
            "/status" | "/reload" => (StatusCode::METHOD_NOT_ALLOWED, TEXT, "GET /status, POST /reload\n".into()),
            _ => (StatusCode::NOT_FOUND, TEXT, "here: /healthz /readyz /metrics /status /reload\n".into()),
        };
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    }

    fn admits(&self, request: &Request<Incoming>) -> bool {
        // A page in somebody's browser reaches loopback addresses too. It says that it is one, or by which name it was led here.
        let from_a_page =
            ["origin", "sec-fetch-site"].iter().any(|name| request.headers().contains_key(*name)) || !names_an_address(request);
        self.live.load().proxy.access.admits_admin(request.headers()).unwrap_or(self.loopback && !from_a_page)
    }

    /// Waits until what agents know to be over has been counted: that is put off until they have their answers.
    async fn settle(&self) {
        // Whoever counts it may be off the processor for a moment.
        const MOST: Duration = Duration::from_millis(100);
        let metrics = self.live.load().proxy.metrics.clone();
        let until = Instant::now() + MOST;
        while metrics.unsettled.load(Ordering::Acquire) > 0 && Instant::now() < until {
            tokio::task::yield_now().await;
        }
    }

    fn metrics(&self) -> String {
        let serving = self.live.load();
        serving.proxy.decide.measure(&serving.proxy.metrics);
        serving.proxy.metrics.text()
    }

    fn status(&self) -> String {
        let (at, problem) = self.reload.last();
        let serving = self.live.load();
        let metrics = &serving.proxy.metrics;
        let at = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let status = serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"),
            "draining": self.draining.has_begun(),
            "exchanges": metrics.in_flight.of(&[]).get(),
            "connections": metrics.connections.of(&[]).get(),
            "configuration": { "read_at": at, "problem": problem },
            "ledger": { "store": serving.config.ledger.store, "answers": serving.proxy.decide.store_answers() },
        });
        format!("{status}\n")
    }

    async fn reload(self: Arc<Self>) -> (StatusCode, &'static str, String) {
        match tokio::task::spawn_blocking(move || self.reload.now()).await {
            Ok(Ok(())) => (StatusCode::OK, TEXT, "applied\n".into()),
            Ok(Err(problem)) => (StatusCode::UNPROCESSABLE_ENTITY, TEXT, format!("refused: {problem}\n")),
            Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, TEXT, "failed\n".into()),
        }
    }
}

/// Whether the request is for an address, or this machine by its own name: no name that somebody else can have led here, and nothing that is no host at
/// all. What says nothing (HTTP/1.0) is no page.
fn names_an_address<B>(request: &Request<B>) -> bool {
    let is_address = |host: &HeaderValue| {
        let host = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
        host.is_some_and(|host| {
            let host = host.host().trim_start_matches('[').trim_end_matches(']');
            host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
        })
    };
    request.headers().get_all(HOST).iter().all(is_address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_anybody_can_give_are_no_address() {
        let check = |host: &str, wanted: bool| {
            let host = HeaderValue::from_bytes(&host.chars().map(|c| c as u8).collect::<Vec<u8>>()).unwrap();
            assert_eq!(names_an_address(&Request::builder().header("host", &host).body(()).unwrap()), wanted, "{host:?}");
        };
        ["127.0.0.1:4791", "[::1]:4791", "10.0.0.1", "localhost:4791", "LOCALHOST"].iter().for_each(|host| check(host, true));
        ["evil.example:4791", "localhost.evil.example", "127.0.0.1.evil.example", "h"].iter().for_each(|host| check(host, false));
        ["ev\u{ef}l.example", "", "evil.example/", "127.0.0.1/", ":4791"].iter().for_each(|host| check(host, false));
        assert!(names_an_address(&Request::new(())), "HTTP/1.0");
    }
}
