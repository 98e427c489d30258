//! What a record is worth. One scale for all kinds, so that a budget can be spent across them.
//!
//! The user's words come first, by how much they tell: numbers, names, duty and negation, rare words. Errors not resolved come next, then
//! what was decided, files, commands and identifiers.

use super::actions::{Action, Deed};
use super::failures::Failure;
use super::identifiers::Identifier;
use super::statements::{Speaker, Statement};
use super::subjects::Rarity;

/// Below this nothing is written, however much room there is.
pub(crate) const LEAST: f32 = 3.0;

/// How much of its worth a record keeps when only the rest of it is bought: the whole sentence after its short form.
pub(crate) const WHOLE: f32 = 0.7;

/// What the rest of a sentence is worth at most: sentences shrink before one that says something is dropped.
pub(crate) const REST: f32 = 12.0;

pub(crate) fn statement(statement: &Statement, rarity: &Rarity, updates: bool, open: bool, times: u32) -> f32 {
    let subject = &statement.subject;
    let bare = subject.words.is_empty() && (subject.values.is_empty() || statement.speaker == Speaker::Assistant);
    if subject.filler || bare {
        return 0.0;
    }
    let rarest = rarity.weight(0).max(0.1);
    let novelty = rarity.sum(&subject.words) / (subject.words.len().max(1) as f32 * rarest);
    let amount = (subject.words.len().min(8) as f32 / 8.0).sqrt();
    let values = (subject.values.len().min(4) as f32).powf(0.7);
    let names = subject.names.len().min(3) as f32;
    let marks = &subject.marks;
    let mut worth = match statement.speaker {
        Speaker::User => {
            let duty = 0.6 * f32::from(marks.binding.min(3)) + if marks.negation { 0.4 } else { 0.0 };
            // What leads over to something pasted says little without it.
            let leads = if subject.values.is_empty() && statement.text.ends_with([':', '：']) { 0.5 } else { 1.0 };
            10.0 * leads * (0.5 + 0.8 * novelty * amount + duty + 0.7 * values + 0.3 * names + if updates { 1.0 } else { 0.0 })
        }
        Speaker::Assistant => {
            let decides = 0.45 * f32::from(marks.decision.min(3))
                + if marks.choice { 0.7 } else { 0.0 }
                + if reasons(&statement.text) { 0.3 } else { 0.0 };
            let said = 0.15 + 0.6 * novelty * amount + decides + 0.45 * values + 0.2 * names;
            // What leads over to a call or a list says little itself.
            let leads = if statement.text.ends_with([':', '：']) { 0.5 } else { 1.0 };
            let said = said + if updates { 0.8 } else { 0.0 };
            (7.0 * said * leads * if statement.report { 1.0 } else { 0.6 }).min(CHOICE)
        }
    };
    if subject.question {
        // An answered question that names nothing is over.
        let names_nothing = subject.values.is_empty() && subject.names.is_empty() && marks.binding == 0;
        worth *= if open {
            0.8
        } else if names_nothing {
            0.35
        } else {
            0.45
        };
    }
    if times >= 3 && subject.values.is_empty() {
        worth *= 0.5;
    }
    if statement.buried {
        worth *= 0.4;
    }
    if statement.earlier {
        worth += 5.0;
    }
    worth
}

/// Whether something is said and then what it rests on: "Triggers are out: they fire twice."
fn reasons(text: &str) -> bool {
    const LEAST: usize = 8;
    let parts = |mark| text.split_once(mark).is_some_and(|(said, why)| said.trim().len() >= LEAST / 2 && why.trim().len() >= LEAST);
    [": ", "; ", " — ", " – ", "：", "；", "؛ "].into_iter().any(parts)
}

pub(crate) fn failure(failure: &Failure, age: usize) -> f32 {
    if failure.looked {
        return (7.0 - 0.5 * age as f32).max(LEAST);
    }
    match (failure.resolved, age) {
        (false, 0) => 34.0,
        (false, age) => (26.0 - age as f32).max(8.0),
        (true, age) => (8.0 - 0.5 * age as f32).max(LEAST),
    }
}

pub(crate) fn file(deed: Deed, touches: usize, age: usize) -> f32 {
    let lasting = if deed == Deed::Read { 5.0 } else { 14.0 };
    lasting + (touches as f32).ln() - 0.15 * age as f32
}

pub(crate) fn command(action: &Action, times: usize, age: usize) -> f32 {
    let kind = match (action.reads, action.failed) {
        (true, true) => 4.0,
        (true, false) => 1.5,
        (false, true) => 13.0,
        (false, false) => 10.0,
    };
    kind + (times as f32).ln() - 0.15 * age as f32
}

/// The most that a word of the assistant is worth: little more than what a person says without a number or a name.
const CHOICE: f32 = 12.5;

/// The most that a name alone is worth: less than what a person said, and than a choice that was made.
const NAME: f32 = 9.0;

pub(crate) fn identifier(identifier: &Identifier, rank: usize) -> f32 {
    (7.0 * identifier.worth).min(NAME) - 0.25 * rank as f32
}

pub(crate) fn call(age: usize) -> f32 {
    5.0 - 0.1 * age as f32
}
