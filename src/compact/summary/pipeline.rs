//! Asks for model calls and takes answers, until there is a summary or the certainty that there will be none.
//!
//! It does no IO and knows no time: whoever carries the calls feeds [`Pipeline::step`]. From the dearest way to the plainest: the request itself with one
//! more word; the whole history quoted in one call; chunk by chunk, each updating the record so far; parts on their own and merged; what small messages fit
//! into one call, with notes for the rest; and nothing, which is the digest's part. No call is larger than the model's window, and there are few of them.

mod ways;

pub use ways::clip;

use super::guard::{self, Fault, Known};
use super::material::{Entry, render_one};
use super::numbers::Measures;
use super::template::Template;
use super::{Policy, Summary, mend};
use crate::wire::{Ride, Said};
use std::ops::Range;

/// Calls for one summary at most, and how often a window may turn out to be smaller than thought.
const MOST_ASKS: usize = 16;
const MOST_HALVINGS: usize = 2;
/// Chunks that are worked off one after the other; more are parts that are merged.
const MOST_CHUNKS: usize = 4;
/// A longer answer, in bytes, is not even looked at; and so much of one is a record, of which notes have room for a part.
const MOST_SAID: usize = 1 << 20;
const MOST_RECORD: usize = 64 << 10;

/// Everything that a summary is made from.
#[derive(Clone, Debug)]
pub struct Brief {
    pub entries: Vec<Entry>,
    /// The summary of what came before, to be updated.
    pub previous: Option<String>,
    /// Messages that it will stand for.
    pub messages: usize,
    pub generation: u32,
    pub known: Known,
    pub template: Template,
    pub policy: Policy,
    pub instructions: String,
    pub measures: Measures,
    /// The request to go on with, and what it weighs at most.
    pub ride: Option<(Ride, u64)>,
}

/// A call to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryRequest {
    pub content: Content,
    /// Room for the answer, in tokens.
    pub output: u64,
    /// What is asked weighs so much, in tokens.
    pub tokens: u64,
    /// Which way it is, for logs.
    pub way: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A body in the format of the agent's request.
    Ride(String),
    /// A system prompt and a user's message.
    Quoted { system: &'static str, user: String },
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Said(Said),
    Failed(Failure),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was too much for the model.
    TooLong,
    /// The request was refused for what it is.
    Rejected,
    /// Not now: a rate, an overload, an outage.
    Unavailable,
    /// Nobody answered, or not in time.
    Silent,
}

impl Failure {
    pub fn name(self) -> &'static str {
        match self {
            Failure::TooLong => "too_long",
            Failure::Rejected => "rejected",
            Failure::Unavailable => "unavailable",
            Failure::Silent => "silent",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Ask(SummaryRequest),
    Done(Outcome),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Summary(Summary),
    /// There is none, and why.
    Digest(&'static str),
}

/// The way that is being tried, and how far it got.
#[derive(Clone, Debug)]
enum Way {
    Ride,
    Full,
    Chunked { chunks: Vec<Range<usize>>, at: usize, record: Option<String> },
    Staged { parts: Vec<Range<usize>>, records: Vec<String> },
    Small,
}

pub struct Pipeline {
    brief: Brief,
    /// What each entry weighs, quoted.
    weights: Vec<u64>,
    way: Way,
    asked: Option<SummaryRequest>,
    asks: usize,
    halvings: usize,
    /// Faults of the first attempt, for the second.
    feedback: Vec<Fault>,
    /// What is asked now is asked a second time.
    regenerated: bool,
    /// The best attempt with faults that can be mended.
    attempt: Option<(String, Vec<Fault>)>,
}

impl Pipeline {
    pub fn new(brief: Brief) -> Pipeline {
        let mut entries = brief.entries;
        let measures = brief.measures;
        let mut weights = Vec::with_capacity(entries.len());
        for entry in &mut entries {
            let mut weight = weigh(entry, &measures);
            if measures.is_oversized(weight) {
                entry.text = format!("[Large {} message (~{}K tokens) omitted from summary]", entry.from.name(), weight.div_ceil(1000));
                weight = weigh(entry, &measures);
            }
            weights.push(weight);
        }
        let way = if brief.ride.is_some() { Way::Ride } else { Way::Full };
        Pipeline {
            brief: Brief { entries, ..brief },
            weights,
            way,
            asked: None,
            asks: 0,
            halvings: 0,
            feedback: Vec::new(),
            regenerated: false,
            attempt: None,
        }
    }

    /// Tokens that this reads at least: all of the conversation once.
    pub fn reads(&self) -> u64 {
        self.brief.ride.as_ref().map_or_else(|| self.weights.iter().sum(), |(_, weight)| *weight)
    }

    /// Calls made so far.
    pub fn asks(&self) -> usize {
        self.asks
    }

    /// What is to be done, once the last call was answered. The first step takes no answer.
    pub fn step(&mut self, answer: Option<Answer>) -> Step {
        match (self.asked.take(), answer) {
            (None, _) => self.ask(),
            (Some(_), None) => Step::Done(Outcome::Digest("lost")),
            (Some(_), Some(Answer::Failed(failure))) => self.failed(failure),
            (Some(_), Some(Answer::Said(said))) => self.said(said),
        }
    }

    fn failed(&mut self, failure: Failure) -> Step {
        match failure {
            // What the request itself may not do, a request of its own may.
            Failure::TooLong | Failure::Rejected if matches!(self.way, Way::Ride) => {
                self.way = Way::Full;
                self.ask()
            }
            Failure::TooLong if self.halvings < MOST_HALVINGS => {
                self.halvings += 1;
                self.brief.measures = self.brief.measures.halved();
                self.way = Way::Full;
                self.shrink();
                self.ask()
            }
            _ => self.give_up(failure.name()),
        }
    }

    /// Messages that are too large for a window that is smaller than thought become notes too.
    fn shrink(&mut self) {
        let measures = self.brief.measures;
        for (entry, weight) in self.brief.entries.iter_mut().zip(&mut self.weights) {
            if measures.is_oversized(*weight) {
                entry.text = format!("[Large {} message (~{}K tokens) omitted from summary]", entry.from.name(), weight.div_ceil(1000));
                *weight = weigh(entry, &measures);
            }
        }
    }

    fn said(&mut self, said: Said) -> Step {
        if said.text.len() > MOST_SAID {
            return self.again(vec![Fault::Long]);
        }
        let text = super::material::clean(&guard::extract(&said.text, &self.brief.template)).replace("[plimsoll", "(plimsoll");
        let tokens = self.brief.measures.count(&text);
        let text = super::words::head(&text, MOST_RECORD).to_owned();
        if self.is_last() {
            return self.final_text(said, text, tokens);
        }
        let faults = guard::fatal(&said, &text, tokens, u64::MAX);
        if !faults.is_empty() {
            return self.again(faults);
        }
        let most = self.brief.measures.output();
        let text = self.clipped(&text, most);
        self.go_on();
        match &mut self.way {
            Way::Chunked { at, record, .. } => {
                *at += 1;
                *record = Some(text);
            }
            Way::Staged { records, .. } => records.push(text),
            _ => {}
        }
        self.ask()
    }

    /// A part is done: what was wrong with it is no advice for the next one, which has a second try of its own while calls are left for all.
    fn go_on(&mut self) {
        self.feedback.clear();
        let parts = match &self.way {
            Way::Chunked { chunks, .. } => chunks.len(),
            // With the merge.
            Way::Staged { parts, .. } => parts.len() + 1,
            Way::Ride | Way::Full | Way::Small => 1,
        };
        self.regenerated &= self.retries() + parts >= MOST_ASKS;
    }

    /// Calls made so far beyond one for each part that is done.
    fn retries(&self) -> usize {
        let done = match &self.way {
            Way::Chunked { at, .. } => *at,
            Way::Staged { records, .. } => records.len(),
            Way::Ride | Way::Full | Way::Small => 0,
        };
        self.asks.saturating_sub(done + 1)
    }

    /// Whether what is asked now is the summary itself and not a part of it.
    fn is_last(&self) -> bool {
        match &self.way {
            Way::Ride | Way::Full | Way::Small => true,
            Way::Chunked { chunks, at, .. } => at + 1 >= chunks.len(),
            Way::Staged { parts, records } => records.len() >= parts.len(),
        }
    }

    fn final_text(&mut self, said: Said, text: String, tokens: u64) -> Step {
        let Brief { known, template, policy, .. } = &self.brief;
        let faults = guard::audit(&said, &text, tokens, known, template, *policy);
        if faults.is_empty() {
            return self.done(text, &[]);
        }
        let mendable = !faults.iter().any(Fault::is_fatal);
        let better = self.attempt.as_ref().is_none_or(|(_, before)| faults.len() <= before.len());
        if mendable && better {
            self.attempt = Some((text, faults.clone()));
        }
        self.again(faults)
    }

    /// Once more, with what was wrong; or else what can be made of what there is.
    fn again(&mut self, faults: Vec<Fault>) -> Step {
        let name = faults.first().map_or("empty", Fault::name);
        if !self.regenerated {
            self.regenerated = true;
            // A model that goes on with its work instead is asked about it from outside.
            if matches!(self.way, Way::Ride) && faults.iter().any(Fault::is_fatal) {
                self.way = Way::Full;
            }
            self.feedback = faults;
            return self.ask();
        }
        match self.way {
            Way::Chunked { .. } | Way::Staged { .. } if self.attempt.is_none() => {
                self.way = Way::Small;
                self.ask()
            }
            _ => self.give_up(name),
        }
    }

    /// The best attempt, mended; or nothing.
    fn give_up(&mut self, reason: &'static str) -> Step {
        let Some((text, faults)) = self.attempt.take() else { return Step::Done(Outcome::Digest(reason)) };
        let Brief { known, template, policy, .. } = &self.brief;
        match mend::mend(&text, &faults, known.ask.as_deref(), template, *policy) {
            Some(text) => self.done(text, &faults),
            None => Step::Done(Outcome::Digest(reason)),
        }
    }

    fn done(&self, text: String, faults: &[Fault]) -> Step {
        let text = match &self.brief.previous {
            Some(previous) => mend::carry_over(&text, previous, &self.brief.template),
            None => text,
        };
        Step::Done(Outcome::Summary(Summary {
            text,
            generation: self.brief.generation,
            messages: self.brief.messages,
            mended: faults.iter().map(Fault::name).collect(),
        }))
    }

    /// The next call of the way that is tried, or of the next one that is possible.
    fn ask(&mut self) -> Step {
        if self.asks >= MOST_ASKS {
            return self.give_up("too_many_calls");
        }
        loop {
            if let Some(request) = self.request() {
                self.asks += 1;
                self.asked = Some(request.clone());
                return Step::Ask(request);
            }
            let next = match self.way {
                Way::Ride => Way::Full,
                Way::Full => {
                    let chunks = self.chunks();
                    if chunks.len() <= MOST_CHUNKS {
                        Way::Chunked { chunks, at: 0, record: None }
                    } else {
                        Way::Staged { parts: chunks, records: Vec::new() }
                    }
                }
                Way::Chunked { .. } | Way::Staged { .. } => Way::Small,
                Way::Small => return self.give_up("window_too_small"),
            };
            self.way = next;
        }
    }
}

fn weigh(entry: &Entry, measures: &Measures) -> u64 {
    let mut text = String::with_capacity(entry.text.len() + 64);
    render_one(entry, &mut text);
    measures.count(&text)
}

#[cfg(test)]
mod tests;
