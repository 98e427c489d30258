//! A request with its weight, and what it is remembered by.

use super::{Call, VERSION};
use crate::budget::{Limits, load::Scale};
use crate::conversation::{Fingerprint, Hasher};
use crate::tokens::Memo;
use crate::wire::Request;

/// System prompts carry dates and counters: the same weight to within this is the same, in tokens.
const GRAIN: u64 = 64;

/// A request that was read and measured.
pub(super) struct Measured<'a> {
    pub request: &'a Request,
    pub prefixes: &'a [Fingerprint],
    pub scale: Scale,
    /// Tokens outside of the list of messages.
    pub rest: u64,
    /// Tells this model's counts from another's with the same tokenizer.
    prices: u128,
    memo: &'a Memo,
}

impl<'a> Measured<'a> {
    pub fn of(request: &'a Request, scale: Scale, memo: &'a Memo) -> Self {
        let rest =
            scale.rest_by(request, |member, count| memo.count(scale.tokenizer, memo.key(member.as_bytes()), || count() as usize) as u64);
        let mut hasher = Hasher::default();
        hasher.piece(b'm', scale.model.as_bytes());
        hasher.piece(b'f', scale.format.name().as_bytes());
        let prices = hasher.finish().key();
        Self { prefixes: request.prefixes(), rest: rest.next_multiple_of(GRAIN), prices, scale, request, memo }
    }

    /// Tokens of a message, counted once.
    pub fn weigh(&self, message: usize) -> u64 {
        let message = &self.request.conversation.messages[message];
        // What pictures cost is the model's matter.
        let key = message.fingerprint.key() ^ self.prices;
        self.memo.count(self.scale.tokenizer, key, || self.scale.message(self.request, message) as usize) as u64
    }

    /// What tells one conversation's ledger entries from another's, besides its words.
    pub fn base(&self, call: &Call, limits: &Limits, knobs: Fingerprint) -> Fingerprint {
        let mut hasher = Hasher::default();
        hasher.piece(b't', &call.tenant.0);
        hasher.piece(b'f', call.request.format.name().as_bytes());
        hasher.piece(b'u', call.upstream.as_bytes());
        hasher.piece(b'm', self.scale.model.as_bytes());
        hasher.piece(b'v', &VERSION.to_le_bytes());
        hasher.piece(b'r', &self.rest.to_le_bytes());
        let Limits { window, hygiene, preflight, target, max_bytes, max_media, max_messages } = *limits;
        let (hygiene, least) = hygiene.unwrap_or((u64::MAX, 0));
        let numbers =
            [window, hygiene, least as u64, preflight.unwrap_or(u64::MAX), target, max_bytes, max_media.into(), max_messages.into()];
        hasher.piece(b'l', numbers.map(u64::to_le_bytes).as_flattened());
        hasher.piece(b'k', &knobs.0);
        hasher.finish()
    }
}
