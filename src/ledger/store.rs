//! What stands behind a ledger in memory, and the form in which standings go there.
//!
//! A standing is a few dozen bytes and names its epoch, which is shared by all entries of a conversation and goes there once, under the hash of what it
//! is. Whatever comes back is read into types or ignored: a torn value, one of another release, one that somebody else put there.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::budget::Load;
use crate::compact::schedule::{Epoch, Futile, Standing};
use crate::conversation::{Fingerprint, Hasher};

/// Changes when what is stored can no longer be read as it was.
#[cfg(feature = "proxy")]
pub const VERSION: u32 = 1;

/// Values by fingerprint. Nothing in here fails: what cannot be had is not there.
pub trait Store: Send + Sync {
    /// One answer a key. Waits no longer than the store's deadline.
    fn get(&self, keys: &[Fingerprint]) -> Vec<Option<Vec<u8>>>;

    /// Returns at once; the value is written soon, or lost.
    fn put(&self, key: Fingerprint, value: Vec<u8>);

    /// Whether the caller is the one, of all who share this store, that does what `key` names; nobody else is for so many seconds. Where the store
    /// does not answer, everybody is.
    fn claim(&self, key: Fingerprint, seconds: u64) -> bool;

    /// The value that stands under `key`: this one, unless somebody of all who share this store was first. Where it does not answer, and where nobody
    /// shares it, this one.
    fn agree(&self, _key: Fingerprint, value: Vec<u8>) -> Vec<u8> {
        value
    }

    /// Whether it answers, as far as is known.
    fn answers(&self) -> bool;

    /// What was asked of it so far.
    fn counted(&self) -> Counted;

    /// Waits, not for long, until what was put is written.
    fn flush(&self);
}

/// Operations by their end: done, failed, and not tried, because it did not answer lately or had more to write than it can.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub get: [u64; 3],
    pub put: [u64; 3],
}

#[derive(Serialize, Deserialize)]
struct Stored {
    came: Load,
    sent: Load,
    futile: Futile,
    epoch: Option<Fingerprint>,
}

/// The first of `keys` that the store knows. `at_hand` is an epoch that need not be fetched.
pub fn first(store: &dyn Store, keys: &[Fingerprint], at_hand: Option<&Arc<Epoch>>) -> Option<(usize, Standing)> {
    let found = store.get(keys);
    found.into_iter().enumerate().find_map(|(n, value)| Some((n, standing(store, &value?, at_hand)?)))
}

fn standing(store: &dyn Store, value: &[u8], at_hand: Option<&Arc<Epoch>>) -> Option<Standing> {
    let Stored { came, sent, futile, epoch } = postcard::from_bytes(value).ok()?;
    let epoch = match epoch {
        None => None,
        Some(key) => Some(match at_hand.filter(|epoch| epoch.stored.get() == Some(&key)) {
            Some(epoch) => epoch.clone(),
            None => {
                let value = store.get(&[key]).pop()??;
                let epoch: Epoch = postcard::from_bytes(&value).ok()?;
                // Its edits are the point of it.
                if name(&value) != key || !epoch.is_worked_out() {
                    return None;
                }
                epoch.stored.get_or_init(|| key);
                Arc::new(epoch)
            }
        }),
    };
    Some(Standing { epoch, came, sent, futile })
}

/// Puts a standing where all can find it, its epoch first. One whose edits nobody has wanted yet is not worth it.
pub fn keep(store: &dyn Store, key: Fingerprint, standing: &Standing) {
    let epoch = match &standing.epoch {
        None => None,
        Some(epoch) if !epoch.is_worked_out() => return,
        Some(epoch) => Some(*epoch.stored.get_or_init(|| {
            let value = postcard::to_stdvec(&**epoch).unwrap_or_default();
            let key = name(&value);
            store.put(key, value);
            key
        })),
    };
    let stored = Stored { came: standing.came, sent: standing.sent, futile: standing.futile, epoch };
    store.put(key, postcard::to_stdvec(&stored).unwrap_or_default());
}

fn name(value: &[u8]) -> Fingerprint {
    let mut hasher = Hasher::default();
    hasher.piece(b'e', value);
    hasher.finish()
}
