//! How much of everything: what a summary may weigh, what goes into one call, and into how many parts a conversation is cut.
//!
//! The numbers are OpenClaw's and Hermes', see the constants.

use crate::tokens::Tokenizer;

/// Tokens set aside for what surrounds the conversation in a call, or this share of the summary model's window where that is less.
const OVERHEAD: u64 = 4_096;
const OVERHEAD_SHARE: u64 = 10;
/// A chunk is this share of the window, and shrinks to the smaller one as messages grow.
const CHUNK: f64 = 0.4;
const CHUNK_LEAST: f64 = 0.15;
/// Messages of this share of the window are long.
const LONG: f64 = 0.1;
/// Counts of a tokenizer that we do not have are multiplied by this.
const SAFETY: f64 = 1.2;

/// What the summary of `content` tokens may weigh beside an agent's `window`: a fifth of the content, 2,000 to 10,000, and at most a twentieth of
/// the window where that is over 400.
pub fn budget(content: u64, window: u64) -> u64 {
    let most = (window / 20).clamp(400, 10_000);
    (content / 5).clamp(2_000.min(most), most)
}

/// The measures of calls to one summary model, in its own tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measures {
    pub tokenizer: Tokenizer,
    /// Its window.
    pub window: u64,
    /// What is asked for.
    pub budget: u64,
}

impl Measures {
    pub fn new(tokenizer: Tokenizer, window: u64, content: u64, agents_window: u64) -> Self {
        // A small model cannot write as much as a large one's window would allow.
        Self { tokenizer, window, budget: budget(content, agents_window).min(window / 4) }
    }

    /// Tokens of a text, never too few.
    pub fn count(&self, text: &str) -> u64 {
        self.padded(self.tokenizer.count(text) as u64)
    }

    fn padded(&self, tokens: u64) -> u64 {
        if self.tokenizer.is_exact() { tokens } else { (tokens as f64 * SAFETY).ceil() as u64 }
    }

    /// Room that is left for the answer: what was asked for and half as much again, for counts differ and some think first.
    pub fn output(&self) -> u64 {
        self.budget + self.budget / 2
    }

    /// The most an answer to so many tokens may take: some models think at length before they write, and one that is cut off is worth nothing.
    pub fn most_output(&self, tokens: u64) -> u64 {
        (self.output() + OVERHEAD).min(self.window.saturating_sub(tokens))
    }

    /// The most tokens of conversation and previous record in one call.
    pub fn input(&self) -> u64 {
        self.window.saturating_sub(OVERHEAD.min(self.window / OVERHEAD_SHARE) + self.output())
    }

    /// The most tokens of one chunk, for messages of these weights.
    pub fn chunk(&self, weights: &[u64]) -> u64 {
        let average = weights.iter().sum::<u64>() as f64 / weights.len().max(1) as f64 / self.window.max(1) as f64;
        let ratio = if average > LONG { CHUNK - (2.0 * average).min(CHUNK - CHUNK_LEAST) } else { CHUNK };
        let overhead = OVERHEAD.min(self.window / OVERHEAD_SHARE);
        // The record so far travels along.
        ((self.window as f64 * ratio) as u64).saturating_sub(overhead).clamp(1, self.input().saturating_sub(self.output()).max(1))
    }

    /// Whether a message is too large to be summarised whole: over half of the window.
    pub fn is_oversized(&self, weight: u64) -> bool {
        weight > self.window / 2 || weight > self.input().saturating_sub(self.output())
    }

    /// The same for a model that turned out to take only half of what was thought.
    pub fn halved(self) -> Self {
        Self { window: self.window / 2, budget: self.budget.min(self.window / 8), ..self }
    }
}

/// Cuts entries of these weights into chunks of at most `most` tokens, between the groups they belong to. A group that is larger than a chunk is cut.
pub fn chunks(entries: &[(u64, usize)], most: u64) -> Vec<std::ops::Range<usize>> {
    let mut out = Vec::new();
    let (mut start, mut weight, mut at) = (0, 0, 0);
    while at < entries.len() {
        let group = entries[at..].iter().take_while(|(_, group)| *group == entries[at].1).count();
        let whole: u64 = entries[at..at + group].iter().map(|(weight, _)| weight).sum();
        let (step, more) = if whole <= most { (group, whole) } else { (1, entries[at].0) };
        if weight + more > most && at > start {
            out.push(start..at);
            (start, weight) = (at, 0);
        }
        weight += more;
        at += step;
    }
    if start < entries.len() {
        out.push(start..entries.len());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_budget_is_a_fifth_within_bounds() {
        for (content, window, tokens) in [
            (100_000, 200_000, 10_000),
            (30_000, 200_000, 6_000),
            (3_000, 200_000, 2_000),
            (100_000, 60_000, 3_000),
            (100_000, 8_000, 400),
            (100, 8_000, 400),
        ] {
            assert_eq!(budget(content, window), tokens, "{content} of {window}");
        }
    }

    #[test]
    fn overhead_is_a_tenth_of_a_small_window() {
        let measures = |window| Measures::new(Tokenizer::O200k, window, 1_000_000, window);
        assert_eq!(measures(200_000).input(), 200_000 - 4_096 - 15_000);
        assert_eq!(measures(8_000).input(), 8_000 - 800 - 600);
    }

    #[test]
    fn chunks_shrink_as_messages_grow() {
        let measures = Measures::new(Tokenizer::O200k, 100_000, 1_000_000, 100_000);
        assert_eq!(measures.chunk(&[500; 20]), 40_000 - 4_096);
        assert_eq!(measures.chunk(&[12_000; 20]), 16_000 - 4_096);
        assert_eq!(measures.chunk(&[40_000; 3]), 15_000 - 4_096);
        assert!(measures.is_oversized(50_001) && !measures.is_oversized(50_000));
    }

    proptest! {
        #[test]
        fn chunks_are_in_order_complete_and_not_too_large(weights in prop::collection::vec((0u64..900, 0usize..3), 0..60), most in 1u64..1500) {
            let mut group = 0;
            let entries: Vec<(u64, usize)> = weights.iter().map(|(weight, step)| { group += step; (*weight, group) }).collect();
            let chunks = chunks(&entries, most);
            prop_assert_eq!(chunks.iter().cloned().flatten().collect::<Vec<_>>(), (0..entries.len()).collect::<Vec<_>>());
            for chunk in chunks {
                prop_assert!(chunk.len() == 1 || entries[chunk].iter().map(|(weight, _)| weight).sum::<u64>() <= most);
            }
        }
    }
}
