//! How much a request may weigh, and whether it weighs too much.
//!
//! Two gates ask before anything is sent. **Hygiene** is a cheap net at a share of the window; **preflight** keeps room for the answer. Both compare
//! the same number, so that what triggers a compaction is what the compaction is measured by.

pub mod discovery;
pub mod load;
pub mod models;

pub use load::Load;

use serde::{Deserialize, Serialize};

/// The gates of a policy. Shares are of the window; tokens are tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Gates {
    pub hygiene: Hygiene,
    pub preflight: Preflight,
    /// Where a compaction has to land, as a share of the window.
    pub target: f64,
    /// The cap on a body's bytes, over which old media and results go first; 0 for none.
    pub max_bytes: u64,
    /// The cap on pictures and documents; 0 for none.
    pub max_media: u32,
    /// The cap on messages; 0 for none.
    pub max_messages: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hygiene {
    pub enabled: bool,
    /// Due above this share of the window.
    pub threshold: f64,
    /// Not due below so many messages.
    pub min_messages: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Preflight {
    pub enabled: bool,
    /// Room kept for the answer: tokens, or `"request"` for the call's own output cap.
    pub reserve: Reserve,
    /// What `"request"` reserves for a call that names no cap, in tokens.
    pub output_reserve_default: u64,
    /// What `"request"` reserves at least, in tokens.
    pub output_reserve_least: u64,
    /// Room kept on top, so that a compaction is not due again at once, in tokens.
    pub soft: u64,
    /// What an estimated count is multiplied by; exact counts are taken as they are.
    pub safety: f64,
    /// Due above this share of the window, where that is less than what the reserve leaves.
    pub threshold: f64,
    /// Due above so many tokens, where that is less again; 0 for no such limit.
    pub max_tokens: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number of tokens or \"request\"")]
pub enum Reserve {
    Tokens(u64),
    Named(ReserveOf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReserveOf {
    Request,
}

impl Default for Gates {
    fn default() -> Self {
        Self { hygiene: Hygiene::default(), preflight: Preflight::default(), target: 0.45, max_bytes: 0, max_media: 0, max_messages: 0 }
    }
}

impl Default for Hygiene {
    /// Hermes' gateway net: 85 % of the window, and never a conversation that has hardly begun.
    fn default() -> Self {
        Self { enabled: true, threshold: 0.85, min_messages: 4 }
    }
}

impl Default for Preflight {
    /// OpenClaw's numbers: a reserve of 20,000, a soft threshold of 4,000, a safety of 1.2 on estimates.
    fn default() -> Self {
        Self {
            enabled: true,
            reserve: Reserve::Tokens(20_000),
            output_reserve_default: 4096,
            output_reserve_least: 0,
            soft: 4_000,
            safety: 1.2,
            threshold: 1.0,
            max_tokens: 0,
        }
    }
}

/// A small window cannot give away 20,000 tokens: the reserve is at most this share of it, and the soft threshold at most that.
const RESERVE_SHARE: f64 = 0.15;
const SOFT_SHARE: f64 = 0.03;
/// A call that asks for a whole window of output does not get to keep more than half of it free.
const REQUESTED_RESERVE_SHARE: f64 = 0.5;

/// The window a request has to fit in, in the provider's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Tokens for prompt and answer together, or for the prompt alone where `separate_output` is set.
    pub tokens: u64,
    /// The answer has a room of its own, so none is reserved for it.
    pub separate_output: bool,
}

/// Why a compaction is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Trigger {
    Hygiene,
    Preflight,
    Overflow,
    Bytes,
    Manual,
}

impl Trigger {
    pub fn name(self) -> &'static str {
        match self {
            Trigger::Hygiene => "hygiene",
            Trigger::Preflight => "preflight",
            Trigger::Overflow => "overflow",
            Trigger::Bytes => "bytes",
            Trigger::Manual => "manual",
        }
    }
}

/// The gates for one request as plain numbers, in counted tokens. Everything that a decision depends on besides the history itself is in here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    pub window: u64,
    /// Counted tokens above which hygiene is due, and messages below which it is not.
    pub hygiene: Option<(u64, usize)>,
    pub preflight: Option<u64>,
    pub target: u64,
    pub max_bytes: u64,
    pub max_media: u32,
    pub max_messages: u32,
}

impl Gates {
    /// The numbers for a request that caps its output at `cap` tokens and is counted exactly or by estimate.
    pub fn limits(&self, window: Window, cap: Option<u64>, exact: bool) -> Limits {
        let share = |share: f64| (window.tokens as f64 * share) as u64;
        let reserve = match self.preflight.reserve {
            _ if window.separate_output => 0,
            Reserve::Tokens(tokens) => tokens.min(share(RESERVE_SHARE)),
            Reserve::Named(ReserveOf::Request) => {
                let asked = cap.unwrap_or(self.preflight.output_reserve_default).max(self.preflight.output_reserve_least);
                asked.min(share(REQUESTED_RESERVE_SHARE))
            }
        };
        let soft = self.preflight.soft.min(share(SOFT_SHARE));
        let most = if self.preflight.max_tokens > 0 { self.preflight.max_tokens } else { u64::MAX };
        let room = window.tokens.saturating_sub(reserve + soft).min(share(self.preflight.threshold)).min(most);
        let safety = if exact { 1.0 } else { self.preflight.safety.max(1.0) };
        Limits {
            window: window.tokens,
            hygiene: self.hygiene.enabled.then(|| (share(self.hygiene.threshold), self.hygiene.min_messages)),
            preflight: self.preflight.enabled.then(|| (room as f64 / safety) as u64),
            // Measured as the trigger is, and under it by as much: the further they are apart, the rarer an epoch ends.
            target: (share(self.target).saturating_sub(soft) as f64 / safety) as u64,
            max_bytes: self.max_bytes,
            max_media: self.max_media,
            max_messages: self.max_messages,
        }
    }
}

impl Limits {
    /// Which gate is due for a request of this load. Preflight has the dearer plan, so it goes first.
    pub fn due(&self, load: Load) -> Option<Trigger> {
        if self.preflight.is_some_and(|limit| load.tokens > limit) {
            return Some(Trigger::Preflight);
        }
        if self.hygiene.is_some_and(|(limit, least)| load.tokens > limit && load.messages >= least) {
            return Some(Trigger::Hygiene);
        }
        let over = |most: u64, is: u64| most > 0 && is > most;
        (over(self.max_bytes, load.bytes)
            || over(self.max_media.into(), load.media as u64)
            || over(self.max_messages.into(), load.messages as u64))
        .then_some(Trigger::Bytes)
    }

    /// Whether tokens alone decide what is due.
    pub fn are_of_tokens(&self) -> bool {
        (self.max_bytes, self.max_media, self.max_messages) == (0, 0, 0)
    }

    /// The most tokens at which nothing is due.
    pub fn ceiling(&self) -> u64 {
        let hygiene = self.hygiene.map_or(u64::MAX, |(limit, _)| limit);
        self.preflight.unwrap_or(u64::MAX).min(hygiene).min(self.window)
    }

    /// The same numbers for a provider that counts `ratio` tokens where we count one, and where that is known to matter.
    pub fn scaled(&self, ratio: f64) -> Limits {
        let scale = |tokens: u64| (tokens as f64 / ratio) as u64;
        Limits {
            window: scale(self.window),
            hygiene: self.hygiene.map(|(limit, least)| (scale(limit), least)),
            preflight: self.preflight.map(scale),
            target: scale(self.target),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preflight(window: u64, separate_output: bool, cap: Option<u64>, exact: bool, gates: &Gates) -> u64 {
        gates.limits(Window { tokens: window, separate_output }, cap, exact).preflight.unwrap()
    }

    #[test]
    fn preflight_is_window_less_reserve_less_soft() {
        let gates = Gates::default();
        assert_eq!(
            preflight(200_000, false, Some(64_000), true, &gates),
            176_000,
            "the request's own cap does not matter to a fixed reserve"
        );
        assert_eq!(preflight(200_000, false, None, false, &gates), 146_666, "an estimate is multiplied by 1.2");
        assert_eq!(preflight(272_000, true, Some(128_000), true, &gates), 268_000, "a separate input limit reserves nothing");
    }

    #[test]
    fn small_windows_keep_most_of_themselves() {
        assert_eq!(preflight(8_192, false, None, true, &Gates::default()), 8_192 - 1_228 - 245);
    }

    #[test]
    fn a_reserve_by_request_is_its_cap_up_to_half_of_the_window() {
        let gates = Gates {
            preflight: Preflight {
                reserve: Reserve::Named(ReserveOf::Request),
                soft: 0,
                safety: 1.0,
                output_reserve_default: 0,
                ..Preflight::default()
            },
            ..Gates::default()
        };
        for (cap, limit) in [(Some(4_096), 8_000 - 4_000), (Some(1_000), 7_000), (None, 8_000)] {
            assert_eq!(preflight(8_000, false, cap, false, &gates), limit, "{cap:?}");
        }
    }

    #[test]
    fn a_requested_reserve_has_a_floor() {
        let gates = Gates {
            preflight: Preflight {
                reserve: Reserve::Named(ReserveOf::Request),
                output_reserve_least: 4_000,
                soft: 0,
                safety: 1.0,
                ..Preflight::default()
            },
            ..Gates::default()
        };
        assert_eq!(preflight(100_000, false, Some(1_000), false, &gates), 96_000);
        assert_eq!(preflight(100_000, false, Some(9_000), false, &gates), 91_000);
    }

    #[test]
    fn preflight_is_due_at_the_least_of_its_three_limits() {
        let check = |threshold: f64, max_tokens: u64, limit: u64| {
            let gates = Gates { preflight: Preflight { threshold, max_tokens, ..Preflight::default() }, ..Gates::default() };
            assert_eq!(preflight(200_000, false, None, true, &gates), limit, "{threshold} {max_tokens}");
        };
        check(1.0, 0, 176_000);
        check(0.5, 0, 100_000);
        check(0.5, 80_000, 80_000);
        check(0.95, 190_000, 176_000);
    }

    #[test]
    fn hygiene_needs_messages_and_preflight_goes_first() {
        let limits = Gates::default().limits(Window { tokens: 100_000, separate_output: false }, None, true);
        let load = |tokens, messages| Load { tokens, messages, ..Load::default() };
        assert_eq!(limits.due(load(81_999, 50)), None);
        assert_eq!(limits.due(load(82_001, 50)), Some(Trigger::Preflight));
        let alone = Limits { preflight: None, ..limits };
        assert_eq!(alone.due(load(85_001, 3)), None);
        assert_eq!(alone.due(load(85_001, 4)), Some(Trigger::Hygiene));
    }
}
