//! What was raised, told by where it stands.
//!
//! Many exceptions have names that say nothing of an error, and messages in any language. In what a test runner or an interpreter prints their place
//! is known nevertheless.

use super::line::{colourless, cut};

/// What pytest sets before a line that says what failed.
pub const ASSERTED: &str = "E   ";

/// Where the last line begins that stands where a trace or a test runner says what was raised, whatever its name and language.
pub fn raised(window: &str) -> Option<usize> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut found = None;
    let mut trace: Option<usize> = None;
    let (mut start, mut asserts) = (0, false);
    for piece in window.split_inclusive('\n') {
        let line = &*colourless(cut(piece.trim_end()));
        let first = line.starts_with(ASSERTED) && !asserts;
        let below = !line.is_empty() && trace.is_some_and(|head| indent(line) <= head);
        if first || below {
            found = Some(start);
        }
        asserts = line.starts_with(ASSERTED);
        if line.trim_start().starts_with("Traceback (most recent call last)") {
            trace = Some(indent(line));
        } else if below {
            trace = None;
        }
        start += piece.len();
    }
    found
}

/// Whether a line says where, and then only the name of what `main` says was raised: `tests/test_fx.py:64: InvalidOperation`.
pub fn names(line: &str, main: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let name = line.trim_end().rsplit_once(": ").map_or("", |(_, name)| name);
    !name.is_empty() && name.chars().all(word) && main.split(|c| !word(c)).any(|part| part == name)
}

#[cfg(test)]
mod tests {
    use super::super::{excerpt, telling};

    #[test]
    fn what_was_raised_is_told_by_its_place_whatever_its_name() {
        let check = |output: &str, main: &str| {
            let found = excerpt(output, false).unwrap();
            assert_eq!(found.main, main);
            assert!(telling(output, 6).iter().any(|line| line.trim() == main), "{:?}", telling(output, 6));
        };
        check(
            "E   decimal.InvalidOperation: 汇率缺失 currency=VND\ntests/test_fx.py:64: InvalidOperation\n1 failed, 20 passed\n",
            "E   decimal.InvalidOperation: 汇率缺失 currency=VND",
        );
        let placed = "E   decimal.InvalidOperation: x\ntests/test_fx.py:64: InvalidOperation\ntests/b.py:3: y = z\n1 failed\n";
        let found = excerpt(placed, false).unwrap();
        assert_eq!(found.location, Some("tests/test_fx.py:64: InvalidOperation"));
        assert!(!found.lines.contains(&"tests/b.py:3: y = z"), "{:?}", found.lines);
        check(
            "    def test_sum():\n>       assert total() == 305\nE       assert 255 == 305\nE        +  where 255 = total()\n\ntests/test_pay.py:7: AssertionError\n=== 1 failed in 0.1s ===",
            "E       assert 255 == 305",
        );
        check(
            "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    q.get_nowait()\n_queue.Empty\nexit code: 1\n",
            "_queue.Empty",
        );
        check(
            "ERROR job 7 died\n  Traceback (most recent call last):\n    File \"a.py\", line 3, in f\n      x()\n  subprocess.TimeoutExpired: make ran into 30 s\n",
            "subprocess.TimeoutExpired: make ran into 30 s",
        );
    }
}
