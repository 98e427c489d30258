//! Where the parts of a JSON text lie, without building any of them.
//!
//! A body is read once, by skipping: only objects and lists that matter are entered. What is skipped is matched for brackets and quotes alone;
//! before anything is edited the whole body is checked by a strict reader ([`is_strict`]).

use crate::conversation::Span;
use smallvec::SmallVec;

pub use crate::escape::unescape;

/// The members of an object: key (contents, quotes not included) and value.
pub type Members = SmallVec<[(Span, Span); 8]>;

/// The members of the object at `at` (which must be its `{`), and where the object ends. `None` when this is no well-formed object.
pub fn members(text: &str, at: usize) -> Option<(Members, usize)> {
    let mut out = Members::new();
    let end = each_member(text, at, |key, value| out.push((key, value)))?;
    Some((out, end))
}

/// Calls `f` with each member of the object at `at`; returns where the object ends.
pub fn each_member(text: &str, at: usize, mut f: impl FnMut(Span, Span)) -> Option<usize> {
    each_member_by(text, at, |key, at| {
        let end = skip(text.as_bytes(), at)?;
        f(key, Span::new(at, end));
        Some(end)
    })
}

/// Calls `f` with each key of the object at `at` and the place where its value starts, of which it says where it ends; returns where the object ends.
pub fn each_member_by(text: &str, at: usize, mut f: impl FnMut(Span, usize) -> Option<usize>) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = space(bytes, expect(bytes, at, b'{')?);
    if bytes.get(at) == Some(&b'}') {
        return Some(at + 1);
    }
    loop {
        let key_end = string(bytes, at)?;
        let key = Span::new(at + 1, key_end - 1);
        at = space(bytes, expect(bytes, space(bytes, key_end), b':')?);
        at = space(bytes, f(key, at)?);
        match bytes.get(at)? {
            b',' => at = space(bytes, at + 1),
            b'}' => return Some(at + 1),
            _ => return None,
        }
    }
}

/// The elements of the list at `at` (which must be its `[`), and where the list ends.
pub fn elements(text: &str, at: usize) -> Option<(Vec<Span>, usize)> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = space(bytes, expect(bytes, at, b'[')?);
    if bytes.get(at) == Some(&b']') {
        return Some((out, at + 1));
    }
    loop {
        let end = skip(bytes, at)?;
        out.push(Span::new(at, end));
        at = space(bytes, end);
        match bytes.get(at)? {
            b',' => at = space(bytes, at + 1),
            b']' => return Some((out, at + 1)),
            _ => return None,
        }
    }
}

/// The first place at or after `at` that is not white space.
pub fn space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = bytes.get(at) {
        at += 1;
    }
    at
}

fn expect(bytes: &[u8], at: usize, wanted: u8) -> Option<usize> {
    (bytes.get(at) == Some(&wanted)).then_some(at + 1)
}

/// Where the string that opens at `at` ends.
///
/// Escapes outnumber quotes by far in what agents send, so the quotes are looked for, and the backslashes before each are counted.
pub fn string(bytes: &[u8], at: usize) -> Option<usize> {
    let start = expect(bytes, at, b'"')?;
    let mut at = start;
    loop {
        at = quote_from(bytes, at)?;
        if bytes[at - 1] != b'\\' || bytes[start..at].iter().rev().take_while(|byte| **byte == b'\\').count().is_multiple_of(2) {
            return Some(at + 1);
        }
        at += 1;
    }
}

/// The first quote at or after `at`. Most strings are keys and words: a search that goes over long ones fast takes longer to begin than these take to
/// end.
fn quote_from(bytes: &[u8], mut at: usize) -> Option<usize> {
    const WORD: usize = size_of::<u64>();
    const SHORT: usize = 4;
    const ONES: u64 = u64::MAX / 0xff;
    for _ in 0..SHORT {
        let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk::<WORD>()) else { break };
        // A byte is a quote where nothing is left of it; only above such a one can a borrow make another look like it.
        let differs = u64::from_le_bytes(*word) ^ (ONES * u64::from(b'"'));
        let none_left = differs.wrapping_sub(ONES) & !differs & (ONES << 7);
        if none_left != 0 {
            return Some(at + none_left.trailing_zeros() as usize / 8);
        }
        at += WORD;
    }
    Some(at + memchr::memchr(b'"', bytes.get(at..)?)?)
}

/// Where the value that starts at `at` ends. Iterative, so that depth costs nothing but a bit a level.
pub fn skip(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'"' => string(bytes, at),
        b'{' | b'[' => container(bytes, at),
        b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
            let rest = &bytes[at..];
            let len = rest
                .iter()
                .position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t' | b'"' | b'{' | b'[' | b':'))
                .unwrap_or(rest.len());
            Some(at + len)
        }
        _ => None,
    }
}

fn container(bytes: &[u8], mut at: usize) -> Option<usize> {
    const WORD: usize = u64::BITS as usize;
    // One bit a level, set for an object: those of the innermost levels, and sixty-four of those around them at a time.
    let (mut open, mut around) = (0u64, Vec::new());
    let mut depth = 0usize;
    loop {
        match bytes.get(at)? {
            b'"' => {
                at = string(bytes, at)?;
                continue;
            }
            byte @ (b'{' | b'[') => {
                if depth > 0 && depth.is_multiple_of(WORD) {
                    around.push(std::mem::take(&mut open));
                }
                open = open << 1 | u64::from(*byte == b'{');
                depth += 1;
            }
            byte @ (b'}' | b']') => {
                if (open & 1 != 0) != (*byte == b'}') {
                    return None;
                }
                open >>= 1;
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
                if depth.is_multiple_of(WORD) {
                    open = around.pop()?;
                }
            }
            _ => {}
        }
        at += 1;
    }
}

/// Whether the whole text is one JSON value to a strict reader.
pub fn is_strict(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// The contents of the JSON string at `span`, quotes not included in the result; empty when it is no string.
pub fn inner(text: &str, span: Span) -> Span {
    let raw = span.of(text);
    if raw.len() >= 2 && raw.starts_with('"') && raw.ends_with('"') {
        Span { start: span.start + 1, end: span.end - 1 }
    } else {
        Span { start: span.start, end: span.start }
    }
}

/// `text` as a JSON string, quotes included.
pub fn quote(text: &str) -> String {
    // Serialising a string cannot fail; an empty string is still valid JSON if it ever did.
    serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    pub fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            ".*".prop_map(Into::into)
        ];
        leaf.prop_recursive(4, 48, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::vec((".{0,8}", inner), 0..6).prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn members_and_elements_lie_where_they_say(value in json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            match &value {
                serde_json::Value::Object(object) => {
                    let (found, end) = members(&text, 0).unwrap();
                    prop_assert_eq!(end, text.len());
                    prop_assert_eq!(found.len(), object.len());
                    for (key, value) in found {
                        let value: serde_json::Value = serde_json::from_str(value.of(&text)).unwrap();
                        prop_assert_eq!(&value, &object[&*unescape(key.of(&text))]);
                    }
                }
                serde_json::Value::Array(list) => {
                    let (found, end) = elements(&text, 0).unwrap();
                    prop_assert_eq!(end, text.len());
                    let values: Vec<serde_json::Value> = found.iter().map(|span| serde_json::from_str(span.of(&text)).unwrap()).collect();
                    prop_assert_eq!(&values, list);
                }
                _ => {}
            }
        }

        #[test]
        fn lists_and_objects_close_as_they_opened(objects in prop::collection::vec(any::<bool>(), 1..300), at in any::<prop::sample::Index>()) {
            let open: String = objects.iter().map(|object| if *object { "{\"a\":" } else { "[" }).collect();
            let close: String = objects.iter().rev().map(|object| if *object { '}' } else { ']' }).collect();
            let text = open.clone() + "1" + &close;
            prop_assert_eq!(skip(text.as_bytes(), 0), Some(text.len()));
            let mut wrong = text.into_bytes();
            let at = open.len() + 1 + at.index(objects.len());
            wrong[at] = if wrong[at] == b'}' { b']' } else { b'}' };
            prop_assert_eq!(skip(&wrong, 0), None);
        }

        #[test]
        fn arbitrary_text_is_no_trouble(text in ".{0,200}", at in 0usize..220) {
            let _ = (members(&text, at), elements(&text, at), unescape(&text));
        }

        #[test]
        fn quoting_and_unescaping_are_inverse(text in ".*") {
            let quoted = quote(&text);
            let back = unescape(&quoted[1..quoted.len() - 1]);
            prop_assert_eq!(back.as_ref(), text.as_str());
        }
    }
}
