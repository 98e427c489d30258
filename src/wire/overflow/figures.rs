//! The numbers of an error text, and what they amount to.

use super::lexicon::{Concept::*, Tok};
use super::roles::{self, Named, Role};

/// The numbers of a text, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub limit: Option<u64>,
    /// The limit was called one of the context, or of the prompt.
    pub limit_is_window: bool,
    /// Prompt and output together, as stated.
    pub total: Option<u64>,
    /// The prompt alone, as stated or as the sum of its parts.
    pub input: Option<u64>,
    pub output: Option<u64>,
    /// By how much the limit is exceeded.
    pub excess: Option<u64>,
    /// The request is at least this large.
    pub at_least: bool,
}

impl Figures {
    pub(super) fn of(toks: &[Tok]) -> Figures {
        let sentences = toks.split(|tok| matches!(tok, Tok::Stop | Tok::Sign(';')));
        let named: Vec<Named> = sentences.flat_map(roles::of).collect();
        let mut figures = Figures::default();
        named.iter().for_each(|number| figures.take(number));
        let parts: Vec<&Named> = named.iter().filter(|number| number.role == Role::Part).collect();
        if figures.input.is_none() && !parts.is_empty() {
            figures.input = Some(parts.iter().fold(0, |sum, part| sum.saturating_add(part.value)));
            figures.at_least |= figures.total.is_none() && parts.iter().any(|part| part.at_least);
        }
        figures.settle(&named);
        figures
    }

    /// The first number of a role counts.
    fn take(&mut self, number: &Named) {
        let place = match number.role {
            Role::Limit { window, .. } => {
                self.limit_is_window |= window && self.limit.is_none();
                &mut self.limit
            }
            Role::Total => &mut self.total,
            Role::Input => &mut self.input,
            Role::Output => &mut self.output,
            Role::Excess => &mut self.excess,
            Role::Part | Role::Loose => return,
        };
        if place.is_none() {
            *place = Some(number.value);
            self.at_least |= number.at_least && matches!(number.role, Role::Total | Role::Input);
        }
    }

    /// A request that no word names: a number over the limit, or of two limits the larger one, if a colon parts it from its name
    /// ("exceeds the context length: 140000 tokens of at most 131072").
    fn settle(&mut self, named: &[Named]) {
        if self.total.or(self.input).is_some() {
            return;
        }
        let limits = named.iter().filter(|number| matches!(number.role, Role::Limit { .. }));
        let Some(limit) = limits.map(|number| number.value).min() else { return };
        let free = |role| matches!(role, Role::Loose | Role::Limit { labelled: true, .. });
        let request = named.iter().filter(|number| free(number.role) && number.value > limit).map(|number| number.value).max();
        if request.is_some() {
            (self.total, self.limit) = (request, Some(limit));
        }
    }

    /// Prompt and output, or the prompt alone where nothing is said of output.
    pub(super) fn requested(&self) -> Option<u64> {
        let sum = self.input.zip(self.output).map(|(input, output)| input.saturating_add(output));
        let stated = self.total.map(|total| match (self.output, self.limit) {
            // A total that leaves room is the prompt alone.
            (Some(output), Some(limit)) if self.input.is_none() && total <= limit => total.saturating_add(output),
            _ => total,
        });
        // A smaller "total" was a total of something else.
        let stated = stated.filter(|total| self.input.is_none_or(|input| *total >= input));
        stated.or(sum).or(self.input).or_else(|| Some(self.limit?.saturating_add(self.excess?)))
    }

    /// More is requested than fits.
    pub(super) fn over(&self) -> bool {
        matches!((self.requested(), self.limit), (Some(requested), Some(limit)) if requested > limit)
    }

    /// Fills what is missing here.
    pub(super) fn or(self, other: Figures) -> Figures {
        Figures {
            limit: self.limit.or(other.limit),
            limit_is_window: self.limit_is_window || other.limit_is_window,
            total: self.total.or(if self.input.is_none() { other.total } else { None }),
            input: self.input.or(if self.total.is_none() { other.input } else { None }),
            output: self.output.or(other.output),
            excess: self.excess.or(other.excess),
            at_least: self.at_least || other.at_least,
        }
    }

    /// A number of an error object, by the words of its name.
    pub(super) fn field(&mut self, name: &[Tok], value: u64) {
        let is = |concept| name.contains(&Tok::Is(concept));
        let place = if is(Bytes) || is(Other) || is(Param) || is(Time) || is(Code) || is(Min) {
            return;
        } else if is(Context) || is(Limit) && (is(Input) || is(Token)) {
            &mut self.limit
        } else if is(Output) {
            &mut self.output
        } else if is(Input) && is(Token) {
            &mut self.input
        } else if is(Token) || is(Asked) {
            &mut self.total
        } else if is(Limit) {
            &mut self.limit
        } else {
            return;
        };
        place.get_or_insert(value);
    }
}
