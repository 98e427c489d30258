//! Decisions that a test has made up.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use plimsoll::{
    conversation::Fingerprint,
    proxy::decide::{Decide, Decision, Incoming, Report, Rewrite, Script, Ticket},
    wire::{overflow::Classified, usage::Usage},
};

/// A ticket that is told from others by its number.
pub fn ticket(number: u8) -> Ticket {
    Ticket { prefix: Fingerprint([number; 16]), ..Ticket::default() }
}

/// Sends `first` instead of what came and `harder` after an overflow, and remembers what it was told.
#[derive(Clone, Default)]
pub struct Scripted {
    pub first: Option<&'static str>,
    pub harder: Option<&'static str>,
    pub panic: bool,
    pub told: Arc<Mutex<Told>>,
}

#[derive(Default)]
pub struct Told {
    pub overflows: usize,
    pub quarantined: Vec<Ticket>,
    pub usage: Vec<Usage>,
    /// Bodies as they were seen.
    pub bodies: Vec<Bytes>,
}

impl Scripted {
    pub fn decide(&self) -> Decide {
        Decide::scripted(Arc::new(self.clone()))
    }
}

impl Script for Scripted {
    fn before_send(&self, incoming: &Incoming) -> Decision {
        assert!(!self.panic, "a rung fell");
        self.told.lock().unwrap().bodies.push(incoming.body.clone());
        let report = Report { trigger: Some("test"), tokens: Some((9, 4)), rungs: vec!["cull", "digest"], ..Report::default() };
        match self.first {
            Some(body) => Decision::Send(Rewrite { body: Bytes::from_static(body.as_bytes()), report, ticket: ticket(1) }),
            None => Decision::Pass(Report::default()),
        }
    }

    fn after_overflow(&self, _: &Incoming, _: &Bytes, _: &Classified) -> Option<Rewrite> {
        self.told.lock().unwrap().overflows += 1;
        let report = Report { trigger: Some("overflow"), ..Report::default() };
        self.harder.map(|body| Rewrite { body: Bytes::from_static(body.as_bytes()), report, ticket: ticket(2) })
    }

    fn quarantine(&self, ticket: Ticket) {
        self.told.lock().unwrap().quarantined.push(ticket);
    }

    fn learn(&self, _: &Incoming, _: &Report, usage: Option<Usage>) {
        self.told.lock().unwrap().usage.extend(usage);
    }
}
