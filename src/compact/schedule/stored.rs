//! What of an epoch does not go to a store and back by itself.

/// Names of rungs, which are nobody's but ours.
pub mod rungs {
    use crate::compact::Rung;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub fn serialize<S: Serializer>(rungs: &[&'static str], to: S) -> Result<S::Ok, S::Error> {
        rungs.serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<&'static str>, D::Error> {
        let names = Vec::<String>::deserialize(from)?;
        let known = |name: &String| Rung::ALL.iter().map(|rung| rung.name()).find(|known| known == name);
        names.iter().map(|name| known(name).ok_or_else(|| D::Error::custom("no such rung"))).collect()
    }
}

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
