//! What the three formats share in reading: gathering messages, blocks and parts, and what a message says beneath its spelling.

pub use super::json::Members;
use super::{Apart, json, known::Reading, tape::Tape};
use crate::conversation::{Block, Conversation, Fingerprint, Hasher, Kind, Media, MediaKind, Message, Part, PartKind, Role, Span};
use std::collections::HashSet;

/// Fills a [`Conversation`] from the elements of a list.
pub struct Reader<'a> {
    pub text: &'a str,
    pub conversation: Conversation,
    /// A message had a member twice, or the name of one in disguise.
    pub ambiguous: bool,
    /// An element that makes the whole request none of ours.
    pub apart: Option<Apart>,
    /// The fingerprints of all prefixes, that of none first. Empty where none are wanted.
    pub prefixes: Vec<Fingerprint>,
    /// Bytes of the elements that were read.
    pub news: usize,
    /// The element that is being read.
    pub tape: Tape,
    hasher: Hasher,
}

/// Room for messages is made before they are read: so many bytes of a body for each, and room for so many at most.
const BYTES_A_MESSAGE: usize = 128;
const MOST_EXPECTED: usize = 64;

/// A message before its blocks are closed off.
pub struct Draft {
    pub span: Span,
    pub role: Role,
    pub content: Span,
    pub pinned: bool,
    first_block: u32,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str, fingerprints: bool) -> Self {
        let some = (text.len() / BYTES_A_MESSAGE).min(MOST_EXPECTED);
        Self {
            text,
            conversation: Conversation {
                messages: Vec::with_capacity(some),
                blocks: Vec::with_capacity(some),
                parts: Vec::with_capacity(some / 2),
            },
            ambiguous: false,
            apart: None,
            prefixes: if fingerprints { vec![Fingerprint::default()] } else { Vec::new() },
            news: 0,
            tape: Tape::default(),
            hasher: Hasher::default(),
        }
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
        self.ambiguous |= is_ambiguous(self.text, members);
        let mut own = Fingerprint::default();
        if let Some(before) = self.prefixes.last() {
            fingerprint(&mut self.hasher, self.text, &self.tape, members);
            own = self.hasher.finish();
            self.prefixes.push(before.then(own));
        }
        self.conversation.messages.push(Message {
            span: draft.span,
            role: draft.role,
            content: draft.content,
            blocks: draft.first_block..self.conversation.blocks.len() as u32,
            fingerprint: own,
            pinned: draft.pinned,
        });
    }

    /// Takes over the first `count` elements of an earlier reading, and says where the last of them ends.
    pub fn resume(&mut self, reading: &Reading, count: usize) -> usize {
        let (last, from) = (&reading.elements[count - 1], &reading.conversation);
        let messages = &from.messages[..count];
        let blocks = messages.last().map_or(0, |message| message.blocks.end as usize);
        self.conversation = Conversation {
            messages: messages.to_vec(),
            blocks: from.blocks[..blocks].to_vec(),
            parts: from.parts[..last.parts as usize].to_vec(),
        };
        self.prefixes = reading.prefixes[..=count].to_vec();
        last.span.end as usize
    }

    pub fn members(&self, span: Span) -> Option<Members> {
        self.tape.members(span)
    }

    pub fn elements(&self, span: Span) -> Option<Vec<Span>> {
        self.tape.elements(span)
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

/// Whether an object has two members of one name, or a name in disguise.
pub fn is_ambiguous(text: &str, members: &[(Span, Span)]) -> bool {
    const FEW: usize = 16;
    let mut names = members.iter().map(|(key, _)| key.of(text));
    if members.iter().any(|(key, _)| key.of(text).bytes().any(|byte| byte == b'\\')) {
        return true;
    }
    if members.len() <= FEW {
        return (1..members.len()).any(|n| members[..n].iter().any(|(other, _)| other.of(text) == members[n].0.of(text)));
    }
    let mut seen = HashSet::with_capacity(members.len());
    !names.all(|name| seen.insert(name))
}

/// What a message says: its members but for cache marks, and a list of one plain text is that text. Agents move a cache mark with every turn, and
/// the mark turns a text into a list; neither makes it another message.
fn fingerprint(hasher: &mut Hasher, text: &str, tape: &Tape, members: &Members) {
    for &(key, value) in members {
        match key.of(text) {
            "cache_control" => {}
            name @ "content" => {
                hasher.piece(b'k', name.as_bytes());
                said(hasher, text, tape, value);
            }
            name => {
                hasher.piece(b'k', name.as_bytes());
                hasher.piece(b'v', value.of(text).as_bytes());
            }
        }
    }
}

fn said(hasher: &mut Hasher, text: &str, tape: &Tape, content: Span) {
    let elements = if content.of(text).starts_with('[') { tape.elements(content) } else { None };
    let Some(elements) = elements else { return hasher.piece(b'v', content.of(text).as_bytes()) };
    let blocks: Vec<Option<Members>> =
        elements.iter().map(|element| if element.of(text).starts_with('{') { tape.members(*element) } else { None }).collect();
    if let [Some(members)] = blocks.as_slice()
        && let Some(only) = plain_text(text, members)
    {
        return hasher.piece(b'v', only.of(text).as_bytes());
    }
    for (element, members) in elements.iter().zip(&blocks) {
        match members {
            Some(members) => {
                hasher.piece(b'b', b"");
                fingerprint(hasher, text, tape, members);
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
