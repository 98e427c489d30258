//! What was decided about a prefix of a conversation, remembered by what the prefix says.
//!
//! The key is a fingerprint of tenant, format, policy and prefix, so forks, rewinds, sub-agents and other people's equal words are told apart by
//! construction. Nothing in here decides anything: a lost entry is computed again, to the same bytes.
//!
//! It is always in memory. Behind that may be a [`Store`], which outlives the process or is shared by many; it is asked for what memory does not know, told
//! the last word of each request, and never waited for when it is slow or gone.

#[cfg(feature = "proxy")]
pub mod disk;
#[cfg(feature = "proxy")]
mod queue;
#[cfg(feature = "proxy")]
pub mod redis;
#[cfg(feature = "proxy")]
pub mod seal;
mod store;

pub use store::{Counted, Store};

use crate::compact::schedule::{Recall, Standing};
use crate::conversation::Fingerprint;
use dashmap::DashMap;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// So many prefixes of a conversation are looked for in a store; it usually holds the last or the one before.
const MOST_ASKED: usize = 64;

/// A ledger in memory, bounded by bytes and age.
///
/// Entries live in two generations: a look-up lifts an entry into the young one, and when the young one is full or old it becomes the old one and what
/// was old is gone. So the least recently used half goes at once, without a list to keep in order.
pub struct Ledger {
    young: DashMap<Fingerprint, Standing>,
    old: DashMap<Fingerprint, Standing>,
    held: AtomicU64,
    /// Counts the generations, from 1.
    generation: AtomicU32,
    turned: AtomicU64,
    turning: std::sync::Mutex<()>,
    most: u64,
    age: u64,
    store: Option<Arc<dyn Store>>,
    /// Look-ups by where they ended: memory, store, nowhere.
    pub found: [AtomicU64; 3],
}

impl Ledger {
    /// Holds about `bytes` at most, and nothing that was not used for `seconds`.
    pub fn new(bytes: u64, seconds: u64) -> Self {
        Self {
            young: DashMap::new(),
            old: DashMap::new(),
            held: AtomicU64::new(0),
            generation: AtomicU32::new(1),
            turned: AtomicU64::new(0),
            turning: std::sync::Mutex::new(()),
            most: (bytes / 2).max(1),
            age: (seconds / 2).max(1),
            store: None,
            found: Default::default(),
        }
    }

    /// This ledger with a store behind it.
    pub fn backed(self, store: Arc<dyn Store>) -> Self {
        Self { store: Some(store), ..self }
    }

    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.store.as_ref()
    }

    /// The ledger as one conversation's schedule sees it, at `now` (seconds, any origin).
    pub fn page(&self, base: Fingerprint, now: u64) -> Page<'_> {
        Page { ledger: self, base, now, newest: RefCell::default() }
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
        self.charge(&standing);
        if self.young.insert(key, standing).is_none() {
            self.held.fetch_add(ENTRY, Ordering::Relaxed);
        }
        let full = self.held.load(Ordering::Relaxed) > self.most;
        let stale = now.saturating_sub(self.turned.load(Ordering::Relaxed)) > self.age;
        if full || stale {
            self.turn(now);
        }
    }

    /// An epoch is shared by all entries of its conversation, and charged once.
    fn charge(&self, standing: &Standing) {
        let bytes = standing.epoch.as_ref().map_or(0, |epoch| epoch.charge(self.generation.load(Ordering::Relaxed)));
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    fn turn(&self, now: u64) {
        // Whoever comes second finds the work done.
        let Ok(_turning) = self.turning.try_lock() else { return };
        self.old.clear();
        self.young.retain(|key, standing| {
            self.old.insert(*key, standing.clone());
            false
        });
        // Its room went with the entries.
        self.young.shrink_to_fit();
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.held.store(0, Ordering::Relaxed);
        self.turned.store(now, Ordering::Relaxed);
    }
}

/// The bytes that an entry is charged with, besides its epoch. A table doubles when it is seven eighths full, and has a byte of control for each place.
const ENTRY: u64 = 2 * 8 * (size_of::<Fingerprint>() + size_of::<Standing>() + 1) as u64 / 7;

/// One conversation's part of the ledger, for the time of one decision.
pub struct Page<'a> {
    ledger: &'a Ledger,
    base: Fingerprint,
    now: u64,
    /// What is charged, and told the store, when the decision is made: by then the edits are worked out.
    newest: RefCell<Option<(Fingerprint, Standing)>>,
}

impl Recall for Page<'_> {
    fn recall(&self, prefix: Fingerprint) -> Option<Standing> {
        self.ledger.get(self.base.then(prefix), self.now)
    }

    fn remember(&self, prefix: Fingerprint, standing: &Standing) {
        let key = self.base.then(prefix);
        self.ledger.put(key, standing.clone(), self.now);
        self.newest.replace(Some((key, standing.clone())));
    }

    /// The store is asked for what is longer than what memory knows, and for that itself: another replica may have thought better of it.
    fn first(&self, prefixes: &[Fingerprint]) -> Option<(usize, Standing)> {
        let own = prefixes.iter().enumerate().find_map(|(n, prefix)| self.recall(*prefix).map(|standing| (n, standing)));
        let until = own.as_ref().map_or(prefixes.len(), |(n, _)| n + 1).min(MOST_ASKED);
        let theirs = self.ledger.store.as_ref().filter(|_| until > 0).and_then(|store| {
            let keys: Vec<Fingerprint> = prefixes[..until].iter().map(|prefix| self.base.then(*prefix)).collect();
            let (n, standing) = store::first(&**store, &keys, own.as_ref().and_then(|(_, standing)| standing.epoch.as_ref()))?;
            self.ledger.put(keys[n], standing.clone(), self.now);
            Some((n, standing))
        });
        let place = if theirs.is_some() { 1 } else { 2 * usize::from(own.is_none()) };
        self.ledger.found[place].fetch_add(1, Ordering::Relaxed);
        theirs.or(own)
    }
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        let Some((key, standing)) = self.newest.take() else { return };
        self.ledger.charge(&standing);
        if let Some(store) = &self.ledger.store {
            store::keep(&**store, key, &standing);
        }
    }
}
