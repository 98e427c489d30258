//! When and how hard requests are compacted. The same keys stand in `[policy]`, in a route's `policy` and in a model's `policy`.

use std::{path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{Base, Problem, secret, template};
pub use crate::budget::{Hygiene, Preflight};
use crate::{
    budget::Gates,
    compact::{Knobs, summary::Summarize},
    decide::{self, Mode},
    wire::Format,
};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    pub mode: Mode,
    /// Refuse what cannot be brought under the window, instead of sending it as it came.
    pub strict: bool,
    /// Tokens that fit; 0: as upstream tells, or by the model's name.
    pub window: u64,
    /// Share of the window that a compaction aims for.
    pub target: f64,
    pub hygiene: Hygiene,
    pub preflight: Preflight,
    pub limits: Limits,
    pub compact: Knobs,
    pub overflow: Overflow,
}

/// Budgets that are not tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of the messages; 0: no limit.
    pub bytes: u64,
    /// Pictures and documents; 0: no limit.
    pub media: u32,
    /// Messages; 0: no limit.
    pub messages: u32,
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
            limits: Limits::default(),
            compact: Knobs::default(),
            overflow: Overflow::default(),
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

    /// The policy as the core reads it.
    pub fn decisions(&self) -> decide::Policy {
        let Limits { bytes, media, messages } = self.limits;
        decide::Policy {
            mode: self.mode,
            strict: self.strict,
            gates: Gates {
                hygiene: self.hygiene.clone(),
                preflight: self.preflight.clone(),
                target: self.target,
                max_bytes: bytes,
                max_media: media,
                max_messages: messages,
            },
            compact: Knobs { summarize: Summarize { text: self.template(), ..self.compact.summarize.clone() }, ..self.compact.clone() },
        }
    }

    /// The user's own template, where summaries are made by one.
    fn template(&self) -> Option<Arc<str>> {
        self.compact.summarize.is_on().then(|| template::file(&self.compact.summarize.template)).flatten()
    }

    fn check_summaries(&self, at: &str) -> Result<(), Problem> {
        let Summarize { upstream, format, key, template, identifiers: _, lead, deadline, timeout, cooldown, .. } = &self.compact.summarize;
        let wrong = |key: &str, value: &str, accepted: &str| {
            Err(Problem::value(&format!("{at}.compact.summarize.{key}"), format!("{value:?}"), accepted))
        };
        if !upstream.is_empty()
            && let Err(accepted) = Base::parse(upstream)
        {
            return wrong("upstream", upstream, accepted);
        }
        if !upstream.is_empty() && !self.compact.summarize.is_on() {
            return wrong("upstream", upstream, "nothing, as long as `model` is empty: no summary is asked for");
        }
        if !format.is_empty() && format.parse::<Format>().is_err() {
            return wrong("format", format, "\"chat\", \"responses\", \"messages\", or nothing");
        }
        secret::check(&format!("{at}.compact.summarize.key"), key)?;
        if upstream.is_empty() && !key.is_empty() {
            return wrong("key", key, "nothing, as long as `upstream` is empty: the agent's own credential is used there");
        }
        if !template::exists(template) {
            return wrong("template", template, &format!("{}, or the name of a file in .plimsoll/templates", template::names()));
        }
        if !(*lead > 0.0 && *lead < 1.0) {
            return Err(Problem::number(&format!("{at}.compact.summarize.lead"), *lead, "a share of the trigger, between 0 and 1"));
        }
        let times = [("deadline", deadline), ("timeout", timeout), ("cooldown", cooldown)];
        match times.into_iter().find(|(_, seconds)| !(0.0..=86_400.0).contains(*seconds)) {
            Some((key, value)) => Err(Problem::number(&format!("{at}.compact.summarize.{key}"), *value, "a number of seconds up to a day")),
            None => Ok(()),
        }
    }

    /// The credential of summaries can be had here and now.
    pub(super) fn check_secrets(&self, at: &str) -> Result<(), Problem> {
        secret::read(&format!("{at}.compact.summarize.key"), &self.compact.summarize.key).map(drop)
    }

    /// The files that summaries are made with.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let Summarize { key, template, .. } = &self.compact.summarize;
        secret::file(key).into_iter().chain(template::files(template)).collect()
    }

    pub(super) fn check(&self, at: &str) -> Result<(), Problem> {
        self.check_summaries(at)?;
        let share = |key: &str, value: f64| match value > 0.0 && value <= 1.0 {
            true => Ok(()),
            false => Err(Problem::number(&format!("{at}.{key}"), value, "a share of the window, above 0 and at most 1")),
        };
        share("target", self.target)?;
        share("hygiene.threshold", self.hygiene.threshold)?;
        share("preflight.threshold", self.preflight.threshold)?;
        let Knobs { plan, tail, running_loop, min_reclaim, digest, .. } = &self.compact;
        if let Some(twice) = plan.iter().enumerate().find_map(|(place, rung)| plan[..place].contains(rung).then_some(rung)) {
            return Err(Problem::value(&format!("{at}.compact.plan"), format!("{:?} twice", twice.name()), "each rung once at most"));
        }
        let shares = [("tail", *tail), ("running_loop", *running_loop), ("min_reclaim", *min_reclaim), ("digest.share", digest.share)];
        if let Some((key, value)) = shares.into_iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            return Err(Problem::number(&format!("{at}.compact.{key}"), value, "a share of the window, from 0 to 1"));
        }
        match self.preflight.safety >= 1.0 && self.preflight.safety <= 10.0 {
            true => Ok(()),
            false => Err(Problem::number(&format!("{at}.preflight.safety"), self.preflight.safety, "a factor from 1 to 10")),
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
