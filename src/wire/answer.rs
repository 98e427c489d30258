//! What a model said, read from an answer of any of the formats: whole or as a stream.

use super::usage::{Finish, Tap, Usage};
use super::{Format, sse::Frame};
use serde_json::Value;

/// The text of an answer, and what else tells whether it is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub text: String,
    /// Why it ended; nothing where it did not say so.
    pub finish: Option<Finish>,
    /// It calls a tool, with or without a text.
    pub calls_tool: bool,
    pub usage: Option<Usage>,
}

impl Said {
    /// Reads a JSON answer; nothing where the body is none of this format.
    pub fn of_answer(format: Format, body: &[u8]) -> Option<Said> {
        let answer: Value = serde_json::from_slice(body.trim_ascii()).ok()?;
        let mut said = Said::default();
        said.whole(format, &answer)?;
        said.usage = Usage::of_answer(format, body);
        said.finish = said.usage.and_then(|usage| usage.finish);
        Some(said)
    }

    fn whole(&mut self, format: Format, answer: &Value) -> Option<()> {
        match format {
            Format::Chat => {
                let message = answer.get("choices")?.get(0)?.get("message")?;
                self.content(message.get("content"));
                self.calls_tool |= has(message, "tool_calls") || has(message, "function_call");
            }
            Format::Messages => self.blocks(answer.get("content")?),
            Format::Responses => self.items(answer.get("output")?),
        }
        Some(())
    }

    /// A text, or a list of parts that hold some.
    fn content(&mut self, content: Option<&Value>) {
        match content {
            Some(Value::String(text)) => self.text.push_str(text),
            Some(parts @ Value::Array(_)) => self.blocks(parts),
            _ => {}
        }
    }

    fn blocks(&mut self, blocks: &Value) {
        for block in blocks.as_array().into_iter().flatten() {
            match block.get("type").and_then(Value::as_str) {
                Some("text" | "output_text") => self.text.push_str(block.get("text").and_then(Value::as_str).unwrap_or_default()),
                Some("tool_use" | "server_tool_use") => self.calls_tool = true,
                _ => {}
            }
        }
    }

    fn items(&mut self, items: &Value) {
        for item in items.as_array().into_iter().flatten() {
            match item.get("type").and_then(Value::as_str).unwrap_or_default() {
                "message" => self.content(item.get("content")),
                kind => self.calls_tool |= kind.ends_with("_call"),
            }
        }
    }
}

fn has(value: &Value, member: &str) -> bool {
    match value.get(member) {
        None | Some(Value::Null) => false,
        Some(Value::Array(list)) => !list.is_empty(),
        Some(_) => true,
    }
}

/// Collects what is said in the frames of a stream.
#[derive(Debug)]
pub struct Listener {
    format: Format,
    said: Said,
    usage: Tap,
    /// An event said that the answer failed.
    failed: bool,
    /// How the last event says that it ended, where that says it alone.
    ended: Option<Finish>,
}

impl Listener {
    pub fn new(format: Format) -> Listener {
        Listener { format, said: Said::default(), usage: Tap::new(format), failed: false, ended: None }
    }

    pub fn frame(&mut self, frame: &Frame) {
        self.usage.frame(frame);
        let Some(event) = frame.data().filter(|_| frame.whole).and_then(|data| serde_json::from_slice::<Value>(data.trim_ascii()).ok())
        else {
            return;
        };
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        self.failed |= kind == "error" || kind == "response.failed" || has(&event, "error");
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        match (self.format, kind) {
            (Format::Chat, _) => {
                let delta = event.get("choices").and_then(|choices| choices.get(0)).and_then(|choice| choice.get("delta"));
                self.said.text.push_str(&text(delta.and_then(|delta| delta.get("content"))));
                self.said.calls_tool |= delta.is_some_and(|delta| has(delta, "tool_calls") || has(delta, "function_call"));
            }
            (Format::Messages, "content_block_start") => {
                let block = event.get("content_block");
                let kind = text(block.and_then(|block| block.get("type")));
                self.said.calls_tool |= kind.ends_with("tool_use");
                if kind == "text" {
                    self.said.text.push_str(&text(block.and_then(|block| block.get("text"))));
                }
            }
            (Format::Messages, "content_block_delta") => {
                self.said.text.push_str(&text(event.get("delta").and_then(|delta| delta.get("text"))));
            }
            (Format::Responses, "response.output_text.delta") => self.said.text.push_str(&text(event.get("delta"))),
            (Format::Responses, "response.output_item.added") => {
                let kind = text(event.get("item").and_then(|item| item.get("type")));
                self.said.calls_tool |= kind.ends_with("_call");
            }
            (Format::Responses, "response.completed") => self.ended = Some(Finish::Stop),
            (Format::Responses, "response.incomplete") => self.ended = Some(Finish::Length),
            _ => {}
        }
    }

    /// What was said by the end of the stream; nothing where it ended in an error.
    pub fn said(mut self) -> Option<Said> {
        self.said.usage = self.usage.usage();
        self.said.finish = self.said.usage.and_then(|usage| usage.finish).or(self.ended);
        (!self.failed && self.said.finish != Some(Finish::Error)).then_some(self.said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn streamed(format: Format, events: &[&str]) -> Option<Said> {
        let mut listener = Listener::new(format);
        for event in events {
            listener.frame(&Frame { bytes: Bytes::from(format!("data: {event}\n\n")), whole: true });
        }
        listener.said()
    }

    #[track_caller]
    fn check(said: Option<Said>, text: &str, finish: Option<Finish>, calls_tool: bool) {
        let said = said.unwrap();
        assert_eq!((said.text.as_str(), said.finish, said.calls_tool), (text, finish, calls_tool));
    }

    #[test]
    fn whole_answers_of_all_formats() {
        let whole = |format, body: &str| Said::of_answer(format, body.as_bytes());
        let stop = Some(Finish::Stop);
        check(
            whole(Format::Chat, r#"{"choices":[{"message":{"content":"a b","tool_calls":[]},"finish_reason":"stop"}]}"#),
            "a b",
            stop,
            false,
        );
        check(
            whole(Format::Chat, r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"1"}]},"finish_reason":"tool_calls"}]}"#),
            "",
            Some(Finish::Tool),
            true,
        );
        check(
            whole(
                Format::Messages,
                r#"{"type":"message","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"a"},{"type":"text","text":" b"}],"stop_reason":"end_turn"}"#,
            ),
            "a b",
            stop,
            false,
        );
        check(
            whole(
                Format::Responses,
                r#"{"status":"completed","output":[{"type":"reasoning"},{"type":"message","content":[{"type":"output_text","text":"a b"}]}]}"#,
            ),
            "a b",
            stop,
            false,
        );
        assert_eq!(whole(Format::Chat, r#"{"error":{"message":"x"}}"#), None);
        assert_eq!(whole(Format::Messages, "overloaded"), None);
    }

    #[test]
    fn streams_of_all_formats() {
        let stop = Some(Finish::Stop);
        check(
            streamed(
                Format::Chat,
                &[
                    r#"{"choices":[{"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}"#,
                    r#"{"choices":[{"delta":{"content":" b"},"finish_reason":"stop"}]}"#,
                    "[DONE]",
                ],
            ),
            "a b",
            stop,
            false,
        );
        check(
            streamed(
                Format::Messages,
                &[
                    r#"{"type":"message_start","message":{"usage":{"input_tokens":1}}}"#,
                    r#"{"type":"content_block_start","content_block":{"type":"text","text":""}}"#,
                    r#"{"type":"content_block_delta","delta":{"type":"thinking_delta","thinking":"x"}}"#,
                    r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a b"}}"#,
                    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#,
                ],
            ),
            "a b",
            stop,
            false,
        );
        check(
            streamed(
                Format::Responses,
                &[
                    r#"{"type":"response.output_item.added","item":{"type":"message"}}"#,
                    r#"{"type":"response.output_text.delta","delta":"a b"}"#,
                    r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#,
                ],
            ),
            "a b",
            stop,
            false,
        );
        check(streamed(Format::Chat, &[r#"{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}"#]), "a", None, false);
        assert_eq!(streamed(Format::Chat, &[r#"{"error":{"message":"overloaded"}}"#]), None);
        assert_eq!(streamed(Format::Responses, &[r#"{"type":"response.failed","response":{"status":"failed"}}"#]), None);
    }
}
