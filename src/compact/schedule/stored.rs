//! What of an epoch does not go to a store and back by itself.

/// Edits that may not have been worked out yet.
pub mod worked_out {
    use crate::compact::schedule::WorkedOut;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::OnceLock;

    pub fn serialize<S: Serializer>(worked_out: &OnceLock<WorkedOut>, to: S) -> Result<S::Ok, S::Error> {
        worked_out.get().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<OnceLock<WorkedOut>, D::Error> {
        Ok(Option::<WorkedOut>::deserialize(from)?.map_or_else(OnceLock::new, OnceLock::from))
    }
}
