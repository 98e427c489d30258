//! OpenAI Chat Completions: `messages[]`, calls in `tool_calls`, results in messages of role `tool`.

use super::json;
use super::reader::{Members, Reader};
use crate::conversation::{Call, Form, Kind, MediaKind, Outcome, PartKind, Role, Span};

pub const LIST: &str = "messages";
pub const OUTPUT_CAPS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

/// Members of an assistant message that are thoughts of the model in one spelling or another.
const REASONING: [&str; 4] = ["reasoning_content", "reasoning_details", "reasoning", "thinking"];

pub fn read(reader: &mut Reader, element: Span) -> Option<()> {
    let members = reader.members(element)?;
    let role = match reader.string(&members, "role") {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        _ => Role::Opaque,
    };
    let mut draft = reader.draft(element, role);
    draft.content = reader.get(&members, "content").unwrap_or(draft.content);
    // The legacy `function` role answers the call before it by name; anything else we do not know at all.
    draft.pinned = role == Role::Opaque && reader.string(&members, "role") != "function";
    if role == Role::Tool {
        result(reader, element, &members, draft.content);
    } else {
        for name in REASONING {
            if let Some(value) = reader.get(&members, name).filter(|value| value.of(reader.text) != "null") {
                reader.block(value, Kind::Reasoning);
            }
        }
        content(reader, draft.content);
        if let Some(calls) = reader.get(&members, "tool_calls").filter(|calls| reader.is_list(*calls)) {
            for call in reader.elements(calls)? {
                let kind = tool_call(reader, call).unwrap_or(Kind::Opaque);
                reader.block(call, kind);
            }
        }
        for name in ["function_call", "refusal", "audio"] {
            if let Some(value) = reader.get(&members, name).filter(|value| value.of(reader.text) != "null") {
                reader.block(value, Kind::Opaque);
            }
        }
    }
    reader.message(draft, &members);
    Some(())
}

fn content(reader: &mut Reader, content: Span) {
    if reader.is_string(content) {
        return reader.block(content, Kind::Text { text: content });
    }
    for element in if reader.is_list(content) { reader.elements(content).unwrap_or_default() } else { Vec::new() } {
        let kind = match reader.members(element).and_then(|members| part(reader, &members)) {
            Some(PartKind::Text { text }) => Kind::Text { text },
            Some(PartKind::Media(media)) => Kind::Media(media),
            _ => Kind::Opaque,
        };
        reader.block(element, kind);
    }
}

fn part(reader: &Reader, members: &Members) -> Option<PartKind> {
    let nested = |name: &str| reader.get(members, name).filter(|value| reader.is_object(*value)).and_then(|value| reader.members(value));
    Some(match reader.string(members, "type") {
        "text" => PartKind::Text { text: reader.get(members, "text").filter(|text| reader.is_string(*text))? },
        "image_url" => {
            let image = nested("image_url")?;
            PartKind::Media(reader.media(MediaKind::Image, reader.inner(&image, "url"), reader.inner(&image, "detail")))
        }
        "input_audio" => PartKind::Media(reader.media(MediaKind::Audio, reader.inner(&nested("input_audio")?, "data"), Span::default())),
        "file" => PartKind::Media(reader.media(MediaKind::Document, reader.inner(&nested("file")?, "file_data"), Span::default())),
        _ => return None,
    })
}

fn tool_call(reader: &Reader, element: Span) -> Option<Kind> {
    let members = reader.members(element)?;
    let id = reader.inner(&members, "id");
    let (holder, key, form) = match reader.get(&members, "function") {
        Some(function) => (function, "arguments", Form::JsonText),
        None => (reader.get(&members, "custom")?, "input", Form::Free),
    };
    let holder = reader.is_object(holder).then(|| reader.members(holder)).flatten()?;
    let arguments = reader.get(&holder, key)?;
    let form = if reader.is_string(arguments) { form } else { Form::Free };
    Some(Kind::Call(Call { id, tool: reader.inner(&holder, "name"), arguments, form }))
}

fn result(reader: &mut Reader, element: Span, members: &Members, content: Span) {
    let parts = reader.parts(content, part);
    let id = reader.inner(members, "tool_call_id");
    let editable = reader.is_string(content) || reader.is_list(content);
    reader.block(element, Kind::Result(Outcome { id, content, parts, failed: false, editable }));
}

/// A part that holds `text`, for a list of parts of a user message.
pub fn text_part(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, json::quote(text))
}

pub fn user_message(text: &str) -> String {
    format!(r#"{{"role":"user","content":{}}}"#, json::quote(text))
}
