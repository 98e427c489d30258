//! What is known of single words, whatever the list it comes from.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::lists::{Languages, by_language, language, lines};
use super::phrases::{self, Class};

/// A dimension of units; values of different dimensions never replace one another.
pub(crate) type Dimension = u16;

#[derive(Default)]
pub(crate) struct Word {
    /// Languages in which it carries grammar, not a subject.
    stop: Languages,
    /// Languages of which it is a function word, which tells them.
    grammar: Languages,
    /// It acknowledges, greets or encourages.
    pub filler: bool,
    /// It ties a subject to what is said of it: "is".
    pub links: bool,
    /// It opens a noun phrase, or a statement as its pronoun.
    pub determines: bool,
    /// It opens one of a thing that is told by no number: "the painter".
    pub article: bool,
    /// A function word that may be the verb of a request.
    pub requests: bool,
    /// It ties a year to what is told by it.
    pub belongs: bool,
    /// The number before it says how much.
    pub counts: bool,
    /// The attribute that it and other words stand for.
    pub concept: Option<u16>,
    /// That is how much there is of something, rather than something that there are several of.
    pub attribute: bool,
    /// Groups of things that exclude one another, which it belongs to.
    pub contrasts: Vec<u16>,
    pub unit: Option<Dimension>,
    /// The number that it writes out, in digits.
    pub numeral: Option<&'static str>,
    /// The day or month that it names.
    pub day: Option<&'static str>,
}

impl Word {
    pub fn is_stop(&self, languages: Languages) -> bool {
        self.stop & languages != 0
    }

    /// Whether it is a function word of any language.
    pub fn is_function(&self) -> bool {
        self.grammar != 0
    }
}

pub(crate) struct Words {
    known: HashMap<String, Word>,
    unknown: Word,
    stop_chars: HashSet<char>,
    dimensions: Vec<&'static str>,
    german: Languages,
    /// Languages in which a thing that is told by its number has no article.
    bare: Languages,
    /// Languages in which it has one, and in which the form of a noun tells that it is counted.
    articled: Languages,
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

/// Words at the beginning of a text that its language is told by.
const TOLD_BY: usize = 60;

impl Words {
    fn read() -> Self {
        let mut known: HashMap<String, Word> = HashMap::new();
        let mut word = |word: &str, note: &mut dyn FnMut(&mut Word)| note(known.entry(word.to_lowercase()).or_default());
        let mut stop_chars = HashSet::new();
        for (languages, line) in by_language(include_str!("words/stop.txt")) {
            for text in line.split_whitespace() {
                word(text, &mut |w| {
                    w.stop |= languages;
                    w.grammar |= languages;
                });
                let mut chars = text.chars();
                stop_chars.extend(chars.next().filter(|c| spaceless(*c) && chars.next().is_none()));
            }
        }
        // What turns or changes a statement is grammar as well, not what it is about.
        let turning = phrases::listed().filter(|(class, _, phrase)| {
            !matches!(class, Class::Binding | Class::Decision | Class::Choice | Class::Permission | Class::Consent)
                && !phrase.contains(' ')
                && !phrase.starts_with(spaceless)
        });
        for (_, languages, phrase) in turning {
            word(phrase, &mut |w| w.stop |= languages);
        }
        for text in by_language(include_str!("words/filler.txt")).flat_map(|(_, line)| line.split_whitespace()) {
            word(text, &mut |w| w.filler = true);
        }
        for text in by_language(include_str!("words/linkers.txt")).flat_map(|(_, line)| line.split_whitespace()) {
            word(text, &mut |w| w.links = true);
        }
        for (role, entries) in entries(include_str!("words/naming.txt")) {
            entries.for_each(|text| {
                word(text, &mut |w| match role {
                    "determiners" => w.determines = true,
                    "articles" => w.article = true,
                    "requests" => w.requests = true,
                    "belonging" => w.belongs = true,
                    _ => w.counts = true,
                })
            });
        }
        for (at, (name, entries)) in entries(include_str!("words/concepts.txt")).enumerate() {
            let attribute = !name.ends_with('*');
            entries.for_each(|text| {
                word(text, &mut |w| {
                    w.concept = Some(at as u16);
                    w.attribute = attribute;
                })
            });
        }
        for (at, (_, entries)) in entries(include_str!("words/units.txt")).enumerate() {
            entries.for_each(|text| word(text, &mut |w| w.unit = Some(at as Dimension)));
        }
        for (number, entries) in entries(include_str!("words/numerals.txt")) {
            entries.for_each(|text| word(text, &mut |w| w.numeral = Some(number)));
        }
        for (day, entries) in entries(include_str!("words/calendar.txt")) {
            entries.for_each(|text| word(text, &mut |w| w.day = Some(day)));
        }
        for (at, line) in lines(include_str!("words/contrasts.txt")).enumerate() {
            line.split(',').map(str::trim).for_each(|text| word(text, &mut |w| w.contrasts.push(at as u16)));
        }
        let dimensions = entries(include_str!("words/units.txt")).map(|(name, _)| name).collect();
        Words {
            known,
            unknown: Word::default(),
            stop_chars,
            dimensions,
            german: language("de"),
            bare: language("en") | language("de"),
            articled: language("fr") | language("es") | language("pt"),
        }
    }

    /// What is known of a word in lower case.
    pub fn look_up(&self, word: &str) -> &Word {
        self.known.get(word).unwrap_or(&self.unknown)
    }

    /// Whether a character of a script without spaces carries grammar.
    pub fn is_stop_char(&self, c: char) -> bool {
        self.stop_chars.contains(&c)
    }

    pub fn dimension(&self, name: &str) -> Option<Dimension> {
        self.dimensions.iter().position(|known| *known == name).map(|at| at as Dimension)
    }

    /// The languages that a text in lower case is likely to be in, by its function words; all where it has none.
    pub fn languages(&self, text: &str) -> Languages {
        let mut hits = [0u8; 32];
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '\'').take(TOLD_BY) {
            let mut mask = self.look_up(word).grammar;
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

    /// Whether a text in these languages may part verbs.
    pub fn separates(&self, languages: Languages) -> bool {
        languages & self.german != 0
    }

    /// Whether a thing that is told by its number has no article in all of these languages: "question 4".
    pub fn numbers_bare(&self, languages: Languages) -> bool {
        languages & !self.bare == 0
    }

    /// Whether it has one in all of these languages, "la ligne 40", and what is counted tells by its form.
    pub fn numbers_with_article(&self, languages: Languages) -> bool {
        languages & !self.articled == 0
    }

    /// Whether a text in these languages gives every noun a capital.
    pub fn capitalises(&self, languages: Languages) -> bool {
        languages == self.german
    }
}

/// Lines of the form `name: entry entry …`.
fn entries(list: &'static str) -> impl Iterator<Item = (&'static str, std::str::SplitWhitespace<'static>)> {
    lines(list).filter_map(|line| line.split_once(':')).map(|(name, entries)| (name, entries.split_whitespace()))
}
