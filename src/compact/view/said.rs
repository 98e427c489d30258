//! What calls and results say, as text.

use super::View;
use crate::conversation::{Call, Form, Kind, Outcome, PartKind, Span};
use crate::wire::json;
use std::borrow::Cow;

impl<'a> View<'a> {
    /// The call that a result of `message` answers: the last one of that id before it.
    pub fn call_of(&self, message: usize, outcome: &Outcome) -> Option<(&'a Call, usize)> {
        let places = self.callers.get(outcome.id.of(self.body()))?;
        let &(place, block) = places.get(places.partition_point(|&(place, _)| place < message).checked_sub(1)?)?;
        match &self.blocks(place).get(block)?.kind {
            Kind::Call(call) => Some((call, place)),
            _ => None,
        }
    }

    /// What a result says, as one text.
    pub fn output(&self, outcome: &Outcome) -> Cow<'a, str> {
        let texts: Vec<Cow<'a, str>> = self
            .conversation()
            .parts_of(outcome)
            .iter()
            .filter_map(|part| match part.kind {
                PartKind::Text { text } => Some(self.said(text)),
                _ => None,
            })
            .collect();
        match <[Cow<'a, str>; 1]>::try_from(texts) {
            Ok([only]) => only,
            Err(texts) => Cow::Owned(texts.join("\n")),
        }
    }

    /// What the JSON string at `span` says, without halves of characters, which no text of ours could hold as they came.
    pub fn said(&self, span: Span) -> Cow<'a, str> {
        let raw = json::inner(self.body(), span).of(self.body());
        match json::unescape(raw) {
            Cow::Owned(said) if said.contains(char::REPLACEMENT_CHARACTER) && !raw.contains(char::REPLACEMENT_CHARACTER) => {
                Cow::Owned(said.replace(char::REPLACEMENT_CHARACTER, ""))
            }
            said => said,
        }
    }

    /// Arguments of a call as JSON text.
    pub fn arguments(&self, call: &Call) -> Cow<'a, str> {
        match call.form {
            Form::Json => Cow::Borrowed(call.arguments.of(self.body())),
            _ if call.arguments.of(self.body()).starts_with('"') => self.said(call.arguments),
            _ => Cow::Borrowed(call.arguments.of(self.body())),
        }
    }
}
