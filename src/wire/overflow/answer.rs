//! Takes an answer apart: what in it speaks for the provider, and nothing that only quotes.
//!
//! Out come the texts, codes and numbers of its errors, wherever they are nested, and whether the model said anything. What the model wrote
//! (`choices`, `delta`, `content`, `output`) and what repeats the request (`input`, `messages`, a body with a model and a prompt) is never looked at.

use std::iter;

use serde_json::{Map, Value};

use super::literal;
use super::prose::{head, unescaped, unquoted, without_tags};
use crate::wire::sse::{Frames, head::NO_ROOM};

/// Nesting of structures within strings within structures.
const MAX_DEPTH: usize = 16;
/// Text that is read in all, in bytes.
const MAX_TEXT: usize = 64 << 10;

/// Of one text. Refusals are short; what follows a long one is an echo.
const MAX_PROSE: usize = 16 << 10;
/// Codes and numbers that are kept.
const MAX_MEMBERS: usize = 64;

/// What an answer says of errors.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub texts: Vec<String>,
    pub codes: Vec<String>,
    /// Numbers of the error objects by name.
    pub fields: Vec<(String, u64)>,
    /// The answer claims to be an error.
    pub error: bool,
    /// The model said something.
    pub output: bool,
    /// The answer ended because the window is full.
    pub no_room: bool,
    /// Prompt tokens the provider counted.
    pub input_tokens: Option<u64>,
    size: usize,
}

/// Names under which an error repeats the request or carries what is no statement about it.
const ECHOES: &str = "input input_value inputs request request_body requestbody original_request messages content contents choices delta output \
    outputs arguments args parameters params prompt instructions tools tool_calls system payload ctx url loc stack stacktrace \
    traceback trace query examples schema more_info help documentation_url user_id request_id requestid usage text";

/// Names whose values are machine words.
const CODES: &str = "code type error_code errorcode error_type errortype err_code errcode kind reason status __type title name key error \
    status_code tpe exception";

/// Names whose values say nothing of the error.
const LABELS: &str =
    "id model object param provider provider_name domain instance path location timestamp service created created_at sid locale";

impl Parts {
    /// `failed`: the status says that the whole body is an error. `events`: the body is a stream of events.
    pub(super) fn of(body: &str, failed: bool, events: bool) -> Parts {
        let mut parts = Parts { error: failed, ..Parts::default() };
        let text = body.trim_start_matches('\u{feff}').trim();
        if text.starts_with(['{', '[', '"']) {
            parts.documents(text, failed);
        } else if events || ["data:", "event:", "error:", "id:", "retry:", ":"].iter().any(|field| text.starts_with(field)) {
            parts.events(body, failed);
        } else if text.starts_with('<') {
            parts.text(&without_tags(text), 0);
        } else if failed {
            parts.text(text, 0);
        } else if let Some((start, _)) = text.match_indices('{').find(|(at, _)| literal::starts(&text[*at..])) {
            // Binary event streams carry their documents between length fields.
            parts.documents(&text[start..], failed);
        }
        parts
    }

    fn events(&mut self, body: &str, failed: bool) {
        let mut frames = Frames::events(usize::MAX);
        frames.push(body.as_bytes().to_vec().into());
        let whole = iter::from_fn(|| frames.next_frame()).collect::<Vec<_>>();
        for frame in whole.into_iter().chain(frames.finish()) {
            let field = frame.fields().find(|(name, _)| *name == b"error").map(|(_, value)| String::from_utf8_lossy(value).into_owned());
            let failed = failed || field.is_some() || frame.event().is_some_and(|event| event == b"error" || event == b"exception");
            let Some(data) = field.or_else(|| frame.data().map(|data| String::from_utf8_lossy(&data).into_owned())) else { continue };
            self.error |= failed;
            match data.trim_start().starts_with(['{', '[', '"']) {
                true => self.documents(data.trim(), failed),
                false if failed => self.text(&data, 0),
                false => {}
            }
        }
    }

    /// One JSON document or several, one after the other.
    fn documents(&mut self, text: &str, failed: bool) {
        let mut stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let mut read = 0;
        while let Some(Ok(value)) = stream.next() {
            read = stream.byte_offset();
            self.document(&value, failed);
        }
        let rest = text[read..].trim();
        if rest.is_empty() {
            return;
        }
        match literal::parse(rest) {
            Some((value, _)) => self.document(&value, failed),
            None if failed => self.text(rest, 0),
            None => {}
        }
    }

    fn document(&mut self, value: &Value, failed: bool) {
        match value {
            Value::Array(items) if !failed => items.iter().take(64).for_each(|item| self.document(item, false)),
            Value::Object(map) => {
                let envelopes = ["response", "Response", "message", "result", "header", "base_resp", "status"];
                for map in iter::once(map).chain(envelopes.iter().filter_map(|name| map.get(*name)?.as_object())) {
                    self.answer(map);
                    if !failed {
                        self.in_band(map);
                    }
                }
                if failed {
                    self.walk("", value, 0);
                }
            }
            Value::String(text) if failed => self.text(text, 0),
            _ if failed => self.walk("", value, 0),
            _ => {}
        }
    }

    /// What an answer says of itself: output, reasons to stop, usage.
    fn answer(&mut self, map: &Map<String, Value>) {
        let said = |value: &Value| match value {
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(map) => !map.is_empty(),
            _ => false,
        };
        let speaks = |map: &Map<String, Value>| {
            ["content", "reasoning", "reasoning_content", "thinking", "tool_calls", "function_call", "refusal", "text"]
                .iter()
                .any(|name| map.get(*name).is_some_and(said))
        };
        let stop = |value: Option<&Value>| value.and_then(Value::as_str).is_some_and(|reason| NO_ROOM.contains(&reason));
        let kind = map.get("type").and_then(Value::as_str).unwrap_or_default();
        self.output |= kind.starts_with("content_block") || kind.ends_with(".delta") || kind.starts_with("response.output_item");
        self.output |= ["output", "candidates"].iter().any(|name| map.get(*name).is_some_and(said));
        self.output |= kind == "message" && map.get("content").is_some_and(said);
        self.output |= matches!(map.get("message"), Some(Value::Object(message)) if speaks(message));
        self.no_room |= stop(map.get("stop_reason")) || stop(map.get("done_reason"));
        self.no_room |= stop(map.get("delta").and_then(|delta| delta.get("stop_reason")));
        self.no_room |= stop(map.get("incomplete_details").and_then(|details| details.get("reason")));
        for choice in map.get("choices").and_then(Value::as_array).into_iter().flatten() {
            let spoken = ["message", "delta"].iter().filter_map(|name| choice.get(*name)?.as_object()).any(speaks);
            self.output |= spoken || choice.get("text").is_some_and(said);
            self.no_room |= stop(choice.get("finish_reason"));
        }
        if let Some(usage) = map.get("usage") {
            let count = |name: &str| usage.get(name).and_then(Value::as_u64);
            let beside = ["cache_read_input_tokens", "cache_creation_input_tokens"]
                .iter()
                .filter_map(|name| count(name))
                .fold(0, u64::saturating_add);
            let input = count("prompt_tokens").or_else(|| Some(count("input_tokens")?.saturating_add(beside)));
            self.input_tokens = self.input_tokens.max(input);
        }
    }

    /// Errors under a status of success.
    fn in_band(&mut self, map: &Map<String, Value>) {
        let text = |name: &str| map.get(name).and_then(Value::as_str);
        let holds = |value: &Value| {
            !matches!(value, Value::Null | Value::Bool(false))
                && value.as_str() != Some("")
                && value.as_array().is_none_or(|items| !items.is_empty())
        };
        let failure = |name: &str| match map.get(name) {
            Some(Value::Number(n)) => n.as_i64().is_none_or(|n| n != 0 && !(200..300).contains(&n)),
            Some(Value::String(code)) => !matches!(code.as_str(), "" | "0" | "200" | "success" | "Success" | "ok" | "OK" | "20000"),
            _ => false,
        };
        let silent = !["choices", "content", "output", "candidates", "delta"].iter().any(|name| map.contains_key(*name));
        let whole = text("type") == Some("error")
            || text("object") == Some("error")
            || ["success", "ok"].iter().any(|name| map.get(*name) == Some(&Value::Bool(false)))
            || matches!(text("status"), Some("error" | "failed" | "failure" | "fail")) && !map.contains_key("output")
            || ["error_code", "errorCode", "errcode"].iter().any(|name| failure(name))
            || map.len() == 1 && text("message").is_some()
            || silent && failure("code") && (map.contains_key("msg") || map.contains_key("message"))
            || silent && failure("status_code") && map.contains_key("status_msg");
        if whole {
            self.error = true;
            self.walk("", &Value::Object(map.clone()), 0);
            return;
        }
        for name in ["error", "Error", "errors"] {
            if let Some(value) = map.get(name).filter(|value| holds(value)) {
                self.error = true;
                self.walk(name, value, 0);
            }
        }
    }

    /// Collects from an error object. `name` is the member it stands under.
    fn walk(&mut self, name: &str, value: &Value, depth: usize) {
        if depth > MAX_DEPTH || self.size > MAX_TEXT {
            return;
        }
        let lower = name.to_ascii_lowercase();
        let is = |names: &str| names.split(' ').any(|name| name == lower);
        match value {
            Value::Object(map) => {
                let request =
                    map.contains_key("model") && ["messages", "input", "prompt", "contents"].iter().any(|name| map.contains_key(*name));
                if !request {
                    map.iter().for_each(|(inner, value)| self.member(&lower, inner, value, depth));
                }
            }
            Value::Array(items) => items.iter().take(64).for_each(|item| self.walk(name, item, depth + 1)),
            Value::String(text) if is(LABELS) => self.size += text.len().min(64),
            Value::String(text) => match text.trim().parse::<u64>() {
                Ok(n) if is(CODES) => self.code(n.to_string()),
                Ok(n) => self.field(name, n),
                Err(_) if is_code(text) => {
                    if is(CODES) || text.contains('_') {
                        self.code(text.clone());
                    }
                }
                Err(_) => self.text(text, depth),
            },
            Value::Number(n) => match n.as_u64().or_else(|| n.as_f64().filter(|n| (0.0..1e15).contains(n)).map(|n| n as u64)) {
                Some(n) if is(CODES) => self.code(n.to_string()),
                Some(n) => self.field(name, n),
                None => {}
            },
            _ => {}
        }
    }

    fn code(&mut self, code: String) {
        if self.codes.len() < MAX_MEMBERS {
            self.codes.push(code);
        }
    }

    fn field(&mut self, name: &str, value: u64) {
        if self.fields.len() < MAX_MEMBERS {
            self.fields.push((name.to_owned(), value));
        }
    }

    fn member(&mut self, parent: &str, name: &str, value: &Value, depth: usize) {
        let lower = name.to_ascii_lowercase();
        // `{"errors": {"prompt": ["is too long"]}}`: the names are the subjects of the sentences.
        let sentences = matches!(value, Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_string));
        if sentences && matches!(parent, "errors" | "error" | "fields" | "violations" | "detail" | "details") {
            for text in value.as_array().into_iter().flatten().filter_map(Value::as_str) {
                self.text(&format!("{name} {text}"), depth + 1);
            }
        } else if ECHOES.split(' ').any(|name| name == lower) && !(lower == "messages" && sentences) {
            // What the request said is no statement about it.
        } else {
            self.walk(name, value, depth + 1);
        }
    }

    /// A text of an error. Structures within it are taken out and walked, quotations are dropped.
    fn text(&mut self, text: &str, depth: usize) {
        let text = text.trim();
        if depth > MAX_DEPTH || self.size > MAX_TEXT || text.is_empty() {
            return;
        }
        if text.starts_with(['{', '[', '"'])
            && let Ok(value) = serde_json::from_str::<Value>(text)
        {
            return match value {
                Value::String(inner) => self.text(&inner, depth + 1),
                value => self.walk("", &value, depth + 1),
            };
        }
        let mut prose = String::new();
        let mut at = 0;
        while let Some(found) = text[at..].find(['{', '[']) {
            let start = at + found;
            let structure = literal::starts(&text[start..]).then(|| literal::parse(&text[start..])).flatten();
            let end = match &structure {
                Some((_, length)) => start + length,
                None => start + 1,
            };
            prose.push_str(&text[at..if structure.is_some() { start } else { end }]);
            if let Some((value, _)) = structure {
                prose.push_str(". ");
                self.walk("", &value, depth + 1);
            }
            at = end;
        }
        prose.push_str(&text[at..]);
        let prose = head(&prose, MAX_PROSE);
        let bare = unquoted(prose);
        // Nothing but a quotation is no quotation: `BadRequest("prompt is too long")`.
        let prose = unescaped(if bare.split_whitespace().count() > 2 { &bare } else { prose });
        self.size += prose.len();
        if prose.chars().any(char::is_alphabetic) {
            self.texts.push(prose);
        }
    }
}

/// A machine word: `context_length_exceeded`, `InvalidParameter`, `policies.llm.PromptTokensExceeded`.
fn is_code(text: &str) -> bool {
    text.len() <= 100
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':' | b'#' | b'/'))
        && text.bytes().any(|b| b.is_ascii_alphabetic())
}
