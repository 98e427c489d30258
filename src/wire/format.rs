//! The three wire formats, and the few things that differ between them without a conversation in hand.

use std::fmt;
use std::str::FromStr;

/// A wire format an agent may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// OpenAI Chat Completions and everything compatible with it.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Messages,
}

impl Format {
    pub const ALL: [Format; 3] = [Format::Chat, Format::Responses, Format::Messages];

    /// The format of a request by the end of its path, whatever stands before it. A query, a fragment and trailing slashes don't count.
    ///
    /// Only the endpoint itself: `/responses/compact`, `/messages/count_tokens` and the like are none of ours.
    pub fn of_path(path: &str) -> Option<Format> {
        let path = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        Format::ALL.into_iter().find(|format| path.ends_with(format.path()))
    }

    /// The end of the path at which this format is spoken.
    pub const fn path(self) -> &'static str {
        match self {
            Format::Chat => "/chat/completions",
            Format::Responses => "/responses",
            Format::Messages => "/messages",
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Format::Chat => "chat",
            Format::Responses => "responses",
            Format::Messages => "messages",
        }
    }

    /// The body of an error of our own, in the shape the agent expects of its provider. `kind` is the machine-readable word.
    pub fn error_body(self, kind: &str, message: &str) -> String {
        match self {
            Format::Chat | Format::Responses => {
                serde_json::json!({"error": {"message": message, "type": kind, "param": null, "code": kind}}).to_string()
            }
            Format::Messages => serde_json::json!({"type": "error", "error": {"type": kind, "message": message}}).to_string(),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Format, String> {
        Format::ALL.into_iter().find(|format| format.as_str() == name).ok_or_else(|| "expected chat, responses or messages".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_its_format_by_its_end() {
        for (path, format) in [
            ("/v1/chat/completions", Some(Format::Chat)),
            ("/api/v1/chat/completions/", Some(Format::Chat)),
            ("/openai/deployments/x/chat/completions?api-version=2026-01-01", Some(Format::Chat)),
            ("/v1/responses", Some(Format::Responses)),
            ("/backend-api/codex/responses", Some(Format::Responses)),
            ("/v1/messages?beta=true", Some(Format::Messages)),
            ("/v1/messages//", Some(Format::Messages)),
            ("/v1/messages/count_tokens?beta=true", None),
            ("/v1/responses/compact", None),
            ("/v1/completions", None),
            ("/v1/models?next=/chat/completions", None),
            ("/v1/mymessages", None),
            ("", None),
        ] {
            assert_eq!(Format::of_path(path), format, "{path}");
        }
    }

    #[test]
    fn an_error_is_in_the_agents_own_shape() {
        let chat: serde_json::Value = serde_json::from_str(&Format::Chat.error_body("upstream_error", "no \"route\"")).expect("JSON");
        assert_eq!(chat["error"]["message"], "no \"route\"");
        assert_eq!(chat["error"]["type"], "upstream_error");
        assert!(chat["error"]["param"].is_null());
        let messages: serde_json::Value = serde_json::from_str(&Format::Messages.error_body("api_error", "x")).expect("JSON");
        assert_eq!((messages["type"].as_str(), messages["error"]["type"].as_str()), (Some("error"), Some("api_error")));
        assert!(Format::ALL.into_iter().all(|format| format.as_str().parse() == Ok(format)));
        assert!("gemini".parse::<Format>().is_err());
    }
}
