//! Compaction: a ladder of strategies, cheap to dear, that propose edits until a request is light enough.
//!
//! A [`View`] holds the conversation and what has been proposed so far, and always knows what it weighs. Each rung looks at the view and proposes;
//! the ladder measures after each and stops as soon as the goal is reached. Everything here is a pure function of the conversation, the limits and
//! the knobs: the same history gives the same edits, in every process.

mod cull;
pub mod digest;
mod elide;
mod fold;
mod knobs;
mod marker;
mod microcompact;
mod passages;
mod protect;
pub mod schedule;
mod shrink_arguments;
pub mod summary;
mod trim_tail;
mod view;

pub use knobs::{Knobs, Rung};
pub use protect::Zones;
pub use view::{Cleared, View};

use crate::budget::{Limits, Load, load::Scale};
use crate::wire::{Edit, Request};

/// What a ladder is asked for.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub struct Goal {
    pub limits: Limits,
    /// At or under this many tokens the ladder stops.
    pub target: u64,
    /// The aggressive rungs run while the request is over this.
    pub ceiling: u64,
    /// At or under this many bytes of messages the ladder stops, where bytes are what is too much.
    pub bytes: Option<u64>,
    /// Cut as an overflow demands: results of all but the newest turn to a few characters.
    pub hard: bool,
    /// Only what the result weighs is wanted: notes are not written, but charged for.
    pub draft: bool,
}

/// What a ladder came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// None for a draft.
    pub edits: Vec<Edit>,
    /// What the messages weigh then, without system prompt and tools.
    pub load: Load,
    /// How many tokens less it is in fact: notes are charged with what they may weigh.
    pub slack: u64,
    /// The rungs that changed something, in order.
    pub rungs: Vec<Rung>,
    pub cleared: Cleared,
    /// The notes hold a model's summary.
    pub summarized: bool,
    /// What became of the records that the notes are made of; nothing for a draft.
    pub records: digest::Records,
}

impl Goal {
    /// What a gate asks for before sending.
    pub fn of(limits: Limits) -> Self {
        Self {
            limits,
            target: limits.target,
            ceiling: limits.ceiling(),
            bytes: (limits.max_bytes > 0).then_some(limits.max_bytes),
            hard: false,
            draft: false,
        }
    }

    fn reached(&self, view: &View) -> bool {
        view.tokens() <= self.target && self.fits_elsewhere(view)
    }

    /// The budgets that are not tokens.
    fn fits_elsewhere(&self, view: &View) -> bool {
        self.bytes.is_none_or(|most| view.bytes() <= most)
            && (self.limits.max_media == 0 || view.media() <= self.limits.max_media as usize)
            && (self.limits.max_messages == 0 || view.kept() <= self.limits.max_messages as usize)
    }

    /// Over the target, but not over the trigger, nor so near to it that the next turn or two would be.
    fn is_tolerable(&self, view: &View) -> bool {
        view.tokens() <= self.tolerable() && self.fits_elsewhere(view)
    }

    fn tolerable(&self) -> u64 {
        const ROOM: f64 = 0.05;
        self.ceiling.saturating_sub((self.limits.window as f64 * ROOM) as u64).max(self.target)
    }
}

/// Runs the plan over a whole conversation. `weights` are the tokens of its messages, `rest` those of everything outside of the list.
pub fn run(request: &Request, weights: &[u64], rest: u64, scale: &Scale, goal: &Goal, knobs: &Knobs) -> Outcome {
    ladder(View::new(request, Cleared::default(), weights.len(), &|message| weights[message], rest, scale), goal, knobs)
}

/// Runs the plan over a view.
fn ladder(mut view: View, goal: &Goal, knobs: &Knobs) -> Outcome {
    let rest = view.rest();
    let zones = Zones::of(&view, goal, knobs);
    let mut rungs = Vec::new();
    fold::set_notes_aside(&mut view, goal, knobs);
    for rung in &knobs.plan {
        if *rung == Rung::Summarize && !knobs.summarize.is_on() {
            continue;
        }
        if goal.reached(&view) || (knobs.is_aggressive(*rung) && goal.is_tolerable(&view)) {
            continue;
        }
        let was = (view.tokens(), view.bytes());
        match rung {
            Rung::Elide => elide::run(&mut view, &zones),
            Rung::Microcompact => microcompact::run(&mut view, &zones, goal, knobs),
            Rung::ShrinkArguments => shrink_arguments::run(&mut view, &zones, knobs),
            Rung::Cull => cull::run(&mut view, &zones),
            // What is folded does not depend on what stands for it, and neither does what that may weigh.
            Rung::Summarize | Rung::Digest => fold::digest(&mut view, &zones, goal, knobs),
            Rung::SlidingWindow => fold::sliding_window(&mut view, &zones, goal, knobs),
            Rung::TrimTail => trim_tail::run(&mut view, &zones, goal, knobs),
            // The output cap is no message: the caller lowers it.
            Rung::ClampOutput => {}
        }
        if (view.tokens(), view.bytes()) != was {
            rungs.push(*rung);
        }
    }
    fold::carry_notes(&mut view, &zones, goal, knobs);
    let load = Load { tokens: view.tokens() - rest, bytes: view.bytes(), media: view.media(), messages: view.kept() };
    let (cleared, slack, summarized, records) = (view.cleared(), view.slack(), view.summarized, view.records);
    let edits = if goal.draft { Vec::new() } else { view.into_edits() };
    Outcome { edits, load, slack, rungs, cleared, summarized, records }
}
