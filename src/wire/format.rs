//! The wire formats we read, and what each of them calls things.

use super::{chat, json, messages, responses};
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    Chat,
    Responses,
    Messages,
}

impl Format {
    pub const ALL: [Format; 3] = [Format::Chat, Format::Responses, Format::Messages];

    pub fn name(self) -> &'static str {
        match self {
            Format::Chat => "chat",
            Format::Responses => "responses",
            Format::Messages => "messages",
        }
    }

    /// The format of a request by the end of its path; `None` where the path is none of a chat's.
    pub fn of_path(path: &str) -> Option<Format> {
        let end = memchr::memchr2(b'?', b'#', path.as_bytes()).unwrap_or(path.len());
        let path = path[..end].trim_end_matches('/');
        [("/chat/completions", Format::Chat), ("/responses", Format::Responses), ("/messages", Format::Messages)]
            .into_iter()
            .find_map(|(suffix, format)| path.ends_with(suffix).then_some(format))
    }

    /// The format of a body by what is in it, for bodies that come without a path. Chat where nothing tells.
    pub fn of_body(body: &str) -> Format {
        let at = json::space(body.as_bytes(), 0);
        let Some((members, _)) = json::members(body, at) else { return Format::Chat };
        let has = |name: &str| members.iter().any(|(key, _)| key.of(body) == name);
        let list = members.iter().find(|(key, _)| key.of(body) == "messages").map_or("", |(_, value)| value.of(body));
        let holds = |needle: &str| memchr::memmem::find(list.as_bytes(), needle.as_bytes()).is_some();
        if has("input") && !has("messages") {
            return Format::Responses;
        }
        if holds("\"tool_calls\"") || holds("\"tool_call_id\"") || holds("\"image_url\"") {
            return Format::Chat;
        }
        let model = members.iter().find(|(key, _)| key.of(body) == "model").map_or("", |(_, value)| value.of(body));
        let anthropic =
            has("system") || holds("\"tool_use\"") || holds("\"tool_result\"") || holds("\"thinking\"") || model.contains("claude");
        if anthropic { Format::Messages } else { Format::Chat }
    }

    /// The member that holds the conversation.
    pub fn list(self) -> &'static str {
        match self {
            Format::Chat => chat::LIST,
            Format::Responses => responses::LIST,
            Format::Messages => messages::LIST,
        }
    }

    /// The members that cap the output, the one that counts first.
    pub fn output_caps(self) -> &'static [&'static str] {
        match self {
            Format::Chat => &chat::OUTPUT_CAPS,
            Format::Responses => &responses::OUTPUT_CAPS,
            Format::Messages => &messages::OUTPUT_CAPS,
        }
    }

    /// Whether a system message in the middle has its place between a user's word and the assistant's answer, so that neither can go without it.
    pub fn systems_lean(self) -> bool {
        self == Format::Messages
    }

    /// A JSON body that a client of this API reads as an error.
    pub fn error_body(self, kind: &str, message: &str) -> String {
        match self {
            Format::Chat | Format::Responses => {
                serde_json::json!({"error": {"message": message, "type": kind, "param": null, "code": null}})
            }
            Format::Messages => serde_json::json!({"type": "error", "error": {"type": kind, "message": message}}),
        }
        .to_string()
    }

    /// A part of a user message or of a result that holds `text`.
    pub fn text_part(self, text: &str) -> String {
        match self {
            Format::Chat => chat::text_part(text),
            Format::Responses => responses::text_part(text),
            Format::Messages => messages::text_part(text),
        }
    }

    /// A whole user message that holds `text`.
    pub fn user_message(self, text: &str) -> String {
        match self {
            Format::Chat => chat::user_message(text),
            Format::Responses => responses::user_message(text),
            Format::Messages => messages::user_message(text),
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "chat" | "openai" => Ok(Format::Chat),
            "responses" => Ok(Format::Responses),
            "messages" | "anthropic" => Ok(Format::Messages),
            _ => Err(format!("no wire format {name:?}: chat, responses or messages")),
        }
    }
}
