//! Agents without tool calls put what an action printed into user messages. Those are told by their frame: the same prompt at the end of
//! one after another, or a beginning that only a program writes.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::lists::lines;
use super::{Passage, Voice};

/// Messages that have to end alike before their end counts as a prompt.
const ALIKE: usize = 3;
const PROMPT: usize = 40;

/// The places of user messages that are tool output.
pub(crate) fn framed(passages: &[&Passage]) -> Vec<usize> {
    let users = || passages.iter().filter(|p| p.voice == Voice::User);
    let mut ends: HashMap<&str, usize> = HashMap::new();
    for prompt in users().filter_map(|p| prompt(&p.text)) {
        *ends.entry(prompt).or_default() += 1;
    }
    let machine = |text: &str| starts_like_output(text) || prompt(text).is_some_and(|end| ends.get(end).is_some_and(|n| *n >= ALIKE));
    users().filter(|p| machine(&p.text)).map(|p| p.place).collect()
}

fn starts_like_output(text: &str) -> bool {
    static FRAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| lines(include_str!("words/frames.txt")).collect());
    FRAMES.iter().any(|frame| text.starts_with(frame))
}

/// A last line that is the prompt of a shell, not a sentence, and not the end of what an agent's program adds to a user's words.
fn prompt(text: &str) -> Option<&str> {
    let last = text.trim_end().lines().next_back()?.trim();
    if last.starts_with('<') {
        return None;
    }
    let shell = last.ends_with(['$', '#', '%', '>']) && last.split_whitespace().count() <= 3;
    (shell && last.len() <= PROMPT && text.len() > last.len() + 1).then_some(last)
}
