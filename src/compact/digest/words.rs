//! The word lists as lookups. Every list is a file under `words/`; none of them decides alone, they only tip scales.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use regex::Regex;

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
    pub ask: bool,
}

/// A set of languages, one bit each.
pub(crate) type Languages = u32;

/// Words at the beginning of a text that its language is told by.
const TOLD_BY: usize = 60;

/// A dimension of units; values of different dimensions never replace one another.
pub(crate) type Dimension = u16;

pub(crate) struct Words {
    stop: HashMap<&'static str, Languages>,
    german: Languages,
    links: HashSet<&'static str>,
    /// The function words alone, which tell a language.
    grammar: HashMap<&'static str, Languages>,
    stop_chars: HashSet<char>,
    filler: HashSet<String>,
    concepts: HashMap<&'static str, u16>,
    contrasts: HashMap<&'static str, Vec<u16>>,
    units: HashMap<String, Dimension>,
    dimensions: Vec<&'static str>,
    phrases: AhoCorasick,
    classes: Vec<Vec<(Class, Languages)>>,
    /// Concepts and contrasts of scripts without word borders, and those of several words.
    named: AhoCorasick,
    meanings: Vec<(Option<u16>, Vec<u16>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Binding,
    Negation,
    Change,
    Retract,
    Additive,
    Decision,
    Ask,
}

static WORDS: LazyLock<Words> = LazyLock::new(Words::read);

pub(crate) fn words() -> &'static Words {
    &WORDS
}

/// Scripts written without spaces, and Hangul, whose particles cling to the word: these are compared by pairs of characters.
pub(crate) fn spaceless(c: char) -> bool {
    matches!(c as u32,
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1100..=0x11FF | 0x1780..=0x17FF | 0x3005..=0x3007 | 0x3040..=0x30FF | 0x3130..=0x318F
        | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xAC00..=0xD7AF | 0xF900..=0xFAFF | 0xFF66..=0xFF9F | 0x20000..=0x3134F)
}

impl Words {
    fn read() -> Self {
        let mut known: Vec<&'static str> = Vec::new();
        let mut language = |name: &'static str| -> Languages {
            let at = known.iter().position(|k| *k == name).unwrap_or_else(|| {
                known.push(name);
                known.len() - 1
            });
            1 << at.min(31)
        };
        let mut by_phrase: HashMap<&'static str, Vec<(Class, Languages)>> = HashMap::new();
        let lists = [
            (Class::Binding, include_str!("words/binding.txt")),
            (Class::Negation, include_str!("words/negation.txt")),
            (Class::Change, include_str!("words/change.txt")),
            (Class::Retract, include_str!("words/retract.txt")),
            (Class::Additive, include_str!("words/additive.txt")),
            (Class::Decision, include_str!("words/decision.txt")),
            (Class::Ask, include_str!("words/ask.txt")),
        ];
        let mut stop: HashMap<&'static str, Languages> = HashMap::new();
        for (class, list) in lists {
            for (name, line) in by_language(list) {
                let mask = language(name);
                for phrase in line.split(',').map(str::trim).filter(|p| !p.is_empty()) {
                    by_phrase.entry(phrase).or_default().push((class, mask));
                    // What turns or changes a statement is grammar as well, not what it is about.
                    if !matches!(class, Class::Binding | Class::Decision) && !phrase.contains(' ') && !phrase.starts_with(spaceless) {
                        *stop.entry(phrase).or_default() |= mask;
                    }
                }
            }
        }
        let mut pairs: Vec<_> = by_phrase.into_iter().collect();
        pairs.sort_unstable_by_key(|(phrase, _)| *phrase);
        let phrases = automaton(pairs.iter().map(|(phrase, _)| *phrase));
        let mut grammar: HashMap<&'static str, Languages> = HashMap::new();
        let mut stop_chars = HashSet::new();
        for (name, line) in by_language(include_str!("words/stop.txt")) {
            let mask = language(name);
            for word in line.split_whitespace() {
                *grammar.entry(word).or_default() |= mask;
                *stop.entry(word).or_default() |= mask;
                let mut chars = word.chars();
                if let (Some(c), None) = (chars.next(), chars.next())
                    && spaceless(c)
                {
                    stop_chars.insert(c);
                }
            }
        }

        let mut concepts = HashMap::new();
        let mut phrases_named: Vec<(String, Option<u16>, Vec<u16>)> = Vec::new();
        for (number, line) in lines(include_str!("words/concepts.txt")).enumerate() {
            for word in line.split_once(':').map_or("", |(_, words)| words).split_whitespace() {
                if word.starts_with(spaceless) || word.contains('_') {
                    phrases_named.push((word.replace('_', " "), Some(number as u16), Vec::new()));
                } else {
                    concepts.insert(word, number as u16);
                }
            }
        }
        let mut contrasts: HashMap<&'static str, Vec<u16>> = HashMap::new();
        for (number, line) in lines(include_str!("words/contrasts.txt")).enumerate() {
            for word in line.split(',').map(str::trim) {
                contrasts.entry(word).or_default().push(number as u16);
            }
        }
        for (word, groups) in &contrasts {
            if word.starts_with(spaceless) {
                phrases_named.push(((*word).to_owned(), None, groups.clone()));
            }
        }
        phrases_named.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut units = HashMap::new();
        let dimensions = lines(include_str!("words/units.txt")).filter_map(|line| Some(line.split_once(':')?.0)).collect();
        for (number, line) in lines(include_str!("words/units.txt")).enumerate() {
            for unit in line.split_once(':').map_or("", |(_, words)| words).split_whitespace() {
                units.insert(unit.to_lowercase(), number as Dimension);
            }
        }
        let filler =
            by_language(include_str!("words/filler.txt")).flat_map(|(_, line)| line.split_whitespace()).map(str::to_lowercase).collect();
        Words {
            stop,
            german: language("de"),
            links: by_language(include_str!("words/linkers.txt")).flat_map(|(_, line)| line.split_whitespace()).collect(),
            grammar,
            stop_chars,
            filler,
            concepts,
            contrasts,
            units,
            dimensions,
            phrases,
            classes: pairs.into_iter().map(|(_, classes)| classes).collect(),
            named: automaton(phrases_named.iter().map(|(word, ..)| word.as_str())),
            meanings: phrases_named.into_iter().map(|(_, concept, groups)| (concept, groups)).collect(),
        }
    }

    /// The languages that a text in lower case is likely to be in, by its function words; all where it has none.
    pub fn languages(&self, text: &str) -> Languages {
        let mut hits = [0u8; 32];
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '\'').take(TOLD_BY) {
            let mut mask = self.grammar.get(word).copied().unwrap_or(0);
            while mask != 0 {
                hits[mask.trailing_zeros() as usize] += 1;
                mask &= mask - 1;
            }
        }
        let most = hits.iter().copied().max().unwrap_or(0);
        if most == 0 {
            return Languages::MAX;
        }
        hits.iter().enumerate().filter(|(_, n)| **n == most).fold(0, |mask, (at, _)| mask | 1 << at)
    }

    /// Whether the word is a function word of any language.
    pub fn is_function(&self, word: &str) -> bool {
        self.grammar.contains_key(word)
    }

    /// Whether a text in these languages gives every noun a capital.
    pub fn capitalises(&self, languages: Languages) -> bool {
        languages == self.german
    }

    pub fn is_stop(&self, word: &str, languages: Languages) -> bool {
        self.stop.get(word).is_some_and(|known| known & languages != 0)
    }

    /// Whether the word ties a subject to what is said of it.
    pub fn links(&self, word: &str) -> bool {
        self.links.contains(word)
    }

    pub fn is_stop_char(&self, c: char) -> bool {
        self.stop_chars.contains(&c)
    }

    pub fn is_filler(&self, word: &str) -> bool {
        self.filler.contains(word)
    }

    pub fn concept(&self, word: &str) -> Option<u16> {
        self.concepts.get(word).copied()
    }

    pub fn contrasts(&self, word: &str) -> &[u16] {
        self.contrasts.get(word).map_or(&[], Vec::as_slice)
    }

    pub fn dimension(&self, name: &str) -> Option<Dimension> {
        self.dimensions.iter().position(|known| *known == name).map(|at| at as Dimension)
    }

    pub fn unit(&self, word: &str) -> Option<Dimension> {
        self.units.get(word).copied()
    }

    /// Concepts and contrasts that are no single words of a spaced script, as `(text, concept, contrasts)`.
    pub fn named<'t>(&self, text: &'t str) -> impl Iterator<Item = (&'t str, Option<u16>, &[u16])> {
        let found = self.named.find_overlapping_iter(text).filter(|found| on_borders(text, found.start(), found.end()));
        found.map(move |found| {
            let (concept, groups) = &self.meanings[found.pattern().as_usize()];
            (&text[found.start()..found.end()], *concept, groups.as_slice())
        })
    }

    /// What phrases of `languages` hint at in `text`, which is in lower case. Scripts without spaces need no telling apart.
    pub fn marks(&self, text: &str, languages: Languages) -> Marks {
        let mut marks = Marks::default();
        let mut seen = [u32::MAX; 16];
        let mut distinct = 0;
        for found in self.phrases.find_overlapping_iter(text) {
            if !on_borders(text, found.start(), found.end()) {
                continue;
            }
            let pattern = found.pattern().as_u32();
            if seen[..distinct].contains(&pattern) || distinct == seen.len() {
                continue;
            }
            seen[distinct] = pattern;
            distinct += 1;
            let unspaced = text[found.start()..].starts_with(spaceless);
            let mut counted: Option<Class> = None;
            for &(class, known) in &self.classes[pattern as usize] {
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
                    Class::Ask => marks.ask = true,
                }
            }
        }
        marks
    }
}

/// Lines that carry data.
pub(crate) fn lines(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The lines of a list with the name of their language.
fn by_language(list: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    lines(list).filter_map(|line| line.split_once(':'))
}

/// A pattern that means ASCII where it says word or digit: what it is for is ASCII, and Unicode classes are many times slower.
pub(crate) fn ascii(pattern: &str) -> String {
    let mut plain = String::with_capacity(2 * pattern.len());
    let mut chars = pattern.chars();
    let mut class = false;
    while let Some(c) = chars.next() {
        match c {
            '\\' => match (chars.next(), class) {
                (Some('b'), false) => plain.push_str(r"(?-u:\b)"),
                (Some('w'), true) => plain.push_str("0-9A-Za-z_"),
                (Some('d'), true) => plain.push_str("0-9"),
                (Some('w'), false) => plain.push_str("[0-9A-Za-z_]"),
                (Some('d'), false) => plain.push_str("[0-9]"),
                (Some('s'), true) => plain.push_str(r" \t\n"),
                (Some('s'), false) => plain.push_str(r"[ \t\n]"),
                (Some(other), _) => plain.extend(['\\', other]),
                (None, _) => {}
            },
            '[' | ']' => {
                class = c == '[';
                plain.push(c);
            }
            _ => plain.push(c),
        }
    }
    plain
}

/// A regular expression of the program's own, see [`ascii`].
pub(crate) fn pattern(pattern: &str) -> Regex {
    Regex::new(&ascii(pattern)).unwrap_or_else(|_| unreachable!("built-in patterns are valid"))
}

pub(crate) fn automaton<'p>(patterns: impl Iterator<Item = &'p str>) -> AhoCorasick {
    // The lists are part of the program and a few hundred kilobytes at most, far below what the builder refuses.
    AhoCorasick::builder().match_kind(MatchKind::Standard).build(patterns).unwrap_or_else(|_| unreachable!("built-in lists are small"))
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
