//! What is asked: a request, and by whose rules it is decided.

use crate::budget::{Gates, Limits, Window, load::Scale};
use crate::compact::Knobs;
use crate::conversation::Fingerprint;
use crate::wire::Request;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How compaction behaves, for a route and a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    pub mode: Mode,
    /// Refuse, in the agent's own wire format, what does not fit even after compaction.
    pub strict: bool,
    pub gates: Gates,
    pub compact: Knobs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    On,
    /// Decide and report, change nothing.
    Shadow,
    Off,
}

/// What the agent asked for, for this one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Steer {
    #[default]
    Default,
    /// Not this one, not even when it is refused as too long.
    Off,
    /// Compact even below the trigger.
    Now,
    /// Only if it would not fit at all.
    Defer,
}

/// A chat request on its way.
#[derive(Clone, Debug)]
pub struct Call {
    pub request: Request,
    /// A keyed hash of the credential.
    pub tenant: Fingerprint,
    /// Names the provider that will be asked, for what is learnt about it.
    pub upstream: Arc<str>,
    pub policy: Arc<Policy>,
    pub steer: Steer,
    /// What a summary that is ordered with this call is to keep in view, beside the policy's instructions.
    pub focus: String,
    /// The window by header, configuration, discovery or table.
    pub window: Option<Window>,
    /// Seconds, of any origin.
    pub now: u64,
}

impl Call {
    /// What its policy makes of `window`.
    pub(super) fn limits(&self, window: Window, scale: &Scale) -> Limits {
        self.policy.gates.limits(window, self.request.cap.map(|(_, cap)| cap), scale.tokenizer.is_exact())
    }
}
