//! What a provider said when it refused, in the numbers that a retry is sized by.

/// What a provider said when it refused a request as too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub kind: Kind,
    pub limit: Option<u64>,
    pub requested: Option<u64>,
    pub output: Option<u64>,
    /// `requested` is the prompt alone, not prompt and answer together.
    pub scope_is_input: bool,
    /// `requested` is a number it stopped counting at.
    pub lower_bound: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Input,
    InputPlusOutput,
    Bytes,
    /// A limit a minute that one request alone is over.
    RateCeiling,
}

impl Refusal {
    /// The prompt's tokens by the provider's count, where it counted them.
    pub(super) fn prompt(&self) -> Option<u64> {
        if self.lower_bound || self.kind == Kind::Bytes {
            return None;
        }
        let requested = self.requested?;
        if self.scope_is_input { Some(requested) } else { Some(requested.saturating_sub(self.output.unwrap_or(0))) }
            .filter(|prompt| *prompt > 0)
    }

    /// Whether its limit says something about the model's window.
    pub(super) fn teaches(&self) -> bool {
        matches!(self.kind, Kind::Input | Kind::InputPlusOutput)
    }
}
