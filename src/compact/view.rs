//! The conversation as it would be sent: what came, without what earlier compactions took away, with the changes proposed so far, and what that weighs.

mod cleared;
mod delta;
mod said;

pub use cleared::Cleared;

use super::{digest::Records, summary::Summary};
use crate::budget::load::Scale;
use crate::conversation::{Block, Conversation, Kind, Message, Turns};
use crate::wire::{Change, Edit, Format, Request};
use delta::{adds, same_place};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes that a token of notes is charged with.
const BYTES_A_TOKEN: i64 = 4;

pub struct View<'a> {
    pub request: &'a Request,
    pub turns: Turns,
    scale: &'a Scale,
    end: usize,
    cleared: Cleared,
    /// Where the messages stand in the conversation. Everywhere else a message is an index into these: those that earlier compactions took away are
    /// not here, so what a compaction costs does not grow with them.
    places: Vec<usize>,
    messages: Vec<&'a Message>,
    came: Vec<u64>,
    now: Vec<u64>,
    changes: Vec<Vec<Change>>,
    tokens: u64,
    bytes: u64,
    rest: u64,
    media: usize,
    /// What notes may weigh, less what those that were written do: tokens and bytes.
    charge: (i64, i64),
    callers: HashMap<&'a str, Vec<(usize, usize)>>,
    /// Notes were written, or their weight was charged where nobody will read them.
    pub noted: bool,
    /// What a model made of the beginning, for the notes.
    pub summary: Option<&'a Summary>,
    /// The notes hold it.
    pub summarized: bool,
    /// What became of the records that the notes are made of.
    pub records: Records,
}

impl<'a> View<'a> {
    /// The first `end` messages, without those that are `cleared`, with their tokens as `weigh` tells them.
    pub fn new(request: &'a Request, cleared: Cleared, end: usize, weigh: &dyn Fn(usize) -> u64, rest: u64, scale: &'a Scale) -> Self {
        let places = cleared.left(end);
        let conversation = &request.conversation;
        let body = request.text();
        let messages: Vec<&Message> = places.iter().map(|&place| &conversation.messages[place]).collect();
        let came: Vec<u64> = places.iter().map(|&place| weigh(place)).collect();
        let mut callers: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
        let mut media = 0;
        for (place, message) in messages.iter().enumerate() {
            for (n, block) in conversation.blocks_of(message).iter().enumerate() {
                if let Kind::Call(call) = &block.kind {
                    callers.entry(call.id.of(body)).or_default().push((place, n));
                }
                media += conversation.media_in(block);
            }
        }
        Self {
            request,
            turns: Turns::of(body, conversation, &messages, &places),
            scale,
            now: came.clone(),
            changes: vec![Vec::new(); messages.len()],
            tokens: rest + came.iter().sum::<u64>(),
            bytes: messages.iter().map(|message| message.span.len() as u64 + 1).sum(),
            rest,
            media,
            charge: (0, 0),
            callers,
            noted: false,
            summary: None,
            summarized: false,
            records: Records::default(),
            end,
            cleared,
            places,
            messages,
            came,
        }
    }

    /// Whether earlier compactions took something away.
    pub fn has_gone(&self) -> bool {
        self.cleared.kept.len() < self.cleared.upto
    }

    /// What earlier compactions took away, as it came, only to be read.
    pub fn gone(&self) -> View<'a> {
        View::new(self.request, self.cleared.inverse(), self.cleared.upto, &|_| 0, 0, self.scale)
    }

    pub fn body(&self) -> &'a str {
        self.request.text()
    }

    pub fn format(&self) -> Format {
        self.request.format
    }

    pub fn conversation(&self) -> &'a Conversation {
        &self.request.conversation
    }

    pub fn messages(&self) -> &[&'a Message] {
        &self.messages
    }

    /// Where a message stands in the conversation.
    pub fn place(&self, message: usize) -> usize {
        self.places[message]
    }

    pub fn blocks(&self, message: usize) -> &'a [Block] {
        self.request.conversation.blocks_of(self.messages[message])
    }

    /// Tokens of the whole request as it would be sent, with notes at the weight that they may have.
    pub fn tokens(&self) -> u64 {
        self.tokens.saturating_add_signed(self.charge.0)
    }

    /// Bytes of the messages as they would be sent, nearly: escapes in what is inserted are not counted.
    pub fn bytes(&self) -> u64 {
        self.bytes.saturating_add_signed(self.charge.1)
    }

    /// How much lighter the request is than [`View::tokens`] says.
    pub fn slack(&self) -> u64 {
        self.charge.0.max(0) as u64
    }

    /// Adds notes to a message, or before it, for which `budget` tokens are charged whatever they weigh: so what follows does not depend on what they
    /// say, and a ladder whose result nobody will send need not write them.
    pub fn add_notes(&mut self, message: usize, notes: Option<Change>, budget: u64) {
        let was = (self.tokens, self.bytes);
        self.noted = true;
        if let Some(notes) = notes {
            self.propose(message, notes);
        }
        self.charge = (budget as i64 - (self.tokens - was.0) as i64, BYTES_A_TOKEN * budget as i64 - (self.bytes - was.1) as i64);
    }

    /// Charges what notes may weigh that are still to be written.
    pub fn set_aside(&mut self, budget: u64) {
        self.charge = (budget as i64, BYTES_A_TOKEN * budget as i64);
    }

    pub fn media(&self) -> usize {
        self.media
    }

    /// Tokens outside of the list.
    pub fn rest(&self) -> u64 {
        self.rest
    }

    /// Tokens of a message as it came.
    pub fn weight(&self, message: usize) -> u64 {
        self.came[message]
    }

    pub fn kept(&self) -> usize {
        (0..self.came.len()).filter(|&message| !self.is_dropped(message)).count()
    }

    pub fn count(&self, text: &str) -> u64 {
        self.scale.text(text)
    }

    /// By how much a count of ours may be above another's of the same text: where that decides whether something is protected, it is.
    pub fn doubt(&self) -> f64 {
        if self.scale.tokenizer.is_exact() { 1.12 } else { 1.15 }
    }

    pub fn is_dropped(&self, message: usize) -> bool {
        self.changes[message].contains(&Change::Drop)
    }

    /// Whether something stands already in place of this block's output or arguments.
    pub fn is_changed(&self, message: usize, block: usize) -> bool {
        self.changes[message].iter().any(|change| {
            matches!(change, Change::Result { block: n, .. } | Change::Arguments { block: n, .. } | Change::Text { block: n, .. } | Change::Note { block: n, part: None, .. } if *n == block)
        })
    }

    pub fn drop(&mut self, message: usize) {
        if self.messages()[message].pinned || self.is_dropped(message) {
            return;
        }
        self.tokens -= self.now[message];
        self.bytes = self.bytes.saturating_sub(self.messages()[message].span.len() as u64 + 1);
        self.media = self.media.saturating_sub(self.media_left(message));
        self.now[message] = 0;
        self.changes[message] = vec![Change::Drop];
    }

    /// Takes back that a message was dropped; what else was proposed for it stays.
    pub fn restore_dropped(&mut self, message: usize) {
        if self.is_dropped(message) {
            self.restore(message);
        }
    }

    /// Takes back notes that were added to a message, and what was charged for them.
    pub fn take_back_notes(&mut self, message: usize) {
        (self.charge, self.noted) = ((0, 0), false);
        let tokens: i64 = self.changes[message].iter().filter(|change| adds(change)).map(|change| self.token_delta(message, change)).sum();
        let bytes: i64 = self.changes[message].iter().filter(|change| adds(change)).map(|change| self.byte_delta(message, change)).sum();
        self.changes[message].retain(|change| !adds(change));
        self.now[message] = self.now[message].saturating_add_signed(-tokens);
        self.tokens = self.tokens.saturating_add_signed(-tokens);
        self.bytes = self.bytes.saturating_add_signed(-bytes);
    }

    /// Tokens of a block's words as they would be sent.
    pub fn block_weighs(&self, message: usize, block: usize) -> u64 {
        let changed = self.changes[message].iter().find_map(|change| match change {
            Change::Result { block: n, text } | Change::Text { block: n, text } if *n == block => Some(self.scale.text(text)),
            _ => None,
        });
        changed.unwrap_or_else(|| self.scale.block(self.request, &self.blocks(message)[block]))
    }

    /// Takes back everything proposed for a message.
    pub fn restore(&mut self, message: usize) {
        if self.changes[message].is_empty() {
            return;
        }
        let left = if self.is_dropped(message) { 0 } else { self.media_left(message) };
        let gained: i64 = if self.is_dropped(message) {
            self.messages()[message].span.len() as i64 + 1
        } else {
            self.changes[message].iter().map(|change| -self.byte_delta(message, change)).sum()
        };
        self.changes[message].clear();
        self.media += self.media_left(message) - left;
        self.bytes = self.bytes.saturating_add_signed(gained);
        self.tokens = self.tokens - self.now[message] + self.came[message];
        self.now[message] = self.came[message];
    }

    /// Proposes a change; refused (false) when it would not make the message lighter in tokens and bytes, or where the message is gone or pinned.
    /// Additions are always taken.
    pub fn propose(&mut self, message: usize, change: Change) -> bool {
        if self.messages()[message].pinned || (self.is_dropped(message) && !matches!(change, Change::Before { .. })) {
            return false;
        }
        let replaced: Vec<usize> = (0..self.changes[message].len()).filter(|&at| same_place(&self.changes[message][at], &change)).collect();
        let was = |delta: fn(&Self, usize, &Change) -> i64| {
            replaced.iter().map(|&at| delta(self, message, &self.changes[message][at])).sum::<i64>()
        };
        let tokens = self.token_delta(message, &change) - was(Self::token_delta);
        let bytes = self.byte_delta(message, &change) - was(Self::byte_delta);
        if !adds(&change) && (tokens >= 0 || bytes >= 0) {
            return false;
        }
        let media = self.media_left(message);
        for at in replaced.into_iter().rev() {
            self.changes[message].remove(at);
        }
        self.changes[message].push(change);
        self.media = self.media - media + self.media_left(message);
        self.now[message] = self.now[message].saturating_add_signed(tokens);
        self.tokens = self.tokens.saturating_add_signed(tokens);
        self.bytes = self.bytes.saturating_add_signed(bytes);
        true
    }

    /// What is gone once this is sent.
    pub fn cleared(&self) -> Cleared {
        let last = (0..self.places.len()).rev().find(|&message| self.is_dropped(message)).map(|message| self.places[message]);
        let upto = last.map_or(0, |last| last + 1).max(self.cleared.upto);
        let kept = (0..self.places.len()).filter(|&message| self.places[message] < upto && !self.is_dropped(message));
        Cleared { upto, kept: kept.map(|message| self.places[message]).collect() }
    }

    /// The edits of the whole conversation up to the end of the view: what is not here goes.
    pub fn into_edits(self) -> Vec<Edit> {
        let mut changes = self.places.into_iter().zip(self.changes).peekable();
        (0..self.end)
            .flat_map(|place| {
                let here = changes.next_if(|(here, _)| *here == place).map_or_else(|| vec![Change::Drop], |(_, changes)| changes);
                here.into_iter().map(move |change| Edit { message: place, change })
            })
            .collect()
    }
}

/// A shared text, for changes.
pub fn text(text: impl Into<Arc<str>>) -> Arc<str> {
    text.into()
}
