//! Carries the calls of summaries: in the background, once for each prefix, within a tenant's budget, and with rest after failures.
//!
//! What is asked and what answers are worth is the core's ([`crate::compact::summary`]). A call never passes through an exchange, so it is neither compacted
//! nor counted as the agent's; another Plimsoll on its way knows it by its words. An agent that hangs up ends none.

mod ask;
mod rest;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use http::{Extensions, HeaderMap, uri::PathAndQuery};
use prometheus_client::metrics::counter::Counter;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use self::{ask::Lost, rest::Rests};
use super::{decide::Tenant, discover::Wait, lock, metrics::Metrics, pool::Pool, traces::Trace};
use crate::{
    compact::summary::{Answer, Failure, Outcome, Step, Summarize, Summary},
    config::seconds,
    decide::{Claim, Decider, Job, Need},
    tokens::Tokenizer,
    wire::{Format, usage::Usage},
};

/// How often a summary is looked for that another replica makes, and one that another request here is just about to ask for.
const LOOK: Duration = Duration::from_millis(100);
const SOON: Duration = Duration::from_millis(10);

/// How a summary ended that is used.
const KEPT: &str = "kept";

/// Summaries that are being made, and whom to leave alone.
#[derive(Default)]
pub struct Summarizer {
    flights: Mutex<HashMap<Claim, Flight>>,
    rests: Mutex<Rests>,
    /// Upstreams that only summaries go to, by base URL.
    pools: Mutex<HashMap<String, Arc<Pool>>>,
    spent: Mutex<Spent>,
}

struct Flight {
    /// Ends when the summary has.
    done: watch::Receiver<()>,
    /// No request waits beyond this.
    until: Instant,
}

/// All summaries that are being made.
#[derive(Clone)]
pub struct Flights(pub(super) Arc<Summarizer>);

impl Flights {
    /// Returns when none is.
    pub async fn landed(&self) {
        loop {
            let Some(mut done) = lock(&self.0.flights).values().next().map(|flight| flight.done.clone()) else { return };
            drop(done.changed().await);
        }
    }
}

/// On whose behalf, and how, a summary is made.
pub struct Caller {
    pub core: Arc<Decider>,
    /// The origin of the core's seconds.
    pub started: std::time::Instant,
    pub knobs: Summarize,
    pub tenant: Tenant,
    pub format: Format,
    pub pool: Arc<Pool>,
    pub headers: HeaderMap,
    pub target: PathAndQuery,
    pub extensions: Extensions,
    /// That of the exchange which needs it.
    pub trace: Option<Trace>,
}

impl Caller {
    fn now(&self) -> u64 {
        self.started.elapsed().as_secs()
    }
}

/// What a summary cost.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    calls: u64,
    input: u64,
    cached: u64,
    output: u64,
}

/// What all summaries cost so far.
#[derive(Default)]
struct Spent {
    kept: Cost,
    wasted: Cost,
    /// Summaries by how asking for them ended.
    ends: HashMap<&'static str, u64>,
}

impl Spent {
    fn add(&mut self, cost: &Cost, cause: Option<&'static str>) {
        let all = if cause.is_none() { &mut self.kept } else { &mut self.wasted };
        all.calls += cost.calls;
        all.input += cost.input;
        all.cached += cost.cached;
        all.output += cost.output;
        *self.ends.entry(cause.unwrap_or(KEPT)).or_default() += 1;
    }
}

impl Cost {
    /// What an answer cost by its own account, or else, as nothing costs nothing, by our count of what was asked and said.
    fn add(&mut self, usage: Option<Usage>, (asked, said): (u64, u64)) {
        let usage = usage.unwrap_or_default();
        self.input += usage.input.unwrap_or(asked);
        self.cached += usage.cached.unwrap_or(0);
        self.output += usage.output.unwrap_or(said);
    }
}

impl Summarizer {
    /// Tells what summaries cost.
    pub fn measure(&self, metrics: &Metrics) {
        let set = |counts: Counter, value: u64| counts.inner().store(value, Ordering::Relaxed);
        let spent = lock(&self.spent);
        for (outcome, cost) in [(KEPT, spent.kept), ("wasted", spent.wasted)] {
            set(metrics.summary_calls.of(&[outcome]), cost.calls);
            for (kind, tokens) in [("input", cost.input), ("cached", cost.cached), ("output", cost.output)] {
                set(metrics.summary_tokens.of(&[kind, outcome]), tokens);
            }
        }
        for (end, count) in &spent.ends {
            set(metrics.summaries.of(&[end]), *count);
        }
    }

    /// Begins what is needed, unless whom it would ask or for whom is to be left alone. What the request should wait for, if it should.
    pub fn need(self: &Arc<Self>, need: Need, caller: Caller) -> Option<Wait> {
        match need {
            Need::Await(claim) => self.wait(claim).or_else(|| self.look_out(claim, caller)),
            Need::Elsewhere(claim) => self.watch(claim, caller),
            Need::Begin(job) => {
                let (claim, urgent, tenant, reads) = (job.claim, job.urgent, caller.tenant, job.pipeline.reads());
                if let Some(rest) = self.reserve(&job, &caller, reads) {
                    let now = caller.now();
                    // Not here: a store may take its time to hear of it.
                    tokio::task::spawn_blocking(move || caller.core.summarized(claim, None, now, now + rest.as_secs().max(1)));
                    return None;
                }
                let (done, receiver) = watch::channel(());
                let until = Instant::now() + seconds(caller.knobs.deadline);
                lock(&self.flights).insert(claim, Flight { done: receiver, until });
                let summarizer = self.clone();
                tokio::spawn(async move {
                    summarizer.make(job, caller).await;
                    lock(&summarizer.rests).release(tenant, reads);
                    lock(&summarizer.flights).remove(&claim);
                    drop(done);
                });
                if urgent { self.wait(claim) } else { None }
            }
        }
    }

    /// Sets `tokens` of the tenant's budget aside, or tells how long nothing is to be asked.
    fn reserve(&self, job: &Job, caller: &Caller, tokens: u64) -> Option<Duration> {
        let (mut rests, now) = (lock(&self.rests), Instant::now());
        let left = rests.left(caller.tenant, &job.model, caller.knobs.tenant_tokens, now);
        if left.is_none() {
            rests.reserve(caller.tenant, tokens, now);
        }
        left
    }

    /// What to wait for where another replica makes the summary: it is looked for where that will put it.
    fn watch(self: &Arc<Self>, claim: Claim, caller: Caller) -> Option<Wait> {
        let (done, receiver) = watch::channel(());
        let until = Instant::now() + seconds(caller.knobs.deadline);
        lock(&self.flights).insert(claim, Flight { done: receiver, until });
        let summarizer = self.clone();
        tokio::spawn(async move {
            while Instant::now() < until {
                let (core, now) = (caller.core.clone(), caller.now());
                match tokio::task::spawn_blocking(move || core.look_elsewhere(claim, now)).await {
                    Ok(None) => tokio::time::sleep(LOOK).await,
                    Ok(Some(_)) | Err(_) => break,
                }
            }
            lock(&summarizer.flights).remove(&claim);
            drop(done);
        });
        self.wait(claim)
    }

    /// What to wait for where another request got the right to make the summary and has not come to asking yet.
    fn look_out(&self, claim: Claim, caller: Caller) -> Option<Wait> {
        if lock(&self.flights).contains_key(&claim) {
            return None;
        }
        let begun = Duration::from_secs(caller.core.begun(claim, caller.now())?);
        let until = Instant::now() + seconds(caller.knobs.deadline).checked_sub(begun)?;
        let (done, receiver) = watch::channel(());
        tokio::spawn(async move {
            while Instant::now() < until && caller.core.begun(claim, caller.now()).is_some() {
                tokio::time::sleep(SOON).await;
            }
            drop(done);
        });
        Some(Wait::new(receiver, until))
    }

    fn wait(&self, claim: Claim) -> Option<Wait> {
        let flights = lock(&self.flights);
        let flight = flights.get(&claim)?;
        (Instant::now() < flight.until && flight.done.has_changed().is_ok()).then(|| Wait::new(flight.done.clone(), flight.until))
    }

    pub fn prune(&self) {
        lock(&self.pools).values().for_each(|pool| pool.prune());
        lock(&self.rests).prune(Instant::now());
    }

    async fn make(&self, job: Box<Job>, caller: Caller) {
        let (claim, model, began) = (job.claim, job.model.clone(), Instant::now());
        let mut cost = Cost::default();
        let outcome = self.run(job, &caller, began + seconds(caller.knobs.timeout), &mut cost).await;
        let ended = Instant::now();
        lock(&self.rests).spend(caller.tenant, cost.input + cost.output, ended);
        let (summary, cause) = match outcome {
            Outcome::Summary(summary) => (Some(summary), None),
            Outcome::Digest(cause) => (None, Some(cause)),
        };
        let rest = match cause {
            None => Duration::ZERO,
            Some(_) => lock(&self.rests).failed(caller.tenant, &model, seconds(caller.knobs.cooldown), ended),
        };
        if cause.is_none() {
            lock(&self.rests).succeeded(caller.tenant, &model);
        }
        lock(&self.spent).add(&cost, cause);
        log(&model, began.elapsed(), &cost, summary.as_ref(), cause);
        let (core, now) = (caller.core.clone(), caller.now());
        drop(tokio::task::spawn_blocking(move || core.summarized(claim, summary, now, now + rest.as_secs().max(1))).await);
    }

    async fn run(&self, mut job: Box<Job>, caller: &Caller, until: Instant, cost: &mut Cost) -> Outcome {
        let mut answer = None;
        loop {
            // Pages of text are searched and counted in a step.
            let stepped = tokio::task::spawn_blocking(move || {
                let step = job.pipeline.step(answer);
                (step, job)
            });
            let Ok((step, back)) = stepped.await else { return Outcome::Digest("panic") };
            job = back;
            let request = match step {
                Step::Done(outcome) => return outcome,
                Step::Ask(request) => request,
            };
            tracing::debug!(target: "plimsoll::summary", way = request.way, tokens = request.tokens, "asking for a summary");
            cost.calls += 1;
            // What is broken off in time was read by then, for all that is known.
            let late = Lost { failure: Failure::Silent, billed: true };
            let said = timeout_at(until, self.ask(&request, &job.model, caller)).await.unwrap_or(Err(late));
            answer = Some(match said {
                Ok(said) => {
                    cost.add(said.usage, (request.tokens, Tokenizer::Estimate.count(&said.text) as u64));
                    Answer::Said(said)
                }
                Err(Lost { failure, billed }) => {
                    if billed {
                        cost.add(None, (request.tokens, 0));
                    }
                    Answer::Failed(failure)
                }
            });
        }
    }
}

/// The one line that is logged for each summary.
fn log(model: &str, took: Duration, cost: &Cost, summary: Option<&Summary>, cause: Option<&'static str>) {
    tracing::info!(
        target: "plimsoll::summary",
        model,
        ms = (took.as_secs_f64() * 1e4).round() / 10.0,
        calls = cost.calls,
        tokens_in = cost.input,
        tokens_cached = cost.cached,
        tokens_out = cost.output,
        messages = summary.map(|summary| summary.messages),
        generation = summary.map(|summary| summary.generation),
        characters = summary.map(|summary| summary.text.chars().count()),
        mended = summary.filter(|summary| !summary.mended.is_empty()).map(|summary| summary.mended.join(",")),
        cause,
        "summary"
    );
}
