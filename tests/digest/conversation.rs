//! A conversation under construction, with what is planted in it, and the yardstick.

use std::borrow::Cow;

use plimsoll::compact::digest::{Passage, Voice};

#[derive(Clone, Debug)]
pub enum Who {
    User,
    Assistant,
    Call(String),
    Result(String, bool),
}

#[derive(Clone, Debug)]
pub struct Message {
    pub who: Who,
    pub text: String,
    pub call_id: String,
}

/// Something that has to survive, or something that must be gone.
#[derive(Clone, Debug)]
pub struct Fact {
    pub kind: String,
    pub planted_at: usize,
    /// All of these have to be there.
    pub keys: Vec<String>,
    /// From this message on it no longer counts.
    pub until: usize,
}

#[derive(Clone, Debug)]
pub struct Gone {
    pub from: usize,
    pub text: String,
}

#[derive(Clone, Debug, Default)]
pub struct Conversation {
    pub name: String,
    pub messages: Vec<Message>,
    pub facts: Vec<Fact>,
    pub gone: Vec<Gone>,
}

impl Conversation {
    pub fn push(&mut self, who: Who, text: impl Into<String>) {
        let call_id = match &who {
            Who::Call(_) => format!("call_{}", self.messages.len()),
            Who::Result(..) => self.messages.last().map_or(String::new(), |m| m.call_id.clone()),
            _ => String::new(),
        };
        self.messages.push(Message { who, text: text.into(), call_id });
    }

    pub fn plant(&mut self, kind: &str, keys: &[&str]) {
        self.facts.push(Fact {
            kind: kind.to_owned(),
            planted_at: self.messages.len() - 1,
            keys: keys.iter().map(|k| (*k).to_owned()).collect(),
            until: usize::MAX,
        });
    }

    /// Passages of the messages in `range`.
    pub fn passages(&self, range: std::ops::Range<usize>) -> Vec<Passage<'_>> {
        range.map(|place| self.messages[place].passage(place)).collect()
    }
}

impl Message {
    pub fn passage(&self, place: usize) -> Passage<'_> {
        let voice = match &self.who {
            Who::User => Voice::User,
            Who::Assistant => Voice::Assistant,
            Who::Call(tool) => Voice::Call { tool },
            Who::Result(tool, failed) => Voice::Result { tool, failed: *failed },
        };
        Passage { place, voice, call_id: &self.call_id, text: Cow::Borrowed(&self.text) }
    }
}

/// A quarter token a byte of ASCII, one for any other character: near enough to real tokenizers, and nobody's own.
pub fn count(text: &str) -> usize {
    let (ascii, other) = text.chars().fold((0usize, 0usize), |(a, o), c| {
        if c.is_ascii() {
            (a + 1, o)
        } else if (c as u32) < 0x2000 {
            (a + 2, o)
        } else {
            (a, o + 1)
        }
    });
    ascii.div_ceil(4) + other
}

/// The same numbers for the same seed, on every machine.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    pub fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % below.max(1)
    }

    pub fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.roll(from.len())]
    }
}
