//! A provider that answers at once: it drops what it is sent, and says a sentence, or a stream of them.
//!
//! A chunk of a stream begins its words with `@` and the nanoseconds of the monotonic clock, so that a reader on this machine knows how
//! long it was under way.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Request, Response,
    body::{Frame, Incoming},
};
use hyper_util::rt::{TokioIo, TokioTimer};

use super::streams::nanoseconds;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Where `"stream":true` and the model's name are looked for.
const EDGE: usize = 4096;

pub fn serve(port: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.expect("a free port");
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let _ = stream.set_nodelay(true);
            tokio::spawn(async move {
                let service = hyper::service::service_fn(answer);
                let mut builder = hyper::server::conn::http1::Builder::new();
                let _ = builder.timer(TokioTimer::new()).header_read_timeout(None).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
}

async fn answer(request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
    let mut body = request.into_body();
    let mut head = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data()
            && head.len() < EDGE
        {
            head.extend_from_slice(&data[..data.len().min(EDGE)]);
        }
    }
    let streams = memchr::memmem::find(&head, b"\"stream\":true").is_some();
    let (mime, body) = match memchr::memmem::find(&head, b"mock-").filter(|_| streams) {
        Some(at) => ("text/event-stream", stream(&head[at + 5..])),
        None => ("application/json", Full::new(Bytes::from_static(DOCUMENT)).boxed_unsync()),
    };
    Ok(Response::builder().header("content-type", mime).body(body).expect("a head"))
}

const DOCUMENT: &[u8] = br#"{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":"Some words that stand for an answer, neither long nor short, as they are read by nobody."},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":20,"total_tokens":21}}"#;
const FIRST: &[u8] = b"data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"mock\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
const LAST: &[u8] = b"data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"mock\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":200,\"total_tokens\":201}}\n\ndata: [DONE]\n\n";

/// As many chunks, and as many microseconds between them, as the model's name says.
fn stream(name: &[u8]) -> Body {
    let mut numbers =
        name.split(|byte| *byte == b'-').map(|digits| std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()));
    let (chunks, pause): (u64, u64) = (numbers.next().flatten().unwrap_or(1), numbers.next().flatten().unwrap_or(0));
    let began = tokio::time::Instant::now();
    let chunks = futures_util::stream::iter(0..chunks).then(move |n| async move {
        if pause > 0 {
            tokio::time::sleep_until(began + Duration::from_micros(n * pause)).await;
        }
        let now = nanoseconds();
        Bytes::from(format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"mock\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"@{now:020} \"}},\"finish_reason\":null}}]}}\n\n"
        ))
    });
    let edge = |bytes: &'static [u8]| futures_util::stream::iter([Bytes::from_static(bytes)]);
    let frames = edge(FIRST).chain(chunks).chain(edge(LAST)).map(|bytes| Ok(Frame::data(bytes)));
    BodyExt::boxed_unsync(StreamBody::new(frames))
}
