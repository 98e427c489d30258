//! The nouns: a conversation is a list of messages, a message is made of blocks, and each of them is a place in the request's bytes.
//!
//! Nothing here knows a provider. A wire format fills a [`Conversation`] from its own spelling, and everything above reads only this.

mod fingerprint;
mod turns;

pub use fingerprint::{Fingerprint, Hasher};
pub use turns::{Turn, Turns, is_cut};

use std::ops::Range;

/// A place in the body: bytes `start..end`. Bodies are far below 4 GiB (the configured cap is checked before reading).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    pub fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The text of this place. Empty when the span does not lie in `body` on character boundaries, which no span that was read from it does.
    pub fn of(self, body: &str) -> &str {
        body.get(self.range()).unwrap_or("")
    }
}

/// Who speaks. `Tool` is a message that carries nothing but results; `Opaque` is an element whose meaning we do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    System,
    User,
    Assistant,
    Tool,
    Opaque,
}

/// One element of the request's list.
#[derive(Clone, Debug)]
pub struct Message {
    pub span: Span,
    pub role: Role,
    /// The value of its content member (text, list or null); empty where it has none.
    pub content: Span,
    pub blocks: Range<u32>,
    /// What it says, without what agents move around (cache marks) or spell in two ways (a text, a list of one text).
    pub fingerprint: Fingerprint,
    /// Never dropped, never edited: a provider's own compaction item, an element of a kind we do not know.
    pub pinned: bool,
}

/// A part of a message, as one thing that lives or dies.
#[derive(Clone, Debug)]
pub struct Block {
    pub span: Span,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub enum Kind {
    /// `text`: the JSON string, quotes included.
    Text {
        text: Span,
    },
    /// Thinking, reasoning items, reasoning fields: never edited, gone only with its turn.
    Reasoning,
    Call(Call),
    Result(Outcome),
    Media(Media),
    /// Kept as it is or gone with its message.
    Opaque,
}

/// A tool call. `id` and `tool` are the contents of JSON strings, quotes not included.
#[derive(Clone, Debug)]
pub struct Call {
    pub id: Span,
    pub tool: Span,
    pub arguments: Span,
    pub form: Form,
}

/// How a call's arguments are spelt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A JSON string that holds JSON.
    JsonText,
    /// A JSON value.
    Json,
    /// Anything else: a script, a patch, a provider's own action. Not ours to shorten.
    Free,
}

/// A tool's result.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub id: Span,
    /// The value that holds the output: a JSON string or a list of parts.
    pub content: Span,
    pub parts: Range<u32>,
    pub failed: bool,
    /// Whether a plain text may stand in place of `content`.
    pub editable: bool,
}

/// A part of a result.
#[derive(Clone, Debug)]
pub struct Part {
    pub span: Span,
    pub kind: PartKind,
}

#[derive(Clone, Debug)]
pub enum PartKind {
    Text { text: Span },
    Media(Media),
    Opaque,
}

/// A picture, a document or a sound: priced by what it shows, not by its letters.
#[derive(Clone, Copy, Debug)]
pub struct Media {
    pub kind: MediaKind,
    /// The contents of the JSON string that holds base64 data, a data URL, a URL or a file id.
    pub data: Span,
    /// The contents of the `detail` string, where there is one.
    pub detail: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    Image,
    Document,
    Audio,
}

/// The list of a request: its messages, and the blocks and parts they point into.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    pub messages: Vec<Message>,
    pub blocks: Vec<Block>,
    pub parts: Vec<Part>,
}

impl Conversation {
    pub fn blocks_of(&self, message: &Message) -> &[Block] {
        self.blocks.get(message.blocks.start as usize..message.blocks.end as usize).unwrap_or(&[])
    }

    pub fn parts_of(&self, outcome: &Outcome) -> &[Part] {
        self.parts.get(outcome.parts.start as usize..outcome.parts.end as usize).unwrap_or(&[])
    }

    /// How many pictures, documents and sounds a block is or holds.
    pub fn media_in(&self, block: &Block) -> usize {
        match &block.kind {
            Kind::Media(_) => 1,
            Kind::Result(outcome) => self.parts_of(outcome).iter().filter(|part| matches!(part.kind, PartKind::Media(_))).count(),
            _ => 0,
        }
    }

    /// Whether somebody (a person, or the harness for one) wrote this: a user message that is more than tool results.
    pub fn is_person(&self, message: &Message) -> bool {
        message.role == Role::User && self.blocks_of(message).iter().any(|block| !matches!(block.kind, Kind::Result(_)))
    }

    pub fn has_results(&self, message: &Message) -> bool {
        self.blocks_of(message).iter().any(|block| matches!(block.kind, Kind::Result(_)))
    }

    pub fn first_person(&self) -> Option<usize> {
        self.messages.iter().position(|message| self.is_person(message))
    }

    pub fn last_person(&self) -> Option<usize> {
        self.messages.iter().rposition(|message| self.is_person(message))
    }
}
