//! Health, for whoever watches over the process. It listens on an address of its own, so that no path of an API is taken.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use super::lifecycle::Draining;

pub struct Admin {
    listener: TcpListener,
    draining: Arc<Draining>,
}

impl Admin {
    pub async fn bind(address: &str, draining: Arc<Draining>) -> io::Result<Admin> {
        Ok(Admin { listener: TcpListener::bind(address).await?, draining })
    }

    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until it is dropped, also while running answers come to their end.
    pub async fn run(self) {
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                continue;
            };
            let draining = self.draining.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let answer = answer(&request, &draining);
                    async move { Ok::<_, Infallible>(answer) }
                });
                drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
            });
        }
    }
}

fn answer(request: &Request<Incoming>, draining: &Draining) -> Response<Full<Bytes>> {
    let (status, text) = match request.uri().path() {
        "/healthz" => (StatusCode::OK, "ok\n"),
        // Ready means: send me requests. Upstream has no say in it, or an outage there would take every proxy out of service.
        "/readyz" if draining.has_begun() => (StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        "/readyz" => (StatusCode::OK, "ready\n"),
        _ => (StatusCode::NOT_FOUND, "here: /healthz /readyz\n"),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
