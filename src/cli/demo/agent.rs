//! An agent like any other: it asks, does what the model says, and sends everything again.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::provider::{Provider, Tally, count};
use super::script::Script;

/// One request of the agent, and what became of it.
pub struct Turn {
    /// Tokens of the request as the agent sent it.
    pub holds: u64,
    /// Tokens of the last request that the provider got for it.
    pub sent: u64,
    pub status: u16,
    /// Why Plimsoll acted, and by which rungs; empty where it did not.
    pub trigger: String,
    pub rungs: String,
}

impl Turn {
    /// What was decided earlier and only applied again is no compaction.
    pub fn is_compaction(&self) -> bool {
        !self.trigger.is_empty() && self.trigger != "ledger"
    }
}

/// A whole session.
pub struct Session {
    pub turns: Vec<Turn>,
    /// The model said its last word.
    pub finished: bool,
    /// What the provider saw.
    pub tally: Tally,
}

impl Session {
    pub fn answered(&self) -> usize {
        self.turns.iter().filter(|turn| turn.status == 200).count()
    }

    pub fn compactions(&self) -> usize {
        self.turns.iter().filter(|turn| turn.is_compaction()).count()
    }

    /// Whether the last request that the model answered says `words`.
    pub fn knows(&self, words: &str) -> bool {
        self.tally.accepted.contains(words)
    }
}

/// Plays the script by way of `address` to its end, or to the first refusal. Tells of each turn.
pub async fn play(
    script: &Script,
    provider: &Provider,
    address: SocketAddr,
    mut tell: impl FnMut(usize, &Turn) -> io::Result<()>,
) -> io::Result<Session> {
    let mut connection = connect(address).await?;
    let tools = script.tools();
    let mut messages = vec![json!({"role": "system", "content": script.system})];
    let mut turns = Vec::new();
    let mut finished = false;
    let script = script.turns();
    for (n, step) in script.iter().enumerate() {
        messages.extend(step.user.iter().map(|words| json!({"role": "user", "content": words})));
        let body = format!(r#"{{"model":"demo","tools":{tools},"messages":{}}}"#, Value::from(messages.clone()));
        let (mut turn, answer) = ask(&mut connection, address, body).await?;
        turn.sent = provider.tally().last;
        tell(n, &turn)?;
        let refused = turn.status != 200;
        turns.push(turn);
        if refused {
            break;
        }
        let message = answer["choices"][0]["message"].clone();
        finished = n + 1 == script.len() && message == step.answer;
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let output = step.output.as_deref().unwrap_or_default();
            messages.extend([message.clone(), json!({"role": "tool", "tool_call_id": call["id"], "content": output})]);
        }
        if message["tool_calls"].is_null() {
            messages.push(message);
        }
    }
    Ok(Session { turns, finished, tally: provider.tally() })
}

async fn connect(address: SocketAddr) -> io::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn ask(connection: &mut SendRequest<Full<Bytes>>, address: SocketAddr, body: String) -> io::Result<(Turn, Value)> {
    let holds = count(&body);
    let request = Request::post("/v1/chat/completions")
        .header("host", address.to_string())
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(io::Error::other)?;
    connection.ready().await.map_err(io::Error::other)?;
    let (head, body) = connection.send_request(request).await.map_err(io::Error::other)?.into_parts();
    let said = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let turn = Turn { holds, sent: 0, status: head.status.as_u16(), trigger: said("x-plimsoll-trigger"), rungs: said("x-plimsoll-rungs") };
    let answer = body.collect().await.map_err(io::Error::other)?.to_bytes();
    Ok((turn, serde_json::from_slice(&answer)?))
}
