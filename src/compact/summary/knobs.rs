//! What can be set about summaries.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How the middle of a conversation is put into words by a model. Off as long as no model is named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Summarize {
    /// Empty: no model is asked. `request`: the request's own. Anything else: the name of a model.
    pub model: String,
    /// Base URL where that model is; empty: where the request goes.
    pub upstream: String,
    /// The API of `upstream`, by [`crate::wire::Format`]'s names; empty: that of the request.
    pub format: String,
    /// The name of the secret that is the credential for `upstream`: `file:/path` or `env:NAME`.
    pub key: String,
    /// The summary model's window in tokens; 0: by its name, or else the request's.
    pub window: u64,
    /// A built-in template, or a file of that name.
    pub template: String,
    /// More to say to the model, up to 800 characters.
    pub instructions: String,
    pub identifiers: Policy,
    pub when: When,
    /// How far below the trigger a summary is begun, as a share of the trigger.
    pub lead: f64,
    /// Seconds that a request waits for its summary.
    pub deadline: f64,
    /// Seconds until a summary is given up.
    pub timeout: f64,
    /// Seconds without a try after a failure; doubled with each one in a row, up to sixteen times.
    pub cooldown: f64,
    /// After so many updates a summary is made anew from the original messages.
    pub generations: u32,
    /// Tokens that one tenant's summaries may read and write in an hour; 0: no limit.
    pub tenant_tokens: u64,
    /// What the file of that name says, where it is none of the built-in ones.
    #[serde(skip)]
    pub text: Option<Arc<str>>,
}

/// The longest instructions that are passed on, in characters (OpenClaw).
pub const MOST_INSTRUCTIONS: usize = 800;

/// What becomes of a summary that still has small faults after it was written twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// Every line with a name that the conversation does not have is taken out, and one without any of its headings is no summary.
    #[default]
    Strict,
    /// Such names stay and are listed as unconfirmed, and headings may be missing.
    Relaxed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// Ahead of need, from a band below the trigger on; no request waits.
    #[default]
    Background,
    /// Also when a compaction is due and none was made ahead, while the request waits; the digest serves where the deadline passes. A compaction by
    /// the cheap gate waits for nothing.
    Request,
}

/// The model's name that means the request's own.
pub const OWN: &str = "request";

impl Default for Summarize {
    /// The lead is Oh-My-Pi's eighth; the rest are orders of magnitude: most models write a summary within half a minute.
    fn default() -> Self {
        Self {
            model: String::new(),
            upstream: String::new(),
            format: String::new(),
            key: String::new(),
            window: 0,
            template: "headings".into(),
            instructions: String::new(),
            identifiers: Policy::Strict,
            when: When::Background,
            lead: 0.125,
            deadline: 20.0,
            timeout: 180.0,
            cooldown: 60.0,
            generations: 4,
            tenant_tokens: 0,
            text: None,
        }
    }
}

impl Summarize {
    pub fn is_on(&self) -> bool {
        !self.model.is_empty()
    }

    /// Whether the call can carry on the request itself, and so read the provider's prompt cache.
    pub fn rides(&self) -> bool {
        self.model == OWN && self.upstream.is_empty()
    }

    /// The model to ask on behalf of a request for `own`.
    pub fn model<'a>(&'a self, own: &'a str) -> &'a str {
        if self.model == OWN { own } else { &self.model }
    }
}
