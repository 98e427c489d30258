//! The seam between carrying requests and compacting them.
//!
//! The transport asks here, at fixed points of an exchange, what to send; it knows nothing of why. What is decided is decided by the core
//! ([`crate::decide`]); here it is told the time, the tenant and the window.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::{
    discover::{Found, Inquiry, Wait},
    routes::{Policies, Settled},
    steer::{Compact, Steer},
};
use crate::budget::{Window, models};
use crate::conversation::Fingerprint;
use crate::decide::{self as core, Decider, Refusal};
use crate::wire::{
    Format, Request,
    overflow::{Class, Classified, Scope},
    usage::Usage,
};

pub use crate::decide::{Report, Ticket};

/// A chat request as it came.
pub struct Incoming<'a> {
    pub format: Format,
    /// Decoded. Empty in [`Decide::learn`]: no body is kept while its answer streams.
    pub body: &'a Bytes,
    pub tenant: Tenant,
    /// Host and port that it goes to.
    pub upstream: &'a str,
    /// Asks it for the windows of its models.
    pub inquiry: Inquiry<'a>,
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

/// Decides what is sent.
pub struct Decide {
    core: Decider,
    started: Instant,
    script: Option<Arc<dyn Script>>,
}

impl Default for Decide {
    fn default() -> Self {
        const LEDGER_BYTES: u64 = 256 << 20;
        const LEDGER_SECONDS: u64 = 24 * 3600;
        const MEMO_BYTES: usize = 32 << 20;
        Decide { core: Decider::new(LEDGER_BYTES, LEDGER_SECONDS, MEMO_BYTES), started: Instant::now(), script: None }
    }
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
        Decide { script: Some(script), ..Decide::default() }
    }

    /// What to send for a request that came. May take milliseconds. Where upstream is about to tell its window, what to wait for before this is asked again.
    pub fn before_send(&self, incoming: &Incoming) -> Result<Decision, Wait> {
        if let Some(script) = &self.script {
            return Ok(script.before_send(incoming));
        }
        let call = match self.call(incoming) {
            Ok((_, Some(wait))) => return Err(wait),
            Ok((call, None)) => call,
            Err(cause) => return Ok(Decision::Pass(Report { cause: Some(cause), ..Report::default() })),
        };
        Ok(match self.core.before_send(&call) {
            core::Decision::Pass(report) => Decision::Pass(report),
            core::Decision::Send(core::Rewrite { body, report, ticket }) => Decision::Send { body, report, ticket },
            core::Decision::Refuse(report) => Decision::Refuse { status: 400, message: too_long(incoming.format, &report) },
        })
    }

    /// The one harder try after upstream said that `sent` is too long; nothing: its refusal goes down.
    pub fn after_overflow(&self, incoming: &Incoming, sent: &Bytes, refusal: &Classified) -> Option<(Bytes, Report, Ticket)> {
        if let Some(script) = &self.script {
            return script.after_overflow(incoming, sent, refusal);
        }
        let rewrite = self.core.after_overflow(&self.call(incoming).ok()?.0, sent, &refused(refusal)?)?;
        Some((rewrite.body, rewrite.report, rewrite.ticket))
    }

    /// Upstream refused our edit with something that is not an overflow.
    pub fn quarantine(&self, ticket: Ticket) {
        match &self.script {
            Some(script) => script.quarantine(ticket),
            None => self.core.quarantine(&ticket, self.now()),
        }
    }

    /// What upstream counted, or how much it said it takes.
    pub fn learn(&self, incoming: &Incoming, report: &Report, usage: Option<Usage>, limit: Option<u64>) {
        if let Some(script) = &self.script {
            return script.learn(incoming, report, usage, limit);
        }
        if let (Some(real), Some((_, counted))) = (usage.and_then(|usage| usage.input), report.tokens) {
            self.core.learn_usage(incoming.upstream, &report.model, real, counted);
        }
    }

    /// The call as the core wants it, and what to wait for before it is decided.
    fn call(&self, incoming: &Incoming) -> Result<(core::Call, Option<Wait>), &'static str> {
        let mut tenant = [0; 16];
        tenant.copy_from_slice(&incoming.tenant.0[..16]);
        let tenant = Fingerprint(tenant);
        let request = self.core.read(incoming.format, incoming.body.clone(), tenant).map_err(|unreadable| unreadable.name())?;
        let policy = incoming.policies.of(request.model());
        let (window, wait) = window(incoming, &policy, &request);
        let call = core::Call {
            request,
            tenant,
            upstream: incoming.upstream.into(),
            policy: policy.decisions.clone(),
            steer: match incoming.steer.compact {
                Compact::Auto => core::Steer::Default,
                Compact::Off => core::Steer::Off,
                Compact::Now => core::Steer::Now,
                Compact::Defer => core::Steer::Defer,
            },
            window,
            now: self.now(),
        };
        Ok((call, wait))
    }

    /// Seconds since the start; the ledger only compares them.
    fn now(&self) -> u64 {
        self.started.elapsed().as_secs()
    }
}

/// The window by header, by configuration, as upstream tells it, or by the model's name, in this order.
fn window(incoming: &Incoming, policy: &Settled, request: &Request) -> (Option<Window>, Option<Wait>) {
    if let Some(tokens) = [incoming.steer.window, Some(policy.window)].into_iter().flatten().find(|tokens| *tokens > 0) {
        return (Some(Window { tokens, separate_output: false }), None);
    }
    let named = models::window(request.model(), incoming.upstream);
    // Nothing is asked for what will pass in any case.
    if policy.mode == core::Mode::Off || request.apart.is_some() {
        return (named, None);
    }
    match incoming.inquiry.window(request.model()) {
        Found::Window(told) => (told.or(named), None),
        Found::Soon(wait) => (named, Some(wait)),
    }
}

fn refused(classified: &Classified) -> Option<Refusal> {
    let kind = match classified.class {
        Class::Input => core::Kind::Input,
        Class::InputPlusOutput => core::Kind::InputPlusOutput,
        Class::Bytes => core::Kind::Bytes,
        Class::RateCeiling => core::Kind::RateCeiling,
        // An answer without a word is an overflow where the request nearly filled its window, which the caller has seen to.
        Class::None if classified.needs_estimate() => core::Kind::Input,
        Class::None => return None,
    };
    Some(Refusal {
        kind,
        limit: classified.limit,
        requested: classified.requested,
        output: classified.output,
        scope_is_input: classified.requested_scope != Scope::Total,
        lower_bound: classified.lower_bound,
    })
}

/// What an agent is told where the policy is to refuse: the words by which agents know to compact themselves.
fn too_long(format: Format, report: &Report) -> String {
    let (tokens, window) = (report.tokens.map_or(0, |(_, after)| after), report.window.unwrap_or(0));
    match format {
        Format::Messages => format!("prompt is too long: {tokens} tokens > {window} maximum"),
        Format::Chat | Format::Responses => {
            format!(
                "This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens. Please reduce the length of the messages."
            )
        }
    }
}
