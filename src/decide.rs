//! What to do with a request: the one place where reading, measuring, the schedule and the ladder meet.
//!
//! Pure but for what it remembers: it is told the time, the credential's fingerprint and the windows that are known, and answers with bytes. Whoever
//! calls it acts on that.

mod call;
mod calm;
mod learnt;
mod measured;
mod overflow;
mod report;
mod summary;

pub use call::{Call, Mode, Policy, Steer};
pub use report::{Decision, Report, Rewrite, Ticket};
pub use summary::{Claim, Job, Need};

use crate::budget::{Limits, Trigger, Window, load::Scale, models};
use crate::compact::summary::Candidates;
use crate::compact::{Goal, Knobs, Rung, digest::Records, schedule::Course, schedule::Futile, schedule::Recall, schedule::Standing};
use crate::conversation::{Fingerprint, Hasher};
use crate::ledger::Ledger;
use crate::tokens::{Calibration, Memo};
use crate::wire::{Edit, Format, Known, Request, Unreadable, check};
use bytes::Bytes;
use calm::Calm;
use learnt::Learnt;
use measured::Measured;
use std::sync::{Arc, Mutex, PoisonError};

/// Changes with every release whose edits may differ, so that no replica mixes two kinds of bytes.
const VERSION: u32 = 5;

/// Cause of a pass: nobody knows how much the model takes, so all there is to do is to react.
pub const WINDOW_UNKNOWN: &str = "window_unknown";

/// The decisions and everything learnt.
pub struct Decider {
    pub ledger: Ledger,
    pub memo: Memo,
    /// Where the messages of earlier requests lay.
    pub known: Known,
    pub calibration: Calibration,
    calm: Calm,
    learnt: Learnt,
    /// What models made of the beginnings of conversations.
    pub summaries: Candidates,
    /// Policies that were met lately, with what tells their knobs apart.
    policies: Mutex<Vec<(Arc<Policy>, Fingerprint)>>,
}

/// What summaries may take, in bytes.
const SUMMARY_BYTES: u64 = 64 << 20;

/// A long conversation takes two hundred kilobytes of these.
const KNOWN_BYTES: usize = 16 << 20;

/// Up to this share of the window a request surely fits, by a provider's counts: what was learnt of them is a mean, and logs are denser than prose.
const SURE: f64 = 0.9;

impl Decider {
    pub fn new(ledger_bytes: u64, ledger_seconds: u64, memo_bytes: usize) -> Self {
        Self {
            ledger: Ledger::new(ledger_bytes, ledger_seconds),
            memo: Memo::new(memo_bytes),
            known: Known::new(KNOWN_BYTES),
            calibration: Calibration::default(),
            calm: Calm::default(),
            learnt: Learnt::default(),
            summaries: Candidates::new(SUMMARY_BYTES),
            policies: Mutex::default(),
        }
    }

    /// A request of `tenant`, of which what came before is recognised.
    pub fn read(&self, format: Format, body: Bytes, tenant: Fingerprint) -> Result<Request, Unreadable> {
        Request::read_after(format, body, Some((&self.known, tenant)))
    }

    /// What to send for `call`.
    pub fn before_send(&self, call: &Call) -> Decision {
        let request = &call.request;
        let mut report = Report { model: request.model().to_owned(), stream: request.stream, ..Report::default() };
        let pass = |report: Report, cause| Decision::Pass(Report { cause, ..report });
        if call.policy.mode == Mode::Off || call.steer == Steer::Off {
            return pass(report, Some("off"));
        }
        if let Some(apart) = request.apart {
            return pass(report, Some(apart.name()));
        }
        let Some(window) = self.window(call) else { return pass(report, Some(WINDOW_UNKNOWN)) };
        report.window = Some(window.tokens);
        let scale = Scale::of(request, &call.upstream);
        let limits = call.limits(window, &scale);
        // A token is at least a byte, so most requests need no count at all.
        if call.steer != Steer::Now && cannot_be_due(request, &limits) {
            self.went_on(request, &limits, request.text().len() as u64);
            return pass(report, None);
        }
        self.decide(call, &Measured::of(&request.fingerprinted(), scale, &self.memo), limits, report)
    }

    fn decide(&self, call: &Call, measured: &Measured, limits: Limits, mut report: Report) -> Decision {
        let weigh = |message| measured.weigh(message);
        let (course, base) = self.course(call, measured, &weigh, limits);
        let Course { request, prefixes, rest, .. } = course;
        let page = self.ledger.page(base, call.now);
        let put_off =
            (call.steer == Steer::Defer).then(|| course.put_off(&page)).filter(|standing| standing.sent.tokens + rest <= limits.window);
        let mut standing = put_off.unwrap_or_else(|| course.follow(&page));
        let end = request.conversation.messages.len();

        if call.steer == Steer::Now && standing.epoch.as_ref().is_none_or(|epoch| epoch.covers < end) {
            if course.compact(&mut standing, end, Trigger::Manual, &Goal::of(limits)) {
                page.remember(prefixes[end], &standing);
            }
        } else {
            self.harder(call, &course, &mut standing, &page);
        }
        let worked_out = standing.epoch.as_ref().map(|epoch| self.work_out(epoch, &course, &standing, &page));
        let after = standing.sent.tokens + rest - worked_out.map_or(0, |worked_out| worked_out.slack);
        report.tokens = Some((standing.came.tokens + rest, after));
        let cap = clamp(request, &call.policy.compact, &limits, after);
        let refuse = call.policy.strict && after > limits.window;
        if let Some(epoch) = &standing.epoch {
            (report.rungs, report.epoch) = (epoch.rungs(), epoch.number);
            // An epoch that began earlier is no news: its edits are only applied again.
            let is_news = epoch.covers >= request.lasting();
            report.trigger = Some(if is_news { epoch.trigger.name() } else { "ledger" });
            report.records = worked_out.filter(|_| is_news).map_or_else(Records::default, |worked_out| worked_out.records);
        }
        report.rungs.extend(cap.map(|_| Rung::ClampOutput.name()));
        if refuse {
            return Decision::Refuse(report);
        }
        if standing.epoch.is_none() && cap.is_none() {
            self.went_on(request, &limits, after);
            return Decision::Pass(report);
        }
        match self.rewrite(request, worked_out.map_or(&[], |worked_out| &worked_out.edits), cap) {
            Err(rule) => Decision::Pass(Report {
                cause: Some(rule),
                tokens: Some((standing.came.tokens + rest, standing.came.tokens + rest)),
                ..report
            }),
            Ok(_) if call.policy.mode == Mode::Shadow => Decision::Pass(Report { cause: Some("shadow"), ..report }),
            Ok(body) => {
                report.edited = true;
                Decision::Send(Rewrite {
                    body,
                    report,
                    ticket: Ticket { base, prefix: prefixes[end], came: standing.came, rest, lesson: None },
                })
            }
        }
    }

    /// The course that the schedule takes for `call` under `limits`, and the base of its ledger entries.
    fn course<'a>(
        &'a self,
        call: &'a Call,
        measured: &'a Measured,
        weigh: &'a dyn Fn(usize) -> u64,
        limits: Limits,
    ) -> (Course<'a>, Fingerprint) {
        let Measured { request, prefixes, scale, rest, .. } = measured;
        let base = measured.base(call, &limits, self.knobs(&call.policy));
        let shelf = self.shelf(call, base);
        (Course { request, prefixes, scale, rest: *rest, limits, knobs: &call.policy.compact, weigh, shelf }, base)
    }

    /// Where the schedule's result is known not to fit, by what the provider's own counts have taught, one harder step. It is remembered for this
    /// conversation; a process that has not learnt it sends what the schedule says.
    fn harder(&self, call: &Call, course: &Course, standing: &mut Standing, page: &impl Recall) {
        // A count of theirs above ours is no reason as long as they take what we send: the retry is there for the first time that they do not.
        if !self.learnt.has_refused(call) {
            return;
        }
        let ratio = self.calibration.ratio(&call.upstream, &course.scale.model);
        let tokens = standing.sent.tokens + course.rest;
        let end = course.request.conversation.messages.len();
        let fits = tokens as f64 * ratio <= course.limits.window as f64 * SURE;
        if ratio <= 1.0 || fits || standing.futile.holds(tokens, end) {
            return;
        }
        course.compact(standing, end, Trigger::Preflight, &Goal::of(course.limits.scaled(ratio)));
        page.remember(course.prefixes[end], standing);
    }

    /// The provider refused an edited request for another reason than its length: this conversation is left alone until it grows a good deal.
    pub fn quarantine(&self, ticket: &Ticket, now: u64) {
        let futile = Futile::until(ticket.rest + ticket.came.tokens + ticket.came.tokens / 4);
        let standing = Standing { epoch: None, came: ticket.came, sent: ticket.came, futile };
        self.ledger.page(ticket.base, now).remember(ticket.prefix, &standing);
    }

    /// What the provider counted for a prompt that we counted too.
    pub fn learn_usage(&self, upstream: &str, model: &str, real: u64, counted: u64) {
        let tokenizer = models::model(model, upstream).map(|model| model.tokenizer).unwrap_or_default();
        self.calibration.learn(upstream, model, tokenizer, real, counted);
    }

    /// The window in force: what is known, or less where the provider said so.
    fn window(&self, call: &Call) -> Option<Window> {
        match (call.window, self.learnt.window(call)) {
            (Some(window), Some(limit)) => Some(Window { tokens: window.tokens.min(limit), ..window }),
            (window, None) => window,
            (None, Some(limit)) => Some(Window { tokens: limit, separate_output: false }),
        }
    }

    /// What tells the knobs of a policy from another's. Writing them out for every request would cost more than all else that a small one does.
    fn knobs(&self, policy: &Arc<Policy>) -> Fingerprint {
        const MOST: usize = 64;
        let mut known = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, knobs)) = known.iter().find(|(known, _)| Arc::ptr_eq(known, policy)) {
            return *knobs;
        }
        let mut hasher = Hasher::default();
        hasher.piece(b'k', format!("{:?}", policy.compact).as_bytes());
        let knobs = hasher.finish();
        known.truncate(MOST - 1);
        known.insert(0, (policy.clone(), knobs));
        knobs
    }

    fn count(&self, call: &Call, body: &Bytes) -> Option<u64> {
        let request = Request::read(call.request.format, body.clone()).ok()?;
        let scale = Scale::of(&request, &call.upstream);
        Some(scale.rest(&request) + request.conversation.messages.iter().map(|message| scale.message(&request, message)).sum::<u64>())
    }

    /// The edited body, read back and checked; the rule that it breaks otherwise.
    fn rewrite(&self, request: &Request, edits: &[Edit], cap: Option<u64>) -> Result<Bytes, &'static str> {
        let body = Bytes::from(request.apply(edits, cap));
        let back = Request::read(request.format, body.clone()).map_err(|_| "unreadable_rewrite")?;
        match check::rewrite(request, &back).first() {
            Some(fault) => Err(fault.rule),
            None => Ok(body),
        }
    }
}

impl Unreadable {
    pub fn name(self) -> &'static str {
        match self {
            Unreadable::NotUtf8 => "not_utf8",
            Unreadable::NotOurs => "not_a_conversation",
            Unreadable::Ambiguous => "ambiguous",
        }
    }
}

/// Whether bytes alone show that no gate can be due.
fn cannot_be_due(request: &Request, limits: &Limits) -> bool {
    const AROUND: u64 = 16;
    let conversation = &request.conversation;
    let no_media = conversation.blocks.iter().all(|block| conversation.media_in(block) == 0);
    let most = request.text().len() as u64 + AROUND * (conversation.messages.len() as u64 + conversation.blocks.len() as u64 + 1);
    no_media
        && most <= limits.ceiling()
        && limits.max_bytes == 0
        && limits.max_media == 0
        && (limits.max_messages == 0 || conversation.messages.len() <= limits.max_messages as usize)
}

/// The output cap to send where prompt and cap together do not fit, and the policy allows to lower it before anybody complains.
fn clamp(request: &Request, knobs: &Knobs, limits: &Limits, tokens: u64) -> Option<u64> {
    if !knobs.clamp_output.before_sending || !knobs.plan.contains(&Rung::ClampOutput) {
        return None;
    }
    smaller_cap(request, knobs, limits.window, tokens)
}

/// A cap that fits beside `prompt` in `limit`: smaller than the request's, no smaller than is useful, and above its budget for thinking.
fn smaller_cap(request: &Request, knobs: &Knobs, limit: u64, prompt: u64) -> Option<u64> {
    let (_, cap) = request.cap?;
    // Counts of prompts differ by a little from one moment to the next.
    let room = limit.saturating_sub(prompt + prompt / 200 + 16);
    let least = knobs.clamp_output.floor.max(request.thinking.map_or(0, |budget| budget + knobs.clamp_output.floor));
    (room < cap && room >= least).then_some(room)
}

/// One line into the whole core, for fuzzing: whatever the bytes, what is sent is the bytes that came or a rewrite that breaks no rule.
///
/// # Panics
/// When it is neither.
pub fn rewrite_any(format: u8, window: u64, body: Vec<u8>) {
    let format = Format::ALL[usize::from(format) % Format::ALL.len()];
    let Ok(request) = Request::read(format, body.into()) else { return };
    let call = Call {
        request,
        tenant: Fingerprint::default(),
        upstream: "".into(),
        policy: Arc::new(Policy::default()),
        steer: Steer::Now,
        focus: String::new(),
        window: Some(Window { tokens: window, separate_output: false }),
        now: 0,
    };
    if let Decision::Send(rewrite) = Decider::new(1 << 20, 60, 1 << 20).before_send(&call) {
        let Ok(went) = Request::read(format, rewrite.body) else { panic!("a rewrite can be read") };
        assert_eq!(check::rewrite(&call.request, &went), vec![]);
    }
}
