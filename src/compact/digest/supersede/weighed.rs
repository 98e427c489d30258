//! A subject with the rarity of its words: what statements are found and compared by.

use crate::compact::digest::subjects::{Key, Rarity, Subject};

/// Keys under which a statement can be found.
const INDEXED: usize = 24;
/// Of these, values at most, and names.
const NAMED: usize = 2;

/// A subject with the rarity of each of its words.
pub struct Weighed<'s> {
    pub subject: &'s Subject,
    weights: Vec<f32>,
    pub total: f32,
}

impl<'s> Weighed<'s> {
    pub fn of(subject: &'s Subject, rarity: &Rarity) -> Self {
        let weights: Vec<f32> = subject.words.iter().map(|key| rarity.weight(*key)).collect();
        Weighed { total: weights.iter().sum(), weights, subject }
    }

    /// What it is looked up by: values and names, then words, the rarest first.
    pub fn keys(&self) -> Vec<Key> {
        let mut words: Vec<(f32, Key)> = self.weights.iter().copied().zip(self.subject.words.iter().copied()).collect();
        words.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let values = self.subject.values.iter().map(|v| v.norm).take(NAMED);
        let mut keys: Vec<Key> = values.chain(self.subject.names.iter().copied().take(NAMED)).collect();
        for (_, key) in words {
            if !keys.contains(&key) {
                keys.push(key);
            }
            if keys.len() >= INDEXED {
                break;
            }
        }
        keys
    }

    /// The weight of the words that both have.
    pub fn common(&self, other: &Weighed) -> f32 {
        let (a, b) = (&self.subject.words, &other.subject.words);
        let (mut i, mut j, mut sum) = (0, 0, 0.0);
        while i < a.len() && j < b.len() {
            match a[i].cmp(&b[j]) {
                std::cmp::Ordering::Less => i += 1,
                std::cmp::Ordering::Greater => j += 1,
                std::cmp::Ordering::Equal => {
                    sum += self.weights[i];
                    (i, j) = (i + 1, j + 1);
                }
            }
        }
        sum
    }
}
