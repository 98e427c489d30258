//! The lexicon: what the words of a refusal mean, in nine languages. The words themselves are in `lexicon.txt`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::lex::{Raw, is_ideograph};

/// What a word or phrase means. The file says which words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Concept {
    // what is measured
    Input,
    Request,
    Body,
    Token,
    Output,
    Context,
    Param,
    Other,
    // what is compared with what
    Limit,
    Exceed,
    Must,
    Min,
    TooLong,
    TooMany,
    Remedy,
    // which number is which
    Asked,
    Has,
    By,
    AtLeast,
    Left,
    Code,
    // units that are no tokens
    Bytes,
    Time,
    // reasons that are never an overflow
    Rate,
    Plan,
    Policy,
    Timeout,
    Auth,
    // words that stand between
    Filler,
}

/// One element of a text after the lexicon has been asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Tok {
    Is(Concept),
    Num(Option<u64>),
    Sign(char),
    Stop,
    /// A word without a meaning here.
    Word,
}

#[derive(Default)]
struct Node {
    next: HashMap<&'static str, Node>,
    /// Beginnings of words, any ending.
    stems: Vec<(&'static str, Node)>,
    concept: Option<Concept>,
}

static ROOT: LazyLock<Node> = LazyLock::new(|| {
    let mut root = Node::default();
    for (concept, phrase) in entries() {
        let mut node = &mut root;
        for word in phrase_words(phrase) {
            node = node.child(word);
        }
        node.concept = Some(concept);
    }
    root
});

/// Every phrase of the file with its concept.
fn entries() -> impl Iterator<Item = (Concept, &'static str)> {
    let lines = include_str!("lexicon.txt").lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty());
    lines.filter_map(|line| line.split_once(':')).flat_map(|(name, phrases)| {
        let concept = Concept::of(name.trim());
        phrases.split(',').map(str::trim).filter_map(move |phrase| Some((concept?, phrase)))
    })
}

/// Words of a phrase; each ideograph is one.
fn phrase_words(phrase: &'static str) -> Vec<&'static str> {
    let mut words = Vec::new();
    for mut word in phrase.split_whitespace() {
        while let Some(c) = word.chars().next() {
            let end = match is_ideograph(c) {
                true => c.len_utf8(),
                false => word.find(is_ideograph).unwrap_or(word.len()),
            };
            words.push(&word[..end]);
            word = &word[end..];
        }
    }
    words
}

impl Node {
    fn child(&mut self, word: &'static str) -> &mut Node {
        let Some(stem) = word.strip_suffix('*') else { return self.next.entry(word).or_default() };
        match self.stems.iter().position(|(known, _)| *known == stem) {
            Some(at) => &mut self.stems[at].1,
            None => {
                self.stems.push((stem, Node::default()));
                &mut self.stems.last_mut().expect("just pushed").1
            }
        }
    }

    /// Length in words and concept of the longest phrase at the start. Whole words win over stems of the same length.
    fn longest(&self, words: &[Raw]) -> Option<(usize, Concept)> {
        let mut best = self.concept.map(|concept| (0, concept));
        let Some(Raw::Word(word)) = words.first() else { return best };
        let exact = self.next.get(word.as_str()).into_iter();
        let stems = self.stems.iter().filter(|(stem, _)| word.starts_with(stem)).map(|(_, node)| node);
        for node in exact.chain(stems) {
            if let Some((length, concept)) = node.longest(&words[1..])
                && best.is_none_or(|(known, _)| length + 1 > known)
            {
                best = Some((length + 1, concept));
            }
        }
        best
    }
}

/// Gives every word its meaning; the longest phrase at a word wins.
pub(super) fn tag(raw: &[Raw]) -> Vec<Tok> {
    let mut out = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(item) = raw.get(at) {
        let (taken, tok) = match item {
            Raw::Word(word) => match ROOT.longest(&raw[at..]) {
                // "8192 of 8192 tokens"
                _ if (word == "of" || word == "vs") && matches!((out.last(), raw.get(at + 1)), (Some(Tok::Num(_)), Some(Raw::Num(_)))) => {
                    (1, Tok::Sign('/'))
                }
                Some((length, concept)) if length > 0 => (length, Tok::Is(concept)),
                _ if word == "plus" || word == "und" || word == "mas" => (1, Tok::Sign('+')),
                _ => (1, Tok::Word),
            },
            Raw::Num(value) => (1, Tok::Num(*value)),
            Raw::Sign(c) => (1, Tok::Sign(*c)),
            Raw::Above => (1, Tok::Is(Concept::Exceed)),
            Raw::Below => (1, Tok::Is(Concept::Must)),
            Raw::Stop => (1, Tok::Stop),
            Raw::Opaque => (1, Tok::Word),
        };
        out.push(tok);
        at += taken;
    }
    out
}

impl Concept {
    fn of(name: &str) -> Option<Concept> {
        use Concept::*;
        Some(match name {
            "input" => Input,
            "request" => Request,
            "body" => Body,
            "token" => Token,
            "output" => Output,
            "context" => Context,
            "param" => Param,
            "other" => Other,
            "limit" => Limit,
            "exceed" => Exceed,
            "must" => Must,
            "min" => Min,
            "too_long" => TooLong,
            "too_many" => TooMany,
            "remedy" => Remedy,
            "asked" => Asked,
            "has" => Has,
            "by" => By,
            "at_least" => AtLeast,
            "left" => Left,
            "code" => Code,
            "bytes" => Bytes,
            "time" => Time,
            "rate" => Rate,
            "plan" => Plan,
            "policy" => Policy,
            "timeout" => Timeout,
            "auth" => Auth,
            "filler" => Filler,
            _ => return None,
        })
    }

    /// Things a sentence can be about.
    pub(super) fn is_noun(self) -> bool {
        use Concept::*;
        matches!(self, Input | Request | Body | Token | Output | Context | Param | Other)
    }

    /// Words that say one thing is more than another may be.
    pub(super) fn is_relation(self) -> bool {
        use Concept::*;
        matches!(self, Exceed | Must | TooLong | TooMany)
    }
}

#[cfg(test)]
mod tests {
    use super::super::lex::lex;
    use super::*;

    #[test]
    fn every_phrase_has_one_meaning_and_is_spelt_as_texts_are() {
        let mut seen = HashMap::new();
        for (concept, phrase) in entries() {
            assert!(!phrase.is_empty());
            if let Some(other) = seen.insert(phrase, concept) {
                assert_eq!(other, concept, "{phrase:?} has two meanings");
            }
            let spelt: Vec<String> = phrase_words(phrase).iter().map(|word| word.trim_end_matches('*').to_owned()).collect();
            let read: Vec<String> = lex(&phrase.replace('*', ""))
                .into_iter()
                .map(|raw| if let Raw::Word(word) = raw { word } else { format!("{raw:?}") })
                .collect();
            assert_eq!(spelt, read, "{phrase:?} can't match");
        }
        assert!(seen.len() > 800, "{}", seen.len());
        let lines = include_str!("lexicon.txt").lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        for line in lines {
            assert!(Concept::of(line.split(':').next().unwrap_or_default().trim()).is_some(), "{line}");
        }
    }

    #[test]
    fn the_longest_phrase_wins() {
        let tag = |text: &str| tag(&lex(text));
        assert_eq!(tag("context deadline exceeded")[0], Tok::Is(Concept::Other));
        assert_eq!(tag("context window")[..], [Tok::Is(Concept::Context)]);
        assert_eq!(tag("max_tokens")[..], [Tok::Is(Concept::Output)]);
        assert_eq!(tag("コンテキスト長を超え")[0], Tok::Is(Concept::Context));
    }
}
