//! What a text is about, for those who hold another text against it.

use std::collections::HashMap;

use super::sentences::{Part, parts};
use super::subjects::{Key, Subject};

/// Words, names and values, each with what it weighs: a name or a value tells more than a word.
#[derive(Clone, Default, Debug)]
pub(crate) struct About {
    keys: HashMap<Key, u8>,
    /// It asks for something.
    pub asks: bool,
}

/// What a name or a value weighs.
const TELLING: u8 = 2;

pub(crate) fn about(sentence: &str) -> About {
    let subject = Subject::of(sentence);
    let words = if subject.filler { &[][..] } else { &subject.words[..] };
    let mut keys: HashMap<Key, u8> = words.iter().map(|key| (*key, 1)).collect();
    for key in subject.names.iter().copied().chain(subject.values.iter().map(|value| value.norm)) {
        keys.insert(key, TELLING);
    }
    About { keys, asks: subject.question || subject.marks.ask }
}

/// The sentences of a message that its author says, as opposed to pastes.
pub(crate) fn said(message: &str) -> Vec<String> {
    let said = |part| if let Part::Said { text, buried: false, .. } = part { Some(text.into_owned()) } else { None };
    parts(message).into_iter().filter_map(said).collect()
}

impl About {
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn weight(&self) -> f64 {
        self.keys.values().map(|weight| f64::from(*weight)).sum()
    }

    /// How many keys of this the other has, and what they weigh.
    pub fn shared(&self, other: &About) -> (usize, f64) {
        let shared = self.keys.iter().filter(|(key, _)| other.keys.contains_key(key));
        shared.fold((0, 0.0), |(number, sum), (_, weight)| (number + 1, sum + f64::from(*weight)))
    }

    pub fn add(&mut self, other: About) {
        self.asks |= other.asks;
        self.keys.extend(other.keys);
    }
}
