//! A provider with a small window, and a client that asks it.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::tokens::Tokenizer;

/// Answers chat completions, refuses what is longer than its window, and serves that window in its list of models.
pub struct Provider {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The last request that was accepted or refused.
    seen: String,
    /// The last one that was accepted.
    accepted: String,
    /// Bytes that repeated the beginning of the request before, and bytes in all.
    repeated: usize,
    all: usize,
}

impl Provider {
    pub async fn start(window: u64) -> io::Result<Provider> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let provider = Provider { address: listener.local_addr()?, state: Arc::default() };
        let state = provider.state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = state.clone();
                let service = hyper::service::service_fn(move |request| answer(request, window, state.clone()));
                tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(provider)
    }

    pub fn seen(&self) -> String {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).seen.clone()
    }

    /// The share of all bytes that repeated the beginning of the request before: what a provider's prompt cache could serve.
    pub fn cached(&self) -> f64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.repeated as f64 / state.all.max(1) as f64
    }
}

pub fn count(body: &str) -> u64 {
    Tokenizer::O200k.count(body) as u64
}

async fn answer(request: Request<Incoming>, window: u64, state: Arc<Mutex<State>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let json = |status: u16, body: String| {
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
        response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
        Ok(response)
    };
    if request.method() == http::Method::GET {
        return json(200, format!(r#"{{"object":"list","data":[{{"id":"demo","object":"model","max_model_len":{window}}}]}}"#));
    }
    let Ok(body) = request.into_body().collect().await else { return json(400, "{}".into()) };
    let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    let tokens = count(&body);
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    state.seen = body.clone();
    if tokens > window {
        let message = format!(
            "This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. Please reduce the length of the messages."
        );
        return json(400, serde_json::json!({"error": {"message": message, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}).to_string());
    }
    state.repeated += body.bytes().zip(state.accepted.bytes()).take_while(|(a, b)| a == b).count();
    state.all += body.len();
    state.accepted = body;
    json(
        200,
        format!(
            r#"{{"id":"c","object":"chat.completion","choices":[{{"index":0,"message":{{"role":"assistant","content":"ok"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":{tokens},"completion_tokens":1,"total_tokens":{}}}}}"#,
            tokens + 1
        ),
    )
}

pub struct Answer {
    pub status: u16,
    /// What Plimsoll says it did, if anybody did anything.
    pub trigger: String,
}

/// Asks for a completion, on a connection of its own.
pub async fn post(address: SocketAddr, body: String) -> io::Result<Answer> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    let request = Request::post("/v1/chat/completions")
        .header("host", address.to_string())
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)));
    let response = sender.send_request(request.map_err(io::Error::other)?).await.map_err(io::Error::other)?;
    let trigger = response.headers().get("x-plimsoll-trigger").and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let status = response.status().as_u16();
    drop(response.into_body().collect().await);
    Ok(Answer { status, trigger })
}
