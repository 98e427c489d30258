//! Which conversations are quick to decide. Nothing depends on it but how: whoever carries bytes has others carried meanwhile where it takes longer.

use super::{Call, Decider, Steer};
use crate::budget::Limits;
use crate::conversation::Fingerprint;
use crate::wire::Request;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// New text that is counted in half a millisecond, in bytes.
const FEW: usize = 20 << 10;

/// So many conversations are told apart; with more, all are forgotten and noted again.
const MOST: usize = 4096;

/// Of conversations that went on as they came: how many bytes they may have before anything can be due.
#[derive(Default)]
pub(super) struct Calm(Mutex<HashMap<Fingerprint, usize>>);

impl Decider {
    /// Whether deciding `call` is a matter of look-ups: little of it is new, and it cannot have grown to where anything is due.
    pub fn is_quick(&self, call: &Call) -> bool {
        let (request, bytes) = (&call.request, call.request.text().len());
        let is_calm = || {
            let known = self.calm.0.lock().unwrap_or_else(PoisonError::into_inner);
            opening(request).and_then(|opening| known.get(&opening)).is_some_and(|most| bytes <= *most)
        };
        bytes <= FEW || call.steer != Steer::Now && request.news <= FEW && is_calm()
    }

    /// Notes that a request of so many tokens at most went on as it came.
    pub(super) fn went_on(&self, request: &Request, limits: &Limits, tokens: u64) {
        let Some(opening) = opening(request).filter(|_| limits.are_of_tokens()) else { return };
        // A token is at least a byte.
        let spare = usize::try_from(limits.ceiling().saturating_sub(tokens)).unwrap_or(usize::MAX);
        let mut known = self.calm.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(opening, request.text().len().saturating_add(spare));
    }
}

/// What a conversation begins with; nothing where it was not fingerprinted.
fn opening(request: &Request) -> Option<Fingerprint> {
    request.prefixes().get(2).copied()
}
