//! `elide`: outputs that stand again further down, were read anew since, or say that there was nothing.

use super::{Knobs, View, Zones, marker, view::text};
use crate::conversation::{Hasher, Kind, Outcome};
use crate::wire::Change;
use std::collections::{HashMap, HashSet};

/// Outputs shorter than this are not worth a marker, in characters.
const WORTH: usize = 160;

/// Names of tools that look without touching: an older look at the same thing is out of date.
const LOOKS: [&str; 12] = ["read", "view", "cat", "open", "show", "list", "ls", "glob", "grep", "search", "fetch", "get"];
/// Members of arguments that say what is looked at.
const SUBJECTS: [&str; 8] = ["path", "file_path", "filePath", "filename", "file", "absolute_path", "target_file", "url"];

/// From the newest to the oldest, so that what stays is always the newest.
pub fn run(view: &mut View, zones: &Zones, _knobs: &Knobs) {
    let mut outputs = HashSet::new();
    let mut looked: HashMap<String, ()> = HashMap::new();
    for message in (0..view.messages().len()).rev() {
        for (n, block) in view.blocks(message).iter().enumerate().rev() {
            let Kind::Result(outcome) = &block.kind else { continue };
            let output = outcome.content.of(view.body());
            let seen = output.len() >= WORTH && !outputs.insert(hash(output));
            let call = view.call_of(message, outcome);
            let subject = call.and_then(|(call, _)| subject(call.tool.of(view.body()), &view.arguments(call)));
            let out_of_date = subject.as_ref().is_some_and(|subject| looked.contains_key(subject));
            if !outcome.failed
                && let Some(subject) = subject
            {
                looked.insert(subject, ());
            }
            if output.len() < WORTH || !outcome.editable || !zones.is_middle(view, message) || zones.is_evidence(message, n) {
                continue;
            }
            let id = view.messages()[message].fingerprint;
            let text = match (seen, out_of_date) {
                (true, _) => marker::repeated(id),
                (false, true) => marker::superseded(id),
                _ => continue,
            };
            replace(view, message, n, outcome, text);
        }
    }
}

fn replace(view: &mut View, message: usize, block: usize, _outcome: &Outcome, with: String) {
    view.propose(message, Change::Result { block, text: text(with) });
}

fn hash(output: &str) -> u128 {
    let mut hasher = Hasher::default();
    hasher.piece(b'o', output.as_bytes());
    hasher.finish().key()
}

/// What a call looks at: its tool, and its whole arguments but for what says how much of it. `None` when it does more than look.
fn subject(tool: &str, arguments: &str) -> Option<String> {
    let name = tool.to_ascii_lowercase();
    let looks = LOOKS
        .iter()
        .any(|look| name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word.starts_with(look)) || name.starts_with(look));
    if !looks {
        return None;
    }
    let parsed: serde_json::Map<String, serde_json::Value> = serde_json::from_str(arguments).ok()?;
    let subject = SUBJECTS.iter().find_map(|key| parsed.get(*key).and_then(|value| value.as_str()));
    let partial = ["offset", "limit", "start_line", "end_line", "range", "view_range", "lines", "page"]
        .iter()
        .any(|key| parsed.get(*key).is_some_and(|value| !value.is_null()));
    match subject {
        // A whole look makes every older whole look at the same thing out of date; a partial one only its very twin.
        Some(subject) if !partial && parsed.len() <= 2 => Some(format!("{name}\n{subject}")),
        _ => Some(format!("{name}\n{arguments}")),
    }
}
