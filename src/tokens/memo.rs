//! Counts that were made before, by the content they are of.
//!
//! An agent sends its whole history again with each request; all but the newest messages were counted already.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};

use twox_hash::XxHash3_128;

use super::{Tokenizer, generations::Generations};

/// Counts by tokenizer and content key, shared by all threads, within a number of bytes. What wasn't asked for lately is forgotten.
#[derive(Debug)]
pub struct Memo {
    /// Unknown to those who send texts, so that nobody can make two contents meet.
    seed: u64,
    shards: Vec<Mutex<Shard>>,
}

type Shard = Generations<Key, u32, BuildHasherDefault<LowHalf>>;

/// In halves, so that an entry takes 24 bytes and not 32. The tokenizer is mixed into one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key(u64, u64);

impl Memo {
    const SHARDS: usize = 16;
    /// What a place for one more entry may take: there are two generations, each a table that doubles when it is seven eighths full, and
    /// an entry has 24 bytes and one of control.
    const ENTRY: usize = 2 * 2 * 25 * 8 / 7;

    /// Takes no more than about `bytes`.
    pub fn new(bytes: usize) -> Self {
        let limit = bytes / Self::SHARDS / Self::ENTRY;
        Memo { seed: RandomState::new().hash_one(()), shards: (0..Self::SHARDS).map(|_| Mutex::new(Generations::new(limit))).collect() }
    }

    /// The key of a content that has no fingerprint. It holds for this memo only, and decides nothing.
    pub fn key(&self, content: &[u8]) -> u128 {
        XxHash3_128::oneshot_with_seed(self.seed, content)
    }

    /// The count that was inserted for this content, if it isn't forgotten.
    pub fn get(&self, tokenizer: Tokenizer, key: u128) -> Option<usize> {
        let key = Key::new(tokenizer, key);
        self.shard(&key).lock().unwrap_or_else(PoisonError::into_inner).get_mut(&key).map(|count| *count as usize)
    }

    /// Remembers a count. One beyond `u32` isn't remembered.
    pub fn insert(&self, tokenizer: Tokenizer, key: u128, count: usize) {
        let key = Key::new(tokenizer, key);
        if let Ok(count) = u32::try_from(count) {
            self.shard(&key).lock().unwrap_or_else(PoisonError::into_inner).insert(key, count);
        }
    }

    /// The remembered count, or what `count` says, which is then remembered. No lock is held while it counts.
    pub fn count(&self, tokenizer: Tokenizer, key: u128, count: impl FnOnce() -> usize) -> usize {
        self.get(tokenizer, key).unwrap_or_else(|| {
            let count = count();
            self.insert(tokenizer, key, count);
            count
        })
    }

    /// How many counts are remembered.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[(key.1 >> 32) as usize % self.shards.len()]
    }
}

impl Key {
    fn new(tokenizer: Tokenizer, key: u128) -> Self {
        Key(key as u64, (key >> 64) as u64 ^ tokenizer as u64)
    }
}

/// Keys are hashes already.
#[derive(Default)]
struct LowHalf(u64);

impl Hasher for LowHalf {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ byte as u64;
        }
    }

    fn write_u64(&mut self, half: u64) {
        self.0 = self.0.rotate_left(32) ^ half;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Tokenizer::*;

    #[test]
    fn a_count_is_found_by_content_and_tokenizer() {
        let memo = Memo::new(1 << 20);
        let (a, b) = (memo.key(b"a"), memo.key(b"b"));
        assert_ne!(a, b);
        assert_eq!(memo.get(O200k, a), None);
        memo.insert(O200k, a, 1);
        memo.insert(Estimate, a, 2);
        assert_eq!((memo.get(O200k, a), memo.get(Estimate, a), memo.get(Cl100k, a), memo.get(O200k, b)), (Some(1), Some(2), None, None));
        assert_eq!(memo.count(O200k, a, || unreachable!("it is known")), 1);
        assert_eq!(memo.count(O200k, b, || 3), 3);
        assert_eq!(memo.get(O200k, b), Some(3));
    }

    #[test]
    fn it_stays_within_its_bytes() {
        let bytes = 1 << 20;
        let memo = Memo::new(bytes);
        for n in 0..200_000u64 {
            memo.insert(O200k, memo.key(&n.to_le_bytes()), n as usize);
        }
        assert!(memo.len() * 25 < bytes && memo.len() > bytes / 200, "{} entries", memo.len());
        assert_eq!(memo.get(O200k, memo.key(&199_999u64.to_le_bytes())), Some(199_999));
        assert_eq!(memo.get(O200k, memo.key(&0u64.to_le_bytes())), None);
    }

    #[test]
    fn threads_share_it() {
        let memo = Memo::new(1 << 16);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let memo = &memo;
                scope.spawn(move || {
                    for n in 0..5_000u64 {
                        let key = memo.key(&(n % 100 + thread).to_le_bytes());
                        assert_eq!(memo.count(O200k, key, || (n % 100 + thread) as usize), (n % 100 + thread) as usize);
                    }
                });
            }
        });
    }
}
