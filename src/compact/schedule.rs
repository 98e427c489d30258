//! When a conversation was compacted, and how: the schedule of epochs.
//!
//! An epoch begins where a gate was due, and lasts until one is due again; in between, its edits are applied to the same messages each time, so the
//! bytes of the compacted prefix stay what they are. Where epochs begin is a pure function of the history: a process that has not seen a
//! conversation replays it, cut wherever an agent would have sent a request. What is remembered only saves that work.

mod stored;

use super::digest::Records;
use super::summary::{Shelf, Summary};
use super::{Cleared, Goal, Knobs, Outcome, Rung, View, ladder};
use crate::budget::{Limits, Load, Trigger, load::Scale};
use crate::conversation::{Fingerprint, Role, is_cut};
use crate::wire::{Edit, Request};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// One compaction: what stands for the first `covers` messages.
#[derive(Debug, Serialize, Deserialize)]
pub struct Epoch {
    /// Counts up within the conversation, from 1.
    pub number: u32,
    pub covers: usize,
    /// What is gone, and what was under the epoch before.
    pub cleared: Cleared,
    pub cleared_before: Cleared,
    rungs: Vec<Rung>,
    pub trigger: Trigger,
    goal: Goal,
    #[serde(with = "stored::worked_out")]
    worked_out: OnceLock<WorkedOut>,
    /// Where a store behind the ledger holds it.
    #[serde(skip)]
    pub stored: OnceLock<Fingerprint>,
    /// What of its weight a ledger has charged, and in which generation: that in the upper half.
    #[serde(skip)]
    charged: AtomicU64,
}

/// The edits of an epoch, and by how many tokens the request is lighter than the schedule reckons with.
#[derive(Debug, Serialize, Deserialize)]
pub struct WorkedOut {
    pub edits: Vec<Edit>,
    pub slack: u64,
    /// The notes hold a model's summary.
    pub summarized: bool,
    /// What became of the records that the notes are made of, for whoever worked it out.
    #[serde(skip)]
    pub records: Records,
}

impl Epoch {
    /// The edits, worked out when they are first wanted: most epochs of a replay are over before anybody would send them.
    pub fn worked_out(&self, course: &Course) -> &WorkedOut {
        self.worked_out.get_or_init(|| {
            let shelf = course.shelf.filter(|_| self.cleared.upto > 0);
            let chosen = shelf.and_then(|shelf| shelf.settle(course.prefixes[self.covers], &course.prefixes[..=self.cleared.upto]));
            let summary = chosen.as_ref().map(|(_, summary)| &**summary);
            let Outcome { edits, slack, summarized, records, .. } =
                course.run(&self.cleared_before, self.covers, &Goal { draft: false, ..self.goal }, summary);
            WorkedOut { edits, slack, summarized, records }
        })
    }

    /// Whether it has been sent, as far as is known here.
    pub fn is_worked_out(&self) -> bool {
        self.worked_out.get().is_some()
    }

    /// The rungs that changed something, in order. Where there was no summary, the digest was the one.
    pub fn rungs(&self) -> Vec<&'static str> {
        let summarized = self.worked_out.get().is_some_and(|worked_out| worked_out.summarized);
        let mut rungs: Vec<Rung> =
            self.rungs.iter().map(|&rung| if rung == Rung::Summarize && !summarized { Rung::Digest } else { rung }).collect();
        rungs.dedup();
        rungs.into_iter().map(Rung::name).collect()
    }

    /// Bytes that were not charged yet in this generation of a ledger, and are from now on. Many entries share an epoch, and it grows heavier when its
    /// edits are worked out.
    pub fn charge(&self, generation: u32) -> u64 {
        let weight = self.weight().min(u32::MAX as usize) as u64;
        let before = self.charged.swap(u64::from(generation) << 32 | weight, Ordering::Relaxed);
        let charged = if before >> 32 == u64::from(generation) { before & u64::from(u32::MAX) } else { 0 };
        weight.saturating_sub(charged)
    }

    /// Bytes held, for bounding what is remembered.
    pub fn weight(&self) -> usize {
        let kept = size_of::<usize>() * (self.cleared.kept.len() + self.cleared_before.kept.len());
        size_of::<Self>()
            + kept
            + self.worked_out.get().map_or(0, |worked_out| worked_out.edits.iter().map(|edit| edit.change.weight()).sum())
    }
}

/// Where a conversation stands after a prefix of it.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    pub epoch: Option<Arc<Epoch>>,
    /// The messages of the prefix as they came, and as they would be sent at most; without system prompt and tools.
    pub came: Load,
    pub sent: Load,
    pub futile: Futile,
}

/// A compaction that could not improve is not tried again below so many tokens and before so many messages.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Futile {
    pub tokens: u64,
    pub messages: usize,
    /// So often in a row it was tried.
    times: u32,
}

impl Futile {
    /// Until a request weighs so much, however many messages it has.
    pub fn until(tokens: u64) -> Self {
        Self { tokens, messages: usize::MAX, times: 0 }
    }

    pub fn holds(&self, tokens: u64, messages: usize) -> bool {
        tokens < self.tokens && messages < self.messages
    }

    /// After another try. What is too new to be touched will be older soon; but what cannot be compacted at all must not be gone over at every turn.
    fn again(&self, tokens: u64, messages: usize, reclaim: u64) -> Self {
        let (more, later) = (reclaim.max(tokens / 16).max(1), 2 << self.times.min(30));
        Self { tokens: tokens + more, messages: messages + later, times: self.times + 1 }
    }
}

/// What earlier requests left behind, for one tenant, format and policy. Losing it loses nothing but time.
pub trait Recall {
    fn recall(&self, prefix: Fingerprint) -> Option<Standing>;
    fn remember(&self, prefix: Fingerprint, standing: &Standing);

    /// The first of these prefixes that is known, and which one it is.
    fn first(&self, prefixes: &[Fingerprint]) -> Option<(usize, Standing)> {
        prefixes.iter().enumerate().find_map(|(n, prefix)| self.recall(*prefix).map(|standing| (n, standing)))
    }
}

/// A request with all that a schedule is computed from.
pub struct Course<'a> {
    pub request: &'a Request,
    /// Fingerprints of all prefixes, as by [`Request::prefixes`].
    pub prefixes: &'a [Fingerprint],
    pub scale: &'a Scale,
    /// Tokens outside of the list.
    pub rest: u64,
    pub limits: Limits,
    pub knobs: &'a Knobs,
    /// Tokens of a message, perhaps remembered.
    pub weigh: &'a dyn Fn(usize) -> u64,
    /// Where summaries are found, if they are wanted. Which epochs there are does not depend on it.
    pub shelf: Option<Shelf<'a>>,
}

impl Course<'_> {
    /// Where the conversation stands at its end.
    pub fn follow(&self, recall: &dyn Recall) -> Standing {
        self.walk(recall, false)
    }

    /// The same where no epoch may begin now: what was compacted stays so, and what is due since is put off. Nothing of that is remembered, so the
    /// schedule goes on as if it had not been asked for.
    pub fn put_off(&self, recall: &dyn Recall) -> Standing {
        self.walk(recall, true)
    }

    fn walk(&self, recall: &dyn Recall, puts_off: bool) -> Standing {
        let (count, lasting) = (self.request.conversation.messages.len(), self.request.lasting());
        let cuts: Vec<usize> = (1..=lasting).filter(|&end| is_cut(&self.request.conversation, lasting, end)).collect();
        let longest_first: Vec<Fingerprint> = cuts.iter().rev().map(|&end| self.prefixes[end]).collect();
        let known = recall.first(&longest_first).map(|(n, standing)| (cuts.len() - 1 - n, standing));
        let remembers = known.is_some();
        let (mut next, mut at, mut standing) = match known {
            Some((n, standing)) => (n + 1, cuts[n], standing),
            None => (0, 0, Standing::default()),
        };
        while let Some(&end) = cuts.get(next) {
            let new = (at..end).fold(Load::default(), |load, message| load + self.load(message));
            standing.came = standing.came + new;
            standing.sent = standing.sent + new;
            // Of what nobody remembers, only the end is known to be now.
            if !puts_off || !remembers && end < lasting {
                self.gate(&mut standing, end);
                recall.remember(self.prefixes[end], &standing);
            }
            (next, at) = (next + 1, end);
        }
        for message in lasting..count {
            (standing.came, standing.sent) = (standing.came + self.load(message), standing.sent + self.load(message));
        }
        standing
    }

    /// Begins an epoch at `end` if a gate is due there and the compaction is worth it.
    fn gate(&self, standing: &mut Standing, end: usize) {
        let whole = Load { tokens: standing.sent.tokens + self.rest, ..standing.sent };
        let Some(trigger) = self.limits.due(whole) else { return };
        if !standing.futile.holds(whole.tokens, end) && !self.is_cooling(standing, end, whole.tokens) {
            self.compact(standing, end, trigger, &Goal::of(self.limits));
        }
    }

    /// Whether the last epoch began too few turns ago for another, and nothing forces one.
    fn is_cooling(&self, standing: &Standing, end: usize, tokens: u64) -> bool {
        let Some(epoch) = standing.epoch.as_ref().filter(|_| self.knobs.cooldown_turns > 0 && tokens <= self.limits.window) else {
            return false;
        };
        let speaks = |message: usize| self.request.conversation.messages[message].role == Role::Assistant;
        let turns = (epoch.covers..end).filter(|&message| speaks(message) && (message == epoch.covers || !speaks(message - 1))).count();
        turns < self.knobs.cooldown_turns
    }

    /// Begins an epoch at `end`, or remembers that none would help. Returns whether one began.
    pub fn compact(&self, standing: &mut Standing, end: usize, trigger: Trigger, goal: &Goal) -> bool {
        let goal = &Goal { draft: end < self.request.lasting() || self.shelf.is_some(), ..*goal };
        let cleared_before = standing.epoch.as_ref().map_or_else(Cleared::default, |epoch| epoch.cleared.clone());
        let outcome = self.run(&cleared_before, end, goal, None);
        let reclaim = ((self.limits.window as f64 * self.knobs.min_reclaim) as u64).max(self.knobs.min_reclaim_tokens);
        let lighter = outcome.load.tokens + reclaim <= standing.sent.tokens;
        let elsewhere = outcome.load.tokens <= standing.sent.tokens
            && (outcome.load.bytes < standing.sent.bytes / 10 * 9 || outcome.load.media < standing.sent.media);
        if outcome.rungs.is_empty()
            || !(lighter
                || (trigger == Trigger::Bytes && elsewhere)
                || (trigger == Trigger::Manual && outcome.load.tokens < standing.sent.tokens))
        {
            standing.futile = standing.futile.again(standing.sent.tokens + self.rest, end, reclaim);
            return false;
        }
        let number = standing.epoch.as_ref().map_or(0, |epoch| epoch.number) + 1;
        let Outcome { edits, slack, rungs, cleared, records, .. } = outcome;
        let worked_out = OnceLock::new();
        if !goal.draft {
            worked_out.get_or_init(|| WorkedOut { edits, slack, summarized: false, records });
        }
        let (stored, charged, goal) = (OnceLock::new(), AtomicU64::new(0), *goal);
        standing.epoch =
            Some(Arc::new(Epoch { number, covers: end, cleared, cleared_before, rungs, trigger, goal, worked_out, stored, charged }));
        standing.sent = outcome.load;
        standing.futile = Futile::default();
        true
    }

    fn run(&self, cleared: &Cleared, end: usize, goal: &Goal, summary: Option<&Summary>) -> Outcome {
        let mut view = View::new(self.request, cleared.clone(), end, self.weigh, self.rest, self.scale);
        view.summary = summary;
        ladder(view, goal, self.knobs)
    }

    pub fn load(&self, message: usize) -> Load {
        let (conversation, tokens) = (&self.request.conversation, (self.weigh)(message));
        let message = &conversation.messages[message];
        let media = conversation.blocks_of(message).iter().map(|block| conversation.media_in(block)).sum();
        Load { tokens, bytes: message.span.len() as u64 + 1, media, messages: 1 }
    }
}

/// Nothing is known and nothing is kept: for a single look at a body.
pub struct Forgetful;

impl Recall for Forgetful {
    fn recall(&self, _: Fingerprint) -> Option<Standing> {
        None
    }

    fn remember(&self, _: Fingerprint, _: &Standing) {}
}
