//! A provider with one model: it says what the script says, and refuses what its window does not hold.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::script::Script;
use crate::tokens::Tokenizer;

/// Answers chat completions, and tells how much its model takes in its list of models, as local servers do.
pub struct Provider {
    pub address: SocketAddr,
    model: Arc<Model>,
}

struct Model {
    window: u64,
    /// The answers, in turn.
    answers: Vec<Value>,
    tally: Mutex<Tally>,
}

/// What was asked of a provider. Weights are tokens.
#[derive(Clone, Default)]
pub struct Tally {
    pub requests: u64,
    pub refused: u64,
    /// All requests together, and how much of them began as the one answered before: what a prompt cache serves.
    pub tokens: u64,
    pub cached: u64,
    /// The last request.
    pub last: u64,
    /// The body of the last request that was answered.
    pub accepted: String,
    answered: usize,
}

impl Provider {
    pub async fn start(script: &Script) -> io::Result<Provider> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let answers = script.turns().into_iter().map(|turn| turn.answer).collect();
        let model = Arc::new(Model { window: script.window, answers, tally: Mutex::default() });
        let provider = Provider { address: listener.local_addr()?, model: model.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let model = model.clone();
                let service = service_fn(move |request| answer(request, model.clone()));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(provider)
    }

    pub fn tally(&self) -> Tally {
        self.model.tally().clone()
    }
}

pub fn count(body: &str) -> u64 {
    Tokenizer::O200k.count(body) as u64
}

async fn answer(request: Request<Incoming>, model: Arc<Model>) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_question = request.method() == Method::POST;
    let (status, body) = match request.into_body().collect().await {
        Ok(body) if is_question => model.complete(String::from_utf8_lossy(&body.to_bytes()).into_owned()),
        Ok(_) => (StatusCode::OK, model.list()),
        Err(_) => (StatusCode::BAD_REQUEST, json!({"error": {"message": "the request broke off"}})),
    };
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    Ok(response)
}

impl Model {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self) -> Value {
        json!({"object": "list", "data": [{"id": "demo", "object": "model", "max_model_len": self.window}]})
    }

    fn complete(&self, body: String) -> (StatusCode, Value) {
        let (tokens, window) = (count(&body), self.window);
        let mut tally = self.tally();
        tally.requests += 1;
        tally.tokens += tokens;
        tally.last = tokens;
        if tokens > window {
            tally.refused += 1;
            let message = format!(
                "This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. \
                 Please reduce the length of the messages."
            );
            let error =
                json!({"message": message, "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"});
            return (StatusCode::BAD_REQUEST, json!({"error": error}));
        }
        let same = body.char_indices().zip(tally.accepted.chars()).find(|((_, a), b)| a != b).map(|((at, _), _)| at);
        let cached = count(&body[..same.unwrap_or(body.len().min(tally.accepted.len()))]);
        tally.cached += cached;
        tally.accepted = body;
        let message = self.answers.get(tally.answered).cloned().unwrap_or_default();
        tally.answered += 1;
        let finish = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
        let output = count(&message.to_string());
        let answer = json!({
            "id": "demo",
            "object": "chat.completion",
            "model": "demo",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {
                "prompt_tokens": tokens,
                "completion_tokens": output,
                "total_tokens": tokens + output,
                "prompt_tokens_details": {"cached_tokens": cached},
            },
        });
        (StatusCode::OK, answer)
    }
}
