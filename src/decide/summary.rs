//! Which summary a request calls for: what a model is to be asked, so that its answer is there when it is needed.
//!
//! The schedule of epochs knows nothing of this. Below the trigger a compaction is tried out on the request as it stands, and what it would take away is
//! what a summary is made of; at the trigger, where requests may wait and none was made ahead, it is what the epoch that begins takes away.

use super::{Call, Decider, Measured, Mode, Steer, VERSION, cannot_be_due};
use crate::budget::{Limits, Trigger, load::Scale, models};
use crate::compact::schedule::{Course, Epoch, Recall, Standing, WorkedOut};
use crate::compact::summary::{Brief, Known, Measures, Pipeline, Shelf, Summary, Template, When, prepare};
use crate::compact::{Cleared, Goal, View};
use crate::conversation::{Fingerprint, Hasher};
use crate::wire::{Edit, Ride};
use std::sync::Arc;

/// What a request needs.
pub enum Need {
    /// Nobody else makes this summary: whoever is told this has to, and to say what became of it.
    Begin(Box<Job>),
    /// Somebody makes it, and the request may wait for that.
    Await(Claim),
    /// Another replica makes it, and the request may wait for that: [`Decider::look_elsewhere`] tells what becomes of it.
    Elsewhere(Claim),
}

/// A summary to be made.
pub struct Job {
    pub pipeline: Pipeline,
    /// The request may wait for it.
    pub urgent: bool,
    /// The model to ask.
    pub model: String,
    pub claim: Claim,
}

/// Names a prefix of which a summary is made, for one tenant and one way of summarising.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    prefix: Fingerprint,
    shelf: Fingerprint,
}

impl Claim {
    /// Names it in a store that replicas share.
    fn key(&self) -> Fingerprint {
        self.shelf.then(self.prefix)
    }
}

/// How long a summary that another replica makes is left to it, in seconds: longer than a call may take.
const ELSEWHERE: u64 = 300;
/// So many prefixes are looked up in a store, the longest ones.
const LOOKED_UP: usize = 256;

/// Bounds of the lead, in tokens (Oh-My-Pi), and how much of a small window it may take.
const LEAD: (u64, u64) = (8_192, 32_000);
const LEAD_SHARE: u64 = 4;

impl Decider {
    /// The summary that `call` should have made, if any.
    pub fn summary(&self, call: &Call) -> Option<Need> {
        let knobs = &call.policy.compact.summarize;
        let request = &call.request;
        let steered_off = matches!(call.steer, Steer::Off | Steer::Defer);
        let idle = !knobs.is_on() || call.policy.mode != Mode::On || steered_off || request.apart.is_some();
        let window = self.window(call).filter(|_| !idle)?;
        let scale = Scale::of(request, &call.upstream);
        let limits = call.limits(window, &scale);
        let line = limits.ceiling() - lead(limits.ceiling(), knobs.lead);
        if call.steer != Steer::Now && cannot_be_due(request, &Limits { preflight: Some(line), ..limits }) {
            return None;
        }
        let request = &request.fingerprinted();
        let measured = Measured::of(request, scale, &self.memo);
        let weigh = |message| measured.weigh(message);
        let (course, epochs) = self.course(call, &measured, &weigh, limits);
        let shelf = course.shelf?;
        let Course { prefixes, rest, .. } = course;
        let mut standing = course.follow(&self.ledger.page(epochs, call.now));
        let end = request.conversation.messages.len();

        if call.steer == Steer::Now && standing.epoch.as_ref().is_none_or(|epoch| epoch.covers < end) {
            return self.of_manual(call, &course, standing);
        }
        // An epoch that nobody has sent yet, whether it begins with this request or began when nobody was here to see it.
        let begins = standing.epoch.clone().filter(|epoch| !epoch.is_worked_out() && !shelf.is_settled(prefixes[epoch.covers]));
        if let Some(epoch) = begins {
            // The cheap gate waits for no model.
            let waits = knobs.when == When::Request && epoch.trigger != Trigger::Hygiene;
            // What was sent last is what came, unless another epoch was in force.
            let sent = (epoch.number == 1).then_some((&[][..], standing.came.tokens + rest));
            return if waits { self.need(call, &course, &epoch, sent, true) } else { None };
        }
        let weight = standing.sent.tokens + rest;
        let before = standing.epoch.as_ref().map_or(0, |epoch| epoch.cleared.upto);
        if weight < line || shelf.is_provided_for(&prefixes[before + 1..]) {
            return None;
        }
        let current = standing.epoch.clone();
        let edits = current.as_ref().map_or(&[][..], |epoch| &epoch.worked_out(&course).edits);
        if !course.compact(&mut standing, end, Trigger::Preflight, &Goal::of(limits)) {
            return None;
        }
        let epoch = standing.epoch?;
        self.need(call, &course, &epoch, Some((edits, weight)), false)
    }

    /// Who orders a compaction waits for its summary, whenever others are made.
    fn of_manual(&self, call: &Call, course: &Course, mut standing: Standing) -> Option<Need> {
        let (current, weight) = (standing.epoch.clone(), standing.sent.tokens + course.rest);
        let end = course.request.conversation.messages.len();
        if !course.compact(&mut standing, end, Trigger::Manual, &Goal::of(course.limits)) {
            return None;
        }
        // An epoch that was never sent has no edits that a provider has seen.
        let sent = match &current {
            None => Some((&[][..], weight)),
            Some(epoch) if epoch.is_worked_out() => Some((&epoch.worked_out(course).edits[..], weight)),
            Some(_) => None,
        };
        let epoch = standing.epoch?;
        self.need(call, course, &epoch, sent, true)
    }

    /// `sent` is what was sent last: its edits and its weight.
    fn need(&self, call: &Call, course: &Course, epoch: &Epoch, sent: Option<(&[Edit], u64)>, urgent: bool) -> Option<Need> {
        let (shelf, prefixes) = (course.shelf?, course.prefixes);
        if epoch.cleared.upto <= epoch.cleared_before.upto {
            return None;
        }
        let prefix = prefixes[epoch.cleared.upto];
        let taken_away = &prefixes[epoch.cleared_before.upto + 1..=epoch.cleared.upto];
        if shelf.is_provided_for(taken_away) || !shelf.claim(prefix) {
            // One that was begun ahead of need covers less, and serves as well.
            let prefix = shelf.being_made(taken_away).unwrap_or(prefix);
            return urgent.then_some(Need::Await(Claim { prefix, shelf: shelf.base }));
        }
        let knobs = &call.policy.compact.summarize;
        let claim = Claim { prefix, shelf: shelf.base };
        self.fetch(&shelf, &prefixes[..=epoch.cleared.upto]);
        if shelf.longest(&prefixes[..=epoch.cleared.upto]).is_some_and(|(messages, _)| messages == epoch.cleared.upto) {
            // Another replica has made it.
            return None;
        }
        if self.ledger.store().is_some_and(|store| !store.claim(claim.key(), ELSEWHERE)) {
            // Another replica makes it, and puts it where all find it.
            shelf.fail(prefix, call.now + ELSEWHERE);
            return urgent.then_some(Need::Elsewhere(claim));
        }
        let pipeline = Pipeline::new(brief(call, course, epoch, sent, &shelf));
        let model = knobs.model(course.request.model()).to_owned();
        Some(Need::Begin(Box::new(Job { pipeline, urgent, model, claim })))
    }

    /// For how many seconds somebody here has been making a summary by now; nothing where nobody does.
    pub fn begun(&self, claim: Claim, now: u64) -> Option<u64> {
        Shelf { candidates: &self.summaries, base: claim.shelf, epochs: claim.shelf, now }.begun(claim.prefix)
    }

    /// Whether the summary that another replica makes is here now; nothing as long as it is being made. Asks a store.
    pub fn look_elsewhere(&self, claim: Claim, now: u64) -> Option<bool> {
        let Some(store) = self.ledger.store() else { return Some(false) };
        let value = store.get(&[claim.key()]).pop().flatten()?;
        let summary: Option<Summary> = postcard::from_bytes(&value).ok();
        let is_there = summary.is_some();
        if let Some(summary) = summary {
            Shelf { candidates: &self.summaries, base: claim.shelf, epochs: claim.shelf, now }.keep(claim.prefix, summary);
        }
        Some(is_there)
    }

    /// What became of a claim: a summary, or none before `again`; both in the seconds of [`Call::now`]. May wait for a store: what this replica begins to
    /// use, others can have.
    pub fn summarized(&self, claim: Claim, summary: Option<Summary>, now: u64, again: u64) {
        let shelf = Shelf { candidates: &self.summaries, base: claim.shelf, epochs: claim.shelf, now };
        match summary {
            Some(summary) => {
                self.tell(claim, postcard::to_stdvec(&summary).unwrap_or_default());
                shelf.keep(claim.prefix, summary);
            }
            None => {
                self.tell(claim, Vec::new());
                shelf.fail(claim.prefix, again);
            }
        }
    }

    /// Tells other replicas what became of a claim. An empty value is no summary.
    fn tell(&self, claim: Claim, value: Vec<u8>) {
        if let Some(store) = self.ledger.store() {
            store.put(claim.key(), value);
            store.flush();
        }
    }

    /// The edits of an epoch. Where the first request under it decides what they are, other replicas are told at once.
    pub(super) fn work_out<'e>(&self, epoch: &'e Epoch, course: &Course, standing: &Standing, page: &impl Recall) -> &'e WorkedOut {
        let Some(shelf) = course.shelf.filter(|_| self.ledger.store().is_some() && !epoch.is_worked_out()) else {
            return epoch.worked_out(course);
        };
        if !shelf.is_settled(course.prefixes[epoch.covers]) {
            self.fetch(&shelf, &course.prefixes[..=epoch.cleared.upto]);
            self.agree(&shelf, course, epoch);
        }
        let worked_out = epoch.worked_out(course);
        if epoch.covers == course.request.conversation.messages.len() {
            page.remember(course.prefixes[epoch.covers], standing);
        }
        worked_out
    }

    /// Settles what an epoch is sent with: what the first replica had that sent it. Summaries may arrive while several of them begin the same one.
    fn agree(&self, shelf: &Shelf, course: &Course, epoch: &Epoch) {
        let Some(store) = self.ledger.store().filter(|_| epoch.cleared.upto > 0) else { return };
        let (begins, prefixes) = (course.prefixes[epoch.covers], &course.prefixes[..=epoch.cleared.upto]);
        let own = shelf.longest(prefixes);
        let mut hasher = Hasher::default();
        hasher.piece(b'c', &shelf.epochs.0);
        hasher.piece(b'p', &begins.0);
        let messages = own.as_ref().map_or(0, |(messages, _)| *messages);
        let stands = store.agree(hasher.finish(), (messages as u64).to_le_bytes().to_vec());
        let first = stands.try_into().map_or(messages, |bytes| u64::from_le_bytes(bytes) as usize);
        let chosen = match prefixes.get(first) {
            _ if first == messages => own,
            Some(prefix) if first > 0 => {
                let claim = Claim { prefix: *prefix, shelf: shelf.base };
                shelf.of(first, *prefix).or_else(|| {
                    self.look_elsewhere(claim, shelf.now)?;
                    shelf.of(first, *prefix)
                })
            }
            _ => None,
        };
        shelf.choose(begins, chosen);
    }

    /// Takes over the longest summary of these prefixes that another replica made, where none as long is here.
    fn fetch(&self, shelf: &Shelf, prefixes: &[Fingerprint]) {
        let Some(store) = self.ledger.store() else { return };
        let here = shelf.longest(prefixes).map_or(0, |(messages, _)| messages);
        let asked = &prefixes[prefixes.len().saturating_sub(LOOKED_UP).max(here + 1).min(prefixes.len())..];
        let keys: Vec<Fingerprint> = asked.iter().map(|prefix| Claim { prefix: *prefix, shelf: shelf.base }.key()).collect();
        let found =
            asked.iter().zip(store.get(&keys)).rev().find_map(|(prefix, value)| Some((*prefix, postcard::from_bytes(&value?).ok()?)));
        if let Some((prefix, summary)) = found {
            shelf.keep(prefix, summary);
        }
    }

    /// Where the summaries of a call are, if it wants any.
    pub(super) fn shelf(&self, call: &Call, epochs: Fingerprint) -> Option<Shelf<'_>> {
        let knobs = &call.policy.compact.summarize;
        if !knobs.is_on() {
            return None;
        }
        let mut hasher = Hasher::default();
        hasher.piece(b't', &call.tenant.0);
        hasher.piece(b'f', call.request.format.name().as_bytes());
        hasher.piece(b'u', call.upstream.as_bytes());
        hasher.piece(b'm', call.request.model().as_bytes());
        hasher.piece(b'v', &VERSION.to_le_bytes());
        hasher.piece(b's', format!("{knobs:?}").as_bytes());
        Some(Shelf { candidates: &self.summaries, base: hasher.finish(), epochs, now: call.now })
    }
}

fn lead(ceiling: u64, share: f64) -> u64 {
    ((ceiling as f64 * share) as u64).clamp(LEAD.0, LEAD.1).min(ceiling / LEAD_SHARE)
}

/// What the summary of what an epoch takes away is made from.
fn brief(call: &Call, course: &Course, epoch: &Epoch, sent: Option<(&[Edit], u64)>, shelf: &Shelf) -> Brief {
    let knobs = &call.policy.compact.summarize;
    let (request, to) = (course.request, epoch.cleared.upto);
    let model = knobs.model(request.model());
    let known_model = models::model(model, &call.upstream).filter(|_| knobs.upstream.is_empty()).or_else(|| models::model(model, ""));
    let window = match knobs.window {
        0 if knobs.rides() => course.limits.window,
        0 => known_model.map_or(course.limits.window, |model| model.window.input(0)),
        tokens => tokens,
    };
    // An update of the summary before, unless that is itself too many updates away from the messages.
    let previous = shelf.longest(&course.prefixes[..to]).filter(|(_, summary)| summary.generation < knobs.generations);
    let from = previous.as_ref().map_or(0, |(messages, _)| *messages);
    let generation = previous.as_ref().map_or(1, |(_, summary)| summary.generation + 1);
    let previous: Option<Arc<Summary>> = previous.map(|(_, summary)| summary);

    let view = View::new(request, Cleared::default(), to, course.weigh, course.rest, course.scale);
    let mut rest = previous.as_ref().map_or(String::new(), |previous| previous.text.clone() + "\n");
    for (_, value) in &request.rest {
        rest.push_str(value.of(request.text()));
        rest.push('\n');
    }
    let tokenizer = known_model.map(|model| model.tokenizer).unwrap_or_default();
    let measures = Measures::new(tokenizer, window, (from..to).map(course.weigh).sum(), course.limits.window);
    // What is made anew from the messages is asked about the messages.
    let sent = sent.filter(|(edits, _)| knobs.rides() && (edits.is_empty() || previous.is_some()));
    let ride = sent.and_then(|(edits, weight)| Some((Ride::of(request, edits, to, measures.output())?, weight)));
    Brief {
        entries: prepare(&view, from, to, window),
        known: Known::of(&view, from, to, &rest),
        previous: previous.map(|previous| previous.text.clone()),
        messages: to,
        generation,
        template: knobs
            .text
            .as_deref()
            .map(Template::read)
            .or_else(|| Template::built_in(&knobs.template))
            .unwrap_or_else(|| Template::read("")),
        policy: knobs.identifiers,
        instructions: format!("{}\n{}", call.focus, knobs.instructions),
        measures,
        ride,
    }
}
