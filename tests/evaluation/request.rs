//! Conversations as the requests that carry them, and what a model reads in one.

use std::sync::Arc;

use bytes::Bytes;
use plimsoll::{
    budget::Window,
    conversation::Fingerprint,
    decide::{Call, Decider, Decision, Policy, Report, Steer},
    wire::Format,
};
use serde_json::{Value, json};

use super::conversation::{Message, Who};

/// A model that is in no table.
pub const MODEL: &str = "evaluated";

/// A body in the chat format. Its messages come last, so that one request begins as the one before.
pub fn body(messages: &[Message]) -> Bytes {
    let messages: Vec<Value> = messages.iter().map(message).collect();
    format!(r#"{{"model":"{MODEL}","messages":{}}}"#, Value::from(messages)).into()
}

fn message(message: &Message) -> Value {
    let text = &message.text;
    match &message.who {
        Who::User => json!({"role": "user", "content": text}),
        Who::Assistant => json!({"role": "assistant", "content": text}),
        Who::Call(tool) => {
            let call = json!({"id": message.call_id, "type": "function", "function": {"name": tool, "arguments": text}});
            json!({"role": "assistant", "content": null, "tool_calls": [call]})
        }
        Who::Result(..) => json!({"role": "tool", "tool_call_id": message.call_id, "content": text}),
    }
}

pub fn call(decider: &Decider, format: Format, body: Bytes, policy: &Arc<Policy>, window: u64, steer: Steer) -> Call {
    let tenant = Fingerprint::default();
    Call {
        request: decider.read(format, body, tenant).expect("what is generated reads"),
        tenant,
        upstream: "".into(),
        policy: policy.clone(),
        steer,
        focus: String::new(),
        window: Some(Window { tokens: window, separate_output: false }),
        now: 0,
    }
}

/// The body that goes upstream.
pub fn sent(decider: &Decider, call: &Call) -> (Bytes, Report) {
    match decider.before_send(call) {
        Decision::Send(rewrite) => (rewrite.body, rewrite.report),
        Decision::Pass(report) | Decision::Refuse(report) => (call.request.bytes().clone(), report),
    }
}

/// The texts of a body's messages, in order: what is said, called and printed.
pub fn texts(body: &[u8]) -> Vec<(Kind, String)> {
    let body: Value = serde_json::from_slice(body).expect("a body is JSON");
    let mut out = Vec::new();
    for message in body["messages"].as_array().into_iter().flatten() {
        let kind = if message["role"] == "tool" { Kind::Result } else { Kind::Said };
        content(&message["content"], kind, &mut out);
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            out.push((Kind::Call, call["function"]["arguments"].as_str().unwrap_or_default().to_owned()));
        }
    }
    out
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Said,
    /// The arguments of a call, as JSON.
    Call,
    Result,
}

fn content(value: &Value, kind: Kind, out: &mut Vec<(Kind, String)>) {
    match value {
        Value::String(text) => out.push((kind, text.clone())),
        Value::Array(parts) => {
            for part in parts {
                match part["type"].as_str() {
                    Some("text") => content(&part["text"], kind, out),
                    Some("tool_use") => out.push((Kind::Call, part["input"].to_string())),
                    Some("tool_result") => content(&part["content"], Kind::Result, out),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}
