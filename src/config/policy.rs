//! When and how hard requests are compacted. The same keys stand in `[policy]`, in a route's `policy` and in a model's `policy`.

use serde::{Deserialize, Serialize};

use super::Problem;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    pub mode: Mode,
    /// Refuse what cannot be brought under the window, instead of sending it as it came.
    pub strict: bool,
    /// Tokens that fit; 0: by the model's name.
    pub window: u64,
    /// Share of the window that a compaction aims for.
    pub target: f64,
    pub hygiene: Hygiene,
    pub preflight: Preflight,
    pub overflow: Overflow,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            mode: Mode::On,
            strict: false,
            window: 0,
            target: 0.45,
            hygiene: Hygiene::default(),
            preflight: Preflight::default(),
            overflow: Overflow::default(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    On,
    /// Decide and log, but send what came.
    Shadow,
    Off,
}

/// The cheap gate: a quick estimate against a share of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hygiene {
    /// Share of the window.
    pub fraction: f64,
    /// Shorter conversations are left alone.
    pub min_messages: usize,
}

impl Default for Hygiene {
    fn default() -> Self {
        Hygiene { fraction: 0.85, min_messages: 4 }
    }
}

/// The careful gate: counted tokens against what the window leaves beside the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Preflight {
    /// Tokens kept free for the answer, or `"request"`: what the request asks for.
    pub reserve: Reserve,
    /// Tokens kept free where `reserve` is `"request"` and the request asks for none.
    pub output_reserve_default: u64,
    /// Tokens kept free on top of the reserve.
    pub soft: u64,
    /// Factor on counts that are estimates.
    pub safety: f64,
}

impl Default for Preflight {
    fn default() -> Self {
        Preflight { reserve: Reserve::Tokens(20_000), output_reserve_default: 0, soft: 4_000, safety: 1.2 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Spelling", into = "Spelling")]
pub enum Reserve {
    Tokens(u64),
    Request,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number of tokens or \"request\"")]
enum Spelling {
    Tokens(u64),
    Word(String),
}

impl TryFrom<Spelling> for Reserve {
    type Error = &'static str;

    fn try_from(spelling: Spelling) -> Result<Self, Self::Error> {
        match spelling {
            Spelling::Tokens(tokens) => Ok(Reserve::Tokens(tokens)),
            Spelling::Word(word) if word == "request" => Ok(Reserve::Request),
            Spelling::Word(_) => Err("expected a number of tokens or \"request\""),
        }
    }
}

impl From<Reserve> for Spelling {
    fn from(reserve: Reserve) -> Self {
        match reserve {
            Reserve::Tokens(tokens) => Spelling::Tokens(tokens),
            Reserve::Request => Spelling::Word("request".into()),
        }
    }
}

/// What happens when the provider itself says "too long".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Overflow {
    /// Compact harder and ask once more.
    pub retry: bool,
    /// Also where a 429 says that this one request is over the rate limit.
    pub rate_ceiling_429: bool,
}

impl Default for Overflow {
    fn default() -> Self {
        Overflow { retry: true, rate_ceiling_429: false }
    }
}

impl Policy {
    /// The defaults as a table, under which overlays are laid.
    pub fn table(&self) -> toml::Table {
        toml::Table::try_from(self).unwrap_or_default()
    }

    /// This policy with `overlays` laid over it in turn, key by key.
    pub fn overlaid<'a>(&self, overlays: impl IntoIterator<Item = &'a toml::Table>) -> Result<Policy, toml::de::Error> {
        let mut table = self.table();
        overlays.into_iter().for_each(|overlay| merge(&mut table, overlay));
        table.try_into()
    }

    pub(super) fn check(&self, at: &str) -> Result<(), Problem> {
        let share = |key: &str, value: f64| match value > 0.0 && value <= 1.0 {
            true => Ok(()),
            false => Err(Problem::value(&format!("{at}.{key}"), value, "a share of the window, above 0 and at most 1")),
        };
        share("target", self.target)?;
        share("hygiene.fraction", self.hygiene.fraction)?;
        match self.preflight.safety >= 1.0 && self.preflight.safety <= 10.0 {
            true => Ok(()),
            false => Err(Problem::value(&format!("{at}.preflight.safety"), self.preflight.safety, "a factor from 1 to 10")),
        }
    }
}

/// Lays `overlay` over `base`: tables are merged, everything else is replaced.
pub(super) fn merge(base: &mut toml::Table, overlay: &toml::Table) {
    for (key, value) in overlay {
        match (base.get_mut(key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => merge(below, above),
            _ => drop(base.insert(key.clone(), value.clone())),
        }
    }
}
