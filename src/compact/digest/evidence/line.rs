//! What one line of an output tells.

use std::borrow::Cow;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::Regex;
use regex::bytes::{RegexSet, RegexSetBuilder};

use crate::compact::digest::lists::{ascii, lines, pattern};
use crate::compact::digest::subjects::{Key, hash};

/// Bytes of a line that are judged and quoted.
const LINE: usize = 320;

/// How much a line tells, from least to most.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Shape {
    Summary,
    Http,
    Log,
    Message,
}

/// The shape of a line of which it is not known that it holds a telling word.
pub(crate) fn shape_of_any(line: &str) -> Option<Shape> {
    candidates(line).next().and_then(|_| shape(line))
}

pub(super) fn shape(line: &str) -> Option<Shape> {
    static SHAPES: LazyLock<(RegexSet, Vec<Shape>)> = LazyLock::new(|| {
        let read = |line: &'static str| {
            let (name, pattern) = line.split_once(' ')?;
            let shape = match name {
                "message" => Shape::Message,
                "log" => Shape::Log,
                "http" => Shape::Http,
                _ => Shape::Summary,
            };
            Some((ascii(pattern), shape))
        };
        let (patterns, shapes): (Vec<String>, Vec<Shape>) = lines(include_str!("../words/shapes.txt")).filter_map(read).unzip();
        let set = RegexSetBuilder::new(&patterns).unicode(false).build();
        (set.unwrap_or_else(|_| unreachable!("built-in shapes are valid")), shapes)
    });
    let (patterns, shapes) = &*SHAPES;
    patterns.matches(colourless(cut(line.trim_end())).as_bytes()).iter().map(|at| shapes[at]).max()
}

/// How much a log line says beside its time and level.
pub(super) fn news(line: &str) -> usize {
    line.len().min(LINE) + 20 * line.bytes().filter(|b| *b == b'=').count()
}

pub(super) fn exception(line: &str) -> bool {
    static HEAD: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:E\s+)?(?:[\w$]+[.:]+)*[A-Z]\w*(?:Error|Exception)\b"));
    HEAD.is_match(&colourless(line)) || line.starts_with("Caused by:")
}

/// Whether a line names a place in a source file.
pub(super) fn located(line: &str) -> bool {
    static PLACE: LazyLock<Regex> =
        LazyLock::new(|| pattern(r#"[\w./\\-]+\.[A-Za-z]{1,5}(?::\d+|\(\d+[,)])|File "[^"]+", line \d+|\bline \d+"#));
    PLACE.is_match(&colourless(cut(line)))
}

/// Frames of libraries say less than those of one's own code.
pub(super) fn foreign(line: &str) -> bool {
    [
        "site-packages",
        "node_modules",
        "/usr/lib",
        "/rustc/",
        "java.base",
        "node:internal",
        "dist-packages",
        ".cargo/registry",
        "/lib/python",
    ]
    .iter()
    .any(|part| line.contains(part))
}

/// Whether a line of an output with an error in it only happens to stand near that: of a listing, of a table, of a log where all goes well.
pub(super) fn beside(line: &str) -> bool {
    static LISTED: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[\w./\\-]+\.[A-Za-z]{1,5}:\d+:(?:\d+:)?\s*\S"));
    static WELL: LazyLock<Regex> =
        LazyLock::new(|| pattern(r#"^.{0,60}(?:^|[\s\[|":=])(?:INFO|DEBUG|TRACE|VERBOSE|info|debug|trace)(?:[\s\]|":]|$)|\.\.\. ok$"#));
    const BLOB: usize = 160;
    let plain = line.trim();
    let row = plain.len() > 2 && plain.starts_with('|') && plain.ends_with('|');
    let blob = plain.len() > BLOB && plain.starts_with(['{', '[']);
    shape(line).is_none() && (row || blob || LISTED.is_match(line) || (WELL.is_match(line) && !settings(line)))
}

/// Whether a line holds settings with numbers: `pool_size=5`, `timeout: 30`.
pub(super) fn settings(line: &str) -> bool {
    static SETTING: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b[A-Za-z][\w.-]{2,40}\s?[=:]\s?\d"));
    SETTING.is_match(cut(line))
}

pub(super) fn candidates(window: &str) -> impl Iterator<Item = (usize, usize)> {
    static ANCHORS: LazyLock<AhoCorasick> = LazyLock::new(|| {
        let anchors = include_str!("../words/errors.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        AhoCorasick::builder().ascii_case_insensitive(true).build(anchors).unwrap_or_else(|_| unreachable!("the list is small"))
    });
    ANCHORS.find_iter(window).map(|found| (found.start(), found.end()))
}

pub(super) fn cut(line: &str) -> &str {
    if line.len() <= LINE { line } else { &line[..floor(line, LINE)] }
}

/// A line as it is read on a terminal.
pub(super) fn colourless(line: &str) -> Cow<'_, str> {
    if line.contains('\u{1b}') { Cow::Owned(plain(line)) } else { Cow::Borrowed(line) }
}

/// A line without control characters, which terminals leave in their output.
pub(crate) fn plain(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' && chars.peek() == Some(&'[') {
            // A colour: everything up to its letter.
            while chars.next().is_some_and(|c| !c.is_ascii_alphabetic()) {}
        } else if !c.is_control() || c == '\t' {
            plain.push(if c == '\t' { ' ' } else { c });
        }
    }
    plain.truncate(plain.trim_end().len());
    plain
}

pub(super) fn signature(main: &str) -> Key {
    let mut plain = String::with_capacity(main.len());
    let mut quoted = false;
    for c in main.chars() {
        quoted ^= matches!(c, '"' | '\'' | '`');
        if !quoted && c.is_alphabetic() {
            plain.extend(c.to_lowercase());
        }
    }
    hash(&plain)
}

pub(crate) fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
