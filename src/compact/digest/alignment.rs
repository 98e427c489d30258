//! Two sentences laid beside one another, token by token.

use super::subjects::{Subject, Token};

/// Tokens of a sentence that are aligned with another's.
const ALIGNED: usize = 40;

pub(crate) struct Alignment {
    /// Share of tokens in the same order, values left out: near 1 for two fillings of one template.
    pub ratio: f32,
    /// Places where both have content words, and not the same.
    pub substitutions: usize,
}

impl Alignment {
    pub fn of(old: &Subject, new: &Subject) -> Self {
        let a = &old.tokens[..old.tokens.len().min(ALIGNED)];
        let b = &new.tokens[..new.tokens.len().min(ALIGNED)];
        let same = |x: &Token, y: &Token| x == y || matches!((x, y), (Token::Value(_), Token::Value(_)));
        let width = b.len() + 1;
        let mut longest = vec![0u16; (a.len() + 1) * width];
        for i in (0..a.len()).rev() {
            for j in (0..b.len()).rev() {
                longest[i * width + j] = if same(&a[i], &b[j]) {
                    longest[(i + 1) * width + j + 1] + 1
                } else {
                    longest[(i + 1) * width + j].max(longest[i * width + j + 1])
                };
            }
        }
        let ratio = 2.0 * f32::from(longest[0]) / (a.len() + b.len()).max(1) as f32;
        let (mut i, mut j, mut substitutions) = (0, 0, 0);
        let (mut left, mut right) = (false, false);
        let content = |token: &Token, other: &Subject| matches!(token, Token::Word(key) if !other.has_word(*key));
        while i < a.len() || j < b.len() {
            if i < a.len() && j < b.len() && same(&a[i], &b[j]) {
                substitutions += usize::from(left && right);
                (left, right) = (false, false);
                i += 1;
                j += 1;
            } else if j >= b.len() || (i < a.len() && longest[(i + 1) * width + j] >= longest[i * width + j + 1]) {
                left |= content(&a[i], new);
                i += 1;
            } else {
                right |= content(&b[j], old);
                j += 1;
            }
        }
        // Where verbs stand last, what follows all that is common is how it is said.
        substitutions += usize::from(left && right && !old.unspaced);
        Alignment { ratio, substitutions }
    }

    /// Alike but for other content words: two things, not two wordings. Sentences of one name have to be the more alike for that.
    pub fn substituted(&self, one_name: bool) -> bool {
        self.substitutions > 0 && self.ratio >= if one_name { 0.75 } else { 0.55 }
    }
}
