//! From what was said and done to records that can be bought.

use std::collections::{HashMap, HashSet};

use super::actions::{Action, Deed, actions, one_line};
use super::earlier::Earlier;
use super::failures::{Failure, failures};
use super::identifiers::{Identifier, Sort, identifiers};
use super::render::Section;
use super::spend::Record;
use super::statements::{Said, Speaker, Statement, fingerprint, said};
use super::subjects::{Key, Rarity, Subject};
use super::supersede::{self, Stale};
use super::{Scope, secrets, shorten, worth};

pub(crate) struct Extracted<'t> {
    said: Said<'t>,
    actions: Vec<Action<'t>>,
    failures: Vec<Failure>,
    identifiers: Vec<Identifier<'t>>,
}

pub(crate) struct Records {
    /// Messages that the digest stands for.
    pub messages: usize,
    pub list: Vec<Record>,
}

pub(crate) fn extract<'t>(scope: &'t Scope<'t>) -> Extracted<'t> {
    let said = said(scope);
    let actions = actions(scope);
    let failures = failures(scope, &actions, &said.pasted);
    Extracted { said, failures, identifiers: identifiers(scope), actions }
}

/// Records of what still stands.
pub(crate) fn resolve(extracted: Extracted, scope: &Scope) -> Records {
    let Extracted { said, actions, failures, identifiers } = extracted;
    let rarity = Rarity::of(said.statements.iter().map(|s| &s.subject));
    let resolved = supersede::resolve(&said.statements, &rarity);
    let mut list = Vec::new();
    statements(&said.statements, &resolved, &rarity, &mut list);
    errors(&failures, &resolved.stale, &mut list);
    files(&actions, &said.earlier, &mut list);
    commands(&actions, &resolved.stale, &mut list);
    carried(&said.earlier, &resolved.stale, &mut list);
    names(&identifiers, scope, &resolved.stale, &mut list);
    let places: HashSet<usize> = scope.covered.iter().map(|p| p.place).collect();
    // A message that only holds an earlier digest stands for those that one stood for.
    let merged: usize = said.earlier.iter().map(|earlier| earlier.messages).sum();
    Records { messages: places.len() + merged, list }
}

fn statements(statements: &[Statement], resolved: &supersede::Resolved, rarity: &Rarity, list: &mut Vec<Record>) {
    let kept: HashSet<Key> = statements.iter().filter(|s| s.kept).map(|s| fingerprint(&s.text)).collect();
    let last_report = statements.iter().rposition(|s| s.report && s.speaker == Speaker::Assistant && !s.earlier);
    let updates: HashSet<usize> = resolved.replaced_by.iter().flatten().copied().collect();
    let mut seen: HashSet<Key> = HashSet::new();
    // From the newest, so that of two repetitions the newer stands.
    for (at, statement) in statements.iter().enumerate().rev() {
        if statement.kept || resolved.replaced_by[at].is_some() {
            continue;
        }
        let print = fingerprint(&statement.text);
        if kept.contains(&print) || !seen.insert(print) {
            continue;
        }
        let stale = resolved.stale.named_in(&statement.subject);
        if statement.speaker == Speaker::Assistant && !stale.is_empty() {
            continue;
        }
        let open = statement.speaker == Speaker::User && last_report.is_none_or(|report| report < at);
        let asks = open && (statement.subject.question || statement.subject.marks.ask);
        let worth = worth::statement(statement, rarity, updates.contains(&at), open);
        let section = match statement.speaker {
            Speaker::User if asks => Section::Asks,
            Speaker::User => Section::User,
            Speaker::Assistant => Section::Assistant,
        };
        let whole = one_line(&statement.text, 1_200);
        let whole = if stale.is_empty() { whole } else { without(&whole, &stale) };
        let forms = match shorten::shortened(&whole, rarity) {
            Some(short) => vec![short, whole],
            None => vec![whole],
        };
        list.push(Record { section, order: (statement.place, at), worth, forms });
    }
}

/// A text with the values that no longer hold left out.
fn without(text: &str, stale: &[Key]) -> String {
    let mut clean = String::with_capacity(text.len());
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 {
            clean.push(' ');
        }
        let names = Subject::of(word).values.iter().any(|v| stale.contains(&v.norm));
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        if names && !bare.is_empty() {
            clean.push_str(&word.replacen(bare, "…", 1));
        } else {
            clean.push_str(word);
        }
    }
    clean
}

fn errors(failures: &[Failure], stale: &Stale, list: &mut Vec<Record>) {
    let newest = failures.iter().rposition(|f| !f.resolved);
    let mut age = 0;
    for (at, failure) in failures.iter().enumerate().rev() {
        if Some(at) != newest && !stale.is_empty() && !stale.named_in(&Subject::of(&failure.record)).is_empty() {
            continue;
        }
        let worth = worth::failure(failure, if Some(at) == newest { 0 } else { age + 1 });
        let mut record = Record::new(Section::Errors, (failure.place, at), worth, failure.record.clone());
        if !failure.resolved && age < 3 && failure.full.len() > failure.record.len() {
            record.forms.push(failure.full.clone());
        }
        list.push(record);
        age += 1;
    }
}

/// Files with the last thing done to each; a later look does not hide an earlier change.
fn files(actions: &[Action], earlier: &[Earlier], list: &mut Vec<Record>) {
    struct Touched {
        deed: Deed,
        last: usize,
        touches: usize,
    }
    let mut files: HashMap<&str, Touched> = HashMap::new();
    let done = actions.iter().filter(|a| !a.failed).flat_map(|a| a.files.iter().map(|(deed, path)| (*deed, path.as_str(), a.place)));
    let before = earlier.iter().flat_map(|e| e.lines(Section::Files)).filter_map(|line| {
        let (name, path) = line.split_once(' ')?;
        let deed = [Deed::Read, Deed::Edited, Deed::Wrote, Deed::Moved, Deed::Deleted].into_iter().find(|deed| deed.name() == name)?;
        Some((deed, path, 0))
    });
    for (deed, path, place) in before.chain(done) {
        let touched = files.entry(path).or_insert(Touched { deed, last: place, touches: 0 });
        touched.touches += 1;
        touched.last = place;
        if deed != Deed::Read {
            touched.deed = deed;
        }
    }
    let mut files: Vec<(&str, Touched)> = files.into_iter().collect();
    files.sort_by(|a, b| b.1.last.cmp(&a.1.last).then(a.0.cmp(b.0)));
    for (age, (path, touched)) in files.into_iter().enumerate() {
        let worth = worth::file(touched.deed, touched.touches, age);
        list.push(Record::new(
            Section::Files,
            (touched.last, age),
            worth,
            secrets::masked(format!("{} {}", touched.deed.name(), one_line(path, 200)).into()).into_owned(),
        ));
    }
}

/// Commands with how they ended; one that was repeated with its last end. Calls that are neither files nor commands in one line each.
fn commands(actions: &[Action], stale: &Stale, list: &mut Vec<Record>) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for action in actions {
        *seen.entry(action.title()).or_default() += 1;
    }
    let (mut run, mut called) = (0, 0);
    let mut done: HashSet<String> = HashSet::new();
    for (at, action) in actions.iter().enumerate().rev() {
        let title = action.title();
        if !done.insert(title.clone()) || (action.command.is_none() && !action.files.is_empty()) {
            continue;
        }
        if !stale.is_empty() && !stale.named_in(&Subject::of(&title)).is_empty() {
            continue;
        }
        let end = match (action.exit, action.failed, action.result.is_some()) {
            (Some(code), ..) => format!(" → exit {code}"),
            (None, true, _) => " → failed".to_owned(),
            (None, false, false) => " → no result".to_owned(),
            _ => String::new(),
        };
        let times = seen.get(&title).copied().unwrap_or(1);
        let (section, worth) = if action.command.is_some() {
            run += 1;
            (Section::Commands, worth::command(action, times, run))
        } else {
            called += 1;
            (Section::Calls, worth::call(called))
        };
        let line = secrets::masked(format!("{}{end}", one_line(&title, 200)).into()).into_owned();
        list.push(Record::new(section, (action.place, at), worth, line));
    }
}

/// Lines of earlier digests that are not statements or files.
fn carried(earlier: &[Earlier], stale: &Stale, list: &mut Vec<Record>) {
    for (section, worth) in [(Section::Errors, 16.0), (Section::Commands, 9.0), (Section::Calls, 3.5)] {
        let mut open: Option<Record> = None;
        for (at, line) in earlier.iter().flat_map(|e| e.lines(section)).enumerate() {
            // A quoted line belongs to the record above it.
            if line.starts_with("  | ") {
                if let Some(record) = &mut open {
                    record.forms[0] = format!("{}\n{line}", record.forms[0]);
                }
                continue;
            }
            list.extend(open.take());
            let outdated = !stale.is_empty() && !stale.named_in(&Subject::of(line)).is_empty();
            let known = list.iter().any(|record| record.section == section && record.forms.iter().any(|form| form == line));
            if !outdated && !known {
                open = Some(Record::new(section, (0, at), worth, line.to_owned()));
            }
        }
        list.extend(open);
    }
}

/// Identifiers that no other record names, and that do not stand in the kept part.
fn names(identifiers: &[Identifier], scope: &Scope, stale: &Stale, list: &mut Vec<Record>) {
    let mut rank = 0;
    for (at, identifier) in identifiers.iter().enumerate().take(400) {
        if list.iter().filter(|r| r.worth >= 12.0).any(|record| record.forms.iter().any(|form| form.contains(identifier.text)))
            || scope.kept.iter().any(|p| p.text.contains(identifier.text))
        {
            continue;
        }
        if identifier.sort == Sort::Path && list.iter().any(|r| r.section == Section::Files && r.forms[0].contains(identifier.text)) {
            continue;
        }
        let text =
            if identifier.label.is_empty() { identifier.text.to_owned() } else { format!("{} {}", identifier.label, identifier.text) };
        if !stale.is_empty() && !stale.named_in(&Subject::of(&text)).is_empty() {
            continue;
        }
        rank += 1;
        list.push(Record::new(
            Section::Identifiers,
            (0, at),
            worth::identifier(identifier, rank),
            secrets::masked(text.into()).into_owned(),
        ));
        if rank >= 60 {
            break;
        }
    }
}
