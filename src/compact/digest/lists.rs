//! Word lists and patterns, which are files under `words/`, made ready for use.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use regex::Regex;

/// A set of languages, one bit each.
pub(crate) type Languages = u32;

/// Lines that carry data.
pub(crate) fn lines(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The lines of a list with the language they are in.
pub(crate) fn by_language(list: &'static str) -> impl Iterator<Item = (Languages, &'static str)> {
    lines(list).filter_map(|line| line.split_once(':')).map(|(name, line)| (language(name), line))
}

/// Languages are numbered in the order of the function words, of which every language has some.
pub(crate) fn language(name: &str) -> Languages {
    static NAMES: LazyLock<Vec<&'static str>> =
        LazyLock::new(|| lines(include_str!("words/stop.txt")).filter_map(|line| Some(line.split_once(':')?.0)).collect());
    NAMES.iter().position(|known| *known == name).map_or(Languages::MAX, |at| 1 << at.min(31))
}

pub(crate) fn automaton<'p>(patterns: impl Iterator<Item = &'p str>) -> AhoCorasick {
    // The lists are part of the program and a few hundred kilobytes at most, far below what the builder refuses.
    AhoCorasick::builder().match_kind(MatchKind::Standard).build(patterns).unwrap_or_else(|_| unreachable!("built-in lists are small"))
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
