//! After the provider said "too long": once more, and harder, sized by the numbers that it named.

use super::{Call, Decider, Measured, Mode, Report, Rewrite, Steer, Ticket, learnt::Learner, smaller_cap};
use crate::budget::{Limits, Load, Trigger, Window, load::Scale};
use crate::compact::{Goal, Rung, schedule::Course, schedule::Recall, schedule::Standing};
use crate::conversation::Fingerprint;
use crate::wire::Request;
use crate::wire::overflow::{Class, Classified, Scope};
use bytes::Bytes;

/// Stands for a window that nobody named.
const BOUNDLESS: u64 = u64::MAX / 8;

/// A refusal beside our own count of what was refused.
struct Sizes {
    /// By our count.
    counted: u64,
    /// By the provider's count, as it said or as we know it to count.
    prompt: u64,
    /// The provider's count for one of ours.
    ratio: f64,
    /// The provider's window, by its count.
    limit: u64,
}

impl Decider {
    /// The one harder compaction after the provider said that the request is too long; `None` when the first error should go down.
    pub fn after_overflow(&self, call: &Call, sent: &Bytes, refusal: &Classified) -> Option<Rewrite> {
        if call.policy.mode != Mode::On || call.steer == Steer::Off || call.request.apart.is_some() {
            return None;
        }
        let class = match refusal.class {
            // An answer without a word is an overflow where the request nearly filled its window, which the caller has seen to.
            Class::None if refusal.needs_estimate() => Class::Input,
            Class::None => return None,
            class => class,
        };
        let refusal = &Classified { class, ..*refusal };
        let request = call.request.fingerprinted();
        let measured = Measured::of(&request, Scale::of(&request, &call.upstream), &self.memo);
        let sizes = self.sizes(call, &measured, sent, refusal)?;
        if matches!(class, Class::Input | Class::InputPlusOutput) {
            self.learnt.refused(call);
        }
        // The cheapest repair loses nothing: a smaller answer.
        let repaired = (class == Class::InputPlusOutput).then(|| lower_cap(call, &measured, sent, &sizes)).flatten();
        repaired.or_else(|| self.cut_harder(call, &measured, sent, refusal, &sizes))
    }

    fn sizes(&self, call: &Call, measured: &Measured, sent: &Bytes, refusal: &Classified) -> Option<Sizes> {
        let request = measured.request;
        let counted = if sent == request.bytes() {
            (0..request.conversation.messages.len()).map(|message| measured.weigh(message)).sum::<u64>() + measured.rest
        } else {
            self.count(call, sent)?
        };
        let learnt = self.calibration.ratio(&call.upstream, &measured.scale.model);
        let (prompt, ratio) = match prompt(refusal) {
            Some(prompt) => (prompt.max(1), (prompt as f64 / counted.max(1) as f64).clamp(0.25, 4.0)),
            None => (((counted as f64 * learnt) as u64).max(1), learnt),
        };
        let limit = refusal.limit.or(self.window(call).map(|window| window.tokens)).unwrap_or(u64::MAX);
        // A provider that refuses what should have fitted has a smaller window than it says, or than we think.
        let limit = if refusal.limit.is_none() && refusal.class != Class::Bytes { limit.min(prompt - prompt / 20) } else { limit };
        Some(Sizes { counted, prompt, ratio, limit })
    }

    fn cut_harder(&self, call: &Call, measured: &Measured, sent: &Bytes, refusal: &Classified, sizes: &Sizes) -> Option<Rewrite> {
        let cap = measured.request.cap.map(|(_, cap)| cap);
        let window = self.window(call).unwrap_or(Window { tokens: sizes.limit.min(BOUNDLESS), separate_output: false });
        let limits = call.limits(window, &measured.scale);
        let answer = if window.separate_output || refusal.class == Class::Input && refusal.requested_scope == Scope::Input {
            0
        } else {
            cap.unwrap_or(0)
        };
        let goal = sizes.goal(limits, call.policy.gates.target, answer, (refusal.class == Class::Bytes).then_some(sent.len() as u64));

        let weigh = |message| measured.weigh(message);
        let (course, base) = self.course(call, measured, &weigh, limits);
        let course = Course { limits: goal.limits, ..course };
        let Course { request, prefixes, rest, .. } = course;
        let end = request.conversation.messages.len();
        let came = (0..end).fold(Load::default(), |load, message| load + course.load(message));
        let mut standing = Standing { came, sent: came, ..Standing::default() };
        if !course.compact(&mut standing, end, if goal.bytes.is_some() { Trigger::Bytes } else { Trigger::Overflow }, &goal) {
            return None;
        }
        let epoch = standing.epoch.clone()?;
        let worked_out = epoch.worked_out(&course);
        let body = self.rewrite(request, &worked_out.edits, None).ok()?;
        let after = standing.sent.tokens + rest - worked_out.slack;
        // Smaller than what was refused, or not at all.
        if body.len() >= sent.len() || (goal.bytes.is_none() && after >= sizes.counted) {
            return None;
        }
        self.ledger.page(base, call.now).remember(prefixes[end], &standing);
        let report = Report {
            tokens: Some((came.tokens + rest, after)),
            rungs: epoch.rungs(),
            records: worked_out.records,
            epoch: epoch.number,
            ..sizes.report(call)
        };
        let lesson = (refusal.class != Class::Bytes).then(|| sizes.lesson(call, after)).flatten();
        Some(Rewrite { body, report, ticket: Ticket { base, prefix: prefixes[end], came, rest, lesson } })
    }

    /// The provider took the rewrite that `ticket` names, so its window is what it had said, or lies in between: the next turn need not be refused to be
    /// compacted. A refusal alone teaches none, because it may quote the agent.
    pub fn accepted(&self, ticket: &Ticket, now: u64) {
        if let Some((learner, limit)) = ticket.lesson {
            self.learnt.learn(learner, limit, now);
        }
    }
}

impl Sizes {
    /// What the harder compaction has to reach, where the answer may take `answer` tokens of the window and `bytes` were too many.
    fn goal(&self, limits: Limits, share: f64, answer: u64, bytes: Option<u64>) -> Goal {
        let limit = (self.limit.min(BOUNDLESS) as f64 / self.ratio) as u64;
        let answer = (answer.min(self.limit / 2) as f64 / self.ratio) as u64;
        let room = (limit as f64 * 0.95) as u64 - answer.min((limit as f64 * 0.45) as u64);
        // Half of what was refused, where nothing else is known.
        let window = limit.min(self.counted.max(1) * 4);
        let half = bytes.map_or(u64::MAX, |_| self.counted / 2);
        Goal {
            limits: Limits { window, ..limits },
            target: ((window as f64 * share) as u64).min(room).min(half),
            ceiling: room.min(half),
            bytes: bytes.map(|bytes| bytes / 2),
            hard: true,
            draft: false,
        }
    }

    /// What is learnt if the provider takes `after` tokens by our count; nothing where that is more than it said to take.
    fn lesson(&self, call: &Call, after: u64) -> Option<(Learner, u64)> {
        let fits = after as f64 * self.ratio <= self.limit as f64;
        (self.limit > 0 && self.limit < BOUNDLESS && fits).then(|| (Learner::of(call), self.limit))
    }

    fn report(&self, call: &Call) -> Report {
        Report {
            model: call.request.model().to_owned(),
            stream: call.request.stream,
            trigger: Some(Trigger::Overflow.name()),
            window: (self.limit < u64::MAX).then_some(self.limit),
            edited: true,
            ..Report::default()
        }
    }
}

/// The prompt's tokens by the provider's count, where it counted them.
fn prompt(refusal: &Classified) -> Option<u64> {
    if refusal.lower_bound || refusal.class == Class::Bytes {
        return None;
    }
    let requested = refusal.requested?;
    let prompt = match refusal.requested_scope {
        Scope::Input => requested,
        Scope::Total => requested.saturating_sub(refusal.output.unwrap_or(0)),
    };
    (prompt > 0).then_some(prompt)
}

/// What was sent, with an output cap that fits beside its prompt.
fn lower_cap(call: &Call, measured: &Measured, sent: &Bytes, sizes: &Sizes) -> Option<Rewrite> {
    let request = measured.request;
    let cap = smaller_cap(request, &call.policy.compact, sizes.limit, sizes.prompt)?;
    let body = Bytes::from(Request::read(request.format, sent.clone()).ok()?.apply(&[], Some(cap)));
    let report = Report { tokens: Some((sizes.counted, sizes.counted)), rungs: vec![Rung::ClampOutput.name()], ..sizes.report(call) };
    let prefix = measured.prefixes.last().copied().unwrap_or_default();
    let lesson = sizes.lesson(call, sizes.counted);
    Some(Rewrite { body, report, ticket: Ticket { base: Fingerprint::default(), prefix, lesson, ..Ticket::default() } })
}
