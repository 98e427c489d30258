//! Where traces go, and of how many exchanges.

use serde::{Deserialize, Serialize};

use super::{Base, Problem, secret};

/// Traces over OTLP. Without an endpoint there are none, and `traceparent` passes like any other header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Traces {
    /// Base URL of the collector, which takes OTLP over HTTP.
    pub endpoint: String,
    /// PEM file with certificate authorities that it is trusted by; empty: as in `[connection]`.
    pub ca_file: String,
    /// A secret with headers for it: `name=value`, one a line or with commas in between.
    pub headers: String,
    /// Share of the exchanges that are traced where the agent does not say.
    pub sample: f64,
    /// What this service is called there.
    pub service: String,
}

impl Default for Traces {
    fn default() -> Self {
        Traces { endpoint: String::new(), ca_file: String::new(), headers: String::new(), sample: 1.0, service: "plimsoll".into() }
    }
}

impl Traces {
    pub(super) fn check(&self) -> Result<(), Problem> {
        if !self.endpoint.is_empty() {
            Base::parse(&self.endpoint).map_err(|accepted| Problem::value("traces.endpoint", format!("{:?}", self.endpoint), accepted))?;
        }
        if !self.ca_file.is_empty() && !self.endpoint.starts_with("https://") {
            return Err(Problem::new("traces.ca_file", "is for TLS; expected nothing, or an `endpoint` that begins with \"https://\""));
        }
        secret::check("traces.headers", &self.headers)?;
        if self.service.is_empty() {
            return Err(Problem::new("traces.service", "is empty; expected a name"));
        }
        match (0.0..=1.0).contains(&self.sample) {
            true => Ok(()),
            false => Err(Problem::number("traces.sample", self.sample, "a share of the exchanges, from 0 to 1")),
        }
    }
}
