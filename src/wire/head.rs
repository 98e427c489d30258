//! What an event at the beginning of a streamed answer means to somebody who may still want to send the request again.

use super::{Format, sse::Event};

/// The weight of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// A comment or a ping: says nothing.
    Quiet,
    /// Opens the answer (ids, roles) but carries no output.
    Bookkeeping,
    /// The model's output, or anything unknown.
    Output,
    Error,
}

pub fn weigh(format: Format, event: &Event) -> Weight {
    if event.is_empty() || event.name == "ping" {
        return Weight::Quiet;
    }
    let Ok(data) = serde_json::from_str::<serde_json::Value>(&event.data) else {
        return if event.name == "error" { Weight::Error } else { Weight::Output };
    };
    let kind = data["type"].as_str().unwrap_or(&event.name);
    if event.name == "error" || kind == "error" || kind == "response.failed" || data["object"] == "error" || !data["error"].is_null() {
        return Weight::Error;
    }
    match (format, kind) {
        (_, "ping") => Weight::Quiet,
        (Format::Responses, "response.created" | "response.in_progress" | "response.queued") => Weight::Bookkeeping,
        (Format::Messages, "message_start") => Weight::Bookkeeping,
        (Format::Chat, _) if role_only(&data) => Weight::Bookkeeping,
        _ => Weight::Output,
    }
}

fn role_only(chunk: &serde_json::Value) -> bool {
    let Some([choice]) = chunk["choices"].as_array().map(Vec::as_slice) else { return false };
    let Some(delta) = choice["delta"].as_object() else { return false };
    choice["finish_reason"].is_null()
        && delta.iter().all(|(key, value)| {
            key == "role" || value.is_null() || value.as_str() == Some("") || value.as_array().is_some_and(Vec::is_empty)
        })
}
