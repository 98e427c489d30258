//! The digest: what takes the place of the messages between the task and the tail, without asking a model.
//!
//! One text of verbatim anchors. It is built in four steps, each in a file: what was said and done is **extracted** (`sentences`,
//! `statements`, `actions`, `failures`, `identifiers`), statements that a later one replaces are **resolved** away (`subjects`,
//! `supersede`, `corrections`, `stale`), the budget is **spent** by worth (`worth`, `shorten`, `spend`), and what was bought is **rendered** (`render`).
//!
//! The same input gives the same text, whatever the language; the work is linear in the covered text. It is rebuilt from the originals
//! every time; where only an earlier digest is left of them, that one is read back and merged (`earlier`).
//!
//! Deliberately absent: paraphrase. Every line is somebody's own words, shortened with "…" where room is short, with known credentials
//! masked. What tools printed is quoted as evidence and never becomes the words of the user.

mod about;
mod actions;
mod alignment;
mod answers;
mod corrections;
mod earlier;
pub mod evidence;
mod failures;
mod frames;
mod identifiers;
mod lists;
mod material;
mod names;
mod naming;
mod phrases;
mod reading;
mod records;
mod render;
pub(crate) mod secrets;
mod sentences;
mod shell;
mod shorten;
mod spend;
mod stale;
mod statements;
mod subjects;
mod supersede;
mod values;
mod words;
mod worth;

pub(crate) use about::{About, about, said};

use std::borrow::Cow;

/// Who speaks in a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice<'a> {
    User,
    Assistant,
    /// The text is the call's arguments as JSON.
    Call {
        tool: &'a str,
    },
    /// The text is the tool's output.
    Result {
        tool: &'a str,
        failed: bool,
    },
}

/// One text of one message.
#[derive(Clone, Debug)]
pub struct Passage<'a> {
    /// Index of its message in the conversation.
    pub place: usize,
    pub voice: Voice<'a>,
    /// What pairs a call with its result; empty where there is none.
    pub call_id: &'a str,
    pub text: Cow<'a, str>,
}

/// What a digest is made of. Both lists are in the order of the conversation.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Passages that will be gone.
    pub covered: &'a [Passage<'a>],
    /// Passages that stay verbatim: the task, the tail. Their words are not repeated.
    pub kept: &'a [Passage<'a>],
}

/// A digest, and what it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// Empty where nothing is worth a line or nothing fits.
    pub text: String,
    /// By the caller's count; never over the budget.
    pub tokens: usize,
    /// Messages it stands for, those of merged earlier digests included.
    pub messages: usize,
    pub written: Tally,
    /// Records that were worth a line and found no room.
    pub left_out: Tally,
}

/// Records by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub user: usize,
    pub asks: usize,
    pub assistant: usize,
    pub errors: usize,
    pub files: usize,
    pub commands: usize,
    pub identifiers: usize,
    pub calls: usize,
}

/// What of the records that were worth a line stands in a digest, and what found no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Records {
    pub written: Tally,
    pub left_out: Tally,
}

impl Digest {
    pub fn records(&self) -> Records {
        Records { written: self.written, left_out: self.left_out }
    }
}

/// The digest of `scope` in at most `budget` tokens, as `count` counts them. Pure, and as deterministic as `count` is.
pub fn digest(scope: &Scope, budget: usize, count: &dyn Fn(&str) -> usize) -> Digest {
    let extracted = records::extract(scope);
    let records = records::resolve(extracted, scope, budget);
    let messages = records.messages;
    let spent = spend::spend(messages, &records.list, budget, count);
    Digest { text: spent.text, tokens: spent.tokens, messages, written: Tally::of(&spent.written), left_out: Tally::of(&spent.left_out) }
}

impl Tally {
    /// The names of the kinds, in the order of [`Tally::counts`].
    pub const KINDS: [&'static str; 8] = ["user", "asks", "assistant", "errors", "files", "commands", "identifiers", "calls"];

    pub fn counts(&self) -> [usize; 8] {
        let Tally { user, asks, assistant, errors, files, commands, identifiers, calls } = *self;
        [user, asks, assistant, errors, files, commands, identifiers, calls]
    }

    fn of(records: &std::collections::HashMap<render::Section, usize>) -> Self {
        use render::Section;
        let number = |section: Section| records.get(&section).copied().unwrap_or(0);
        Tally {
            user: number(Section::User),
            asks: number(Section::Asks),
            assistant: number(Section::Assistant),
            errors: number(Section::Errors),
            files: number(Section::Files),
            commands: number(Section::Commands),
            identifiers: number(Section::Identifiers),
            calls: number(Section::Calls),
        }
    }
}
