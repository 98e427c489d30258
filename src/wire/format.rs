//! The three wire formats, and how an error of ours looks in each.

use serde_json::json;

/// One of the APIs whose conversations are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    Chat,
    Responses,
    Messages,
}

impl Format {
    pub const ALL: [Format; 3] = [Format::Chat, Format::Responses, Format::Messages];

    /// The format that is spoken at `path` (without its query), by the path's last segments.
    pub fn of_path(path: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| path.ends_with(format.suffix()))
    }

    pub fn suffix(self) -> &'static str {
        match self {
            Format::Chat => "/chat/completions",
            Format::Responses => "/responses",
            Format::Messages => "/messages",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Format::Chat => "chat",
            Format::Responses => "responses",
            Format::Messages => "messages",
        }
    }

    /// A JSON body that a client of this API reads as an error.
    pub fn error_body(self, kind: &str, message: &str) -> String {
        match self {
            Format::Chat | Format::Responses => json!({"error": {"message": message, "type": kind, "param": null, "code": null}}).to_string(),
            Format::Messages => json!({"type": "error", "error": {"type": kind, "message": message}}).to_string(),
        }
    }
}
