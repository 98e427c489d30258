//! Measures a conversation: how many tokens a text, a picture or a document weighs.
//!
//! OpenAI's models are counted exactly ([`Tokenizer::O200k`], [`Tokenizer::Cl100k`]); for all others there is an estimate, which what
//! the provider says it counted corrects ([`Calibration`]). Pictures are priced by their dimensions ([`images`]), never as text.
//! Counting is the dearest thing done to a request, so a text is counted once and remembered by its content ([`Memo`]), and a request
//! whose bytes fit isn't counted at all ([`upper_bound`]).
//!
//! Everything here is pure and total: the same number for the same input, on any input, in time linear in its length.

mod calibration;
mod encode;
mod estimate;
mod generations;
pub mod images;
mod layout;
mod memo;
mod split;
mod text;
mod vocabulary;

pub use crate::escape::unescape;
pub use calibration::{Calibration, Ratio};
pub use memo::Memo;
pub use text::count_json_string;

/// How the tokens of a text are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tokenizer {
    /// Exactly, by `o200k_base`: gpt-4o and all later OpenAI models, o-series, gpt-oss.
    O200k,
    /// Exactly, by `cl100k_base`: gpt-4, gpt-3.5.
    Cl100k,
    /// For a tokenizer that we don't have: by the common measure, never more for the whole than for its parts.
    #[default]
    Estimate,
}

impl Tokenizer {
    /// The tokens of `text`. Spellings of special tokens count as the text they are written with, as providers count user input.
    pub fn count(self, text: &str) -> usize {
        match self {
            Tokenizer::O200k => vocabulary::o200k(text),
            Tokenizer::Cl100k => vocabulary::cl100k(text),
            Tokenizer::Estimate => estimate::estimate(text),
        }
    }

    /// Whether [`Tokenizer::count`] is what the provider would count, rather than an estimate of it.
    pub fn is_exact(self) -> bool {
        self != Tokenizer::Estimate
    }
}

/// No tokenizer makes more tokens of a text than it has bytes: a text so bounded that fits needs no count.
pub fn upper_bound(bytes: usize) -> usize {
    bytes
}
