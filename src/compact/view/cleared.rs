//! What is gone.

use serde::{Deserialize, Serialize};

/// What compactions have taken away for good: of the first `upto` messages all but `kept`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Cleared {
    pub upto: usize,
    pub kept: Vec<usize>,
}

impl Cleared {
    /// The messages before `end` that are still there.
    pub fn left(&self, end: usize) -> Vec<usize> {
        self.kept.iter().copied().chain(self.upto..end).collect()
    }

    /// Those that are not, as what is cleared when they are all there is.
    pub fn inverse(&self) -> Cleared {
        let mut kept = self.kept.iter().copied().peekable();
        Cleared { upto: self.upto, kept: (0..self.upto).filter(|place| kept.next_if_eq(place).is_none()).collect() }
    }
}
