//! Errors of the covered part: one record for each kind, the newest unresolved one nearly in full.

use std::collections::HashMap;

use super::Scope;
use super::actions::{Action, one_line};
use super::evidence::{Excerpt, excerpt};
use super::secrets;
use super::subjects::Key;
use super::{evidence, shorten};

pub(crate) struct Failure {
    pub place: usize,
    pub resolved: bool,
    /// Of a call that only looked: a file that was not there, a search without a hit.
    pub looked: bool,
    /// What and where, alone.
    pub brief: String,
    /// One line: what, where, the numbers around it.
    pub record: String,
    /// The telling lines, marked as quotation.
    pub full: String,
}

/// Bytes of one quoted excerpt and of one record.
/// Kinds of errors that are recorded, the newest.
const RECORDED: usize = 40;
const FULL: usize = 2_400;
const RECORD: usize = 360;

pub(crate) fn failures(scope: &Scope, actions: &[Action], pasted: &[(usize, &str)]) -> Vec<Failure> {
    let successes = Successes::of(actions);
    let mut events: Vec<Raw> = Vec::new();
    for action in actions.iter().filter(|a| a.failed) {
        let Some(passage) = action.result else { continue };
        if let Some(excerpt) = excerpt(&passage.text, true) {
            events.push(Raw {
                place: passage.place,
                source: source(action),
                resolved: successes.after(action),
                looked: action.reads,
                excerpt,
            });
        }
    }
    for (place, text) in pasted {
        if let Some(excerpt) = excerpt(text, false) {
            events.push(Raw { place: *place, source: "in a user message".to_owned(), resolved: false, looked: false, excerpt });
        }
    }
    events.sort_by_key(|raw| raw.place);
    let mut kinds: HashMap<Key, usize> = HashMap::new();
    let mut found: Vec<(Raw, u32)> = Vec::new();
    for raw in events {
        let at = *kinds.entry(raw.excerpt.signature).or_insert(found.len());
        match found.get_mut(at) {
            Some((known, times)) => {
                *known = raw;
                *times += 1;
            }
            None => found.push((raw, 1)),
        }
    }
    found.sort_by_key(|(raw, _)| raw.place);
    let mut failures: Vec<Failure> = found
        .into_iter()
        .rev()
        .take(RECORDED)
        .filter(|(raw, _)| !scope.kept.iter().any(|p| p.text.contains(raw.excerpt.main)))
        .map(|(raw, times)| raw.written(times))
        .collect();
    failures.sort_by_key(|f| f.place);
    failures
}

struct Raw<'t> {
    place: usize,
    source: String,
    resolved: bool,
    looked: bool,
    excerpt: Excerpt<'t>,
}

impl Raw<'_> {
    fn written(self, times: u32) -> Failure {
        let state = match (self.resolved, times) {
            (true, 1) => "resolved since".to_owned(),
            (true, n) => format!("resolved since, {n} times"),
            (false, 1) => "not resolved".to_owned(),
            (false, n) => format!("not resolved, {n} times"),
        };
        let said = self
            .excerpt
            .message
            .as_ref()
            .map_or_else(|| self.excerpt.main.to_owned(), |message| format!("{} {message}", self.excerpt.main));
        let said = self.excerpt.above.map_or(said.clone(), |above| format!("{above} / {said}"));
        let said = shorten::clipped(&said, RECORD).into_owned();
        let location = self.excerpt.location.filter(|place| !said.contains(place));
        let mut record = format!("{said} [{state}; {}]", self.source);
        let mut brief = said.clone();
        if let Some(location) = location {
            let location = shorten::clipped(location.strip_prefix("at ").unwrap_or(location), RECORD / 2);
            record.push_str(" at ");
            record.push_str(&location);
            if brief.len() + location.len() <= RECORD {
                brief.push_str(" at ");
                brief.push_str(&location);
            }
        }
        let mut full = format!("{said} [{state}; {}]", self.source);
        for line in &self.excerpt.lines {
            if said.contains(line.trim()) {
                continue;
            }
            if full.len() + line.len() > FULL {
                break;
            }
            full.push_str("\n  | ");
            full.push_str(&evidence::plain(line));
        }
        Failure {
            brief: clean(brief),
            place: self.place,
            resolved: self.resolved,
            looked: self.looked,
            record: clean(record),
            full: clean(full),
        }
    }
}

fn clean(text: String) -> String {
    secrets::masked(text.into()).into_owned()
}

fn source(action: &Action) -> String {
    let title = one_line(&action.title(), 100);
    match action.exit.filter(|code| *code != 0) {
        Some(code) => format!("{title}, exit {code}"),
        None => title,
    }
}

/// Successful calls by the first words of what they aimed at.
struct Successes {
    by_head: HashMap<String, Vec<(usize, Vec<String>)>>,
}

/// Later successes of the same kind that are compared with an error.
const COMPARED: usize = 32;

impl Successes {
    fn of(actions: &[Action]) -> Self {
        let mut by_head: HashMap<String, Vec<(usize, Vec<String>)>> = HashMap::new();
        for action in actions.iter().filter(|a| !a.failed && a.result.is_some()) {
            let aim = action.aim();
            by_head.entry(head(&aim)).or_default().push((action.place, aim));
        }
        Successes { by_head }
    }

    /// Whether the same aim, or a wider one, was reached later.
    fn after(&self, action: &Action) -> bool {
        let aim = action.aim();
        let later = self.by_head.get(&head(&aim)).into_iter().flatten().rev().take(COMPARED);
        later.filter(|(place, _)| *place > action.place).any(|(_, reached)| reached.iter().all(|word| aim.contains(word)))
    }
}

fn head(aim: &[String]) -> String {
    aim.iter().take(2).map(String::as_str).collect::<Vec<_>>().join(" ")
}
