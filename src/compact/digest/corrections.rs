//! Corrections that say little but the new value: "No, make that 45."
//!
//! What such a sentence speaks of stands before it, so no likeness of words tells. It corrects what the user said last, where that has a number
//! of the same kind, and where it says that it turns something down or where the assistant has just repeated the old number.

use std::sync::LazyLock;

use super::lists::by_language;
use super::statements::{Speaker, Statement};
use super::subjects::{Subject, is_concept};
use super::values::{Kind, Value};
use super::words::{spaceless, words};

/// Content words of a sentence that says little but a value; pairs of characters in scripts without spaces.
const WORDS: usize = 2;
const PAIRS: usize = 5;
/// Statements looked back at.
const BACK: usize = 60;

/// Pairs of a statement and the one that corrects a number of it, by index, in the order of the corrections.
pub(crate) fn corrections(statements: &[Statement]) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for later in 1..statements.len() {
        if let Some(earlier) = says_little(&statements[later]).then(|| corrected(statements, later, &found)).flatten() {
            found.push((earlier, later));
        }
    }
    found
}

/// The numbers of `old` that `new` corrects.
pub(crate) fn outdated<'s>(old: &'s Statement, new: &Statement) -> Vec<&'s Value> {
    let old = old.subject.values.iter().filter(|value| !new.subject.has_value(value.norm));
    old.filter(|value| new.subject.values.iter().any(|other| alike(value, other))).collect()
}

fn says_little(statement: &Statement) -> bool {
    let subject = &statement.subject;
    let words = if subject.unspaced { PAIRS } else { WORDS };
    let number = (1..=2).contains(&subject.values.len()) && subject.values.iter().all(|value| value.kind == Kind::Number);
    statement.speaker == Speaker::User && number && subject.words.len() <= words && !subject.question && !subject.marks.condition
}

/// Whether a sentence opens as one that turns down what was said before.
pub(crate) fn refuses(text: &str) -> bool {
    static OPENINGS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let lists = by_language(include_str!("words/refusals.txt"));
        lists.flat_map(|(_, line)| line.split(',').map(str::trim)).filter(|opening| !opening.is_empty()).collect()
    });
    let lower = text.trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let ends = |rest: &str| rest.chars().next().is_none_or(|c| !c.is_alphanumeric() || spaceless(c));
    OPENINGS.iter().any(|opening| lower.strip_prefix(opening).is_some_and(ends))
}

/// Two values of one thing: a unit that is not said is that of the value before.
fn alike(old: &Value, new: &Value) -> bool {
    old.kind == Kind::Number && new.kind == Kind::Number && (new.unit.is_none() || new.unit == old.unit)
}

fn corrected(statements: &[Statement], later: usize, found: &[(usize, usize)]) -> Option<usize> {
    let new = &statements[later];
    let before: Vec<usize> = (later.saturating_sub(BACK)..later).rev().collect();
    let user = |at: &usize| statements[*at].speaker == Speaker::User && !statements[*at].subject.filler;
    let last = *before.iter().find(|at| user(at))?;
    let message = |at: usize| (statements[at].place, statements[at].note);
    let between: Vec<&Statement> = before.iter().take_while(|at| **at > last).map(|at| &statements[*at]).collect();
    // The fifth day of the week is no five.
    let date = words().dimension("date");
    let same = |value: &Value, other: &Value| value.norm == other.norm && (value.unit == date) == (other.unit == date);
    let named = |value: &Value| between.iter().any(|said| said.subject.values.iter().any(|other| same(value, other)));
    let numbers = between.iter().flat_map(|said| &said.subject.values).any(|value| value.kind == Kind::Number);
    let asked = between.iter().any(|said| said.subject.question);
    let turns_down = refuses(&new.text) || new.subject.marks.retract;

    // What forbids something more says nothing of what was said before.
    if !turns_down && (new.subject.words.len() > 1 || new.subject.marks.negation) {
        return None;
    }

    let mut candidates = before.iter().copied().filter(|at| user(at) && message(*at) == message(last));
    let candidates: Vec<usize> = candidates.by_ref().filter(|at| !outdated(&statements[*at], new).is_empty()).collect();
    let repeated = |at: &usize| outdated(&statements[*at], new).into_iter().any(named);
    let chosen = match (candidates.iter().copied().find(repeated), &candidates[..]) {
        (Some(at), _) if turns_down || !asked => at,
        // Where the assistant named other numbers, one of those may be meant.
        (None, [only]) if turns_down && !numbers => *only,
        _ => return None,
    };
    // What is corrected again is what the first correction was about.
    let origin = found.iter().find(|(_, correction)| *correction == chosen).map_or(chosen, |(earlier, _)| *earlier);
    let old = &statements[origin];
    (!old.subject.words.is_empty() && !old.subject.question && !names_another(new, old)).then_some(origin)
}

/// Whether `new` names a thing or an attribute that `old` does not. Joined words are names as well, unless they follow on a refusal.
fn names_another(new: &Statement, old: &Statement) -> bool {
    let unknown = |word: &str| Subject::of(word).words.iter().any(|key| !old.subject.has_word(*key));
    let written = |word: &str| word.contains('_') || word.chars().any(char::is_uppercase);
    let named = new.text.split_whitespace().skip(1).any(|word| written(word) && unknown(word));
    let coined = !refuses(&new.text) || new.subject.unspaced;
    let attribute = new.subject.words.iter().any(|key| is_concept(*key) && !old.subject.has_word(*key));
    named || attribute || (coined && new.subject.names.iter().any(|key| !old.subject.has_word(*key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: &[(Speaker, &str)], expected: &[(usize, usize)]) {
        let statements: Vec<Statement> =
            said.iter().enumerate().map(|(place, (speaker, text))| Statement::said(place, *speaker, *text)).collect();
        assert_eq!(corrections(&statements), expected, "{said:?}");
    }

    #[test]
    fn a_bare_value_corrects_the_number_said_last() {
        use Speaker::{Assistant, User};
        for (old, echo, new) in [
            ("Give the export worker 37 threads.", "Set: the worker has 37 threads.", "No, make that 45."),
            ("Reserve 34 seats for the tour.", "Done, 34 seats.", "Sorry, 47."),
            ("Gib dem Worker 52 Threads.", "Erledigt.", "Nein, nimm 18."),
            ("Donne 78 threads au worker.", "Le worker a 78 threads.", "Non, mets-en 87."),
            ("Дай экспортёру 31 потоков.", "Готово.", "Нет, пусть будет 86."),
            ("एक्सपोर्ट वर्कर को 91 थ्रेड दो।", "एक्सपोर्ट वर्कर के पास 91 थ्रेड हैं।", "नहीं, 56 कर दो।"),
            ("Karıştırıcıyı 96 devire getir.", "Karıştırıcı 96 devirde.", "Yok, 73."),
            ("Put 37 hours on the Hollis matter.", "The Hollis matter now shows 37 hours.", "Hm, rather 45."),
            ("교반기를 38rpm으로 맞춰.", "교반기는 38rpm입니다.", "아, 43으로."),
            ("给导出进程69个线程。", "导出进程现在有69个线程。", "不，用46个。"),
            ("エクスポートに69スレッド割り当てて。", "69スレッドです。", "いや、46にして。"),
        ] {
            check(&[(User, old), (Assistant, echo), (User, new)], &[(0, 2)]);
        }
        check(
            &[(User, "Give it 37 threads."), (Assistant, "37 threads."), (User, "No, 45."), (Assistant, "45 then."), (User, "Sorry, 50.")],
            &[(0, 2), (0, 4)],
        );
    }

    #[test]
    fn an_answer_is_no_correction() {
        use Speaker::{Assistant, User};
        check(&[(User, "Do not deploy on Friday."), (Assistant, "Part 5 is read."), (User, "Do not deploy on Monday.")], &[]);
        check(&[(User, "Deploy on Friday."), (Assistant, "Part 5 is read."), (User, "Deploy on Monday.")], &[]);
        check(&[(User, "Give the worker 37 threads."), (Assistant, "How many retries?"), (User, "5.")], &[]);
        check(&[(User, "Give the worker 37 threads."), (Assistant, "37 threads. Which port?"), (User, "8081.")], &[]);
        check(&[(User, "Wait 30 seconds."), (Assistant, "30 seconds."), (User, "No, 45 MB.")], &[]);
        check(&[(User, "Give the worker 37 threads."), (Assistant, "The pool has 20 connections."), (User, "No, 25.")], &[]);
        check(&[(User, "Falcon listens on port 8081."), (Assistant, "8081."), (User, "Put Vesper on port 8090.")], &[]);
        check(&[(User, "It's 11 degrees in the office."), (Assistant, "Go on."), (User, "The port changed to 2800.")], &[]);
        check(&[(User, "Falcon listens on port 8081."), (Assistant, "8081."), (User, "No, Vesper on 8090.")], &[]);
        check(&[(User, "Give the worker 37 threads."), (Assistant, "37 threads."), (User, "The reader of the archive needs 5.")], &[]);
    }
}
