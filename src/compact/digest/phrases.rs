//! Phrases that hint at what a sentence does. None of them decides alone, they only tip scales.

use std::collections::HashMap;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::lists::{Languages, automaton, by_language, lines};
use super::words::{spaceless, words};

/// What the phrases of a sentence hint at.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Marks {
    /// Distinct phrases of duty, permission, limit, preference, need or aim.
    pub binding: u8,
    pub negation: bool,
    /// The sentence may change an earlier one.
    pub change: bool,
    /// The sentence takes an earlier one back.
    pub retract: bool,
    /// The sentence adds to an earlier one.
    pub additive: bool,
    /// Distinct phrases of decision, finding, plan or progress.
    pub decision: u8,
    /// The sentence tells a choice, or an option that was tried or ruled out.
    pub choice: bool,
    pub ask: bool,
    pub permission: bool,
    /// Somebody agrees to something.
    pub consent: bool,
    /// The sentence begins with a condition.
    pub condition: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Binding,
    Negation,
    Change,
    Retract,
    Additive,
    Decision,
    Choice,
    Ask,
    Permission,
    Consent,
    Condition,
}

const LISTS: [(Class, &str); 11] = [
    (Class::Binding, include_str!("words/binding.txt")),
    (Class::Negation, include_str!("words/negation.txt")),
    (Class::Change, include_str!("words/change.txt")),
    (Class::Retract, include_str!("words/retract.txt")),
    (Class::Additive, include_str!("words/additive.txt")),
    (Class::Decision, include_str!("words/decision.txt")),
    (Class::Choice, include_str!("words/choices.txt")),
    (Class::Ask, include_str!("words/ask.txt")),
    (Class::Permission, include_str!("words/permission.txt")),
    (Class::Consent, include_str!("words/consent.txt")),
    (Class::Condition, include_str!("words/condition.txt")),
];

/// All phrases with their class and languages.
pub(crate) fn listed() -> impl Iterator<Item = (Class, Languages, &'static str)> {
    let by_class = LISTS.into_iter().flat_map(|(class, list)| by_language(list).map(move |(languages, line)| (class, languages, line)));
    by_class.flat_map(|(class, languages, line)| {
        line.split(',').map(str::trim).filter(|phrase| !phrase.is_empty()).map(move |phrase| (class, languages, phrase))
    })
}

struct Phrases {
    found: AhoCorasick,
    classes: Vec<Vec<(Class, Languages)>>,
}

static PHRASES: LazyLock<Phrases> = LazyLock::new(|| {
    let mut by_phrase: HashMap<&'static str, Vec<(Class, Languages)>> = HashMap::new();
    for (class, languages, phrase) in listed() {
        by_phrase.entry(phrase).or_default().push((class, languages));
    }
    let (phrases, classes): (Vec<_>, Vec<_>) = by_phrase.into_iter().unzip();
    Phrases { found: automaton(phrases.into_iter()), classes }
});

/// Distinct phrases of a sentence that are counted.
const COUNTED: usize = 16;

/// What phrases of `languages` hint at in `text`, which is in lower case. Scripts without spaces need no telling apart.
pub(crate) fn marks(text: &str, languages: Languages) -> Marks {
    let mut marks = Marks::default();
    let mut seen = [u32::MAX; COUNTED];
    let mut distinct = 0;
    for found in PHRASES.found.find_overlapping_iter(text) {
        let pattern = found.pattern().as_u32();
        if distinct == COUNTED || seen[..distinct].contains(&pattern) || !on_borders(text, found.start(), found.end()) {
            continue;
        }
        seen[distinct] = pattern;
        distinct += 1;
        let unspaced = text[found.start()..].starts_with(spaceless);
        let mut counted: Option<Class> = None;
        for &(class, known) in &PHRASES.classes[pattern as usize] {
            if (known & languages == 0 && !unspaced) || counted == Some(class) {
                continue;
            }
            counted = Some(class);
            match class {
                Class::Binding => marks.binding += 1,
                Class::Negation => marks.negation = true,
                Class::Change => marks.change = true,
                Class::Retract => marks.retract = true,
                Class::Additive => marks.additive = true,
                Class::Decision => marks.decision += 1,
                Class::Choice => marks.choice = true,
                Class::Ask => marks.ask = true,
                Class::Permission => marks.permission = true,
                Class::Consent => marks.consent = true,
                Class::Condition => marks.condition |= !text[..found.start()].contains(char::is_alphanumeric),
            }
        }
    }
    marks
}

/// What an attribute or a thing is called where it is no single word of a spaced script.
pub(crate) struct Named<'t> {
    pub text: &'t str,
    pub concept: Option<u16>,
    pub contrasts: &'static [u16],
}

type Meaning = (Option<u16>, &'static [u16]);

static NAMES: LazyLock<(AhoCorasick, Vec<Meaning>)> = LazyLock::new(|| {
    let mut names: Vec<(String, Meaning)> = Vec::new();
    for (number, line) in lines(include_str!("words/concepts.txt")).enumerate() {
        let phrases = line.split_once(':').map_or("", |(_, words)| words).split_whitespace();
        // A phrase of several words is written with strokes, since spaces part the entries.
        let phrases = phrases.filter(|word| word.starts_with(spaceless) || word.contains('_'));
        names.extend(phrases.map(|phrase| (phrase.replace('_', " "), (Some(number as u16), &[][..]))));
    }
    let contrasted = lines(include_str!("words/contrasts.txt")).flat_map(|line| line.split(',').map(str::trim));
    let mut contrasted: Vec<&'static str> = contrasted.filter(|word| word.starts_with(spaceless)).collect();
    contrasted.sort_unstable();
    contrasted.dedup();
    names.extend(contrasted.into_iter().map(|word| (word.to_owned(), (None, words().look_up(word).contrasts.as_slice()))));
    (automaton(names.iter().map(|(phrase, _)| phrase.as_str())), names.into_iter().map(|(_, meaning)| meaning).collect())
});

/// Concepts and contrasts in `text`, which is in lower case, that are no single words of a spaced script.
pub(crate) fn named(text: &str) -> impl Iterator<Item = Named<'_>> {
    let found = NAMES.0.find_overlapping_iter(text).filter(|found| on_borders(text, found.start(), found.end()));
    found.map(move |found| {
        let (concept, contrasts) = NAMES.1[found.pattern().as_usize()];
        Named { text: &text[found.start()..found.end()], concept, contrasts }
    })
}

/// A phrase of a spaced script has to stand alone: "not" is no part of "note".
fn on_borders(text: &str, start: usize, end: usize) -> bool {
    let inner = |c: char| c.is_alphanumeric() && !spaceless(c);
    let before = text[..start].chars().next_back();
    let after = text[end..].chars().next();
    let first = text[start..end].chars().next();
    let last = text[start..end].chars().next_back();
    let runs_on = |edge: Option<char>, beyond: Option<char>| edge.is_some_and(inner) && beyond.is_some_and(inner);
    !runs_on(first, before) && !runs_on(last, after)
}
