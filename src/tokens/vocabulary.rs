//! Exact counts: how many tokens a byte-pair vocabulary makes of a text.
//!
//! The text is cut into pieces (`split.rs`). A piece that is a token counts one, which a table of the short tokens tells for most; the
//! others are encoded (`encode.rs`). The tables come from `build.rs`; `layout.rs` says what is in them. They are part of the program:
//! nothing is loaded, and what isn't touched takes no memory.

use super::encode::Encoder;
use super::layout::{self, Split, pair, short, trie};
use super::split;

/// The number of tokens of OpenAI's `o200k_base` in `text`, special tokens taken as the text they are written with.
pub(super) fn o200k(text: &str) -> usize {
    static O200K: Vocabulary = vocabulary!("o200k");
    O200K.count(text.as_bytes(), split::o200k)
}

/// The same for `cl100k_base`.
pub(super) fn cl100k(text: &str) -> usize {
    static CL100K: Vocabulary = vocabulary!("cl100k");
    CL100K.count(text.as_bytes(), split::cl100k)
}

pub(super) struct Vocabulary {
    short: &'static [[u8; 8]],
    trie: &'static [[u8; 8]],
    filter: &'static [u8],
    pairs: &'static [[u8; 4]],
    splits: &'static [[u8; 8]],
}

/// Tables start on a cache line, so that no cell lies across two.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

macro_rules! vocabulary {
    ($name:literal) => {
        Vocabulary {
            short: table!($name, ".short").as_chunks().0,
            trie: table!($name, ".trie").as_chunks().0,
            filter: table!($name, ".filter"),
            pairs: table!($name, ".pairs").as_chunks().0,
            splits: table!($name, ".splits").as_chunks().0,
        }
    };
}

macro_rules! table {
    ($name:literal, $table:literal) => {{
        static TABLE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $name, $table)));
        &TABLE.0
    }};
}

use {table, vocabulary};

impl Vocabulary {
    #[inline(always)]
    fn count(&self, text: &[u8], split: impl Fn(&[u8], usize) -> usize) -> usize {
        let (mut count, mut at, mut encoder) = (0, 0, Encoder::new(text.len()));
        while at < text.len() {
            let end = split(text, at);
            count += if self.is_short_token(text, at, end) { 1 } else { encoder.count(self, &text[at..end]) };
            at = end;
        }
        count
    }

    /// Whether `text[at..end]` is a token of no more than [`short::LONGEST`] bytes.
    #[inline(always)]
    fn is_short_token(&self, text: &[u8], at: usize, end: usize) -> bool {
        let len = end - at;
        if len > short::LONGEST {
            return false;
        }
        let bytes = match text[at..].first_chunk() {
            Some(bytes) => u64::from_le_bytes(*bytes) & ((1 << (8 * len)) - 1),
            None => text[at..end].iter().rev().fold(0, |bytes, &byte| bytes << 8 | byte as u64),
        };
        let cell = short::cell(bytes, len);
        let mut slot = slot(layout::hash(cell), self.short.len());
        loop {
            let found = u64::from_le_bytes(self.short[slot % self.short.len()]);
            if found == cell || found == short::EMPTY {
                return found == cell;
            }
            slot += 1;
        }
    }

    /// The longest token that `text` starts with, and its length. Every byte is a token.
    #[inline(always)]
    pub(super) fn longest(&self, text: &[u8]) -> (u32, usize) {
        let (mut cell, mut found, mut len) = (u64::from_le_bytes(self.trie[0]), 0, 0);
        for (at, &byte) in text.iter().enumerate() {
            cell = u64::from_le_bytes(self.trie[trie::base(cell) ^ byte as usize]);
            if !trie::has_label(cell, byte) {
                break;
            }
            if let Some(token) = trie::token(cell) {
                (found, len) = (token, at + 1);
            }
        }
        (found, len)
    }

    #[inline(always)]
    pub(super) fn split(&self, token: u32) -> Split {
        Split::of(u64::from_le_bytes(self.splits[token as usize]))
    }

    /// The token that a pair merges into.
    #[inline(always)]
    pub(super) fn merged(&self, left: u32, right: u32) -> Option<u32> {
        let hash = pair::hash(left, right);
        let bit = slot(hash, self.filter.len() * 8);
        if self.filter[bit / 8] >> (bit % 8) & 1 == 0 {
            return None;
        }
        let mut slot = slot(hash, self.pairs.len());
        loop {
            let cell = u32::from_le_bytes(self.pairs[slot % self.pairs.len()]);
            if cell == pair::EMPTY {
                return None;
            }
            let token = cell & layout::TOKEN;
            if cell == pair::cell(hash, token) && (self.split(token).left, self.split(token).right) == (left, right) {
                return Some(token);
            }
            slot += 1;
        }
    }
}

/// Where a search starts in a table of `len` cells, a power of two.
#[inline(always)]
fn slot(hash: u64, len: usize) -> usize {
    (hash >> (64 - len.ilog2())) as usize
}
