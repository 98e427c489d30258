//! Where a text is cut before its pieces are merged into tokens: the split patterns of the vocabularies, as code.
//!
//! A pattern is written for a backtracking regular expression, which takes quadratic time, or gives up, on a long run of one kind. Here
//! each alternative is a scan over classes of characters that never looks at a character more than a few times. The classes come from
//! the tables that `build.rs` makes of the regular expressions' own Unicode data.

use super::layout::class::{BLOCK, LETTER, LOWER, NEWLINE, NUMBER, SPACE, UPPER};

/// After the last character.
const END: u8 = 64;

const LETTER_OR_NUMBER: u8 = LETTER | NUMBER | END;

static BLOCKS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/classes.blocks"));
static INDEX: &[[u8; 2]] = include_bytes!(concat!(env!("OUT_DIR"), "/classes.index")).as_chunks().0;

/// A place in a text with the class of the character there. Moving on is the only way it changes.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    class: u8,
    width: u8,
}

impl<'a> Cursor<'a> {
    #[inline(always)]
    fn new(text: &'a [u8], at: usize) -> Self {
        let (class, width) = match text.get(at) {
            Some(&byte) if byte < 0x80 => (BLOCKS[byte as usize], 1),
            Some(&byte) => wide(text, at, byte),
            None => (END, 0),
        };
        Cursor { text, at, class, width }
    }

    #[inline(always)]
    fn is(self, class: u8) -> bool {
        self.class & class != 0
    }

    /// Neither white space, nor letter, nor number.
    #[inline(always)]
    fn is_symbol(self) -> bool {
        !self.is(SPACE | LETTER_OR_NUMBER)
    }

    /// May stand before a word and belong to it: `[^\r\n\p{L}\p{N}]`.
    #[inline(always)]
    fn is_prefix(self) -> bool {
        !self.is(NEWLINE | LETTER_OR_NUMBER)
    }

    #[inline(always)]
    fn next(self) -> Self {
        Cursor::new(self.text, self.at + self.width as usize)
    }

    #[inline(always)]
    fn skip(mut self, condition: impl Fn(Self) -> bool) -> Self {
        while condition(self) {
            self = self.next();
        }
        self
    }

    /// Past all of [`LOWER`]. Most words are a few of the letters a to z, which are told eight at a time: without a branch for each
    /// letter, there is but one to mispredict.
    #[inline(always)]
    fn skip_lower(mut self) -> Self {
        loop {
            let (run, full) = ascii_lower(self.text, self.at);
            self = Cursor::new(self.text, self.at + run);
            if !full {
                return self.skip(|end| end.is(LOWER));
            }
        }
    }

    #[inline(always)]
    fn byte(self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }
}

/// How many of the eight bytes at `at` are of a to z before the first that isn't, and whether all are. 0 near the end of the text.
#[inline(always)]
fn ascii_lower(text: &[u8], at: usize) -> (usize, bool) {
    let Some(bytes) = text.get(at..).and_then(|rest| rest.first_chunk()) else { return (0, false) };
    const EACH: u64 = 0x0101_0101_0101_0101;
    let bytes = u64::from_le_bytes(*bytes);
    let low = bytes & (0x7f * EACH);
    let from_a = low + (0x80 - b'a' as u64) * EACH;
    let past_z = low + (0x80 - b'z' as u64 - 1) * EACH;
    let others = !(from_a & !past_z & !bytes) & (0x80 * EACH);
    (others.trailing_zeros() as usize / 8, others == 0)
}

/// The class and the width in bytes of the character that starts with `lead`, in a text that is valid UTF-8.
fn wide(text: &[u8], at: usize, lead: u8) -> (u8, u8) {
    let follow = |n: usize| (text.get(at + n).copied().unwrap_or(0) & 0x3f) as usize;
    let (char, width) = match lead {
        0..0xe0 => ((lead as usize & 0x1f) << 6 | follow(1), 2),
        0xe0..0xf0 => ((lead as usize & 0x0f) << 12 | follow(1) << 6 | follow(2), 3),
        0xf0.. => ((lead as usize & 0x07) << 18 | follow(1) << 12 | follow(2) << 6 | follow(3), 4),
    };
    let block = INDEX.get(char / BLOCK).map_or(0, |block| u16::from_le_bytes(*block) as usize);
    (BLOCKS.get(block * BLOCK + char % BLOCK).copied().unwrap_or(0), width)
}

/// The end of the piece of `text` that starts at `at`, past `at` unless `text` ends there, as cut by
/// ```text
/// [^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
/// |[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
/// |\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
/// ```
#[inline(always)]
pub(super) fn o200k(text: &[u8], at: usize) -> usize {
    let first = Cursor::new(text, at);
    let head = if first.is_prefix() { first.next() } else { first };
    if head.is(UPPER | LOWER) {
        let (mixed, upper) = cased(head);
        // A mark may be the prefix or the word; as a word of both kinds it wins over capitals that have it as their prefix.
        let capitals = if first.at < head.at && first.is(UPPER) { head.at } else { upper };
        return contraction(text, mixed.unwrap_or(capitals));
    }
    if first.is(UPPER) {
        return contraction(text, head.at);
    }
    if first.is(NUMBER) {
        return number(first);
    }
    symbols(first, |end| end.is(NEWLINE) || end.byte() == b'/').unwrap_or_else(|| space(first))
}

/// The ends of the two kinds of word that start here: one that has a character of the lower kind after those of the upper kind (the
/// expression gives upper characters back until it finds one that is both), and one of upper characters alone.
#[inline(always)]
fn cased(head: Cursor) -> (Option<usize>, usize) {
    let (mut end, mut both) = (head, None);
    while end.is(UPPER) {
        let lower = end.is(LOWER);
        end = end.next();
        if lower {
            both = Some(end.at);
        }
    }
    if end.is(LOWER) { (Some(end.skip_lower().at), end.at) } else { (both, end.at) }
}

/// As [`o200k`], for
/// ```text
/// '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s
/// ```
#[inline(always)]
pub(super) fn cl100k(text: &[u8], at: usize) -> usize {
    let contracted = contraction(text, at);
    if contracted > at {
        return contracted;
    }
    let first = Cursor::new(text, at);
    let head = if first.is_prefix() { first.next() } else { first };
    if head.is(LETTER) {
        return head.skip(|end| end.is(LETTER)).at;
    }
    if first.is(NUMBER) {
        return number(first);
    }
    symbols(first, |end| end.is(NEWLINE)).unwrap_or_else(|| {
        let end = first.skip(|end| end.is(SPACE));
        if end.is(END) { end.at } else { space(first) }
    })
}

/// The end of `'s`, `'t`, `'re`, `'ve`, `'m`, `'ll` or `'d` in either case at `at`, or `at`. The long ſ folds to s.
#[inline(always)]
fn contraction(text: &[u8], at: usize) -> usize {
    if text.get(at) != Some(&b'\'') {
        return at;
    }
    let lower = |n: usize| text.get(at + n).map_or(0, u8::to_ascii_lowercase);
    match (lower(1), lower(2)) {
        (b's' | b't' | b'm' | b'd', _) => at + 2,
        (b'r' | b'v', b'e') | (b'l', b'l') => at + 3,
        (0xc5, 0xbf) => at + 3,
        _ => at,
    }
}

#[inline(always)]
fn number(first: Cursor) -> usize {
    let mut end = first.next();
    for _ in 0..2 {
        if end.is(NUMBER) {
            end = end.next();
        }
    }
    end.at
}

/// ` ?[^\s\p{L}\p{N}]+` and then all that `trail` accepts.
#[inline(always)]
fn symbols(first: Cursor, trail: impl Fn(Cursor) -> bool) -> Option<usize> {
    let head = if first.byte() == b' ' { first.next() } else { first };
    head.is_symbol().then(|| head.skip(Cursor::is_symbol).skip(trail).at)
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`: to the last line break of a run of white space, or to its end where the text ends, or to before its last
/// character (which belongs to what follows), or just that one.
#[inline(always)]
fn space(first: Cursor) -> usize {
    let (mut end, mut last, mut line) = (first, first.at, None);
    while end.is(SPACE) {
        last = end.at;
        let newline = end.is(NEWLINE);
        end = end.next();
        if newline {
            line = Some(end.at);
        }
    }
    match line {
        Some(line) => line,
        None if end.is(END) || last == first.at => end.at,
        None => last,
    }
}
