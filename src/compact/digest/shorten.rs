//! A sentence in fewer words: the clauses that bind, in the speaker's own words, with "…" where something was left out.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;

use super::subjects::{Rarity, Subject};
use super::values::Kind;

pub(crate) const ELLIPSIS: char = '…';

/// The beginning of `text`, at most `limit` bytes, never cutting a grapheme.
pub(crate) fn graphemes(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    // A grapheme may be long (a family of emoji), but a run of marks without end is no reason to walk far.
    let window = &text[..super::evidence::floor(text, limit + 64)];
    let end = window.grapheme_indices(true).map(|(at, _)| at).take_while(|at| *at <= limit).last().unwrap_or(0);
    &text[..end]
}

/// At most `limit` bytes of a sentence, cut between words where it has any.
pub(crate) fn clipped(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let cut = graphemes(text, limit);
    let words = cut.rfind(char::is_whitespace).filter(|at| *at * 2 > cut.len()).map_or(cut, |at| &cut[..at]);
    Cow::Owned(format!("{}{ELLIPSIS}", words.trim_end()))
}

/// Longer sentences are first brought down to this.
const LONGEST: usize = 1_200;

/// The clauses of `text` that hold a value, a name, a negation or a duty; the whole where that saves little.
pub(crate) fn shortened(text: &str, rarity: &Rarity) -> Option<String> {
    let text = if text.len() > LONGEST { graphemes(text, LONGEST) } else { text };
    let clauses = clauses(text);
    if clauses.len() < 2 {
        return None;
    }
    let told: Vec<(f32, bool)> = clauses.iter().map(|clause| worth(clause, rarity)).collect();
    let best = told.iter().map(|(worth, _)| *worth).fold(0.0, f32::max);
    // Of two clauses one may only make sense with the other.
    let bar = if clauses.len() == 2 { 0.3 } else { 0.55 };
    let keep: Vec<bool> = told.iter().map(|(worth, binds)| *binds || *worth >= bar * best).collect();
    let mut short = String::with_capacity(text.len());
    let mut gap = false;
    for (clause, keep) in clauses.iter().zip(&keep) {
        if !keep {
            gap = true;
            continue;
        }
        if gap {
            if !short.is_empty() {
                short.truncate(short.trim_end_matches([' ', ',', '，', '、', ';', ':', '—', '–']).len());
                short.push(' ');
            }
            short.push(ELLIPSIS);
            short.push(' ');
            gap = false;
        }
        short.push_str(if short.is_empty() || short.ends_with(' ') { clause.trim_start() } else { clause });
    }
    if gap {
        short.truncate(short.trim_end_matches([' ', ',', '，', '、', ';', ':', '—', '–']).len());
        short.push(' ');
        short.push(ELLIPSIS);
    }
    let short = short.trim().to_owned();
    (!short.trim_matches([ELLIPSIS, ' ']).is_empty() && short.len() + 12 < text.len()).then_some(short)
}

/// The parts of a sentence between commas and their like.
pub(crate) fn clauses(text: &str) -> Vec<&str> {
    let mut clauses = Vec::new();
    let mut from = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let wide = matches!(c, '，' | '、' | '；' | '：' | '—' | '–' | '،');
        let narrow = matches!(c, ',' | ';' | ':' | '(' | ')' | '-') && chars.peek().is_some_and(|(_, next)| next.is_whitespace())
            || (c == '(' && text[..at].ends_with(' '));
        let narrow = narrow && (c != '-' || text[..at].ends_with(' '));
        if !(wide || narrow) {
            continue;
        }
        let end = if c == '(' { at } else { at + c.len_utf8() };
        if end > from {
            clauses.push(&text[from..end]);
            from = end;
        }
    }
    if from < text.len() {
        clauses.push(&text[from..]);
    }
    clauses
}

/// What a clause tells, and whether it holds a value, a name or a negation.
fn worth(clause: &str, rarity: &Rarity) -> (f32, bool) {
    let subject = Subject::of(clause);
    if subject.filler {
        return (0.0, false);
    }
    let values = subject.values.iter().map(|v| if v.kind == Kind::Number { 1.2 } else { 1.0 }).sum::<f32>().min(2.4);
    let names = (0.5 * subject.names.len() as f32).min(1.0);
    let words = (0.12 * rarity.sum(&subject.words)).min(1.2);
    let duty = f32::from(subject.marks.binding.min(2)) * 0.5 + if subject.marks.negation { 0.6 } else { 0.0 };
    let binds = !subject.values.is_empty() || subject.marks.negation || subject.marks.binding > 0;
    (values + names + words + duty, binds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_binds_remains_word_for_word() {
        let rarity = Rarity::of(std::iter::empty());
        let check = |text: &str, kept: &[&str]| {
            let short = shortened(text, &rarity).unwrap_or_else(|| text.to_owned());
            for part in kept {
                assert!(short.contains(part), "{short}");
            }
            for piece in short.split(ELLIPSIS) {
                assert!(text.contains(piece.trim()), "{piece} of {text}");
            }
        };
        check(
            "Before we go on, and I say this as a friend, you must never drop the table users_v2, ok?",
            &["never drop the table users_v2"],
        );
        check("顺便说一下，单批最多处理500行，谢谢。", &["单批最多处理500行"]);
        check("Short one", &["Short one"]);
    }

    #[test]
    fn cuts_fall_between_graphemes() {
        let family = "👨‍👩‍👧‍👦👨‍👩‍👧‍👦";
        assert_eq!(graphemes(family, 30), "👨‍👩‍👧‍👦");
        assert_eq!(graphemes("e\u{301}e\u{301}", 4), "e\u{301}");
    }
}
