//! How the tables for counting are laid out. `build.rs` writes them, `vocabulary.rs` and `split.rs` read them, and this file is part of
//! both sides. Cells are little-endian; tokens are ranks of 18 bits.
#![allow(dead_code)] // each side uses its half

pub const TOKEN_BITS: u32 = 18;
pub const TOKEN: u32 = (1 << TOKEN_BITS) - 1;

/// Spreads keys over a table: the slot is the top bits of this, and collisions go to the next slot.
pub fn hash(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The classes of characters that the split patterns name.
pub mod class {
    /// What the head of a word is made of.
    pub const UPPER: u8 = 1;
    /// What the rest of a word is made of. Letters without case, and marks, are both.
    pub const LOWER: u8 = 2;
    pub const LETTER: u8 = 4;
    pub const NUMBER: u8 = 8;
    pub const SPACE: u8 = 16;
    pub const NEWLINE: u8 = 32;

    pub const PATTERNS: [(&str, u8); 6] = [
        (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", UPPER),
        (r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", LOWER),
        (r"\p{L}", LETTER),
        (r"\p{N}", NUMBER),
        (r"\s", SPACE),
        (r"[\r\n]", NEWLINE),
    ];

    /// One byte a character, in blocks of this many characters; equal blocks are stored once and found by an index of blocks.
    pub const BLOCK: usize = 128;
}

/// The set of tokens of up to 7 bytes: a cell is those bytes with their number on top, 0 where empty.
pub mod short {
    pub const EMPTY: u64 = 0;
    pub const LONGEST: usize = 7;

    pub fn cell(bytes: u64, len: usize) -> u64 {
        bytes | (len as u64) << 56
    }
}

/// From a pair of tokens to the token that they merge into: a cell is that token under a part of the pair's hash, which tells most other
/// pairs; the [`split`] of the token tells the rest.
pub mod pair {
    pub const EMPTY: u32 = u32::MAX;

    pub fn hash(left: u32, right: u32) -> u64 {
        super::hash(left as u64 | (right as u64) << super::TOKEN_BITS)
    }

    pub fn cell(hash: u64, token: u32) -> u32 {
        tag(hash) | token
    }

    pub fn tag(hash: u64) -> u32 {
        ((hash >> super::TOKEN_BITS) as u32) << super::TOKEN_BITS
    }
}

/// What there is to know about a token.
#[derive(Clone, Copy)]
pub struct Split {
    /// The halves of the last merge that makes it; itself if it is one byte.
    pub left: u32,
    pub right: u32,
    /// The longest shorter token that it starts with; itself if it is one byte.
    pub prefix: u32,
    /// In bytes.
    pub len: usize,
}

impl Split {
    pub fn cell(self) -> u64 {
        let Split { left, right, prefix, len } = self;
        left as u64 | (right as u64) << TOKEN_BITS | (prefix as u64) << (2 * TOKEN_BITS) | (len as u64) << (3 * TOKEN_BITS)
    }

    #[inline(always)]
    pub fn of(cell: u64) -> Self {
        let token = |n: u32| (cell >> (n * TOKEN_BITS)) as u32 & TOKEN;
        Split { left: token(0), right: token(1), prefix: token(2), len: (cell >> (3 * TOKEN_BITS)) as usize }
    }
}

/// A double-array trie over the bytes of all tokens, its root in cell 0. The child of a cell by a byte is the cell at `base ^ byte`, if
/// that one's label is the byte: no two cells have the same base, so nothing else need be compared.
pub mod trie {
    /// Labels that no byte equals.
    pub const EMPTY: u64 = 256 << 24;
    pub const ROOT: u64 = 257 << 24;

    /// A cell without its base, which takes the low 24 bits and is 0 for a leaf.
    pub fn cell(label: u8, token: Option<u32>) -> u64 {
        (label as u64) << 24 | token.map_or(0, |token| token as u64 + 1) << 33
    }

    #[inline(always)]
    pub fn base(cell: u64) -> usize {
        (cell & 0xff_ffff) as usize
    }

    #[inline(always)]
    pub fn has_label(cell: u64, byte: u8) -> bool {
        cell >> 24 & 0x1ff == byte as u64
    }

    /// The token that ends here.
    #[inline(always)]
    pub fn token(cell: u64) -> Option<u32> {
        ((cell >> 33) as u32).checked_sub(1)
    }
}
