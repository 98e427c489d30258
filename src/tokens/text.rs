//! Strings as they lie in JSON: counted where they are, copied only where an escape must be undone.

use super::Tokenizer;
use crate::escape::unescape;

/// The tokens of the text that a JSON string stands for, given as it lies in the body, with its quotes.
pub fn count_json_string(tokenizer: Tokenizer, raw: &str) -> usize {
    let raw = raw.strip_prefix('"').unwrap_or(raw);
    tokenizer.count(&unescape(raw.strip_suffix('"').unwrap_or(raw)))
}
