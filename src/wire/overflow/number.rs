//! How numbers are spelt: separators of any style, multipliers, units glued on, and what only looks like a number.

use super::lex::chunk_end;

/// Longer numbers are ids or times.
const MAX_DIGITS: usize = 10;

/// `2026/09/29`: two more groups after slashes.
pub(super) fn date_end(chunk: &str, rest: &str) -> Option<usize> {
    let group = |rest: &str| {
        let digits = rest.strip_prefix('/')?.bytes().take_while(u8::is_ascii_digit).count();
        (digits > 0).then_some(digits + 1)
    };
    let first = chunk.bytes().all(|b| b.is_ascii_digit()).then(|| group(rest)).flatten()?;
    Some(first + group(&rest[first..])?)
}

/// The number a chunk starts with, and its length in bytes. Separators of any style; what mixes them like a date or a version is no number.
pub(super) fn number(chunk: &str) -> Option<(Option<u64>, usize)> {
    let end = chunk.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '\'' | '’' | '_'))).unwrap_or(chunk.len());
    let run = chunk[..end].trim_end_matches(['.', ',', '\'', '’', '_']);
    let seps: Vec<char> = run.chars().filter(|c| !c.is_ascii_digit()).collect();
    let groups: Vec<&str> = run.split(|c: char| !c.is_ascii_digit()).collect();
    let (first, rest) = groups.split_first()?;
    let thousands = |rest: &[&str]| (1..=3).contains(&first.len()) && !first.starts_with('0') && rest.iter().all(|group| group.len() == 3);
    let digits = match seps.as_slice() {
        [] => (*first).to_owned(),
        [_] if thousands(rest) => groups.concat(),
        ['.'] => (*first).to_owned(),
        // `8192,9001`: two numbers without a space; the first one is read.
        [','] => return Some((parse(first), first.len())),
        [sep, more @ ..] if more.iter().all(|other| other == sep) => match thousands(rest) || indian(first, rest) {
            true => groups.concat(),
            false => return None,
        },
        [sep, more @ .., last] if last != sep && more.iter().all(|other| other == sep) && thousands(&rest[..rest.len() - 1]) => {
            groups[..groups.len() - 1].concat()
        }
        _ => return None,
    };
    let digits = digits.trim_start_matches('0');
    (digits.len() <= MAX_DIGITS).then(|| (parse(if digits.is_empty() { "0" } else { digits }), run.len()))
}

/// `150 312`: groups of three after a space, as French and Russian write them.
pub(super) fn spaced_number(chunk: &str, rest: &str) -> Option<(u64, usize)> {
    if !(1..=3).contains(&chunk.len()) || chunk.starts_with('0') || !chunk.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut value: u64 = chunk.parse().ok()?;
    let mut length = chunk.len();
    while let Some(group) = rest[length..].strip_prefix([' ', '\u{a0}', '\u{2009}', '\u{202f}']) {
        let at = rest.len() - group.len();
        let digits = chunk_end(group);
        if digits != 3 || value >= 1_000_000 || !group[..digits].bytes().all(|b| b.is_ascii_digit()) {
            break;
        }
        value = value * 1000 + group[..digits].parse::<u64>().ok()?;
        length = at + digits;
    }
    (length > chunk.len()).then_some((value, length))
}

fn parse(digits: &str) -> Option<u64> {
    digits.parse().ok()
}

fn indian(first: &str, rest: &[&str]) -> bool {
    let (last, pairs) = rest.split_last().unwrap_or((&"", &[]));
    first.len() <= 2 && last.len() == 3 && !pairs.is_empty() && pairs.iter().all(|group| group.len() == 2)
}

pub(super) fn multiplier(tail: &str) -> Option<u64> {
    let mut chars = tail.chars();
    let times = match chars.next()? {
        'k' | 'K' => 1_000,
        'm' | 'M' => 1_000_000,
        _ => return None,
    };
    (chars.next().is_none_or(|c| matches!(c, '-' | '_'))).then_some(times)
}

/// `1.2M` keeps its fraction.
pub(super) fn scale(value: Option<u64>, chunk: &str, length: usize, times: u64) -> Option<u64> {
    let decimal = chunk[..length].replace(',', ".");
    match decimal.split_once('.') {
        Some((_, fraction)) if !fraction.contains('.') => decimal.parse::<f64>().ok().map(|n| (n * times as f64).round() as u64),
        _ => value?.checked_mul(times),
    }
}

pub(super) fn is_unit(tail: &str) -> bool {
    let tail = tail.to_ascii_lowercase();
    let head = tail.split(['-', '_']).next().unwrap_or_default();
    ["token", "tokens", "toks", "b", "kb", "mb", "gb", "kib", "mib", "gib", "bytes", "chars", "characters", "s", "ms", "px"].contains(&head)
}

/// `12.8万`, `1 million`: the multiplier after a number, and its length in bytes.
pub(super) fn times(rest: &str) -> Option<(u64, usize)> {
    let word = rest.trim_start_matches(' ');
    let known = [
        ("万", 10_000),
        ("萬", 10_000),
        ("만", 10_000),
        ("千", 1_000),
        ("천", 1_000),
        ("thousand", 1_000),
        ("тыс", 1_000),
        ("million", 1_000_000),
        ("млн", 1_000_000),
    ];
    known.iter().find(|(name, _)| word.starts_with(name)).map(|(name, times)| (*times, rest.len() - word.len() + name.len()))
}
