//! OpenAI Responses: `input[]` of items, where messages, reasoning, calls and outputs are elements of their own.

use super::reader::{Members, Reader};
use super::{Apart, json};
use crate::conversation::{Call, Form, Kind, MediaKind, Outcome, PartKind, Role, Span};

pub const LIST: &str = "input";
pub const OUTPUT_CAPS: [&str; 1] = ["max_output_tokens"];

/// Items that call a tool and wait for an item of the output's type with the same id, and how their arguments are spelt.
const CALLS: [(&str, &str, Form); 7] = [
    ("function_call", "arguments", Form::JsonText),
    ("custom_tool_call", "input", Form::Free),
    ("local_shell_call", "action", Form::Free),
    ("shell_call", "action", Form::Free),
    ("apply_patch_call", "operation", Form::Free),
    ("computer_call", "action", Form::Free),
    ("tool_search_call", "arguments", Form::Free),
];

/// Items the model made in one piece, with what they found inside: kept or gone with their turn.
const WHOLE: [&str; 8] = [
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
];

pub fn read(reader: &mut Reader, element: Span) -> Option<()> {
    let members = reader.members(element)?;
    let kind = match reader.string(&members, "type") {
        "" => "message",
        kind => kind,
    };
    if kind == "message" {
        return message(reader, element, &members);
    }
    if let Some((_, key, form)) = CALLS.iter().find(|(name, ..)| *name == kind) {
        let draft = reader.draft(element, Role::Assistant);
        let arguments = reader.get(&members, key).unwrap_or_default();
        let form = if reader.is_string(arguments) { *form } else { Form::Free };
        reader.block(element, Kind::Call(Call { id: id(reader, &members), tool: reader.inner(&members, "name"), arguments, form }));
        reader.message(draft, &members);
        return Some(());
    }
    if kind.ends_with("_output") {
        let draft = reader.draft(element, Role::Tool);
        let content = reader.get(&members, "output").unwrap_or_default();
        let parts = reader.parts(content, part);
        // Others hold structures of their own: a screenshot, exit codes beside streams.
        let editable = matches!(kind, "function_call_output" | "custom_tool_call_output" | "local_shell_call_output")
            && (reader.is_string(content) || reader.is_list(content));
        reader.block(element, Kind::Result(Outcome { id: id(reader, &members), content, parts, failed: false, editable }));
        reader.message(draft, &members);
        return Some(());
    }
    match kind {
        "item_reference" => reader.apart = Some(Apart::ProviderHeld),
        "compaction_trigger" => reader.apart = Some(Apart::Compaction),
        _ => {}
    }
    let mut draft = reader.draft(element, if kind == "reasoning" || WHOLE.contains(&kind) { Role::Assistant } else { Role::Opaque });
    draft.pinned = draft.role == Role::Opaque;
    reader.block(element, if kind == "reasoning" { Kind::Reasoning } else { Kind::Opaque });
    reader.message(draft, &members);
    Some(())
}

fn id(reader: &Reader, members: &Members) -> Span {
    let id = reader.inner(members, "call_id");
    if id.is_empty() { reader.inner(members, "id") } else { id }
}

fn message(reader: &mut Reader, element: Span, members: &Members) -> Option<()> {
    let role = match reader.string(members, "role") {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        _ => Role::Opaque,
    };
    let mut draft = reader.draft(element, role);
    draft.content = reader.get(members, "content").unwrap_or(draft.content);
    draft.pinned = role == Role::Opaque;
    if reader.is_string(draft.content) {
        reader.block(draft.content, Kind::Text { text: draft.content });
    } else if reader.is_list(draft.content) {
        for element in reader.elements(draft.content)? {
            let kind = match reader.is_object(element).then(|| reader.members(element)).flatten().and_then(|members| part(reader, &members))
            {
                Some(PartKind::Text { text }) => Kind::Text { text },
                Some(PartKind::Media(media)) => Kind::Media(media),
                _ => Kind::Opaque,
            };
            reader.block(element, kind);
        }
    }
    reader.message(draft, members);
    Some(())
}

fn part(reader: &Reader, members: &Members) -> Option<PartKind> {
    let media = |kind, keys: &[&str]| {
        let data = keys.iter().map(|key| reader.inner(members, key)).find(|data| !data.is_empty()).unwrap_or_default();
        PartKind::Media(reader.media(kind, data, reader.inner(members, "detail")))
    };
    Some(match reader.string(members, "type") {
        "input_text" | "output_text" | "text" => {
            PartKind::Text { text: reader.get(members, "text").filter(|text| reader.is_string(*text))? }
        }
        "input_image" => media(MediaKind::Image, &["image_url", "file_id"]),
        "input_file" => media(MediaKind::Document, &["file_data", "file_url", "file_id"]),
        "input_audio" => media(MediaKind::Audio, &["data"]),
        _ => return None,
    })
}

pub fn text_part(text: &str) -> String {
    format!(r#"{{"type":"input_text","text":{}}}"#, json::quote(text))
}

pub fn user_message(text: &str) -> String {
    format!(r#"{{"type":"message","role":"user","content":[{}]}}"#, text_part(text))
}
