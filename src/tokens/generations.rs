//! A map that forgets what wasn't asked for lately, so that it never holds more than it may.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// Entries are young when they are inserted or found. When there are as many young ones as allowed, the old ones are dropped and the young
/// ones are old. So an entry is kept for at least `limit` others, nothing is ordered, and no memory moves.
#[derive(Debug, Default)]
pub(super) struct Generations<K, V, S> {
    young: HashMap<K, V, S>,
    old: HashMap<K, V, S>,
    limit: usize,
}

impl<K: Eq + Hash, V, S: BuildHasher + Default> Generations<K, V, S> {
    /// Holds at most twice `limit` entries. Nothing is allocated before they come.
    pub(super) fn new(limit: usize) -> Self {
        Generations { young: HashMap::default(), old: HashMap::default(), limit: limit.max(1) }
    }

    pub(super) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get_mut(key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.limit && !self.young.contains_key(&key) {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::hash_map::RandomState;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let mut map: Generations<u32, u32, RandomState> = Generations::new(10);
        for n in 0..1000 {
            map.insert(n, n);
            assert_eq!(map.get_mut(&0).copied(), Some(0));
            assert!(map.len() <= 20);
        }
        assert_eq!(map.get_mut(&500), None);
        assert_eq!(map.get_mut(&999).copied(), Some(999));
    }

    #[test]
    fn the_newest_value_is_found() {
        let mut map: Generations<u32, u32, RandomState> = Generations::new(1);
        for n in 0..5 {
            map.insert(7, n);
            assert_eq!(map.get_mut(&7).copied(), Some(n));
            map.insert(8, n);
            map.insert(7, 100 + n);
            assert_eq!(map.get_mut(&7).copied(), Some(100 + n));
        }
    }
}
