//! What can be set about compaction, with defaults taken from systems that have run for long.

use super::summary::Summarize;
use serde::{Deserialize, Serialize};

/// A rung of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    Elide,
    Microcompact,
    ShrinkArguments,
    Cull,
    Summarize,
    Digest,
    SlidingWindow,
    TrimTail,
    ClampOutput,
}

impl Rung {
    pub const ALL: [Rung; 9] = [
        Rung::Elide,
        Rung::Microcompact,
        Rung::ShrinkArguments,
        Rung::Cull,
        Rung::Summarize,
        Rung::Digest,
        Rung::SlidingWindow,
        Rung::TrimTail,
        Rung::ClampOutput,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Rung::Elide => "elide",
            Rung::Microcompact => "microcompact",
            Rung::ShrinkArguments => "shrink_arguments",
            Rung::Cull => "cull",
            Rung::Summarize => "summarize",
            Rung::Digest => "digest",
            Rung::SlidingWindow => "sliding_window",
            Rung::TrimTail => "trim_tail",
            Rung::ClampOutput => "clamp_output",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Knobs {
    /// The rungs, in order.
    pub plan: Vec<Rung>,
    /// The newest turns that stay word for word, as a share of the window.
    pub tail: f64,
    /// In tokens, where that is more.
    pub tail_tokens: u64,
    /// At least so many turns and messages, as long as they leave room for the rest of what has to stay.
    pub tail_turns: usize,
    pub tail_messages: usize,
    /// The running loop stays whole while it fits, beside system prompt, tools and task, in this share of the window.
    pub running_loop: f64,
    /// Tools whose calls and results no rung below the aggressive ones touches.
    pub pin_tools: Vec<String>,
    /// A compaction that saves less than this share of the window is not worth the prompt cache it costs.
    pub min_reclaim: f64,
    /// In tokens, where that is more.
    pub min_reclaim_tokens: u64,
    /// No compaction begins so few assistant turns after the last one, unless the window is full.
    pub cooldown_turns: usize,
    pub microcompact: Microcompact,
    pub shrink_arguments: ShrinkArguments,
    pub summarize: Summarize,
    pub digest: Digest,
    pub clamp_output: ClampOutput,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Microcompact {
    /// Results up to so many characters are left alone.
    pub min_chars: usize,
    /// What stays of a result's beginning and end, in characters each.
    pub keep_chars: usize,
    /// Of so many errors in what is cut between, what went wrong and where stays.
    pub keep_errors: usize,
    /// The newest results that stay whole, besides those in the tail.
    pub keep_newest: usize,
    /// The newest results that stay whole, in tokens of results.
    pub keep_tokens: u64,
    /// Left undone where the whole rung would save fewer tokens than this.
    pub min_reclaim: u64,
    /// The tools whose results are cut; empty: all.
    pub tools: Vec<String>,
    /// Results up to so many characters are left alone when an overflow has to be repaired, and larger ones cut to that.
    pub hard_chars: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShrinkArguments {
    /// Strings in the arguments of old calls that are longer than this are shortened, in characters.
    pub min_chars: usize,
    /// To this, in characters.
    pub keep_chars: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Digest {
    /// The most a digest may weigh, as a share of the window.
    pub share: f64,
    /// And in tokens.
    pub max_tokens: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClampOutput {
    /// Lower an output cap that does not fit before sending, not only after the provider refused it.
    pub before_sending: bool,
    /// Never below this, in tokens.
    pub floor: u64,
}

impl Knobs {
    /// Whether a rung runs only while the request is over its trigger, because it may touch what is protected. Where nothing else in the plan takes the
    /// middle away, the sliding window does so as a matter of course.
    pub fn is_aggressive(&self, rung: Rung) -> bool {
        match rung {
            Rung::SlidingWindow => self.plan.contains(&Rung::Digest) || self.plan.contains(&Rung::Summarize),
            Rung::TrimTail | Rung::ClampOutput => true,
            _ => false,
        }
    }
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            plan: Rung::ALL.to_vec(),
            tail: 0.15,
            tail_tokens: 0,
            tail_turns: 0,
            tail_messages: 0,
            running_loop: 0.36,
            pin_tools: Vec::new(),
            min_reclaim: 0.03,
            min_reclaim_tokens: 0,
            cooldown_turns: 0,
            microcompact: Microcompact::default(),
            shrink_arguments: ShrinkArguments::default(),
            summarize: Summarize::default(),
            digest: Digest::default(),
            clamp_output: ClampOutput::default(),
        }
    }
}

impl Default for Microcompact {
    /// Phosphor cuts to 200 characters, and to 50 after an overflow; Souveraine keeps the newest five.
    fn default() -> Self {
        Self {
            min_chars: 600,
            keep_chars: 200,
            keep_errors: 6,
            keep_newest: 5,
            keep_tokens: 0,
            min_reclaim: 0,
            tools: Vec::new(),
            hard_chars: 50,
        }
    }
}

impl Default for ShrinkArguments {
    /// Hermes: strings over 500 characters become 200.
    fn default() -> Self {
        Self { min_chars: 500, keep_chars: 200 }
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self { share: 0.15, max_tokens: 16_000 }
    }
}

impl Default for ClampOutput {
    /// Souveraine never goes below 512.
    fn default() -> Self {
        Self { before_sending: false, floor: 512 }
    }
}
