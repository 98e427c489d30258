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
        let Ok(text) = str::from_utf8(bytes.trim_ascii()) else { return false };
        let mut answer = Answer { text, format: self.format, usage: self.usage, finish: None, status: None, reason: None, calls: false };
        if answer.read(0, WRAPPED) != Some(text.len()) {
            return false;
        }
        self.usage = answer.usage;
        self.usage.finish = answer.finish().or(self.usage.finish);
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

/// A reason may stand in the delta of a choice.
const WRAPPED: usize = 2;

/// An answer or event of any of the three formats, read as it is gone over. Everything in it is optional and of any type.
struct Answer<'a> {
    text: &'a str,
    format: Format,
    usage: Usage,
    /// By a reason that is given.
    finish: Option<Finish>,
    /// How Responses says that it ended, and why not well.
    status: Option<Cow<'a, str>>,
    reason: Option<Cow<'a, str>>,
    /// It ended with calls.
    calls: bool,
}

impl<'a> Answer<'a> {
    /// Reads the object at `at`, and those in it that some formats wrap things in, so many deep; says where it ends.
    fn read(&mut self, at: usize, depth: usize) -> Option<usize> {
        let text = self.text;
        json::each_member_by(text, at, |key, at| {
            let bytes = text.as_bytes();
            match (key.of(text), bytes.get(at)?) {
                ("usage", b'{') => self.counts(at),
                ("message" | "response" | "x_groq", b'{') if depth == WRAPPED => self.read(at, depth - 1),
                ("delta", b'{') if depth > 0 => self.read(at, depth - 1),
                ("choices", b'[') if depth == WRAPPED => self.choices(at),
                ("stop_reason" | "finish_reason", b'"') => {
                    let (reason, end) = string(text, at)?;
                    self.finish = self.finish.or(Some(Finish::of(&reason)));
                    Some(end)
                }
                ("status", b'"') => {
                    let (status, end) = string(text, at)?;
                    self.status = Some(status);
                    Some(end)
                }
                ("incomplete_details", b'{') => json::each_member_by(text, at, |key, at| match (key.of(text), bytes.get(at)?) {
                    ("reason", b'"') => {
                        let (reason, end) = string(text, at)?;
                        self.reason = Some(reason);
                        Some(end)
                    }
                    _ => json::skip(bytes, at),
                }),
                ("output", _) => {
                    let end = json::skip(bytes, at)?;
                    let calls = [&b"\"type\":\"function_call\""[..], b"\"type\":\"custom_tool_call\"", b"\"type\": \"function_call\""];
                    self.calls = calls.iter().any(|call| memmem::find(&bytes[at..end], call).is_some());
                    Some(end)
                }
                _ => json::skip(bytes, at),
            }
        })
    }

    /// Each choice has a reason of its own, of which the first counts.
    fn choices(&mut self, at: usize) -> Option<usize> {
        let (choices, end) = json::elements(self.text, at)?;
        for choice in choices.into_iter().filter(|choice| choice.of(self.text).starts_with('{')) {
            self.read(choice.start as usize, WRAPPED - 1)?;
        }
        Some(end)
    }

    /// OpenAI counts cache reads within the prompt; Anthropic counts them, and cache writes, beside it.
    fn counts(&mut self, at: usize) -> Option<usize> {
        let text = self.text;
        let (members, end) = json::members(text, at)?;
        let counts = Counts { text, members };
        let usage = &mut self.usage;
        let beside = [counts.of("cache_read_input_tokens"), counts.of("cache_creation_input_tokens")];
        let whole = || counts.of("input_tokens").map(|input| beside.iter().flatten().fold(input, |sum, more| sum.saturating_add(*more)));
        if let Some(total) = counts.of("prompt_tokens").or_else(whole) {
            // A closing event may repeat the counters with zeros.
            usage.input = Some(total).filter(|total| *total > 0).or(usage.input).or(Some(total));
        }
        let within =
            ["prompt_tokens_details", "input_tokens_details"].into_iter().find_map(|details| counts.within(details)?.of("cached_tokens"));
        let cached = within.or_else(|| counts.of("prompt_cache_hit_tokens")).or_else(|| counts.of("cached_tokens")).or(beside[0]);
        if let Some(cached) = cached {
            usage.cached = Some(cached).filter(|cached| *cached > 0).or(usage.cached).or(Some(cached));
        }
        if let Some(output) = counts.of("completion_tokens").or_else(|| counts.of("output_tokens")) {
            usage.output = Some(output.max(usage.output.unwrap_or(0)));
        }
        Some(end)
    }

    fn finish(&self) -> Option<Finish> {
        if self.format != Format::Responses {
            return self.finish;
        }
        Some(match self.status.as_deref()? {
            "completed" if self.calls => Finish::Tool,
            "completed" => Finish::Stop,
            "incomplete" => Finish::of(self.reason.as_deref()?),
            "failed" | "cancelled" => Finish::Error,
            _ => return None,
        })
    }
}

/// The members of a `usage`.
struct Counts<'a> {
    text: &'a str,
    members: Members,
}

impl<'a> Counts<'a> {
    fn get(&self, name: &str) -> Option<Span> {
        self.members.iter().find(|(key, _)| key.of(self.text) == name).map(|(_, value)| *value)
    }

    fn within(&self, name: &str) -> Option<Counts<'a>> {
        let (members, _) = json::members(self.text, self.get(name)?.start as usize)?;
        Some(Counts { text: self.text, members })
    }

    /// However it is spelt: some gateways send floats, some strings.
    fn of(&self, name: &str) -> Option<u64> {
        let value = self.get(name)?.of(self.text);
        match string(value, 0) {
            Some((text, _)) => text.trim().parse().ok(),
            None => value.parse().ok().or_else(|| value.parse::<f64>().ok().filter(|n| (0.0..1e15).contains(n)).map(|n| n as u64)),
        }
    }
}

/// What the JSON string at `at` says, and where it ends; nothing where there is none.
fn string(text: &str, at: usize) -> Option<(Cow<'_, str>, usize)> {
    let end = json::string(text.as_bytes(), at)?;
    Some((json::unescape(Span::new(at + 1, end - 1).of(text)), end))
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
        check_answer(
            Format::Chat,
            r#"{"choices":[{"delta":{"finish_reason":"length"},"usage":{"prompt_tokens":3,"completion_tokens":4}}]}"#,
            Some(usage(3, None, 4, Finish::Length)),
        );
        let deep = "{\"message\":".repeat(100_000) + "{\"usage\":{\"prompt_tokens\":1}}" + &"}".repeat(100_000);
        check_answer(Format::Chat, &deep, None);
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
