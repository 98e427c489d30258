//! From what was said and done to records that can be bought.

use std::collections::{HashMap, HashSet};

use aho_corasick::AhoCorasick;

use super::actions::{Action, Deed, actions, one_line};
use super::earlier::Earlier;
use super::failures::{Failure, failures};
use super::identifiers::{Identifier, identifiers};
use super::render::{Order, Section};
use super::spend::Record;
use super::stale::{Stale, without};
use super::statements::{Said, Speaker, Statement, fingerprint, said};
use super::subjects::{Key, Rarity};
use super::supersede;
use super::{Scope, names, secrets, shorten, worth};

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
pub(crate) fn resolve(extracted: Extracted, scope: &Scope, budget: usize) -> Records {
    let Extracted { mut said, actions, failures, identifiers } = extracted;
    names::share(&mut said.statements);
    let rarity = Rarity::of(said.statements.iter().map(|s| &s.subject));
    let resolved = supersede::resolve(&said.statements, &rarity);
    let mut list = Vec::new();
    // Sentences are shortened only under pressure; two bytes a token is the densest text.
    let pressed = said.statements.iter().filter(|s| !s.kept).map(|s| s.text.len()).sum::<usize>() / 2 > budget;
    statements(&said.statements, &resolved, &rarity, pressed, &mut list);
    errors(&failures, &resolved.stale, &mut list);
    files(&actions, &said.earlier, &mut list);
    commands(&actions, &resolved.stale, &mut list);
    carried(&said.earlier, &resolved.stale, &mut list);
    unnamed(&identifiers, scope, &resolved.stale, &mut list);
    let places: HashSet<usize> = scope.covered.iter().map(|p| p.place).collect();
    // A message that only holds an earlier digest stands for those that one stood for.
    let merged: usize = said.earlier.iter().map(|earlier| earlier.messages).sum();
    Records { messages: places.len() + merged, list }
}

/// Bytes of a sentence that is not worth shortening.
const SHORT: usize = 60;

fn statements(statements: &[Statement], resolved: &supersede::Resolved, rarity: &Rarity, pressed: bool, list: &mut Vec<Record>) {
    let kept: HashSet<Key> = statements.iter().filter(|s| s.kept).map(|s| fingerprint(&s.text)).collect();
    let last_report = statements.iter().rposition(|s| s.report && s.speaker == Speaker::Assistant && !s.earlier);
    let updates: HashSet<usize> = resolved.replaced_by.iter().flatten().copied().collect();
    let mut times: HashMap<Key, u32> = HashMap::new();
    for statement in statements {
        *times.entry(fingerprint(&statement.text)).or_default() += 1;
    }
    // A correction says nothing without what it corrects.
    let corrected = resolved.corrected.iter().flat_map(|&(earlier, later)| [(earlier, later), (later, earlier)]);
    let partner: HashMap<usize, usize> = corrected.collect();
    let mut seen: HashSet<Key> = HashSet::new();
    // From the newest, so that of two repetitions the newer stands.
    for (at, statement) in statements.iter().enumerate().rev() {
        if statement.kept || resolved.replaced_by[at].is_some() {
            continue;
        }
        let print = fingerprint(&statement.text);
        if !partner.contains_key(&at) && (kept.contains(&print) || !seen.insert(print)) {
            continue;
        }
        let stale = resolved.stale.named_in(&statement.subject);
        if statement.speaker == Speaker::Assistant && !stale.is_empty() {
            continue;
        }
        let open = statement.speaker == Speaker::User && last_report.is_none_or(|report| report < at);
        let asks = open && (statement.subject.question || statement.subject.marks.ask);
        let alone = |at: usize| {
            let times = times.get(&fingerprint(&statements[at].text)).copied().unwrap_or(1);
            let updates = updates.contains(&at) || resolved.contradicts.contains(&at);
            worth::statement(&statements[at], rarity, updates, open, times)
        };
        let worth = partner.get(&at).map_or(alone(at), |other| alone(at).max(alone(*other)));
        let section = match statement.speaker {
            Speaker::User if asks => Section::Asks,
            Speaker::User => Section::User,
            Speaker::Assistant => Section::Assistant,
        };
        let whole = one_line(&statement.text, 1_200);
        let whole = if stale.is_empty() { whole } else { without(&whole, &stale) };
        let forms = match (pressed && whole.len() >= SHORT).then(|| shorten::shortened(&whole, rarity)).flatten() {
            Some(short) => vec![short, whole],
            None => vec![whole],
        };
        list.push(Record {
            section,
            order: Order { place: statement.place, note: statement.note, line: statement.line, at, glued: statement.glued },
            worth,
            forms,
        });
    }
}

fn errors(failures: &[Failure], stale: &Stale, list: &mut Vec<Record>) {
    let newest = failures.iter().rposition(|f| !f.resolved && !f.looked);
    let mut age = 0;
    for (at, failure) in failures.iter().enumerate().rev() {
        if Some(at) != newest && !stale.named_by(&failure.record).is_empty() {
            continue;
        }
        let worth = worth::failure(failure, if Some(at) == newest { 0 } else { age + 1 });
        let order = Order { place: failure.place, at, ..Order::default() };
        let mut forms = vec![failure.brief.clone(), failure.record.clone()];
        if !failure.resolved && age < 3 && failure.full.len() > failure.record.len() {
            forms.push(failure.full.clone());
        }
        let record = Record { section: Section::Errors, order, worth, forms };
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
            Order { place: touched.last, at: age, ..Order::default() },
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
        if !done.insert(title.clone()) || title == action.tool || (action.command.is_none() && !action.files.is_empty()) {
            continue;
        }
        if !stale.named_by(&title).is_empty() {
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
        list.push(Record::new(section, Order { place: action.place, at, ..Order::default() }, worth, line));
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
            let outdated = !stale.named_by(line).is_empty();
            let known = list.iter().any(|record| record.section == section && record.forms.iter().any(|form| form == line));
            if !outdated && !known {
                open = Some(Record::new(section, Order { at, ..Order::default() }, worth, line.to_owned()));
            }
        }
        list.extend(open);
    }
}

/// Records of less worth may find no room, so what they name counts as named by nobody.
const NAMED_BY: f32 = 12.0;
/// Identifiers that are looked at, and that are offered.
const LOOKED_AT: usize = 160;
const OFFERED: usize = 60;

/// Identifiers that no other record names, and that do not stand in the kept part.
fn unnamed(identifiers: &[Identifier], scope: &Scope, stale: &Stale, list: &mut Vec<Record>) {
    let looked_at = &identifiers[..identifiers.len().min(LOOKED_AT)];
    let Ok(automaton) = AhoCorasick::new(looked_at.iter().map(|identifier| identifier.text)) else { return };
    let mut named = vec![false; looked_at.len()];
    let records =
        list.iter().filter(|r| r.worth >= NAMED_BY || r.section == Section::Files).flat_map(|r| r.forms.first()).map(String::as_str);
    for text in records.chain(scope.kept.iter().map(|p| p.text.as_ref())) {
        for found in automaton.find_overlapping_iter(text) {
            named[found.pattern().as_usize()] = true;
        }
    }
    let unnamed = looked_at.iter().zip(&named).enumerate().filter(|(_, (_, named))| !**named);
    let mut rank = 0;
    for (at, (identifier, _)) in unnamed {
        let text =
            if identifier.label.is_empty() { identifier.text.to_owned() } else { format!("{} {}", identifier.label, identifier.text) };
        if !stale.named_by(&text).is_empty() {
            continue;
        }
        rank += 1;
        list.push(Record::new(
            Section::Identifiers,
            Order { at, ..Order::default() },
            worth::identifier(identifier, rank),
            secrets::masked(text.into()).into_owned(),
        ));
        if rank >= OFFERED {
            break;
        }
    }
}
