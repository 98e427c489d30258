//! `cull`: exchanges that say nothing ("thanks" and "you're welcome"). Never anything with a tool in it, and always both sides, so that the roles
//! still take turns.

use super::{View, Zones};
use crate::conversation::{Kind, Role};
use std::sync::LazyLock;

/// Words that alone make no statement, in the languages people thank in; one a line.
const FILLER: &str = include_str!("filler.txt");

/// Longest first, so that "thank you very much" is not "thank you" and something more.
static PHRASES: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let mut phrases: Vec<&str> = FILLER.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    phrases.sort_by_key(|phrase| std::cmp::Reverse(phrase.len()));
    phrases
});

/// Longer than this nobody is only being polite, in characters.
const LONGEST: usize = 80;

pub fn run(view: &mut View, zones: &Zones) {
    let count = view.turns.list.len();
    let mut turn = 0;
    while turn + 1 < count {
        let (said, answered) = (view.turns.list[turn].clone(), view.turns.list[turn + 1].clone());
        let idle = |messages: std::ops::Range<usize>, view: &View| {
            messages.into_iter().all(|message| zones.is_middle(view, message) && says_nothing(view, message))
        };
        if said.role == Role::User
            && answered.role == Role::Assistant
            && idle(said.messages.clone(), view)
            && idle(answered.messages.clone(), view)
        {
            for message in said.messages.start..answered.messages.end {
                view.drop(message);
            }
            turn += 2;
        } else {
            turn += 1;
        }
    }
}

fn says_nothing(view: &View, message: usize) -> bool {
    view.blocks(message).iter().all(|block| match block.kind {
        Kind::Text { text } => is_filler(&view.said(text)),
        _ => false,
    })
}

/// Whether a text is nothing but politeness or assent.
pub fn is_filler(text: &str) -> bool {
    let text = text.trim();
    if text.chars().count() > LONGEST {
        return false;
    }
    let plain: String = text.to_lowercase().chars().map(|c| if c.is_alphanumeric() || c == '\'' { c } else { ' ' }).collect();
    let mut rest = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    while !rest.is_empty() {
        let Some(phrase) = PHRASES
            .iter()
            .find(|phrase| rest.starts_with(**phrase) && rest[phrase.len()..].chars().next().is_none_or(|c| c == ' ' || !c.is_ascii()))
        else {
            return false;
        };
        rest = rest[phrase.len()..].trim_start().to_owned();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::is_filler;

    #[test]
    fn politeness_is_filler_and_nothing_else_is() {
        for text in [
            "ok",
            "Thanks!",
            "Got it, thank you very much.",
            "Danke schön",
            "好的,谢谢",
            "ありがとうございます",
            "You're welcome!",
            "👍",
            "",
        ] {
            assert!(is_filler(text), "{text}");
        }
        for text in ["ok, use port 8080", "no", "yes but not in production", "stop", "Thanks, now delete it", "好的,别动数据库"] {
            assert!(!is_filler(text), "{text}");
        }
    }
}
