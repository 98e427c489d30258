//! Names that must survive letter by letter: URLs, paths, hashes, addresses, versions, tickets, amounts, dates.

use std::collections::HashMap;

use super::evidence::floor;
use super::words::words;
use super::{Passage, Scope, Voice};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Sort {
    Url,
    Path,
    Id,
    Address,
    Version,
    Ticket,
    Amount,
    Date,
}

pub(crate) struct Identifier<'t> {
    pub text: &'t str,
    /// The word before it, where it names it: `commit 9f86d08`.
    pub label: &'t str,
    pub worth: f32,
    pub last_place: usize,
}

/// Bytes of a tool's output that are searched, from its beginning and its end.
const EDGE: usize = 12 * 1024;
/// Identifiers of one passage that are counted. A list of hundreds tells nothing of any of them.
const COUNTED: usize = 400;
const LONGEST: usize = 160;

struct Found<'t> {
    sort: Sort,
    text: &'t str,
    label: &'t str,
    keyed: bool,
}

#[derive(Default)]
struct Seen<'t> {
    label: &'t str,
    passages: u32,
    spoken: bool,
    /// It stood behind `=` or `:`.
    keyed: bool,
    share: f32,
    last_place: usize,
}

/// All identifiers of the covered part, the most telling first.
pub(crate) fn identifiers<'t>(scope: &'t Scope<'t>) -> Vec<Identifier<'t>> {
    let mut seen: HashMap<(Sort, &'t str), Seen<'t>> = HashMap::new();
    let mut order: Vec<(Sort, &'t str)> = Vec::new();
    for passage in scope.covered {
        let mut found: Vec<Found<'t>> = Vec::new();
        for window in windows(passage) {
            find(window, &mut found);
        }
        if found.len() > COUNTED {
            continue;
        }
        let spoken = matches!(passage.voice, Voice::User | Voice::Assistant);
        let share = 1.0 / (found.len() as f32).sqrt();
        found.sort_unstable_by(|a, b| (a.sort, a.text).cmp(&(b.sort, b.text)));
        found.dedup_by(|a, b| (a.sort, a.text) == (b.sort, b.text));
        for Found { sort, text, label, keyed } in found {
            let entry = seen.entry((sort, text)).or_insert_with(|| {
                order.push((sort, text));
                Seen::default()
            });
            entry.passages += 1;
            entry.spoken |= spoken;
            entry.keyed |= keyed;
            entry.share = entry.share.max(share);
            entry.last_place = passage.place;
            if entry.label.is_empty() {
                entry.label = label;
            }
        }
    }
    let mut identifiers: Vec<Identifier> = order
        .into_iter()
        .filter_map(|key| {
            let entry = seen.get(&key)?;
            let base = match key.0 {
                Sort::Ticket | Sort::Id | Sort::Address => 1.0,
                Sort::Url | Sort::Version => 0.8,
                Sort::Path => 0.5,
                // Without the sentence around it, a sum or a day tells nothing.
                Sort::Amount | Sort::Date => -0.8,
            };
            // Code is full of names with digits; where nobody speaks of one and nothing introduces it, it is a detail of that code.
            if key.0 == Sort::Ticket && !entry.spoken && !entry.keyed && !key.1.contains('-') {
                return None;
            }
            let worth = base
                + entry.share
                + 0.5 * (entry.passages as f32).ln()
                + if entry.spoken { 0.8 } else { 0.0 }
                + if entry.label.is_empty() { 0.0 } else { 0.3 };
            Some(Identifier { text: key.1, label: entry.label, worth, last_place: entry.last_place })
        })
        .collect();
    identifiers.sort_by(|a, b| b.worth.total_cmp(&a.worth).then(b.last_place.cmp(&a.last_place)).then(a.text.cmp(b.text)));
    identifiers
}

fn windows<'t>(passage: &'t Passage<'t>) -> Vec<&'t str> {
    let text: &str = &passage.text;
    if text.len() <= 2 * EDGE {
        return vec![text];
    }
    vec![&text[..floor(text, EDGE)], &text[floor(text, text.len() - EDGE)..]]
}

fn find<'t>(text: &'t str, found: &mut Vec<Found<'t>>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut label: &'t str = "";
    let mut introduced = false;
    while at < bytes.len() {
        if breaks(bytes[at]) {
            at += 1;
            continue;
        }
        let start = at;
        let (mut digit, mut mark) = (false, false);
        while at < bytes.len() && !breaks(bytes[at]) {
            digit |= bytes[at].is_ascii_digit();
            mark |= matches!(bytes[at], b'/' | b'\\' | b'@');
            at += 1;
        }
        // Breaks are ASCII, so both ends are borders of characters.
        let raw = &text[start..at];
        if digit || mark {
            let token = raw.trim_end_matches(['.', ',', ':', ';', '!', '?', '-']).trim_start_matches(['.', ',', ':', '-', '*']);
            let (key, value, keyed) = match token.split_once(['=', ':']) {
                Some((key, value))
                    if !value.starts_with("//")
                        && !value.is_empty()
                        && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
                        && !key.starts_with(|c: char| c.is_ascii_digit())
                        && key.len() < 30
                        && !host(token) =>
                {
                    (key, value.trim_start_matches(['=', ':']), true)
                }
                _ => (label, token, introduced),
            };
            if let Some(sort) = sort(value) {
                let label = if key.len() < 24 && !words().look_up(&key.to_lowercase()).is_function() { key } else { "" };
                found.push(Found { sort, text: value, label, keyed });
                if found.len() > COUNTED {
                    return;
                }
            }
        }
        label = raw.trim_end_matches([':', '=']);
        // In JSON the colon stands behind the quotation mark.
        introduced = label.len() < raw.len() || bytes[at..].iter().take(2).any(|b| matches!(b, b':' | b'='));
        if raw.len() < 2 || !label.chars().all(|c| c.is_alphabetic() || matches!(c, '_' | '-')) {
            label = "";
        }
    }
}

fn breaks(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || matches!(byte, b'"' | b'\'' | b'`' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' | b',' | b';' | b'|')
}

fn sort(token: &str) -> Option<Sort> {
    if token.len() < 3 || token.len() > LONGEST {
        return None;
    }
    let bytes = token.as_bytes();
    if token.starts_with("http://") || token.starts_with("https://") || token.starts_with("wss://") {
        return (token.len() > 10).then_some(Sort::Url);
    }
    if !token.is_ascii() {
        let money = token.starts_with(['€', '£', '¥', '₩', '₽', '₹']) || token.ends_with(['€', '£', '¥', '元']);
        return (money && token.bytes().any(|b| b.is_ascii_digit()) && token.len() < 16).then_some(Sort::Amount);
    }
    let digits = bytes.iter().filter(|b| b.is_ascii_digit()).count();
    let letters = bytes.iter().filter(|b| b.is_ascii_alphabetic()).count();
    if bytes.contains(&b'@') {
        let email = token.split_once('@').is_some_and(|(name, domain)| {
            !name.is_empty() && domain.contains('.') && domain.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
        });
        return email.then_some(Sort::Address);
    }
    if host(token) {
        return Some(Sort::Address);
    }
    if bytes.contains(&b'/') || bytes.contains(&b'\\') {
        let parts = token.split(['/', '\\']).filter(|part| !part.is_empty()).count();
        let clean = bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'\\' | b'.' | b'_' | b'-' | b'~' | b'@' | b'+' | b':' | b'#'));
        let worded = letters >= 3
            && !token.contains("//")
            && (parts >= 2 && (token.starts_with(['/', '.', '~']) || token.contains('.') || parts >= 3));
        // A frame of a library in a trace says nothing of the work.
        let frame = token.matches(':').count() >= 2
            || ["node_modules/", "site-packages/", "/usr/lib/", "internal/"].iter().any(|part| token.contains(part));
        return (clean && worded && !frame).then_some(Sort::Path);
    }
    if digits == 0 {
        return None;
    }
    if bytes[0] == b'$' && digits > 0 && letters <= 1 {
        return Some(Sort::Amount);
    }
    if bytes[0] == b'#' && digits == bytes.len() - 1 && digits <= 7 {
        return Some(Sort::Ticket);
    }
    let shape = |separator: char, lengths: &[usize]| {
        let parts: Vec<&str> = token.split(separator).collect();
        parts.len() == lengths.len()
            && parts.iter().zip(lengths).all(|(part, length)| part.len() == *length && part.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    if shape('-', &[8, 4, 4, 4, 12]) {
        return Some(Sort::Id);
    }
    if shape('-', &[4, 2, 2]) && letters == 0 {
        return Some(Sort::Date);
    }
    if letters + digits == bytes.len() && bytes.iter().all(u8::is_ascii_hexdigit) && letters > 0 && bytes.len() >= 7 {
        return Some(Sort::Id);
    }
    let numbers = token.trim_start_matches(['v', 'V', '^', '~', '=']);
    if numbers.split('.').count() >= 3
        && numbers.split('.').take(2).all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
        && numbers.len() <= 24
        && letters <= 8
    {
        return Some(Sort::Version);
    }
    // Letters and digits of a name that somebody gave: OPS-411, HAT136, mia_li_3668, dpl_8Xk2.
    if digits >= 2
        && letters >= 2
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && bytes[0].is_ascii_alphabetic()
        && bytes.len() <= 48
    {
        let separated = bytes.contains(&b'-') || bytes.contains(&b'_');
        let capitals = bytes.iter().filter(|b| b.is_ascii_uppercase()).count();
        return (separated && digits >= 2 && !bytes.contains(&b'.')
            || (capitals >= 1 && digits >= 2 && !bytes.contains(&b'.') && bytes.len() >= 5))
            .then_some(Sort::Ticket);
    }
    // A long number is somebody's number.
    (digits == bytes.len() && (6..=20).contains(&digits)).then_some(Sort::Id)
}

/// `host:port` or an IPv4 address.
fn host(token: &str) -> bool {
    let (name, port) = token.rsplit_once(':').unwrap_or((token, ""));
    let numeric = name.split('.').count() == 4
        && name.split('.').all(|part| !part.is_empty() && part.len() <= 3 && part.bytes().all(|b| b.is_ascii_digit()));
    let named = !port.is_empty()
        && (2..=5).contains(&port.len())
        && port.bytes().all(|b| b.is_ascii_digit())
        && name.len() >= 3
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
        && (name == "localhost" || (name.contains('.') && !file_like(name)));
    (numeric && port.bytes().all(|b| b.is_ascii_digit())) || named
}

/// `main.rs:12` is a place in a file, not a host and its port.
fn file_like(name: &str) -> bool {
    name.rsplit('.').next().is_some_and(|end| {
        matches!(
            end,
            "rs" | "py"
                | "js"
                | "ts"
                | "tsx"
                | "jsx"
                | "go"
                | "java"
                | "c"
                | "cc"
                | "cpp"
                | "h"
                | "hpp"
                | "rb"
                | "php"
                | "cs"
                | "kt"
                | "swift"
                | "md"
                | "json"
                | "toml"
                | "yaml"
                | "yml"
                | "txt"
                | "sh"
                | "sql"
                | "html"
                | "css"
                | "scala"
                | "ex"
                | "exs"
                | "lua"
                | "vue"
                | "log"
                | "mjs"
                | "cjs"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_told_from_words_and_numbers() {
        let check = |text: &str, expected: &[(Sort, &str)]| {
            let mut found = Vec::new();
            find(text, &mut found);
            let found: Vec<_> = found.into_iter().map(|f| (f.sort, f.text)).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("see https://a.example/x?y=1, then", &[(Sort::Url, "https://a.example/x?y=1")]);
        check("commit 9f86d08 on 10.0.0.7:5432", &[(Sort::Id, "9f86d08"), (Sort::Address, "10.0.0.7:5432")]);
        check("db.internal:5432 and main.rs:12", &[(Sort::Address, "db.internal:5432")]);
        check("id=550e8400-e29b-41d4-a716-446655440000", &[(Sort::Id, "550e8400-e29b-41d4-a716-446655440000")]);
        check("OPS-411 and #42, v1.2.3", &[(Sort::Ticket, "OPS-411"), (Sort::Ticket, "#42"), (Sort::Version, "v1.2.3")]);
        check("src/db/pool.rs or /etc/hosts", &[(Sort::Path, "src/db/pool.rs"), (Sort::Path, "/etc/hosts")]);
        check("$1200 by 2024-05-20", &[(Sort::Amount, "$1200"), (Sort::Date, "2024-05-20")]);
        check("and/or 12 apples, 3/4, utf8", &[]);
    }
}
