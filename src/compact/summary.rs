//! The summary: what a model makes of the middle of a conversation, and what it takes to believe it.
//!
//! A [`Pipeline`] turns messages into prompts (`material`, `template`, `numbers`), asks for calls and takes answers (`pipeline`), holds what comes back
//! against the conversation (`guard`, `ask`, `identifiers`, `language`) and puts small faults right (`mend`). What it makes is a candidate for the exact prefix
//! that it was made of (`candidates`); when an epoch begins, the longest candidate becomes part of its notes, the digest's anchors behind it (`notes`), and
//! stays so for the whole epoch.
//!
//! Deliberately absent: calls, clocks and keys, which are the proxy's. When epochs begin and what they cover never depends on whether there is a summary:
//! notes are charged with what they may weigh.

mod ask;
mod candidates;
mod guard;
mod identifiers;
mod knobs;
mod language;
mod material;
mod mend;
mod notes;
mod numbers;
mod pipeline;
mod template;
mod words;

pub use candidates::{Candidates, Shelf};
pub use guard::Known;
pub use knobs::{OWN, Policy, Summarize, When};
pub use material::{Entry, From, prepare};
pub use notes::notes;
pub use numbers::Measures;
pub use pipeline::{Answer, Brief, Content, Failure, Outcome, Pipeline, Step, SummaryRequest};
pub use template::{BUILT_IN, Template};

use super::View;
use super::digest::Voice;
use super::passages;
use crate::conversation::Role;
use serde::{Deserialize, Serialize};

/// What stands for a prefix of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    pub text: String,
    /// How many summaries went into it one after the other, from 1.
    pub generation: u32,
    /// Messages that it stands for.
    pub messages: usize,
    /// Faults that were put right.
    #[serde(skip)]
    pub mended: Vec<&'static str>,
}

/// Names that must survive are looked for in so many messages at the end of what is covered, and there are so many of them at most (OpenClaw).
const NAMED_IN: usize = 10;
const NAMES: usize = 12;

impl Known {
    /// What a summary of messages `from..to` of a view is held against. `rest` is what else the model may know: system prompt, tools, an earlier summary.
    pub fn of(view: &View, from: usize, to: usize, rest: &str) -> Known {
        let mut known = Known::default();
        let mut passages = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let mut users = String::new();
        for message in 0..to {
            passages.clear();
            passages::of(view, message, &mut passages);
            for passage in &passages {
                let into = match passage.voice {
                    Voice::Result { .. } => &mut known.printed,
                    _ => &mut known.spoken,
                };
                into.push_str(&passage.text);
                into.push('\n');
                if message < from {
                    continue;
                }
                known.tokens += view.count(&passage.text);
                if passage.voice == Voice::User && view.messages()[message].role == Role::User {
                    known.ask = Some(passage.text.to_string()).filter(|ask| ask.trim().chars().count() > 3).or(known.ask);
                    users.push_str(&passage.text);
                    users.push('\n');
                }
                if matches!(passage.voice, Voice::Assistant) {
                    users.push_str(&passage.text);
                    users.push('\n');
                }
                if to - message <= NAMED_IN {
                    names.extend(identifiers::all(&passage.text).into_iter().map(str::to_owned));
                }
            }
        }
        // The newest are the ones in use.
        names.reverse();
        let mut seen = std::collections::HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names.truncate(NAMES);
        known.names = names;
        known.language = language::of(&users);
        known.all = [&known.spoken, &known.printed, rest].concat();
        known
    }
}
