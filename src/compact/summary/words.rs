//! Lists and patterns, which are files under `words/`, made ready for use; and small things done to texts.

use regex::Regex;

/// Lines that carry data.
pub fn lines(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
}

/// The patterns of a list, each behind `flags`.
pub fn patterns(list: &'static str, flags: &str) -> Vec<Regex> {
    lines(list).filter_map(|line| Regex::new(&format!("{flags}{line}")).ok()).collect()
}

/// The first `bytes` of a text at most, cut between two characters.
pub fn head(text: &str, bytes: usize) -> &str {
    if text.len() <= bytes {
        return text;
    }
    let mut at = bytes;
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    &text[..at]
}

/// The first `chars` characters of a text at most.
pub fn head_chars(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(at, _)| &text[..at])
}

/// The last `chars` characters of a text at most.
pub fn tail_chars(text: &str, chars: usize) -> &str {
    match chars.checked_sub(1) {
        None => "",
        Some(last) => text.char_indices().rev().nth(last).map_or(text, |(at, _)| &text[at..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        for list in [include_str!("words/identifiers.txt"), include_str!("words/figures.txt"), include_str!("words/injections.txt")] {
            assert_eq!(patterns(list, "(?i)").len(), lines(list).count());
        }
    }

    #[test]
    fn cuts_are_between_characters() {
        assert_eq!(
            (head("aé漢", 2), head("aé漢", 9), head_chars("aé漢", 2), tail_chars("aé漢", 2), tail_chars("a", 0)),
            ("a", "aé漢", "aé", "é漢", "")
        );
    }
}
