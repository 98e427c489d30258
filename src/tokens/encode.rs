//! A piece of text as tokens, in linear time, however long the piece is.
//!
//! Merging by rank is not simulated. The longest token that can stand at a place is tried first, then the shorter ones, and a place from
//! which nothing leads on is left for good. Two tokens can stand side by side exactly when merging the bytes of both would never join
//! them across the border; as that decides which token comes next, the bytes up to a place are encoded in one way only, and each place
//! is reached at most once. (The method is that of GitHub's `bpe` crate.)

use super::layout::{self, Split};
use super::vocabulary::Vocabulary;

/// The tokens of a piece so far, and what was learnt on the way. One serves all pieces of a text, so that little is allocated.
pub(super) struct Encoder {
    tokens: Vec<u32>,
    /// One bit a place: nothing leads on from there.
    dead: Vec<u64>,
    /// Pairs that were asked about, each with the answer in its lowest bit; later ones overwrite earlier ones. Words repeat, and a
    /// long run of one character asks about the same pairs all along.
    apart: Vec<u64>,
    apart_len: usize,
}

impl Encoder {
    /// For pieces of a text of `len` bytes. Allocates nothing yet: most short texts are made of whole tokens.
    pub(super) fn new(len: usize) -> Self {
        Encoder { tokens: Vec::new(), dead: Vec::new(), apart: Vec::new(), apart_len: (len / 4).next_power_of_two().clamp(16, 8192) }
    }

    pub(super) fn count(&mut self, vocabulary: &Vocabulary, piece: &[u8]) -> usize {
        let (mut token, len) = vocabulary.longest(piece);
        if len == piece.len() {
            return 1;
        }
        self.tokens.clear();
        self.dead.clear();
        self.dead.resize(piece.len() / 64 + 1, 0);
        self.apart.resize(self.apart_len, 0);
        // Rulers and the like are one long token again and again. That one comes first, out of turn: the search by length would try all
        // the lengths that a shorter run may end with, at every place.
        let mut again = false;
        let mut at = 0;
        loop {
            let Split { prefix, len, .. } = vocabulary.split(token);
            let end = at + len;
            let dead = self.dead[end / 64] >> (end % 64) & 1 == 1;
            if !dead && self.tokens.last().copied().is_none_or(|last| self.apart(vocabulary, last, token)) {
                self.tokens.push(token);
                at = end;
                if at == piece.len() {
                    return self.tokens.len();
                }
                again = len >= 16 && piece[at..].starts_with(&piece[at - len..at]);
                if !again {
                    (token, _) = vocabulary.longest(&piece[at..]);
                }
            } else if again {
                (token, _) = vocabulary.longest(&piece[at..]);
                again = false;
            } else if prefix != token {
                token = prefix;
            } else {
                self.dead[at / 64] |= 1 << (at % 64);
                // Every piece has an encoding, so the search never comes back to its start with nothing left to try.
                let Some(last) = self.tokens.pop() else { return piece.len() };
                at -= vocabulary.split(last).len;
                token = last;
                again = self.tokens.last() == Some(&last);
            }
        }
    }

    #[inline(always)]
    fn apart(&mut self, vocabulary: &Vocabulary, left: u32, right: u32) -> bool {
        // The bit on top tells the pair of zeros from an empty slot.
        let pair = (left as u64 | (right as u64) << layout::TOKEN_BITS) << 1 | 1 << 63;
        let slot = (layout::hash(pair) >> 40) as usize & (self.apart.len() - 1);
        let known = self.apart[slot];
        if known >> 1 == pair >> 1 {
            return known & 1 == 1;
        }
        let apart = apart(vocabulary, left, right);
        self.apart[slot] = pair | apart as u64;
        apart
    }
}

/// Whether `left` and `right` stay apart when the bytes of both are merged by rank. The later of the two is taken apart, again and again;
/// what then meets at the border must not merge into a token that would have come before the merge that was undone.
fn apart(vocabulary: &Vocabulary, mut left: u32, mut right: u32) -> bool {
    let mut limit = u32::MAX;
    loop {
        if vocabulary.merged(left, right).is_some_and(|merged| merged < limit) {
            return false;
        }
        let (inner_left, inner_right) = (vocabulary.split(left).right, vocabulary.split(right).left);
        let (left_is_byte, right_is_byte) = (inner_left == left, inner_right == right);
        if !left_is_byte && (left > right || right_is_byte) {
            (limit, left) = (left, inner_left);
        } else if !right_is_byte {
            // Of equal ranks the one further left is merged first, hence the one.
            (limit, right) = (right + 1, inner_right);
        } else {
            return true;
        }
    }
}
