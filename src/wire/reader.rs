//! What the three formats share in reading: gathering messages, blocks and parts, and what a message says beneath its spelling.

use super::{Apart, json};
use crate::conversation::{Block, Conversation, Hasher, Kind, Media, MediaKind, Message, Part, PartKind, Role, Span};

/// The members of an object: key and value places.
pub type Members = Vec<(Span, Span)>;

/// Fills a [`Conversation`] from the elements of a list.
pub struct Reader<'a> {
    pub text: &'a str,
    pub conversation: Conversation,
    /// A message had a member twice, or the name of one in disguise.
    pub ambiguous: bool,
    /// An element that makes the whole request none of ours.
    pub apart: Option<Apart>,
    hasher: Hasher,
}

/// A message before its blocks are closed off.
pub struct Draft {
    pub span: Span,
    pub role: Role,
    pub content: Span,
    pub pinned: bool,
    first_block: u32,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, conversation: Conversation::default(), ambiguous: false, apart: None, hasher: Hasher::default() }
    }

    pub fn draft(&self, span: Span, role: Role) -> Draft {
        Draft {
            span,
            role,
            content: Span { start: span.start, end: span.start },
            pinned: false,
            first_block: self.conversation.blocks.len() as u32,
        }
    }

    pub fn block(&mut self, span: Span, kind: Kind) {
        self.conversation.blocks.push(Block { span, kind });
    }

    /// Closes the message; `members` are those of its element.
    pub fn message(&mut self, draft: Draft, members: &Members) {
        self.ambiguous |= members.iter().enumerate().any(|(n, (key, _))| {
            let name = key.of(self.text);
            name.contains('\\') || members[..n].iter().any(|(other, _)| other.of(self.text) == name)
        });
        let fingerprint = {
            fingerprint(&mut self.hasher, self.text, members);
            self.hasher.finish()
        };
        self.conversation.messages.push(Message {
            span: draft.span,
            role: draft.role,
            content: draft.content,
            blocks: draft.first_block..self.conversation.blocks.len() as u32,
            fingerprint,
            pinned: draft.pinned,
        });
    }

    pub fn members(&self, span: Span) -> Option<Members> {
        json::members(self.text, span.start as usize).map(|(members, _)| members)
    }

    pub fn elements(&self, span: Span) -> Option<Vec<Span>> {
        json::elements(self.text, span.start as usize).map(|(elements, _)| elements)
    }

    pub fn is_list(&self, span: Span) -> bool {
        span.of(self.text).starts_with('[')
    }

    pub fn is_string(&self, span: Span) -> bool {
        span.of(self.text).starts_with('"')
    }

    pub fn is_object(&self, span: Span) -> bool {
        span.of(self.text).starts_with('{')
    }

    /// The value of a member, by key.
    pub fn get(&self, members: &Members, key: &str) -> Option<Span> {
        members.iter().find(|(name, _)| name.of(self.text) == key).map(|&(_, value)| value)
    }

    /// The contents of a member that is a string; the empty text otherwise.
    pub fn string(&self, members: &Members, key: &str) -> &'a str {
        self.inner(members, key).of(self.text)
    }

    /// The place of the contents of a member that is a string; empty otherwise.
    pub fn inner(&self, members: &Members, key: &str) -> Span {
        self.get(members, key).map(|value| json::inner(self.text, value)).unwrap_or_default()
    }

    /// The parts of a result's content: a text, or a list read by `part`.
    pub fn parts(&mut self, content: Span, part: impl Fn(&Self, &Members) -> Option<PartKind>) -> std::ops::Range<u32> {
        let first = self.conversation.parts.len() as u32;
        if self.is_string(content) {
            self.conversation.parts.push(Part { span: content, kind: PartKind::Text { text: content } });
        } else if self.is_list(content) {
            for element in self.elements(content).unwrap_or_default() {
                let kind = self
                    .is_object(element)
                    .then(|| self.members(element))
                    .flatten()
                    .and_then(|members| part(self, &members))
                    .unwrap_or(PartKind::Opaque);
                self.conversation.parts.push(Part { span: element, kind });
            }
        }
        first..self.conversation.parts.len() as u32
    }

    pub fn media(&self, kind: MediaKind, data: Span, detail: Span) -> Media {
        Media { kind, data, detail }
    }
}

/// What a message says: its members but for cache marks, and a list of one plain text is that text. Agents move a cache mark with every turn, and
/// the mark turns a text into a list; neither makes it another message.
fn fingerprint(hasher: &mut Hasher, text: &str, members: &Members) {
    for &(key, value) in members {
        match key.of(text) {
            "cache_control" => {}
            name @ "content" => {
                hasher.piece(b'k', name.as_bytes());
                said(hasher, text, value);
            }
            name => {
                hasher.piece(b'k', name.as_bytes());
                hasher.piece(b'v', value.of(text).as_bytes());
            }
        }
    }
}

fn said(hasher: &mut Hasher, text: &str, content: Span) {
    let elements = if content.of(text).starts_with('[') { json::elements(text, content.start as usize) } else { None };
    let Some((elements, _)) = elements else { return hasher.piece(b'v', content.of(text).as_bytes()) };
    let blocks: Vec<Option<Members>> =
        elements
            .iter()
            .map(|element| {
                if element.of(text).starts_with('{') {
                    json::members(text, element.start as usize).map(|(members, _)| members)
                } else {
                    None
                }
            })
            .collect();
    if let [Some(members)] = blocks.as_slice()
        && let Some(only) = plain_text(text, members)
    {
        return hasher.piece(b'v', only.of(text).as_bytes());
    }
    for (element, members) in elements.iter().zip(&blocks) {
        match members {
            Some(members) => {
                hasher.piece(b'b', b"");
                fingerprint(hasher, text, members);
            }
            None => hasher.piece(b'b', element.of(text).as_bytes()),
        }
    }
}

/// The text of a block that has nothing but a type, a text and perhaps a cache mark.
fn plain_text(text: &str, members: &Members) -> Option<Span> {
    let mut found = None;
    for &(key, value) in members {
        match key.of(text) {
            "type" if matches!(value.of(text), "\"text\"" | "\"input_text\"" | "\"output_text\"") => {}
            "text" => found = Some(value),
            "cache_control" => {}
            _ => return None,
        }
    }
    found
}
