//! The short, honest, stable texts that stand where something was, and cutting a text to its ends.

use crate::conversation::Fingerprint;

/// What every text of ours begins with, so that it is never taken for somebody's words, and never cut again.
pub const SIGN: &str = "[plimsoll";

/// In place of an output that a later one repeats.
pub fn repeated(id: Fingerprint) -> String {
    format!("{SIGN} {}: the same output stands further down]", id.short())
}

/// In place of an output that a later call of the same kind made out of date.
pub fn superseded(id: Fingerprint) -> String {
    format!("{SIGN} {}: out of date, the same was read again further down]", id.short())
}

/// In place of a picture, document or sound.
pub fn media(id: Fingerprint) -> String {
    format!("{SIGN} {}: removed here: an older attachment]", id.short())
}

/// Whether a text has more than so many characters.
pub fn is_longer(text: &str, chars: usize) -> bool {
    text.len() > chars && text.chars().nth(chars).is_some()
}

/// The ends of a text with a marker between them: `head` and `tail` characters of it, at line ends where there are some near. `None` when that is
/// not shorter.
pub fn ends(text: &str, head: usize, tail: usize, id: Fingerprint) -> Option<String> {
    ends_and_lines(text, head, tail, |_| Vec::new(), id)
}

/// The same, where the `telling` lines of what is between the ends follow on the marker.
pub fn ends_and_lines<'t>(
    text: &'t str,
    head: usize,
    tail: usize,
    telling: impl FnOnce(&'t str) -> Vec<&'t str>,
    id: Fingerprint,
) -> Option<String> {
    let first = cut_after(text, head);
    let last = cut_before(text, tail).max(first);
    let lines = telling(&text[first..last]);
    let gone = text[first..last].chars().count() - lines.iter().map(|line| line.chars().count()).sum::<usize>();
    let but = if lines.is_empty() { "" } else { ", all but this" };
    let marker = format!("{SIGN} {}: {gone} characters removed{but}]", id.short());
    if gone <= marker.len() + lines.len() + 2 {
        return None;
    }
    let mut out = String::with_capacity(first + marker.len() + text.len() - last + 2);
    for piece in [&text[..first], marker.as_str()].into_iter().chain(lines).chain([&text[last..]]) {
        if !out.is_empty() && !out.ends_with('\n') && !piece.is_empty() {
            out.push('\n');
        }
        out.push_str(piece);
    }
    Some(out)
}

/// The byte after the first `chars` characters, or after the last line end in their second half.
fn cut_after(text: &str, chars: usize) -> usize {
    let at = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    if at == text.len() {
        return at;
    }
    text[..at].rfind('\n').filter(|&line| line + 1 > at / 2).map_or(whole_character(text, at), |line| line + 1)
}

/// The byte before the last `chars` characters, or after the first line end in their first half.
fn cut_before(text: &str, chars: usize) -> usize {
    if chars == 0 {
        return text.len();
    }
    let at = text.char_indices().rev().nth(chars - 1).map_or(0, |(at, _)| at);
    if at == 0 {
        return 0;
    }
    text[at..].find('\n').filter(|&line| line < (text.len() - at) / 2).map_or(whole_character(text, at), |line| at + line + 1)
}

/// Moves a cut back to before what is joined to its neighbour: combining marks, joiners, variation selectors, skin tones.
fn whole_character(text: &str, mut at: usize) -> usize {
    let joins = |c: char| matches!(c as u32, 0x300..=0x36F | 0x200D | 0xFE00..=0xFE0F | 0x1F3FB..=0x1F3FF | 0xE0020..=0xE007F);
    while at > 0 {
        let next = text[at..].chars().next();
        let before = text[..at].chars().next_back();
        if !(next.is_some_and(joins) || before == Some('\u{200D}')) {
            break;
        }
        at -= before.map_or(1, char::len_utf8);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ends_are_ends_and_shorter(text in "(?s).{0,400}", head in 0usize..80, tail in 0usize..80) {
            if let Some(cut) = ends(&text, head, tail, Fingerprint::default()) {
                prop_assert!(cut.chars().count() < text.chars().count());
                let (before, after) = cut.split_once(SIGN).unwrap();
                prop_assert!(text.starts_with(before.trim_end_matches('\n')));
                prop_assert!(text.ends_with(after.split_once(']').unwrap().1.trim_start_matches('\n')));
            }
        }
    }

    #[test]
    fn telling_lines_follow_on_the_marker() {
        let text = format!("begin\n{}E1: no disk\n{}end", "noise\n".repeat(40), "noise\n".repeat(40));
        let line = |between| str::lines(between).filter(|line| line.starts_with('E')).collect();
        let cut = ends_and_lines(&text, 6, 3, line, Fingerprint::default()).unwrap();
        let marker = format!("{SIGN} {}: 481 characters removed, all but this]", Fingerprint::default().short());
        assert_eq!(cut, format!("begin\n{marker}\nE1: no disk\nend"));
    }

    #[test]
    fn a_family_is_not_torn_apart() {
        let text = format!("{}👩‍🚀{}", "a".repeat(9), "b".repeat(200));
        for head in 8..14 {
            let cut = ends(&text, head, 0, Fingerprint::default()).unwrap();
            assert!(!cut.contains('👩') || cut.contains("👩‍🚀"), "{head}: {cut}");
        }
    }
}
