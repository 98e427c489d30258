//! By how much a change makes a message lighter, or heavier.

use super::View;
use crate::conversation::{Kind, PartKind};
use crate::wire::Change;

impl<'a> View<'a> {
    /// Tokens that come, less those that go.
    pub(super) fn token_delta(&self, message: usize, change: &Change) -> i64 {
        let count = |text: &str| self.scale.text(text) as i64;
        match (change, self.target(message, change)) {
            (Change::Append { text } | Change::Before { text }, _) => count(text) + 2,
            (Change::Result { text, .. }, Some(Kind::Result(outcome))) => count(text) - self.scale.output(self.request, outcome) as i64,
            (Change::Text { text, .. }, Some(Kind::Text { text: span })) => count(text) - self.scale.string(self.body(), *span) as i64,
            (Change::Arguments { json, .. }, Some(Kind::Call(call))) => count(json) - count(&self.arguments(call)),
            (Change::Note { text, .. }, Some(Kind::Media(media))) => count(text) - self.scale.media(self.body(), media) as i64,
            (Change::Note { text, part: Some(part), .. }, Some(Kind::Result(outcome))) => {
                match self.conversation().parts_of(outcome).get(*part).map(|part| &part.kind) {
                    Some(PartKind::Media(media)) => count(text) - self.scale.media(self.body(), media) as i64,
                    _ => 0,
                }
            }
            _ => 0,
        }
    }

    /// Bytes that come, less those that go.
    pub(super) fn byte_delta(&self, message: usize, change: &Change) -> i64 {
        let gone = match (change, self.target(message, change)) {
            (Change::Result { .. }, Some(Kind::Result(outcome))) => outcome.content.len(),
            (Change::Text { .. }, Some(Kind::Text { text })) => text.len(),
            (Change::Arguments { .. }, Some(Kind::Call(call))) => call.arguments.len(),
            (Change::Note { part: None, .. }, Some(Kind::Media(media))) => media.data.len(),
            (Change::Note { part: Some(part), .. }, Some(Kind::Result(outcome))) => {
                self.conversation().parts_of(outcome).get(*part).map_or(0, |part| part.span.len())
            }
            _ => 0,
        };
        // Strings have quotes, and a block around them or a line before.
        let around = if matches!(change, Change::Drop | Change::Arguments { .. }) { 0 } else { 4 };
        let came = change.text().len() + around;
        came as i64 - gone as i64
    }

    /// Pictures of a message that are left of it.
    pub(super) fn media_left(&self, message: usize) -> usize {
        let blocks = self.blocks(message);
        let all: usize = blocks.iter().map(|block| self.conversation().media_in(block)).sum();
        let gone: usize = self.changes[message]
            .iter()
            .map(|change| match change {
                Change::Note { .. } => 1,
                Change::Result { block, .. } => blocks.get(*block).map_or(0, |block| self.conversation().media_in(block)),
                _ => 0,
            })
            .sum();
        all.saturating_sub(gone)
    }

    /// What a change is made to.
    fn target(&self, message: usize, change: &Change) -> Option<&'a Kind> {
        let n = match change {
            Change::Result { block, .. } | Change::Text { block, .. } | Change::Arguments { block, .. } | Change::Note { block, .. } => {
                *block
            }
            _ => return None,
        };
        self.blocks(message).get(n).map(|block| &block.kind)
    }
}

/// Whether a change takes nothing away.
pub(super) fn adds(change: &Change) -> bool {
    matches!(change, Change::Append { .. } | Change::Before { .. })
}

/// Whether two changes stand for the same thing, so that the later one takes the place of the earlier.
pub(super) fn same_place(old: &Change, new: &Change) -> bool {
    match (old, new) {
        (Change::Result { block: a, .. }, Change::Result { block: b, .. })
        | (Change::Arguments { block: a, .. }, Change::Arguments { block: b, .. })
        | (Change::Text { block: a, .. }, Change::Text { block: b, .. }) => a == b,
        (Change::Note { block: a, part: p, .. }, Change::Note { block: b, part: q, .. }) => a == b && p == q,
        // A whole result replaced takes its pictures' notes with it.
        (Change::Note { block: a, part: Some(_), .. }, Change::Result { block: b, .. }) => a == b,
        (Change::Append { .. }, Change::Append { .. }) | (Change::Before { .. }, Change::Before { .. }) => true,
        _ => false,
    }
}
