//! What a sentence is about: its content words, names and values, comparable across wordings.
//!
//! Words are compared by a short stem, or by the concept that several words of several languages share; scripts without spaces by pairs
//! of characters. Values are numbers, codes, versions, dates and addresses, each with what it measures where the sentence says so.

use std::collections::HashMap;

use super::phrases::Marks;
use super::reading;
use super::values::Value;

/// A word, name, pair of characters or value, by hash.
pub(crate) type Key = u64;

/// One token of the sentence in order; `content` words and values carry the subject.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    Stop(Key),
    Word(Key),
    Value(Key),
}

/// At most this many tokens of a sentence are looked at: beyond, it is a document.
pub(crate) const TOKENS: usize = 160;

#[derive(Default, Debug)]
pub(crate) struct Subject {
    pub tokens: Vec<Token>,
    /// Content words, sorted, without repeats.
    pub words: Vec<Key>,
    /// Those of them that look like names: capitals inside the sentence, snake_case, single letters and short labels.
    pub names: Vec<Key>,
    /// Words whose capital may be owed to their place or to grammar: the first word, and every noun in German.
    pub capitals: Vec<Key>,
    /// Words without a capital.
    pub small: Vec<Key>,
    pub values: Vec<Value>,
    /// Words that exclude others, with their group.
    pub contrasts: Vec<(u16, Key)>,
    pub marks: Marks,
    /// In a script without spaces.
    pub unspaced: bool,
    /// Where what is said of the subject begins: the token after "is" or a colon.
    pub head: Option<usize>,
    pub question: bool,
    /// Nothing but acknowledgement.
    pub filler: bool,
}

impl Subject {
    pub fn of(text: &str) -> Self {
        reading::read(text)
    }

    pub fn opens_with(&self, key: Key) -> bool {
        self.tokens.first() == Some(&Token::Word(key))
    }

    pub fn has_value(&self, norm: Key) -> bool {
        self.values.iter().any(|v| v.norm == norm)
    }

    pub fn has_word(&self, key: Key) -> bool {
        self.words.binary_search(&key).is_ok()
    }
}

/// How much a word tells: rare words of a conversation say what a sentence is about.
pub(crate) struct Rarity {
    seen: HashMap<Key, u32>,
    sentences: u32,
}

impl Rarity {
    pub fn of<'s>(subjects: impl Iterator<Item = &'s Subject>) -> Self {
        let mut rarity = Rarity { seen: HashMap::new(), sentences: 0 };
        for subject in subjects {
            rarity.sentences += 1;
            for key in &subject.words {
                *rarity.seen.entry(*key).or_default() += 1;
            }
        }
        rarity
    }

    pub fn weight(&self, key: Key) -> f32 {
        let seen = self.seen.get(&key).copied().unwrap_or(0) as f32;
        ((self.sentences as f32 + 1.5) / (seen + 0.5)).ln().max(0.05)
    }

    pub fn sum(&self, keys: &[Key]) -> f32 {
        keys.iter().map(|key| self.weight(*key)).sum()
    }
}

pub(crate) fn hash(text: &str) -> Key {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

pub(crate) fn concept_key(number: u16) -> Key {
    0xC0DE_0000_0000_0000 | u64::from(number)
}

/// Whether the word stands for an attribute, whatever its wording.
pub(crate) fn is_concept(key: Key) -> bool {
    key >> 48 == 0xC0DE
}

/// Inflection lies in endings, so the beginning of a word stands for it.
pub(crate) fn stem(word: &str) -> Key {
    let plain = word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word);
    let plain = if plain.len() > 3 { plain.strip_suffix('s').unwrap_or(plain) } else { plain };
    let end = plain.char_indices().nth(6).map_or(plain.len(), |(at, _)| at);
    hash(&plain[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_are_filler_in_any_language() {
        for text in [
            "ok, thanks!",
            "Yes, please continue.",
            "好的，继续",
            "はい、お願いします",
            "네, 계속하세요",
            "Danke, weiter so",
            "Parfait, merci",
            "да, продолжай",
        ] {
            assert!(Subject::of(text).filler, "{text}");
        }
        for text in ["ok, but use tabs", "端口是80", "Never push", "Nein, nimm Postgres"] {
            assert!(!Subject::of(text).filler, "{text}");
        }
    }
}
