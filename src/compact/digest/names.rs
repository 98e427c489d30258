//! Names that a conversation knows.
//!
//! A capital inside a sentence makes a name wherever the word stands. A capital at the beginning, and any in German, may be owed to its place
//! or to grammar; then it makes a name where several sentences begin with it, or where it goes with quantities of different kinds: what has
//! a price, a size and a port is a thing, what has a price alone may be an attribute.

use std::collections::{HashMap, HashSet};

use super::statements::Statement;
use super::subjects::Key;

/// Lets every statement know the names of all others.
pub(crate) fn share(statements: &mut [Statement]) {
    let mut names: HashSet<Key> = HashSet::new();
    let mut small: HashSet<Key> = HashSet::new();
    let mut capitals: HashMap<Key, Capital> = HashMap::new();
    for Statement { subject, .. } in statements.iter() {
        names.extend(&subject.names);
        small.extend(&subject.small);
        for key in &subject.capitals {
            let known = capitals.entry(*key).or_default();
            known.opened += u32::from(subject.opens_with(*key));
            for value in &subject.values {
                known.measured |= 1 << value.unit.map_or(0, |unit| 1 + u32::from(unit).min(30));
            }
        }
    }
    let telling = |known: &Capital| known.opened >= 2 || known.measured.count_ones() >= 2;
    names.extend(capitals.into_iter().filter(|(key, known)| telling(known) && !small.contains(key)).map(|(key, _)| key));
    for Statement { subject, .. } in statements {
        let known = subject.words.iter().copied().filter(|key| names.contains(key) && !subject.small.contains(key));
        subject.names = known.collect();
    }
}

#[derive(Default)]
struct Capital {
    /// Sentences that begin with it.
    opened: u32,
    /// Kinds of quantities that it goes with, a bit each.
    measured: u32,
}
