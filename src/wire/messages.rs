//! Anthropic Messages: `messages[]` of blocks, calls as `tool_use`, results as `tool_result` in the user message that follows.

use super::json;
use super::reader::{Members, Reader};
use crate::conversation::{Call, Form, Kind, Media, MediaKind, Outcome, PartKind, Role, Span};

pub const LIST: &str = "messages";
pub const OUTPUT_CAPS: [&str; 1] = ["max_tokens"];

pub fn read(reader: &mut Reader, element: Span) -> Option<()> {
    let members = reader.members(element)?;
    let role = match reader.string(&members, "role") {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => Role::Opaque,
    };
    let mut draft = reader.draft(element, role);
    draft.content = reader.get(&members, "content").unwrap_or(draft.content);
    draft.pinned = role == Role::Opaque;
    if reader.is_string(draft.content) {
        reader.block(draft.content, Kind::Text { text: draft.content });
    } else if reader.is_list(draft.content) {
        for element in reader.elements(draft.content)? {
            let members = reader.is_object(element).then(|| reader.members(element)).flatten();
            let kind = match &members {
                Some(members) => block(reader, members).unwrap_or(Kind::Opaque),
                None => Kind::Opaque,
            };
            // What stands before the provider's own compaction block is ignored by it, the block itself must come back.
            draft.pinned |= members.is_some_and(|members| reader.string(&members, "type") == "compaction");
            reader.block(element, kind);
        }
    }
    reader.message(draft, &members);
    Some(())
}

fn block(reader: &mut Reader, members: &Members) -> Option<Kind> {
    Some(match reader.string(members, "type") {
        "text" => Kind::Text { text: reader.get(members, "text").filter(|text| reader.is_string(*text))? },
        "thinking" | "redacted_thinking" => Kind::Reasoning,
        "tool_use" => Kind::Call(Call {
            id: reader.inner(members, "id"),
            tool: reader.inner(members, "name"),
            arguments: reader.get(members, "input")?,
            form: Form::Json,
        }),
        "tool_result" => {
            let content = reader.get(members, "content").unwrap_or_default();
            let parts = reader.parts(content, part);
            let failed = reader.get(members, "is_error").is_some_and(|value| value.of(reader.text) == "true");
            let editable = reader.is_string(content) || reader.is_list(content);
            Kind::Result(Outcome { id: reader.inner(members, "tool_use_id"), content, parts, failed, editable })
        }
        "image" => Kind::Media(source(reader, members, MediaKind::Image)?),
        "document" => Kind::Media(source(reader, members, MediaKind::Document)?),
        _ => Kind::Opaque,
    })
}

fn part(reader: &Reader, members: &Members) -> Option<PartKind> {
    Some(match reader.string(members, "type") {
        "text" => PartKind::Text { text: reader.get(members, "text").filter(|text| reader.is_string(*text))? },
        "image" => PartKind::Media(source(reader, members, MediaKind::Image)?),
        "document" => PartKind::Media(source(reader, members, MediaKind::Document)?),
        _ => return None,
    })
}

fn source(reader: &Reader, members: &Members, kind: MediaKind) -> Option<Media> {
    let source = reader.get(members, "source").filter(|source| reader.is_object(*source)).and_then(|source| reader.members(source))?;
    let data =
        ["data", "url", "file_id"].into_iter().map(|key| reader.inner(&source, key)).find(|data| !data.is_empty()).unwrap_or_default();
    Some(reader.media(kind, data, Span::default()))
}

pub fn text_part(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, json::quote(text))
}

pub fn user_message(text: &str) -> String {
    format!(r#"{{"role":"user","content":{}}}"#, json::quote(text))
}
