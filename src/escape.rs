//! What the escapes in a JSON string stand for.

use std::borrow::Cow;

/// The text that a JSON string stands for, given what is between its quotes. Half of a surrogate pair becomes U+FFFD, and what isn't an escape stays
/// as it is: this never fails, and borrows where nothing is escaped.
pub fn unescape(raw: &str) -> Cow<'_, str> {
    if memchr::memchr(b'\\', raw.as_bytes()).is_none() {
        return Cow::Borrowed(raw);
    }
    let mut rest = raw;
    let mut text = String::with_capacity(raw.len());
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        let (plain, escape) = rest.split_at(at);
        text.push_str(plain);
        let (char, len) = escaped(escape.as_bytes());
        text.push(char);
        rest = escape.get(len..).unwrap_or_default();
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// The character that an escape stands for and the bytes it takes. `escape` starts with a backslash.
fn escaped(escape: &[u8]) -> (char, usize) {
    let char = match escape.get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(&byte @ (b'"' | b'\\' | b'/')) => byte as char,
        Some(b'u') => return unicode(escape),
        _ => return ('\\', 1),
    };
    (char, 2)
}

fn unicode(escape: &[u8]) -> (char, usize) {
    let Some(unit) = utf16_unit(escape) else { return ('\\', 1) };
    match (unit, escape.get(6..).and_then(utf16_unit)) {
        (0xd800..0xdc00, Some(low @ 0xdc00..0xe000)) => {
            let char = 0x1_0000 + ((unit - 0xd800) << 10 | (low - 0xdc00));
            (char::from_u32(char).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
        }
        _ => (char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER), 6),
    }
}

/// The number in `\uXXXX`, if that is what `escape` starts with.
fn utf16_unit(escape: &[u8]) -> Option<u32> {
    let digits = escape.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | (digit as char).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_string_without_escapes_is_borrowed() {
        for raw in ["plain é 漢", ""] {
            assert!(matches!(unescape(raw), Cow::Borrowed(found) if found == raw), "{raw}");
        }
    }

    #[test]
    fn escapes_are_undone_and_anything_else_stays() {
        let check = |raw: &str, text: &str| assert_eq!(unescape(raw), text, "{raw}");
        check(r#"a\nb\t\"c\"\\\/\r\b\f"#, "a\nb\t\"c\"\\/\r\u{8}\u{c}");
        check(r#"\u00e9\u6f22\u0000"#, "é漢\0");
        check(r#"\ud83d\ude00!"#, "😀!");
        check(r#"\uD83D\uDE00"#, "😀");
        check(r#"\ud83d"#, "\u{fffd}");
        check(r#"\ud83dx"#, "\u{fffd}x");
        check(r#"\ude00\ud83d"#, "\u{fffd}\u{fffd}");
        check(r#"\ud83d\u0041"#, "\u{fffd}A");
        check(r#"\ud83d\ud83d\ude00"#, "\u{fffd}😀");
        check(r#"\u12"#, r"\u12");
        check(r#"\u12é4"#, r"\u12é4");
        check(r#"\x"#, r"\x");
        check(r#"\"#, r"\");
        check(r#"ends in a quote\""#, "ends in a quote\"");
    }

    proptest! {
        #[test]
        fn what_json_writes_is_read_back(text in ".*") {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(unescape(&json[1..json.len() - 1]), text);
        }

        #[test]
        fn any_text_is_accepted(raw in r#"("|\\|\\u|\\ud83d|\\ude00|[0-9a-f]{1,4}|.){0,20}"#) {
            let text = unescape(&raw);
            prop_assert!(text.len() <= 3 * raw.len());
            if let Ok(json) = serde_json::from_str::<String>(&format!("\"{raw}\"")) {
                prop_assert_eq!(text, json);
            }
        }
    }
}
