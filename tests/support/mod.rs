//! A proxy, an upstream that does as it is told, and an agent that speaks raw HTTP, all on ports of their own.
#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

pub mod agent;
pub mod conversations;
pub mod long;
pub mod process;
pub mod redis;
pub mod script;
pub mod secure;
pub mod upstream;

use std::net::SocketAddr;

use plimsoll::{
    config::Config,
    proxy::{
        decide::Decide,
        lifecycle::{Running, start},
    },
};

pub use agent::{Agent, Got};
pub use upstream::Upstream;

/// A proxy in this process, in front of `upstream`.
pub async fn proxy(upstream: &Upstream) -> Running {
    proxy_with(upstream, |_| {}, Decide::default()).await
}

pub async fn proxy_with(upstream: &Upstream, change: impl FnOnce(&mut Config), decide: Decide) -> Running {
    proxy_to(&upstream.url(), change, decide).await
}

pub async fn proxy_to(url: &str, change: impl FnOnce(&mut Config), decide: Decide) -> Running {
    let mut config =
        Config { listen: "127.0.0.1:0".into(), admin: "off".into(), discover: false, upstream: url.into(), ..Config::default() };
    change(&mut config);
    start(&config, decide, true).await.unwrap()
}

/// An address at which nobody listens.
pub fn nobody() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A chat request, whole.
pub fn post(path: &str, body: &str) -> Vec<u8> {
    format!("POST {path} HTTP/1.1\r\nHost: proxy.example\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

pub const CHAT: &str = "/v1/chat/completions";
pub const HELLO: &str = r#"{"model":"m","messages":[{"role":"user","content":"hello"}]}"#;

/// An answer of `status` with headers as they are given and a length.
pub fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    [format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

pub fn ok(body: &str) -> Vec<u8> {
    answer("200 OK", "Content-Type: application/json\r\n", body)
}

pub const SSE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
pub const END: &[u8] = b"0\r\n\r\n";

pub fn chunk(data: impl AsRef<[u8]>) -> Vec<u8> {
    let data = data.as_ref();
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

/// A whole stream of these events.
pub fn sse(events: &[&str]) -> Vec<u8> {
    let mut out = SSE.as_bytes().to_vec();
    events.iter().for_each(|event| out.extend(chunk(event)));
    out.extend(END);
    out
}

/// The shared folder of corpora and captures, or `None`, said aloud, where it is not there.
pub fn shared(part: &str) -> Option<std::path::PathBuf> {
    let given = std::env::var_os("PLIMSOLL_SHARED").map(std::path::PathBuf::from);
    let path = given.unwrap_or_else(|| std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared")).join(part);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: no {} (set PLIMSOLL_SHARED)", path.display());
    None
}
