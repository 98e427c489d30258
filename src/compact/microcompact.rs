//! `microcompact`: old outputs shrink to their ends, old pictures to a note. The calls stay, so the agent still sees what was done.

use super::{Goal, Knobs, View, Zones, digest::evidence, marker, view::text};
use crate::conversation::{Kind, PartKind};
use crate::wire::Change;

pub fn run(view: &mut View, zones: &Zones, goal: &Goal, knobs: &Knobs) {
    let newest_shown = newest_with_media(view);
    let (mut results_seen, mut tokens_seen) = (0usize, 0u64);
    let mut cuts = Vec::new();
    for message in (0..view.messages().len()).rev() {
        for n in (0..view.blocks(message).len()).rev() {
            match &view.blocks(message)[n].kind {
                Kind::Result(_) => {
                    results_seen += 1;
                    if tokens_seen < knobs.microcompact.keep_tokens {
                        tokens_seen += view.block_weighs(message, n);
                    }
                    let few = results_seen <= knobs.microcompact.keep_newest
                        && view.turns.containing(message) + knobs.microcompact.keep_newest >= view.turns.list.len();
                    let light = knobs.microcompact.keep_tokens > 0 && tokens_seen <= knobs.microcompact.keep_tokens;
                    let new = !goal.hard && (few || light);
                    if !new && zones.is_middle(view, message) && (goal.hard || !zones.is_evidence(message, n)) {
                        cuts.extend(output(view, message, n, goal, knobs).map(|change| (message, n, change)));
                    }
                }
                Kind::Media(_) if message != newest_shown && zones.is_middle(view, message) => note(view, message, n, None),
                _ => {}
            }
        }
    }
    if goal.hard || knobs.microcompact.min_reclaim == 0 || reclaim(view, &cuts) >= knobs.microcompact.min_reclaim {
        for (message, _, change) in cuts {
            view.propose(message, change);
        }
    }
    media_alone(view, zones, goal, newest_shown);
}

/// The tokens that the cuts would save.
fn reclaim(view: &View, cuts: &[(usize, usize, Change)]) -> u64 {
    let saved = |(message, block, change): &(usize, usize, Change)| match change {
        Change::Result { text, .. } => view.block_weighs(*message, *block).saturating_sub(view.count(text)),
        _ => 0,
    };
    cuts.iter().map(saved).sum()
}

/// Where media are what is too much, those of the task and the tail go too, oldest first, up to the newest that somebody showed.
fn media_alone(view: &mut View, zones: &Zones, goal: &Goal, newest_shown: usize) {
    let too_much = |view: &View| {
        goal.bytes.is_some_and(|most| view.bytes() > most) || (goal.limits.max_media > 0 && view.media() > goal.limits.max_media as usize)
    };
    for message in 0..newest_shown.min(view.messages().len()) {
        if !too_much(view) {
            return;
        }
        if zones.is_last(message) {
            continue;
        }
        for n in 0..view.blocks(message).len() {
            match &view.blocks(message)[n].kind {
                Kind::Media(_) => note(view, message, n, None),
                Kind::Result(outcome) => {
                    let parts = view.conversation().parts_of(outcome);
                    for part in (0..parts.len()).filter(|&part| matches!(parts[part].kind, PartKind::Media(_))) {
                        note(view, message, n, Some(part));
                    }
                }
                _ => {}
            }
        }
    }
}

/// The newest message that shows something: what a person has just shown is never taken away.
fn newest_with_media(view: &View) -> usize {
    let shows = |message: &usize| view.blocks(*message).iter().any(|block| view.conversation().media_in(block) > 0);
    (0..view.messages().len()).rev().find(shows).unwrap_or(usize::MAX)
}

/// What would stand in place of a result; nothing where it stays.
fn output(view: &View, message: usize, block: usize, goal: &Goal, knobs: &Knobs) -> Option<Change> {
    let result = &view.blocks(message)[block];
    let Kind::Result(outcome) = &result.kind else { return None };
    let knobs = &knobs.microcompact;
    let (least, keep) = if goal.hard { (knobs.hard_chars, knobs.hard_chars / 2) } else { (knobs.min_chars, knobs.keep_chars) };
    let said = view.output(outcome);
    let has_media = view.conversation().media_in(result) > 0;
    if !outcome.editable || view.is_changed(message, block) || (!marker::is_longer(&said, least) && !has_media) {
        return None;
    }
    let is_tool = |call: &crate::conversation::Call| knobs.tools.iter().any(|tool| tool.eq_ignore_ascii_case(call.tool.of(view.body())));
    if !goal.hard && !knobs.tools.is_empty() && !view.call_of(message, outcome).is_some_and(|(call, _)| is_tool(call)) {
        return None;
    }
    let id = view.messages()[message].fingerprint;
    let errors = if goal.hard { 0 } else { knobs.keep_errors };
    let short = marker::ends_and_lines(&said, keep, keep, |between| evidence::telling(between, errors), id);
    match (short, has_media) {
        (Some(short), false) => Some(Change::Result { block, text: text(short) }),
        (short, true) => {
            let said = short.unwrap_or_else(|| said.into_owned());
            let note = marker::media(id);
            let with = if said.trim().is_empty() { note } else { format!("{said}\n{note}") };
            Some(Change::Result { block, text: text(with) })
        }
        (None, false) => None,
    }
}

fn note(view: &mut View, message: usize, block: usize, part: Option<usize>) {
    let id = view.messages()[message].fingerprint;
    view.propose(message, Change::Note { block, part, text: text(marker::media(id)) });
}
