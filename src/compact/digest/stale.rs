//! Values that nobody holds any more.

use std::collections::{HashMap, HashSet};

use super::corrections;
use super::statements::{Speaker, Statement};
use super::subjects::{Key, Subject, hash};
use super::values::{Kind, Value};

/// Values of replaced statements that no standing statement of the user holds.
#[derive(Default)]
pub(crate) struct Stale {
    values: HashMap<Key, Vec<Outdated>>,
}

struct Outdated {
    value: Value,
    subject: Vec<Key>,
}

/// Digits that make a number telling wherever it stands.
const TELLING: u8 = 4;
/// Replaced statements remembered for one value.
const REMEMBERED: usize = 8;

impl Stale {
    /// `outdated` pairs each statement that had its value changed with the one that changed it, `corrected` those that stand nevertheless.
    pub fn of(statements: &[Statement], replaced_by: &[Option<usize>], outdated: &[(usize, usize)], corrected: &[(usize, usize)]) -> Self {
        let replaced = outdated.iter().map(|(old, new)| (*old, *new, given_up(&statements[*old].subject, &statements[*new].subject)));
        let mended = corrected.iter().map(|(old, new)| (*old, *new, corrections::outdated(&statements[*old], &statements[*new])));
        let changed: Vec<(usize, usize, Vec<&Value>)> = replaced.chain(mended).collect();
        // A value that a standing statement of the user names is not stale, unless it was corrected or is named to take it back.
        let taken_back: HashSet<(usize, Key)> = changed
            .iter()
            .flat_map(|(earlier, later, values)| values.iter().flat_map(move |v| [(*later, v.norm), (*earlier, v.norm)]))
            .collect();
        let held: HashSet<Key> = statements
            .iter()
            .enumerate()
            .filter(|(at, s)| s.speaker == Speaker::User && replaced_by[*at].is_none())
            .flat_map(|(at, s)| s.subject.values.iter().map(move |v| (at, v.norm)))
            .filter(|named| !taken_back.contains(named))
            .map(|(_, norm)| norm)
            .collect();
        let mut stale = Stale::default();
        // What an assistant corrects of its own is progress more often than a change of mind.
        let said = |at: usize| statements[at].speaker == Speaker::User;
        for (earlier, _, values) in changed.iter().filter(|(a, b, _)| said(*a) || said(*b)) {
            for value in values.iter().filter(|v| v.kind != Kind::Reference && !held.contains(&v.norm)) {
                let known = stale.values.entry(value.norm).or_default();
                if known.len() < REMEMBERED {
                    known.push(Outdated { value: (*value).clone(), subject: statements[*earlier].subject.words.clone() });
                }
            }
        }
        stale
    }

    /// The stale values that `text` names, inside addresses and settings as well: `10.0.0.7:8081`, `port=8081`.
    pub fn named_by(&self, text: &str) -> Vec<Key> {
        if self.values.is_empty() {
            return Vec::new();
        }
        let mut named = self.named_in(&Subject::of(text));
        let telling = |key: &Key| self.values.get(key).into_iter().flatten().any(|old| old.value.weight >= TELLING);
        named.extend(text.split(|c: char| !c.is_ascii_alphanumeric()).map(hash).filter(telling));
        named
    }

    /// The stale values that `subject` names. A short number is everywhere, so it has to measure the same or stand by the same words.
    pub fn named_in(&self, subject: &Subject) -> Vec<Key> {
        let mut named: Vec<Key> = subject.values.iter().filter(|value| self.is_stale(value, subject)).map(|value| value.norm).collect();
        named.sort_unstable();
        named.dedup();
        named
    }

    fn is_stale(&self, value: &Value, subject: &Subject) -> bool {
        self.values.get(&value.norm).into_iter().flatten().any(|old| {
            let telling = old.value.weight >= TELLING + u8::from(old.value.kind != Kind::Number);
            let measures = old.value.unit.is_some() && old.value.unit == value.unit;
            let near = |key: Key| key != 0 && (key == value.before || key == value.after);
            let shared = old.subject.iter().filter(|key| subject.has_word(**key)).count();
            telling || (measures && shared > 0) || near(old.value.before) || near(old.value.after) || shared >= 2
        })
    }
}

/// The values of `old` that `new` gives up: those it does not name, or, where it names all, those it names beside one of the same kind.
fn given_up<'s>(old: &'s Subject, new: &Subject) -> Vec<&'s Value> {
    let missing: Vec<&Value> = old.values.iter().filter(|v| !new.has_value(v.norm)).collect();
    if !missing.is_empty() {
        return missing;
    }
    let fresh = || new.values.iter().filter(|v| !old.has_value(v.norm));
    old.values.iter().filter(|v| fresh().any(|other| v.comparable(other) > 0.0)).collect()
}

/// `text` with the values that no longer hold left out.
pub(crate) fn without(text: &str, stale: &[Key]) -> String {
    let mut clean = String::with_capacity(text.len());
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 {
            clean.push(' ');
        }
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        if !bare.is_empty() && Subject::of(word).values.iter().any(|v| stale.contains(&v.norm)) {
            clean.push_str(&word.replacen(bare, "…", 1));
        } else {
            clean.push_str(word);
        }
    }
    clean
}
