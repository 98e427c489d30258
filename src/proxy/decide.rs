//! The seam between carrying requests and compacting them.
//!
//! The transport asks here, at fixed points of an exchange, what to send; it knows nothing of why. This is a stand-in that lets everything
//! pass as it came, except where a test has scripted it.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;

use super::{routes::Policies, steer::Steer};
use crate::wire::{Format, overflow::Classified, usage::Usage};

/// A chat request as it came.
pub struct Incoming<'a> {
    pub format: Format,
    /// Without its query.
    pub path: &'a str,
    pub headers: &'a HeaderMap,
    /// Decoded. Empty in [`Decide::learn`]: no body is kept while its answer streams.
    pub body: &'a Bytes,
    pub tenant: Tenant,
    /// Host and port that it goes to.
    pub upstream: &'a str,
    pub policies: &'a Policies,
    pub steer: &'a Steer,
}

/// Whose request it is: a keyed hash of the credential, which cannot be turned back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tenant(pub [u8; 32]);

/// What is sent instead of what came.
pub enum Decision {
    Pass(Report),
    Send { body: Bytes, report: Report, ticket: Ticket },
    Refuse { status: u16, message: String },
}

/// What was found and done, for the log line and the answer's headers.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub model: Option<String>,
    pub trigger: Option<&'static str>,
    pub tokens_before: Option<u64>,
    pub tokens_after: Option<u64>,
    pub rungs: Vec<&'static str>,
    pub epoch: Option<u64>,
    /// Share of what may be sent that is used.
    pub pressure: Option<f64>,
    /// Why the original was sent although something should have been done.
    pub fail_open: Option<&'static str>,
}

/// Names an outcome that was sent, should it turn out to be unwelcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u64);

/// Decides what is sent.
#[derive(Default)]
pub struct Decide {
    script: Option<Arc<dyn Script>>,
}

/// What a test makes the decisions be.
#[doc(hidden)]
pub trait Script: Send + Sync {
    fn before_send(&self, _: &Incoming) -> Decision {
        Decision::Pass(Report::default())
    }
    fn after_overflow(&self, _: &Incoming, _sent: &Bytes, _: &Classified) -> Option<(Bytes, Report, Ticket)> {
        None
    }
    fn quarantine(&self, _: Ticket) {}
    fn learn(&self, _: &Incoming, _: &Report, _: Option<Usage>, _limit: Option<u64>) {}
}

impl Decide {
    #[doc(hidden)]
    pub fn scripted(script: Arc<dyn Script>) -> Decide {
        Decide { script: Some(script) }
    }

    /// What to send for a request that came. May take milliseconds.
    pub fn before_send(&self, incoming: &Incoming) -> Decision {
        match &self.script {
            Some(script) => script.before_send(incoming),
            None => Decision::Pass(Report::default()),
        }
    }

    /// The one harder try after upstream said that `sent` is too long; nothing: its refusal goes down.
    pub fn after_overflow(&self, incoming: &Incoming, sent: &Bytes, refusal: &Classified) -> Option<(Bytes, Report, Ticket)> {
        self.script.as_ref()?.after_overflow(incoming, sent, refusal)
    }

    /// Upstream refused our edit with something that is not an overflow.
    pub fn quarantine(&self, ticket: Ticket) {
        if let Some(script) = &self.script {
            script.quarantine(ticket);
        }
    }

    /// What upstream counted, or how much it said it takes.
    pub fn learn(&self, incoming: &Incoming, report: &Report, usage: Option<Usage>, limit: Option<u64>) {
        if let Some(script) = &self.script {
            script.learn(incoming, report, usage, limit);
        }
    }
}
