//! Why a configuration is refused.

use std::{fmt, path::PathBuf};

/// Names the file (where there is one), the key, and what would be accepted.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    pub file: Option<PathBuf>,
    pub key: String,
    pub what: String,
}

impl Problem {
    pub(super) fn new(key: &str, what: impl Into<String>) -> Self {
        Problem { file: None, key: key.to_owned(), what: what.into() }
    }

    pub(super) fn value(key: &str, value: impl fmt::Display, accepted: &str) -> Self {
        Problem::new(key, format!("{value} is not accepted; expected {accepted}"))
    }

    /// As `value`, without the three hundred digits that some numbers have.
    pub(super) fn number(key: &str, value: f64, accepted: &str) -> Self {
        let long = value != 0.0 && !(1e-5..1e15).contains(&value.abs());
        Problem::value(key, if long { format!("{value:e}") } else { value.to_string() }, accepted)
    }

    pub(super) fn unknown(key: &str, known: &[&str]) -> Self {
        let name = key.rsplit('.').next().unwrap_or(key);
        let nearest = known.iter().min_by_key(|candidate| distance(name, candidate));
        let hint = nearest.filter(|nearest| distance(name, nearest) <= name.len().max(nearest.len()) / 2);
        let hint = hint.map(|nearest| format!("did you mean {nearest}? ")).unwrap_or_default();
        Problem::new(key, format!("no such key; {hint}known here: {}", known.join(", ")))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for Problem {}

/// Refuses what is no span of time that can be waited for: a year is the most.
pub(super) fn seconds(key: &str, value: f64) -> Result<(), Problem> {
    match value.is_finite() && (0.0..=31_536_000.0).contains(&value) {
        true => Ok(()),
        false => Err(Problem::number(key, value, "a number of seconds")),
    }
}

/// Letters that have to be inserted, deleted or replaced.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let next = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[b.len()]
}
