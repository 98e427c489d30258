//! `microcompact`: old outputs shrink to their ends, old pictures to a note. The calls stay, so the agent still sees what was done.

use super::{Goal, Knobs, View, Zones, marker, view::text};
use crate::conversation::{Kind, PartKind};
use crate::wire::Change;

pub fn run(view: &mut View, zones: &Zones, goal: &Goal, knobs: &Knobs) {
    let newest_shown = newest_with_media(view);
    let mut results_seen = 0usize;
    for message in (0..view.messages().len()).rev() {
        for n in (0..view.blocks(message).len()).rev() {
            match &view.blocks(message)[n].kind {
                Kind::Result(_) => {
                    results_seen += 1;
                    let new = !goal.hard
                        && results_seen <= knobs.microcompact.keep_newest
                        && view.turns.containing(message) + knobs.microcompact.keep_newest >= view.turns.list.len();
                    if !new && zones.is_middle(view, message) && (goal.hard || !zones.is_evidence(message, n)) {
                        output(view, message, n, goal, knobs);
                    }
                }
                Kind::Media(_) if message != newest_shown && zones.is_middle(view, message) => note(view, message, n, None),
                _ => {}
            }
        }
    }
    media_alone(view, zones, goal, newest_shown);
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
        if Some(message) == zones.last_person {
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
    let shows = |message: &usize| {
        view.blocks(*message).iter().any(|block| match &block.kind {
            Kind::Media(_) => true,
            Kind::Result(outcome) => view.conversation().parts_of(outcome).iter().any(|part| matches!(part.kind, PartKind::Media(_))),
            _ => false,
        })
    };
    (0..view.messages().len()).rev().find(shows).unwrap_or(usize::MAX)
}

fn output(view: &mut View, message: usize, block: usize, goal: &Goal, knobs: &Knobs) {
    let Kind::Result(outcome) = &view.blocks(message)[block].kind else { return };
    let knobs = &knobs.microcompact;
    let (least, keep) = if goal.hard { (knobs.hard_chars, knobs.hard_chars / 2) } else { (knobs.min_chars, knobs.keep_chars) };
    let said = view.output(outcome);
    let has_media = view.conversation().parts_of(outcome).iter().any(|part| matches!(part.kind, PartKind::Media(_)));
    if !outcome.editable || view.is_changed(message, block) || (said.len() <= least && !has_media) {
        return;
    }
    let id = view.messages()[message].fingerprint;
    let short = marker::ends(&said, keep, keep, id);
    match (short, has_media) {
        (Some(short), false) => drop(view.propose(message, Change::Result { block, text: text(short) })),
        (short, true) => {
            let said = short.unwrap_or_else(|| said.into_owned());
            let note = marker::media(id);
            let with = if said.trim().is_empty() { note } else { format!("{said}\n{note}") };
            view.propose(message, Change::Result { block, text: text(with) });
        }
        (None, false) => {}
    }
}

fn note(view: &mut View, message: usize, block: usize, part: Option<usize>) {
    let id = view.messages()[message].fingerprint;
    view.propose(message, Change::Note { block, part, text: text(marker::media(id)) });
}
