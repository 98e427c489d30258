//! What was decided about a prefix of a conversation, remembered by what the prefix says.
//!
//! The key is a fingerprint of tenant, format, policy and prefix, so forks, rewinds, sub-agents and other people's equal words are told apart by
//! construction. Nothing in here decides anything: a lost entry is computed again, to the same bytes.

use crate::compact::schedule::{Recall, Standing};
use crate::conversation::Fingerprint;
use dashmap::DashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A ledger in memory, bounded by bytes and age.
///
/// Entries live in two generations: a look-up lifts an entry into the young one, and when the young one is full or old it becomes the old one and what
/// was old is gone. So the least recently used half goes at once, without a list to keep in order.
pub struct Ledger {
    young: DashMap<Fingerprint, Standing>,
    old: DashMap<Fingerprint, Standing>,
    held: AtomicU64,
    turned: AtomicU64,
    turning: std::sync::Mutex<()>,
    most: u64,
    age: u64,
}

impl Ledger {
    /// Holds about `bytes` at most, and nothing that was not used for `seconds`.
    pub fn new(bytes: u64, seconds: u64) -> Self {
        Self {
            young: DashMap::new(),
            old: DashMap::new(),
            held: AtomicU64::new(0),
            turned: AtomicU64::new(0),
            turning: std::sync::Mutex::new(()),
            most: (bytes / 2).max(1),
            age: (seconds / 2).max(1),
        }
    }

    /// The ledger as one conversation's schedule sees it, at `now` (seconds, any origin).
    pub fn page(&self, base: Fingerprint, now: u64) -> Page<'_> {
        Page { ledger: self, base, now }
    }

    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn get(&self, key: Fingerprint, now: u64) -> Option<Standing> {
        if let Some(found) = self.young.get(&key) {
            return Some(found.clone());
        }
        let (_, standing) = self.old.remove(&key)?;
        self.put(key, standing.clone(), now);
        Some(standing)
    }

    fn put(&self, key: Fingerprint, standing: Standing, now: u64) {
        let bytes = weight(&standing);
        if self.young.insert(key, standing).is_none() {
            self.held.fetch_add(bytes, Ordering::Relaxed);
        }
        let full = self.held.load(Ordering::Relaxed) > self.most;
        let stale = now.saturating_sub(self.turned.load(Ordering::Relaxed)) > self.age;
        if full || stale {
            self.turn(now);
        }
    }

    fn turn(&self, now: u64) {
        // Whoever comes second finds the work done.
        let Ok(_turning) = self.turning.try_lock() else { return };
        self.old.clear();
        self.young.retain(|key, standing| {
            self.old.insert(*key, standing.clone());
            false
        });
        self.held.store(0, Ordering::Relaxed);
        self.turned.store(now, Ordering::Relaxed);
    }
}

/// The bytes an entry is charged with. An epoch is shared by all entries of its conversation; each is charged a part, the one that begins it all.
fn weight(standing: &Standing) -> u64 {
    const ENTRY: u64 = 200;
    let epoch =
        standing.epoch.as_ref().map_or(0, |epoch| epoch.weight() as u64 / if std::sync::Arc::strong_count(epoch) > 2 { 16 } else { 1 });
    ENTRY + epoch
}

pub struct Page<'a> {
    ledger: &'a Ledger,
    base: Fingerprint,
    now: u64,
}

impl Recall for Page<'_> {
    fn recall(&self, prefix: Fingerprint) -> Option<Standing> {
        self.ledger.get(self.base.then(prefix), self.now)
    }

    fn remember(&self, prefix: Fingerprint, standing: &Standing) {
        self.ledger.put(self.base.then(prefix), standing.clone(), self.now);
    }
}
