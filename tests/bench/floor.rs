//! The least that a proxy in hyper can do: pass the body on as it comes, on connections that are kept.

use bytes::Bytes;
use http_body_util::{BodyExt, combinators::BoxBody};
use hyper::{Request, Response, body::Incoming, header::HOST};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};

pub fn serve(port: &str, upstream: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client: Client<HttpConnector, Incoming> = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(4096).build(connector);
        let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("a free port");
        let upstream: hyper::http::uri::Authority = upstream.parse().expect("host and port");
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let _ = stream.set_nodelay(true);
            let (client, upstream) = (client.clone(), upstream.clone());
            tokio::spawn(async move {
                let service = hyper::service::service_fn(move |request| pass(client.clone(), upstream.clone(), request));
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
}

type Answer = Response<BoxBody<Bytes, hyper::Error>>;

async fn pass(
    client: Client<HttpConnector, Incoming>,
    upstream: hyper::http::uri::Authority,
    mut request: Request<Incoming>,
) -> Result<Answer, hyper_util::client::legacy::Error> {
    let mut parts = request.uri().clone().into_parts();
    parts.scheme = Some(hyper::http::uri::Scheme::HTTP);
    parts.authority = Some(upstream);
    *request.uri_mut() = parts.try_into().expect("a target");
    request.headers_mut().remove(HOST);
    Ok(client.request(request).await?.map(BodyExt::boxed))
}
