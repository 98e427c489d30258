//! Edits are data; this is the one place where they are applied.

use super::{Format, Request, json};
use crate::conversation::{Form, Kind, Message, PartKind, Span};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What happens to one message. A message without edits is the bytes that came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    pub message: usize,
    pub change: Change,
}

/// `block` counts within the message, `part` within the block's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    Drop,
    /// A text in place of a result's output.
    Result {
        block: usize,
        text: Arc<str>,
    },
    /// Other arguments in place of a call's, as JSON.
    Arguments {
        block: usize,
        json: Arc<str>,
    },
    /// Another text in place of a text block's.
    Text {
        block: usize,
        text: Arc<str>,
    },
    /// A text in place of a picture, document or sound.
    Note {
        block: usize,
        part: Option<usize>,
        text: Arc<str>,
    },
    /// A text after everything the message says.
    Append {
        text: Arc<str>,
    },
    /// A user message of ours before this one.
    Before {
        text: Arc<str>,
    },
}

impl Change {
    /// What it writes; nothing where it only drops.
    pub fn text(&self) -> &str {
        match self {
            Change::Drop => "",
            Change::Arguments { json: text, .. }
            | Change::Result { text, .. }
            | Change::Text { text, .. }
            | Change::Note { text, .. }
            | Change::Append { text }
            | Change::Before { text } => text,
        }
    }

    /// Bytes held, for bounding what is remembered.
    pub fn weight(&self) -> usize {
        self.text().len() + size_of::<Edit>()
    }
}

impl Request {
    /// The body with `edits` spliced in, which must be in the order of their messages, and with another output cap where one is given.
    pub fn apply(&self, edits: &[Edit], cap: Option<u64>) -> String {
        let text = self.text();
        let mut out = String::with_capacity(text.len() / 2);
        let cap = cap.and_then(|cap| self.cap.map(|(span, _)| (span, cap.to_string())));
        match cap {
            Some((span, cap)) if span.end <= self.list.start => {
                out.push_str(&text[..span.start as usize]);
                out.push_str(&cap);
                out.push_str(&text[span.end as usize..self.list.start as usize]);
                self.write_list(edits, &mut out);
                out.push_str(&text[self.list.end as usize..]);
            }
            Some((span, cap)) => {
                out.push_str(&text[..self.list.start as usize]);
                self.write_list(edits, &mut out);
                out.push_str(&text[self.list.end as usize..span.start as usize]);
                out.push_str(&cap);
                out.push_str(&text[span.end as usize..]);
            }
            None => {
                out.push_str(&text[..self.list.start as usize]);
                self.write_list(edits, &mut out);
                out.push_str(&text[self.list.end as usize..]);
            }
        }
        out
    }

    fn write_list(&self, edits: &[Edit], out: &mut String) {
        let (text, messages) = (self.text(), &self.conversation.messages);
        let (Some(first), Some(last)) = (messages.first(), messages.last()) else { return out.push_str(self.list.of(text)) };
        out.push_str(&text[self.list.start as usize..first.span.start as usize]);
        let mut edits = edits;
        let mut written = false;
        for (place, message) in messages.iter().enumerate() {
            let mine = edits.iter().take_while(|edit| edit.message == place).count();
            let (these, others) = edits.split_at(mine);
            edits = others;
            // Between two elements stands what stood before the later one.
            let gap = if place == 0 { "," } else { &text[messages[place - 1].span.end as usize..message.span.start as usize] };
            for edit in these {
                if let Change::Before { text } = &edit.change {
                    if std::mem::replace(&mut written, true) {
                        out.push_str(gap);
                    }
                    out.push_str(&self.format.user_message(text));
                }
            }
            if these.iter().any(|edit| edit.change == Change::Drop) {
                continue;
            }
            if std::mem::replace(&mut written, true) {
                out.push_str(gap);
            }
            self.write_message(message, these, out);
        }
        out.push_str(&text[last.span.end as usize..self.list.end as usize]);
    }

    fn write_message(&self, message: &Message, edits: &[Edit], out: &mut String) {
        let text = self.text();
        let mut splices: Vec<(Span, String)> = edits.iter().filter_map(|edit| self.splice(message, &edit.change)).collect();
        // Where the content is one text, what is added to it and what stands in its place are one splice.
        let added = edits.iter().find_map(|edit| if let Change::Append { text } = &edit.change { Some(text) } else { None });
        if let (Some(added), Some(whole)) = (added, splices.iter_mut().find(|(span, _)| *span == message.content && !span.is_empty())) {
            whole.1 = format!("{}{}", &whole.1[..whole.1.len() - 1], &json::quote(&format!("\n\n{added}"))[1..]);
        }
        splices.sort_by_key(|(span, _)| (span.start, span.end));
        let mut at = message.span.start;
        for (span, with) in splices {
            // Edits of one message never overlap; one that did would be skipped rather than garble the body.
            if span.start < at {
                continue;
            }
            out.push_str(&text[at as usize..span.start as usize]);
            out.push_str(&with);
            at = span.end;
        }
        out.push_str(&text[at as usize..message.span.end as usize]);
    }

    fn splice(&self, message: &Message, change: &Change) -> Option<(Span, String)> {
        let block = |n: usize| self.conversation.blocks_of(message).get(n);
        match change {
            Change::Drop | Change::Before { .. } => None,
            Change::Result { block: n, text } => match &block(*n)?.kind {
                Kind::Result(outcome) if outcome.editable => Some((outcome.content, json::quote(text))),
                _ => None,
            },
            Change::Arguments { block: n, json } => match &block(*n)?.kind {
                Kind::Call(call) => match call.form {
                    Form::JsonText => Some((call.arguments, json::quote(json))),
                    Form::Json => Some((call.arguments, json.to_string())),
                    Form::Free => None,
                },
                _ => None,
            },
            Change::Text { block: n, text } => match block(*n)?.kind {
                Kind::Text { text: span } => Some((span, json::quote(text))),
                _ => None,
            },
            Change::Note { block: n, part, text } => {
                let block = block(*n)?;
                let span = match (&block.kind, part) {
                    (Kind::Media(_), None) => block.span,
                    (Kind::Result(outcome), Some(part)) => {
                        let part = self.conversation.parts_of(outcome).get(*part)?;
                        matches!(part.kind, PartKind::Media(_)).then_some(part.span)?
                    }
                    _ => return None,
                };
                Some((span, self.format.text_part(text)))
            }
            Change::Append { text } => Some(append(self.text(), self.format, message.content, text)),
        }
    }
}

fn append(body: &str, format: Format, content: Span, text: &str) -> (Span, String) {
    let end = Span { start: content.end.saturating_sub(1), end: content.end.saturating_sub(1) };
    match content.of(body).as_bytes().first() {
        Some(b'"') => {
            let quoted = json::quote(&format!("\n\n{text}"));
            (end, quoted[1..quoted.len() - 1].to_owned())
        }
        Some(b'[') => {
            let inside = content.of(body);
            let comma = if inside[1..inside.len() - 1].trim().is_empty() { "" } else { "," };
            (end, format!("{comma}{}", format.text_part(text)))
        }
        _ => (content, json::quote(text)),
    }
}
