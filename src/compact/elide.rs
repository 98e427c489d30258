//! `elide`: outputs that stand again further down, or were read anew since. (Those that say that there was nothing are shorter than any marker.)

use super::{View, Zones, marker, view::text};
use crate::conversation::{Hasher, Kind};
use crate::wire::Change;
use std::collections::HashSet;

/// Outputs shorter than this are not worth a marker, in bytes.
const WORTH: usize = 160;

const LOOKS: &str = include_str!("elide/looks.txt");
const SUBJECTS: &str = include_str!("elide/subjects.txt");
const PARTS: &str = include_str!("elide/parts.txt");

/// From the newest to the oldest, so that what stays is always the newest.
pub fn run(view: &mut View, zones: &Zones) {
    let mut outputs = HashSet::new();
    let mut looked = HashSet::new();
    for message in (0..view.messages().len()).rev() {
        for (n, block) in view.blocks(message).iter().enumerate().rev() {
            let Kind::Result(outcome) = &block.kind else { continue };
            let output = outcome.content.of(view.body());
            let seen = output.len() >= WORTH && !outputs.insert(hash(output));
            let call = view.call_of(message, outcome);
            let subject = call.and_then(|(call, _)| subject(call.tool.of(view.body()), &view.arguments(call)));
            let out_of_date = subject.as_ref().is_some_and(|subject| looked.contains(subject));
            looked.extend(subject.filter(|_| !outcome.failed));
            if output.len() < WORTH || !outcome.editable || !zones.is_middle(view, message) || zones.is_evidence(message, n) {
                continue;
            }
            let id = view.messages()[message].fingerprint;
            let with = match (seen, out_of_date) {
                (true, _) => marker::repeated(id),
                (false, true) => marker::superseded(id),
                _ => continue,
            };
            view.propose(message, Change::Result { block: n, text: text(with) });
        }
    }
}

fn hash(output: &str) -> u128 {
    let mut hasher = Hasher::default();
    hasher.piece(b'o', output.as_bytes());
    hasher.finish().key()
}

/// What a call looks at, `None` when it does more than look. A look at all of something is told by the tool and the thing, so that it makes every older
/// one out of date; any other by all of its arguments, so that only its twin does.
fn subject(tool: &str, arguments: &str) -> Option<String> {
    let name = tool.to_ascii_lowercase();
    if !lines(LOOKS).any(|look| name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word.starts_with(look))) {
        return None;
    }
    let parsed: serde_json::Map<String, serde_json::Value> = serde_json::from_str(arguments).ok()?;
    let subject = lines(SUBJECTS).find_map(|key| parsed.get(key).and_then(|value| value.as_str()));
    let partial = lines(PARTS).any(|key| parsed.get(key).is_some_and(|value| !value.is_null()));
    match subject {
        Some(subject) if !partial && parsed.len() <= 2 => Some(format!("{name}\n{subject}")),
        _ => Some(format!("{name}\n{arguments}")),
    }
}

fn lines(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().filter(|line| !line.starts_with('#'))
}
