//! The wire formats we read, and what each of them calls things.

use super::{chat, messages, responses};
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
        let path = path.split(['?', '#']).next().unwrap_or(path).trim_end_matches('/');
        [("/chat/completions", Format::Chat), ("/responses", Format::Responses), ("/messages", Format::Messages)]
            .into_iter()
            .find_map(|(suffix, format)| path.ends_with(suffix).then_some(format))
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
