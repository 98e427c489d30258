//! Summaries that are there to be used, by the prefix they were made of; and which of them each epoch has used.
//!
//! A candidate cannot go stale: history is immutable under its fingerprint. Keys hold the tenant, so nobody ever gets another's.

use super::Summary;
use crate::conversation::Fingerprint;
use dashmap::{DashMap, Entry};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A summary, and how many messages of the conversation it covers.
pub type Chosen = (usize, Arc<Summary>);

#[derive(Clone, Debug)]
enum Candidate {
    /// Being made, since then.
    Begun(u64),
    Ready(Arc<Summary>),
    /// Not to be tried again before then.
    Failed(u64),
}

/// All candidates, bounded by bytes: two generations, of which the older goes when the younger is full.
#[derive(Debug, Default)]
pub struct Candidates {
    young: DashMap<Fingerprint, Candidate>,
    old: DashMap<Fingerprint, Candidate>,
    /// What epochs were sent with.
    choices: DashMap<Fingerprint, Option<Chosen>>,
    held: AtomicU64,
    most: u64,
    turning: std::sync::Mutex<()>,
}

/// One tenant's candidates for one way of summarising, at `now` in seconds.
#[derive(Clone, Copy)]
pub struct Shelf<'a> {
    pub candidates: &'a Candidates,
    pub base: Fingerprint,
    /// Tells epochs of one window from those of another.
    pub epochs: Fingerprint,
    pub now: u64,
}

/// What an entry is charged with besides its text, in bytes.
const ENTRY: u64 = 160;
/// Who began a summary and was never heard of again has lost it, in seconds.
const LOST: u64 = 3600;

impl Candidates {
    /// Holds about `bytes` at most.
    pub fn new(bytes: u64) -> Candidates {
        Candidates { most: (bytes / 2).max(1), ..Candidates::default() }
    }

    fn get(&self, key: Fingerprint) -> Option<Candidate> {
        if let Some(found) = self.young.get(&key) {
            return Some(found.clone());
        }
        let (_, candidate) = self.old.remove(&key)?;
        self.put(key, candidate.clone());
        Some(candidate)
    }

    fn put(&self, key: Fingerprint, candidate: Candidate) {
        let bytes = ENTRY + if let Candidate::Ready(summary) = &candidate { summary.text.len() as u64 } else { 0 };
        self.young.insert(key, candidate);
        self.charge(bytes);
    }

    fn charge(&self, bytes: u64) {
        if self.held.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.most {
            return;
        }
        // Whoever comes second finds the work done.
        let Ok(_turning) = self.turning.try_lock() else { return };
        self.old.clear();
        self.choices.clear();
        self.young.retain(|key, candidate| {
            self.old.insert(*key, candidate.clone());
            false
        });
        self.held.store(0, Ordering::Relaxed);
    }
}

impl Shelf<'_> {
    fn key(&self, prefix: Fingerprint) -> Fingerprint {
        self.base.then(prefix)
    }

    /// The longest of these prefixes that has a summary; entry `n` is the prefix of `n` messages.
    pub fn longest(&self, prefixes: &[Fingerprint]) -> Option<Chosen> {
        (1..prefixes.len()).rev().find_map(|n| match self.candidates.get(self.key(prefixes[n]))? {
            Candidate::Ready(summary) => Some((n, summary)),
            _ => None,
        })
    }

    /// Whether nothing need be begun: one of these prefixes has a summary, or gets one, or has failed to get one lately.
    pub fn is_provided_for(&self, prefixes: &[Fingerprint]) -> bool {
        prefixes.iter().any(|prefix| match self.candidates.get(self.key(*prefix)) {
            Some(Candidate::Ready(_)) => true,
            Some(Candidate::Begun(since)) => self.now.saturating_sub(since) < LOST,
            Some(Candidate::Failed(until)) => self.now < until,
            None => false,
        })
    }

    /// The longest of these prefixes whose summary is being made.
    pub fn being_made(&self, prefixes: &[Fingerprint]) -> Option<Fingerprint> {
        prefixes.iter().rev().copied().find(|prefix| self.begun(*prefix).is_some())
    }

    /// For how many seconds the summary of a prefix has been made by now; nothing where nobody does.
    pub fn begun(&self, prefix: Fingerprint) -> Option<u64> {
        match self.candidates.get(self.key(prefix))? {
            Candidate::Begun(since) => Some(self.now.saturating_sub(since)),
            _ => None,
        }
    }

    /// The right to make the summary of a prefix, which only one asker gets.
    pub fn claim(&self, prefix: Fingerprint) -> bool {
        if self.is_provided_for(&[prefix]) {
            return false;
        }
        let begun = Candidate::Begun(self.now);
        match self.candidates.young.entry(self.key(prefix)) {
            Entry::Vacant(place) => drop(place.insert(begun)),
            Entry::Occupied(mut place) => match place.get() {
                Candidate::Failed(until) if self.now >= *until => drop(place.insert(begun)),
                Candidate::Begun(since) if self.now.saturating_sub(*since) >= LOST => drop(place.insert(begun)),
                _ => return false,
            },
        }
        self.candidates.charge(ENTRY);
        true
    }

    pub fn keep(&self, prefix: Fingerprint, summary: Summary) {
        self.candidates.put(self.key(prefix), Candidate::Ready(Arc::new(summary)));
    }

    /// It came to nothing, and is not tried again before `until`.
    pub fn fail(&self, prefix: Fingerprint, until: u64) {
        self.candidates.put(self.key(prefix), Candidate::Failed(until));
    }

    /// Whether the epoch that begins at this prefix has been sent.
    pub fn is_settled(&self, epoch: Fingerprint) -> bool {
        self.candidates.choices.contains_key(&self.epochs.then(epoch))
    }

    /// The summary of a prefix of so many messages.
    pub fn of(&self, messages: usize, prefix: Fingerprint) -> Option<Chosen> {
        match self.candidates.get(self.key(prefix))? {
            Candidate::Ready(summary) => Some((messages, summary)),
            _ => None,
        }
    }

    /// Settles what an epoch is sent with, unless that has been.
    pub fn choose(&self, epoch: Fingerprint, chosen: Option<Chosen>) {
        if let Entry::Vacant(place) = self.candidates.choices.entry(self.epochs.then(epoch)) {
            place.insert(chosen);
            self.candidates.held.fetch_add(ENTRY, Ordering::Relaxed);
        }
    }

    /// What the epoch that begins at `epoch` is sent with: the longest candidate among `prefixes` when that is first asked, and the same ever after.
    pub fn settle(&self, epoch: Fingerprint, prefixes: &[Fingerprint]) -> Option<Chosen> {
        match self.candidates.choices.entry(self.epochs.then(epoch)) {
            Entry::Occupied(settled) => settled.get().clone(),
            Entry::Vacant(place) => {
                let chosen = self.longest(prefixes);
                let chosen = place.insert(chosen).clone();
                self.candidates.held.fetch_add(ENTRY, Ordering::Relaxed);
                chosen
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(n: u8) -> Fingerprint {
        Fingerprint([n; 16])
    }

    fn shelf(candidates: &Candidates, tenant: u8, now: u64) -> Shelf<'_> {
        Shelf { candidates, base: prefix(tenant), epochs: prefix(tenant), now }
    }

    fn summary(text: &str) -> Summary {
        Summary { text: text.into(), ..Summary::default() }
    }

    #[test]
    fn one_asker_gets_to_make_a_summary_and_everybody_of_that_tenant_gets_it() {
        let candidates = Candidates::new(1 << 20);
        let at = |now| shelf(&candidates, 1, now);
        assert!(at(0).claim(prefix(9)) && !at(1).claim(prefix(9)));
        assert!(at(1).is_provided_for(&[prefix(8), prefix(9)]) && !at(1).is_provided_for(&[prefix(8)]));
        at(2).keep(prefix(9), summary("nine"));
        let chain = [prefix(0), prefix(8), prefix(9), prefix(10)];
        assert_eq!(at(3).longest(&chain).unwrap().0, 2);
        assert!(shelf(&candidates, 2, 3).longest(&chain).is_none() && shelf(&candidates, 2, 3).claim(prefix(9)));
    }

    #[test]
    fn a_failure_is_not_repeated_until_it_has_cooled_down() {
        let candidates = Candidates::new(1 << 20);
        let at = |now| shelf(&candidates, 1, now);
        assert!(at(0).claim(prefix(9)));
        at(1).fail(prefix(9), 61);
        assert!(!at(60).claim(prefix(9)) && at(61).claim(prefix(9)) && !at(61).claim(prefix(9)));
        assert!(at(61 + LOST).claim(prefix(9)), "whoever began it is gone");
    }

    #[test]
    fn an_epoch_stays_what_it_was_first_sent_with() {
        let candidates = Candidates::new(1 << 20);
        let shelf = shelf(&candidates, 1, 0);
        let chain = [prefix(0), prefix(8), prefix(9)];
        assert!(!shelf.is_settled(prefix(20)) && shelf.settle(prefix(20), &chain).is_none() && shelf.is_settled(prefix(20)));
        shelf.keep(prefix(9), summary("late"));
        assert!(shelf.settle(prefix(20), &chain).is_none());
        assert_eq!(shelf.settle(prefix(21), &chain).unwrap().1.text, "late");
    }

    #[test]
    fn what_is_held_is_bounded() {
        let candidates = Candidates::new(64 << 10);
        let shelf = shelf(&candidates, 1, 0);
        for n in 0..2_000u32 {
            let mut key = [0; 16];
            key[..4].copy_from_slice(&n.to_le_bytes());
            shelf.keep(Fingerprint(key), summary(&"x".repeat(1_000)));
        }
        assert!(candidates.young.len() + candidates.old.len() < 70);
    }
}
