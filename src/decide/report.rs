//! What is answered: what to send, and what happened to the request.

use super::learnt::Learner;
use crate::budget::Load;
use crate::compact::digest::Records;
use crate::conversation::Fingerprint;
use bytes::Bytes;

/// What to send.
#[derive(Clone, Debug)]
pub enum Decision {
    /// The bytes that came.
    Pass(Report),
    Send(Rewrite),
    /// Nothing: it cannot fit, and the policy is strict.
    Refuse(Report),
}

#[derive(Clone, Debug)]
pub struct Rewrite {
    pub body: Bytes,
    pub report: Report,
    pub ticket: Ticket,
}

/// Names a decision, to take it back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ticket {
    /// The conversation's part of the ledger, and the prefix in it.
    pub base: Fingerprint,
    pub prefix: Fingerprint,
    pub came: Load,
    /// Tokens outside of the list.
    pub rest: u64,
    /// The window that the provider has if it takes this, where it refused the longer request.
    pub lesson: Option<(Learner, u64)>,
}

/// What happened to a request, in numbers and names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub model: String,
    pub stream: bool,
    pub trigger: Option<&'static str>,
    /// Counted tokens of the whole request, as it came and as it would be sent. None where nothing had to be counted.
    pub tokens: Option<(u64, u64)>,
    pub rungs: Vec<&'static str>,
    /// What became of the records that a digest is made of, where this request is the first to carry it.
    pub records: Records,
    pub epoch: u32,
    pub window: Option<u64>,
    /// Why nothing was done, where something might have been.
    pub cause: Option<&'static str>,
    /// The body that is sent was edited.
    pub edited: bool,
}

impl Report {
    /// How full the window is with what is sent, from 0.
    pub fn pressure(&self) -> Option<f64> {
        let (_, after) = self.tokens?;
        Some(after as f64 / self.window?.max(1) as f64)
    }
}
