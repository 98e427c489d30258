//! What the provider says an answer cost: read from a JSON answer, or picked from the frames of a stream as they pass.
//!
//! The numbers are the provider's own. Nothing is estimated here and a number that is not given stays `None`.

use std::{borrow::Cow, sync::LazyLock};

use memchr::memmem::{self, Finder};

use super::json::{self, Members};
use super::sse::Frame;
use super::sse::head::NO_ROOM;
use crate::conversation::Span;
use crate::wire::Format;

/// Tokens of one answer, and why it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The whole prompt, with what was read from or written to a prompt cache.
    pub input: Option<u64>,
    /// The part of `input` that was read from a prompt cache.
    pub cached: Option<u64>,
    pub output: Option<u64>,
    pub finish: Option<Finish>,
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    Stop,
    /// The output cap, or (most local servers don't tell them apart) the end of the window.
    Length,
    Tool,
    /// The window is full; what was said is usable.
    Window,
    Filter,
    Error,
    Other,
}

/// Collects usage from the frames of a stream. A frame that can hold none costs a substring search.
#[derive(Debug)]
pub struct Tap {
    format: Format,
    usage: Usage,
}

impl Usage {
    /// Usage of a complete JSON answer. `None` where the body is no answer of this format.
    pub fn of_answer(format: Format, body: &[u8]) -> Option<Usage> {
        let mut tap = Tap::new(format);
        tap.json(body).then_some(tap.usage)
    }

    fn is_empty(&self) -> bool {
        *self == Usage::default()
    }
}

impl Tap {
    pub fn new(format: Format) -> Tap {
        Tap { format, usage: Usage::default() }
    }

    /// Looks at the next frame. Later numbers replace earlier ones: counters of a stream are cumulative.
    pub fn frame(&mut self, frame: &Frame) {
        if !frame.whole || !can_hold_usage(&frame.bytes) {
            return;
        }
        match frame.data() {
            Some(data) => self.json(&data),
            None => self.json(&frame.bytes),
        };
    }

    /// What is known so far.
    pub fn usage(&self) -> Option<Usage> {
        (!self.usage.is_empty()).then_some(self.usage)
    }

    fn json(&mut self, bytes: &[u8]) -> bool {
        let text = str::from_utf8(bytes.trim_ascii()).ok();
        let Some(answer) = text.and_then(|text| Object::of(text)) else { return false };
        // Where one of these is, the counts are in it.
        for envelope in ["message", "response", "x_groq"].into_iter().filter_map(|name| answer.object(name)) {
            envelope.read(self.format, &mut self.usage);
        }
        answer.read(self.format, &mut self.usage);
        !self.usage.is_empty()
    }
}

/// Whether a frame can say anything of usage or of an end. In JSON text within strings the quotes are escaped, so output can't fake the needles.
fn can_hold_usage(bytes: &[u8]) -> bool {
    static USAGE: LazyLock<Finder> = LazyLock::new(|| Finder::new(b"\"usage\""));
    static REASON: LazyLock<Finder> = LazyLock::new(|| Finder::new(b"_reason\""));
    if USAGE.find(bytes).is_some() {
        return true;
    }
    // `"finish_reason":null` stands in every chunk of a chat stream.
    REASON.find_iter(bytes).any(|at| {
        let value = bytes[at + b"_reason\"".len()..].trim_ascii_start();
        value.strip_prefix(b":").is_some_and(|value| value.trim_ascii_start().starts_with(b"\""))
    })
}

/// An object of an answer or event, of which nothing is built but what is asked for. Everything in it is optional and of any type.
struct Object<'a> {
    text: &'a str,
    members: Members,
}

impl<'a> Object<'a> {
    fn of(text: &'a str) -> Option<Object<'a>> {
        let (members, end) = json::members(text, 0)?;
        (end == text.len()).then_some(Object { text, members })
    }

    /// A member as it is spelt.
    fn get(&self, name: &str) -> Option<&'a str> {
        self.members.iter().find(|(key, _)| key.of(self.text) == name).map(|(_, value)| value.of(self.text))
    }

    fn object(&self, name: &str) -> Option<Object<'a>> {
        self.get(name).and_then(Object::of)
    }

    fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(string)
    }

    fn count(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(count)
    }

    fn read(&self, format: Format, usage: &mut Usage) {
        if let Some(counts) = self.object("usage") {
            read_counts(&counts, usage);
        }
        if let Some(finish) = self.finish(format) {
            usage.finish = Some(finish);
        }
    }

    fn finish(&self, format: Format) -> Option<Finish> {
        match format {
            Format::Responses => self.status(),
            Format::Chat | Format::Messages => self.reason().or_else(|| self.object("delta")?.reason()).or_else(|| self.choice()),
        }
    }

    fn reason(&self) -> Option<Finish> {
        ["stop_reason", "finish_reason"].into_iter().find_map(|name| self.string(name)).map(|reason| Finish::of(&reason))
    }

    /// Of the first choice that gives one.
    fn choice(&self) -> Option<Finish> {
        let choices = self.get("choices")?;
        let (choices, list) = (json::elements(choices, 0)?.0, choices);
        choices.into_iter().find_map(|choice| Object::of(choice.of(list))?.reason())
    }

    fn status(&self) -> Option<Finish> {
        Some(match &*self.string("status")? {
            "completed" => {
                let output = self.get("output").unwrap_or_default();
                let calls = [&b"\"type\":\"function_call\""[..], b"\"type\":\"custom_tool_call\"", b"\"type\": \"function_call\""];
                if calls.iter().any(|call| memmem::find(output.as_bytes(), call).is_some()) { Finish::Tool } else { Finish::Stop }
            }
            "incomplete" => Finish::of(&self.object("incomplete_details")?.string("reason")?),
            "failed" | "cancelled" => Finish::Error,
            _ => return None,
        })
    }
}

/// What a JSON string says; nothing where it is none.
fn string(raw: &str) -> Option<Cow<'_, str>> {
    raw.starts_with('"').then(|| json::unescape(json::inner(raw, Span::new(0, raw.len())).of(raw)))
}

impl Finish {
    fn of(reason: &str) -> Finish {
        match reason {
            "stop" | "end_turn" | "stop_sequence" | "eos" | "eos_token" | "pause_turn" => Finish::Stop,
            "length" | "max_tokens" | "max_output_tokens" => Finish::Length,
            "tool_calls" | "tool_use" | "function_call" => Finish::Tool,
            "content_filter" | "refusal" | "sensitive" => Finish::Filter,
            "error" | "network_error" => Finish::Error,
            reason if NO_ROOM.contains(&reason) => Finish::Window,
            _ => Finish::Other,
        }
    }
}

/// OpenAI counts cache reads within the prompt; Anthropic counts them, and cache writes, beside it.
fn read_counts(counts: &Object, usage: &mut Usage) {
    let detail = |name: &str| counts.object(name).and_then(|detail| detail.count("cached_tokens"));
    let beside = [counts.count("cache_read_input_tokens"), counts.count("cache_creation_input_tokens")];
    let whole = || counts.count("input_tokens").map(|input| beside.iter().flatten().fold(input, |sum, more| sum.saturating_add(*more)));
    if let Some(total) = counts.count("prompt_tokens").or_else(whole) {
        // A closing event may repeat the counters with zeros.
        usage.input = Some(total).filter(|total| *total > 0).or(usage.input).or(Some(total));
    }
    let cached = detail("prompt_tokens_details").or_else(|| detail("input_tokens_details"));
    let cached = cached.or_else(|| counts.count("prompt_cache_hit_tokens")).or_else(|| counts.count("cached_tokens")).or(beside[0]);
    if let Some(cached) = cached {
        usage.cached = Some(cached).filter(|cached| *cached > 0).or(usage.cached).or(Some(cached));
    }
    if let Some(output) = counts.count("completion_tokens").or_else(|| counts.count("output_tokens")) {
        usage.output = Some(output.max(usage.output.unwrap_or(0)));
    }
}

/// A count however it is spelt: some gateways send floats, some strings.
fn count(raw: &str) -> Option<u64> {
    match string(raw) {
        Some(text) => text.trim().parse().ok(),
        None => raw.parse().ok().or_else(|| raw.parse::<f64>().ok().filter(|n| (0.0..1e15).contains(n)).map(|n| n as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn usage(input: u64, cached: Option<u64>, output: u64, finish: Finish) -> Usage {
        Usage { input: Some(input), cached, output: Some(output), finish: Some(finish) }
    }

    #[track_caller]
    fn check_answer(format: Format, body: &str, expected: Option<Usage>) {
        assert_eq!(Usage::of_answer(format, body.as_bytes()), expected, "{body}");
    }

    #[track_caller]
    fn check_stream(format: Format, frames: &[&str], expected: Option<Usage>) {
        let mut tap = Tap::new(format);
        for frame in frames {
            tap.frame(&Frame { bytes: Bytes::copy_from_slice(format!("data: {frame}\n\n").as_bytes()), whole: true });
        }
        assert_eq!(tap.usage(), expected, "{frames:?}");
    }

    #[test]
    fn answers_of_all_formats_are_read() {
        check_answer(
            Format::Chat,
            r#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":120,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":100}}}"#,
            Some(usage(120, Some(100), 7, Finish::Stop)),
        );
        check_answer(
            Format::Chat,
            r#"{"choices":[{"finish_reason":"length"}],"usage":{"prompt_tokens":"12","completion_tokens":7.0,"prompt_cache_hit_tokens":3}}"#,
            Some(usage(12, Some(3), 7, Finish::Length)),
        );
        check_answer(
            Format::Messages,
            r#"{"type":"message","content":[],"stop_reason":"tool_use","usage":{"input_tokens":5,"cache_creation_input_tokens":20,"cache_read_input_tokens":300,"output_tokens":9}}"#,
            Some(usage(325, Some(300), 9, Finish::Tool)),
        );
        check_answer(
            Format::Responses,
            r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[],"usage":{"input_tokens":98000,"input_tokens_details":{"cached_tokens":64},"output_tokens":4096}}"#,
            Some(usage(98000, Some(64), 4096, Finish::Length)),
        );
        check_answer(
            Format::Responses,
            r#"{"status":"completed","output":[{"type":"function_call","name":"f"}],"usage":{"input_tokens":1,"output_tokens":2}}"#,
            Some(usage(1, None, 2, Finish::Tool)),
        );
        check_answer(Format::Chat, r#"{"usage":null,"choices":[]}"#, None);
        check_answer(Format::Chat, r#"{"usage":{"prompt_tokens":-4}}"#, None);
        check_answer(Format::Chat, "not json", None);
    }

    #[test]
    fn streams_are_read_frame_by_frame() {
        check_stream(
            Format::Chat,
            &[
                r#"{"choices":[{"delta":{"content":"the \"usage\" is"},"finish_reason":null}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
                r#"{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":20}}"#,
                "[DONE]",
            ],
            Some(usage(12, None, 20, Finish::Tool)),
        );
        check_stream(
            Format::Messages,
            &[
                r#"{"type":"message_start","message":{"content":[],"stop_reason":null,"usage":{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":1}}}"#,
                r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"hi"}}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":17}}"#,
            ],
            Some(usage(100, Some(90), 17, Finish::Stop)),
        );
        check_stream(
            Format::Responses,
            &[
                r#"{"type":"response.output_text.delta","delta":"x"}"#,
                r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"message"}],"usage":{"input_tokens":5,"output_tokens":6}}}"#,
            ],
            Some(usage(5, None, 6, Finish::Stop)),
        );
        check_stream(Format::Chat, &[r#"{"choices":[{"delta":{"content":"x"},"finish_reason":null}]}"#], None);
    }

    #[test]
    fn frames_without_usage_are_not_parsed() {
        assert!(!can_hold_usage(br#"data: {"choices":[{"delta":{"content":"\"usage\": 3"},"finish_reason": null}]}"#));
        assert!(can_hold_usage(br#"data: {"choices":[{"finish_reason": "stop"}]}"#));
    }
}
