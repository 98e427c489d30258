//! What a frame of a stream's head means for a retry: may it pass, must it wait, or is the head over?

use std::borrow::Cow;

use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::Frame;
use crate::wire::Format;

/// What the relay does with a frame as long as a retry would go unseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadEvent {
    /// A comment, a blank line, a ping: may pass at once, a retry stays possible.
    Ping,
    /// Says that an answer begins (`response.created`, `message_start`, a delta with a role alone): wait for what follows.
    Bookkeeping,
    /// The model speaks, or the answer is over: from here on everything passes and nothing is retried.
    Output,
    /// An error, or an end of the answer for lack of room before any output: let [`overflow`](crate::wire::overflow) read it.
    Error,
    /// The end of the stream.
    Done,
}

/// Stop reasons that mean "no room": an overflow when nothing was said before.
pub(crate) const NO_ROOM: [&str; 4] =
    ["model_context_window_exceeded", "context_window_exceeded", "context_length_exceeded", "context_window_limit"];

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    object: Option<Cow<'a, str>>,
    error: Option<IgnoredAny>,
    // Read only where the event's type says what they are: the same names hold other things elsewhere.
    #[serde(borrow)]
    choices: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    delta: Option<Delta>,
    text: Option<Said>,
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
}

/// The members of a chat delta that are output. Whatever else a provider adds is bookkeeping.
#[derive(Deserialize)]
struct Delta {
    content: Option<Said>,
    reasoning: Option<Said>,
    reasoning_content: Option<Said>,
    reasoning_details: Option<Said>,
    thinking: Option<Said>,
    refusal: Option<Said>,
    tool_calls: Option<Said>,
    function_call: Option<Said>,
    audio: Option<Said>,
}

#[derive(Default, Deserialize)]
struct Stop<'a> {
    #[serde(borrow)]
    stop_reason: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
struct Response<'a> {
    error: Option<IgnoredAny>,
    #[serde(borrow)]
    incomplete_details: Option<Incomplete<'a>>,
    output: Option<Said>,
}

#[derive(Deserialize)]
struct Incomplete<'a> {
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
}

/// Whether a value holds anything: `""`, `[]` and `{}` don't.
struct Said(bool);

pub(super) fn of(format: Format, frame: &Frame) -> HeadEvent {
    if !frame.whole {
        return HeadEvent::Output;
    }
    if frame.fields().any(|(name, _)| name == b"error") || frame.event() == Some(b"error") {
        return HeadEvent::Error;
    }
    let data = match frame.data() {
        Some(data) => data,
        // Lines of JSON have no field names.
        None if frame.bytes.trim_ascii_start().starts_with(b"{") => Cow::Borrowed(frame.bytes.as_ref()),
        None => return HeadEvent::Ping,
    };
    let data = data.trim_ascii();
    if data.is_empty() {
        return HeadEvent::Ping;
    }
    if data == b"[DONE]" {
        return HeadEvent::Done;
    }
    let Ok(event) = serde_json::from_slice::<Event>(data) else {
        // Not what this format says: nothing may be assumed of it, so it ends the head, unless it names itself an error.
        return if memmem::find(data, b"\"error\"").is_some() { HeadEvent::Error } else { HeadEvent::Output };
    };
    event.meaning(format)
}

impl Event<'_> {
    fn meaning(&self, format: Format) -> HeadEvent {
        if self.error.is_some() || self.object.as_deref() == Some("error") {
            return HeadEvent::Error;
        }
        match self.kind.as_deref() {
            Some("error" | "response.failed") => HeadEvent::Error,
            Some("ping" | "keepalive") => HeadEvent::Ping,
            Some("response.created" | "response.in_progress" | "response.queued" | "message_start") => HeadEvent::Bookkeeping,
            Some("message_stop") => HeadEvent::Done,
            Some("message_delta") => no_room(inner::<Stop>(self.delta).stop_reason.as_deref()),
            Some("response.incomplete") => inner::<Response>(self.response).ended(),
            Some(kind) if kind.starts_with("response.") || kind.starts_with("content_block") => HeadEvent::Output,
            // Notes beside the protocol (rate limits, moderation): they wait with the rest.
            Some(_) if format != Format::Chat => HeadEvent::Bookkeeping,
            _ => self.choices(),
        }
    }

    fn choices(&self) -> HeadEvent {
        let choices: Vec<Choice> = inner(self.choices);
        if choices.iter().any(Choice::speaks) {
            return HeadEvent::Output;
        }
        match choices.iter().find_map(|choice| choice.finish_reason.as_deref()) {
            Some("error") => HeadEvent::Error,
            Some(reason) => no_room(Some(reason)),
            None => HeadEvent::Bookkeeping,
        }
    }
}

impl Choice<'_> {
    fn speaks(&self) -> bool {
        let said = |said: &Option<Said>| said.as_ref().is_some_and(|said| said.0);
        said(&self.text)
            || self.delta.as_ref().is_some_and(|d| {
                [&d.content, &d.reasoning, &d.reasoning_content, &d.reasoning_details, &d.thinking, &d.refusal, &d.tool_calls]
                    .into_iter()
                    .chain([&d.function_call, &d.audio])
                    .any(said)
            })
    }
}

impl Response<'_> {
    fn ended(&self) -> HeadEvent {
        if self.error.is_some() {
            return HeadEvent::Error;
        }
        match self.output.as_ref().is_some_and(|output| output.0) {
            true => HeadEvent::Output,
            false => no_room(self.incomplete_details.as_ref().and_then(|details| details.reason.as_deref())),
        }
    }
}

fn inner<'a, T: Default + Deserialize<'a>>(value: Option<&'a RawValue>) -> T {
    value.and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
}

fn no_room(reason: Option<&str>) -> HeadEvent {
    match reason {
        Some(reason) if NO_ROOM.contains(&reason) => HeadEvent::Error,
        _ => HeadEvent::Output,
    }
}

impl<'de> Deserialize<'de> for Said {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Said, D::Error> {
        deserializer.deserialize_any(SaidVisitor)
    }
}

struct SaidVisitor;

impl<'de> serde::de::Visitor<'de> for SaidVisitor {
    type Value = Said;

    fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Said, E> {
        Ok(Said(false))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Said, E> {
        Ok(Said(true))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Said, E> {
        Ok(Said(true))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Said, E> {
        Ok(Said(true))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Said, E> {
        Ok(Said(true))
    }

    fn visit_str<E>(self, text: &str) -> Result<Said, E> {
        Ok(Said(!text.is_empty()))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Said, A::Error> {
        let mut any = false;
        while seq.next_element::<IgnoredAny>()?.is_some() {
            any = true;
        }
        Ok(Said(any))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Said, A::Error> {
        let mut any = false;
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
            any = true;
        }
        Ok(Said(any))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use HeadEvent::*;
    use bytes::Bytes;

    #[track_caller]
    fn check(format: Format, text: &str, expected: HeadEvent) {
        let frame = Frame { bytes: Bytes::copy_from_slice(text.as_bytes()), whole: true };
        assert_eq!(of(format, &frame), expected, "{text}");
    }

    #[test]
    fn a_chat_head_lasts_until_the_model_speaks() {
        let chunk = |delta: &str, finish: &str| {
            format!("data: {{\"id\":\"x\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n")
        };
        check(Format::Chat, ": OPENROUTER PROCESSING\n\n", Ping);
        check(Format::Chat, "\n", Ping);
        check(Format::Chat, "id: 4\nretry: 100\n\n", Ping);
        check(Format::Chat, &chunk(r#"{"role":"assistant","content":""}"#, "null"), Bookkeeping);
        check(Format::Chat, &chunk(r#"{"role":"assistant","content":null,"tool_calls":[],"refusal":null}"#, "null"), Bookkeeping);
        check(Format::Chat, "data: {\"choices\":[],\"prompt_filter_results\":[{}]}\n\n", Bookkeeping);
        check(Format::Chat, &chunk(r#"{"content":" "}"#, "null"), Output);
        check(Format::Chat, &chunk(r#"{"reasoning_content":"hm"}"#, "null"), Output);
        check(Format::Chat, &chunk(r#"{"tool_calls":[{"index":0}]}"#, "null"), Output);
        check(Format::Chat, &chunk("{}", r#""stop""#), Output);
        check(Format::Chat, &chunk(r#"{"content":""}"#, r#""model_context_window_exceeded""#), Error);
        check(Format::Chat, &chunk(r#"{"content":"x"}"#, r#""model_context_window_exceeded""#), Output);
        check(Format::Chat, "data: {\"error\":{\"message\":\"x\"},\"choices\":[]}\n\n", Error);
        check(Format::Chat, "data: {\"object\":\"error\",\"message\":\"x\"}\n\n", Error);
        check(Format::Chat, "error: {\"code\":400}\n\n", Error);
        check(Format::Chat, "event: error\ndata: broken\n\n", Error);
        check(Format::Chat, "data: [DONE]\n\n", Done);
        check(Format::Chat, "data: not json\n\n", Output);
        check(Format::Chat, "{\"error\":\"prompt too long\"}\n", Error);
    }

    #[test]
    fn a_responses_head_lasts_until_the_first_item() {
        let event = |kind: &str, more: &str| format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{more}}}\n\n");
        for kind in ["response.created", "response.in_progress", "response.queued", "codex.rate_limits"] {
            check(Format::Responses, &event(kind, ",\"response\":{\"error\":null}"), Bookkeeping);
        }
        check(Format::Responses, &event("response.output_item.added", ""), Output);
        check(Format::Responses, &event("response.completed", ",\"response\":{\"output\":[]}"), Output);
        check(Format::Responses, &event("response.failed", ",\"response\":{\"error\":{\"code\":\"x\"}}"), Error);
        check(Format::Responses, &event("error", ",\"code\":\"x\""), Error);
        check(
            Format::Responses,
            &event("response.incomplete", ",\"response\":{\"output\":[],\"incomplete_details\":{\"reason\":\"context_window_exceeded\"}}"),
            Error,
        );
        check(
            Format::Responses,
            &event("response.incomplete", ",\"response\":{\"incomplete_details\":{\"reason\":\"max_output_tokens\"}}"),
            Output,
        );
    }

    #[test]
    fn a_messages_head_lasts_until_the_first_block() {
        check(Format::Messages, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\n", Bookkeeping);
        check(Format::Messages, "event: ping\ndata: {\"type\": \"ping\"}\n\n", Ping);
        check(Format::Messages, "event: content_block_start\ndata: {\"type\":\"content_block_start\"}\n\n", Output);
        check(Format::Messages, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", Error);
        check(
            Format::Messages,
            "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"model_context_window_exceeded\"}}\n\n",
            Error,
        );
        check(Format::Messages, "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n", Output);
        check(Format::Messages, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", Done);
    }
}
