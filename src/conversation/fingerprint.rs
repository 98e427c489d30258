//! What a message says, in 16 bytes; and what a whole prefix says, as a chain of them.
//!
//! Fingerprints decide what two requests share, so the hash is one in which nobody can make two histories meet on purpose.

/// Identifies a message, or a prefix of messages, by content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Fingerprint(pub [u8; 16]);

impl Fingerprint {
    /// The prefix that ends with `next`, where `self` is the prefix before it.
    pub fn then(self, next: Fingerprint) -> Fingerprint {
        let mut pair = [0; 32];
        pair[..16].copy_from_slice(&self.0);
        pair[16..].copy_from_slice(&next.0);
        truncate(blake3::hash(&pair))
    }

    /// As a number, for maps that shard by it.
    pub fn key(self) -> u128 {
        u128::from_le_bytes(self.0)
    }

    /// A short form for markers: enough to look an original up within a conversation.
    pub fn short(self) -> String {
        self.0[..4].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Takes a message apart piece by piece; every piece is told from its neighbours by a tag and its length.
///
/// Pieces are gathered and hashed at once: many small updates cost more than the copy.
#[derive(Default)]
pub struct Hasher(Vec<u8>);

impl Hasher {
    pub fn piece(&mut self, tag: u8, bytes: &[u8]) {
        self.0.push(tag);
        self.0.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.0.extend_from_slice(bytes);
    }

    /// The fingerprint of the pieces so far; begins anew.
    pub fn finish(&mut self) -> Fingerprint {
        let fingerprint = truncate(blake3::hash(&self.0));
        self.0.clear();
        fingerprint
    }
}

fn truncate(hash: blake3::Hash) -> Fingerprint {
    let mut short = [0; 16];
    short.copy_from_slice(&hash.as_bytes()[..16]);
    Fingerprint(short)
}
