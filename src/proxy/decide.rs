//! The seam between carrying requests and compacting them.
//!
//! The transport asks here, at fixed points of an exchange, what to send; it knows nothing of why. What is decided is decided by the core
//! ([`crate::decide`]); here it is told the time, the tenant and the window.

use std::path::Path;
use std::sync::{Arc, atomic::Ordering};
use std::time::Instant;

use bytes::Bytes;
use http::{Extensions, uri::PathAndQuery};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
};

use super::{
    discover::{Found, Inquiry, Wait},
    metrics::Metrics,
    routes::{Policies, Settled},
    steer::Steering,
    summarizer::{Caller, Summarizer},
    tls,
    traces::Trace,
};
use crate::budget::{Window, models};
use crate::config::{self, Config, Problem, seconds, secret};
use crate::conversation::Fingerprint;
use crate::decide::{self as core, Decider};
use crate::ledger::{
    Ledger,
    disk::Disk,
    redis::{Address, Redis},
};
use crate::wire::{Format, Request, overflow::Classified, usage::Usage};

pub use super::summarizer::Flights;
pub use crate::decide::{Decision, Report, Rewrite, Ticket};

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
    pub steer: &'a Steering,
    /// What of it is asked for, with which method's extensions; a summary is asked for in the same place.
    pub target: &'a PathAndQuery,
    pub extensions: &'a Extensions,
    /// That it is recorded in.
    pub trace: Option<&'a Trace>,
}

/// Bodies up to this size are read in a fifth of a millisecond, as long as most of their history was read before.
const READ_HERE: usize = 1 << 20;

/// Does what may take longer than half a millisecond, while another thread carries what else there is to carry.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => block_in_place(work),
        _ => work(),
    }
}

/// Whose request it is: a keyed hash of the credential, which cannot be turned back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tenant(pub [u8; 32]);

/// Decides what is sent.
pub struct Decide {
    core: Arc<Decider>,
    summarizer: Arc<Summarizer>,
    started: Instant,
    script: Option<Arc<dyn Script>>,
    /// What tenants are hashed with, where the ledger outlives this process or is shared.
    tenant_key: Option<[u8; 32]>,
}

impl Default for Decide {
    fn default() -> Self {
        Decide { core: Arc::new(core()), summarizer: Arc::default(), started: Instant::now(), script: None, tenant_key: None }
    }
}

fn core() -> Decider {
    const LEDGER_BYTES: u64 = 256 << 20;
    const LEDGER_SECONDS: u64 = 24 * 3600;
    const MEMO_BYTES: usize = 32 << 20;
    Decider::new(LEDGER_BYTES, LEDGER_SECONDS, MEMO_BYTES)
}

/// The ledger that is configured, and what tenants are hashed with in it.
fn ledger(config: &config::Ledger) -> Result<(Ledger, Option<[u8; 32]>), Problem> {
    let memory = Ledger::new(config.bytes, config.seconds);
    let secret = secret::read("ledger.secret", &config.secret)?;
    let derived = |purpose: &str| secret.as_ref().map(|secret| blake3::derive_key(purpose, secret.as_bytes()));
    let (tenants, values) = (derived("plimsoll 2026-11 ledger tenants"), derived("plimsoll 2026-11 ledger values"));
    let problem = |key: &str, what: String| Problem { file: None, key: key.into(), what };
    Ok(match config.store {
        config::Store::Memory => (memory, tenants),
        config::Store::Disk => {
            let disk = Disk::open(Path::new(&config.path), config.disk_bytes, config.seconds, values)
                .map_err(|error| problem("ledger.path", unopened(&config.path, &error)))?;
            let key = tenants.unwrap_or(disk.key());
            (memory.backed(Arc::new(disk)), Some(key))
        }
        config::Store::Redis => {
            let values = values.unwrap_or_default();
            let ca_file = (!config.ca_file.is_empty()).then(|| config.ca_file.clone().into());
            if ca_file.is_some() {
                tls::authorities("ledger.ca_file", &config.ca_file)?;
            }
            secret::read("ledger.password", &config.password)?;
            let named = config.password.clone();
            let password = Box::new(move || secret::read("ledger.password", &named).map_err(std::io::Error::other));
            let redis =
                Redis::new(Address { url: config.url.clone(), ca_file, password }, seconds(config.deadline), config.seconds, values);
            (memory.backed(Arc::new(redis.map_err(|error| problem("ledger.url", error.to_string()))?)), tenants)
        }
    })
}

fn unopened(path: &str, error: &std::io::Error) -> String {
    format!("{path:?} cannot be opened ({error}); expected a file in a folder that is there, which no other process has open")
}

/// What a test makes the decisions be.
#[doc(hidden)]
pub trait Script: Send + Sync {
    fn before_send(&self, _: &Incoming) -> Decision {
        Decision::Pass(Report::default())
    }
    fn after_overflow(&self, _: &Incoming, _sent: &Bytes, _: &Classified) -> Option<Rewrite> {
        None
    }
    fn quarantine(&self, _: Ticket) {}
    fn learn(&self, _: &Incoming, _: &Report, _: Option<Usage>) {}
}

impl Decide {
    /// With the ledger that is configured.
    pub fn new(config: &Config) -> Result<Decide, Problem> {
        let (ledger, tenant_key) = ledger(&config.ledger)?;
        let mut core = core();
        core.ledger = ledger;
        Ok(Decide { core: Arc::new(core), tenant_key, ..Decide::default() })
    }

    pub fn tenant_key(&self) -> Option<[u8; 32]> {
        self.tenant_key
    }

    /// Waits, not for long, until what was decided is where it outlives this process.
    pub fn flush(&self) {
        if let Some(store) = self.core.ledger.store() {
            store.flush();
        }
    }

    /// Whether the ledger's store answers; true where there is none.
    pub fn store_answers(&self) -> bool {
        self.core.ledger.store().is_none_or(|store| store.answers())
    }

    /// Tells what the ledger holds and did.
    pub fn measure(&self, metrics: &Metrics) {
        self.summarizer.measure(metrics);
        let ledger = &self.core.ledger;
        metrics.entries.of(&[]).set(ledger.len() as i64);
        metrics.store_up.of(&[]).set(self.store_answers().into());
        for (outcome, count) in ["memory", "store", "miss"].into_iter().zip(&ledger.found) {
            metrics.lookups.of(&[outcome]).inner().store(count.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let counted = ledger.store().map(|store| store.counted()).unwrap_or_default();
        for (operation, counts) in [("get", counted.get), ("put", counted.put)] {
            for (outcome, count) in ["ok", "failed", "skipped"].into_iter().zip(counts) {
                metrics.store.of(&[operation, outcome]).inner().store(count, Ordering::Relaxed);
            }
        }
    }

    #[doc(hidden)]
    pub fn scripted(script: Arc<dyn Script>) -> Decide {
        Decide { script: Some(script), ..Decide::default() }
    }

    /// The summaries that are being made, for who wants to wait for them.
    #[doc(hidden)]
    pub fn flights(&self) -> Flights {
        Flights(self.summarizer.clone())
    }

    /// What to send for a request that came. Where upstream is about to tell its window, what to wait for before this is asked again.
    pub fn before_send(&self, incoming: &Incoming) -> Result<Decision, Wait> {
        if let Some(script) = &self.script {
            return Ok(script.before_send(incoming));
        }
        let call = match self.call(incoming) {
            Ok((_, Some(wait))) => return Err(wait),
            Ok((call, None)) => call,
            Err(cause) => return Ok(Decision::Pass(Report { cause: Some(cause), ..Report::default() })),
        };
        let decide = || self.summary(incoming, &call).map_or_else(|| Ok(self.core.before_send(&call)), Err);
        match self.core.is_quick(&call) && self.core.ledger.store().is_none() {
            true => decide(),
            false => aside(decide),
        }
    }

    /// The one harder try after upstream said that `sent` is too long; nothing: its refusal goes down.
    pub fn after_overflow(&self, incoming: &Incoming, sent: &Bytes, refusal: &Classified) -> Option<Rewrite> {
        if let Some(script) = &self.script {
            return script.after_overflow(incoming, sent, refusal);
        }
        let call = self.call(incoming).ok()?.0;
        aside(|| self.core.after_overflow(&call, sent, refusal))
    }

    /// Upstream took the harder try.
    pub fn accepted(&self, ticket: &Ticket) {
        if self.script.is_none() {
            self.core.accepted(ticket, self.now());
        }
    }

    /// Upstream refused our edit with something that is not an overflow.
    pub fn quarantine(&self, ticket: Ticket) {
        match &self.script {
            Some(script) => script.quarantine(ticket),
            None => self.core.quarantine(&ticket, self.now()),
        }
    }

    /// What upstream counted.
    pub fn learn(&self, incoming: &Incoming, report: &Report, usage: Option<Usage>) {
        if let Some(script) = &self.script {
            return script.learn(incoming, report, usage);
        }
        if let (Some(real), Some((_, counted))) = (usage.and_then(|usage| usage.input), report.tokens) {
            self.core.learn_usage(incoming.upstream, &report.model, real, counted);
        }
    }

    /// Begins the summary that a call should have. Where the call is to wait for it, what to wait for.
    fn summary(&self, incoming: &Incoming, call: &core::Call) -> Option<Wait> {
        let need = self.core.summary(call)?;
        let Inquiry { pool, headers, .. } = incoming.inquiry;
        let caller = Caller {
            core: self.core.clone(),
            started: self.started,
            knobs: call.policy.compact.summarize.clone(),
            tenant: incoming.tenant,
            format: incoming.format,
            pool: pool.clone(),
            headers: headers.clone(),
            target: incoming.target.clone(),
            extensions: incoming.extensions.clone(),
            trace: incoming.trace.cloned(),
        };
        self.summarizer.need(need, caller)
    }

    /// Drops what has not been used for long.
    pub fn prune(&self) {
        self.summarizer.prune();
    }

    /// The call as the core wants it, and what to wait for before it is decided.
    fn call(&self, incoming: &Incoming) -> Result<(core::Call, Option<Wait>), &'static str> {
        let mut tenant = [0; 16];
        tenant.copy_from_slice(&incoming.tenant.0[..16]);
        let tenant = Fingerprint(tenant);
        let read = || self.core.read(incoming.format, incoming.body.clone(), tenant);
        let request = if incoming.body.len() <= READ_HERE { read() } else { aside(read) }.map_err(|unreadable| unreadable.name())?;
        let policy = incoming.policies.of(request.model());
        let (window, wait) = window(incoming, &policy, &request);
        let call = core::Call {
            request,
            tenant,
            upstream: incoming.upstream.into(),
            policy: policy.decisions.clone(),
            steer: incoming.steer.compact,
            focus: incoming.steer.focus.clone(),
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

/// What an agent is told where the policy is to refuse: the words by which agents know to compact themselves.
pub fn too_long(format: Format, report: &Report) -> String {
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
