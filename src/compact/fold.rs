//! `summarize`, `digest` and `sliding_window`: the middle goes, whole turns at a time. The first two leave one text of notes in its place.

use super::digest::{Passage, Records, Scope, digest as write};
use super::{Goal, Knobs, Rung, View, Zones, passages, summary, view::text};
use crate::conversation::{Kind, Message, Role};
use crate::wire::Change;

/// A turn of a window's 64th is light.
const LIGHT: u64 = 64;
/// Turns that are looked at for a bridge.
const RECENT: usize = 12;
/// One that names a number is taken where it weighs so many times less than the others.
const NUMBER: u64 = 3;
/// Where there is much to say and the rest leaves room under the target, notes may weigh so many times what they are meant to.
const SPARE: f64 = 4.0 / 3.0;
/// Notes shorter than this are not worth their heading, in tokens.
const LEAST: u64 = 48;

pub fn digest(view: &mut View, zones: &Zones, goal: &Goal, knobs: &Knobs) {
    fold(view, zones, zones.tail, goal, knobs, true);
}

/// Folds with an ever shorter tail, down to the newest turn. What the tail gives up enters the notes, where the plan has any.
pub fn sliding_window(view: &mut View, zones: &Zones, goal: &Goal, knobs: &Knobs) {
    let notes = leaves_notes(knobs);
    let mut tail = zones.tail;
    loop {
        fold(view, zones, tail, goal, knobs, notes);
        if goal.reached(view) || tail >= zones.newest {
            return;
        }
        // Half of the way each time: the shortest tail that fits is nearly found in a few steps.
        tail += (zones.newest - tail).div_ceil(2);
    }
}

/// Whether what is taken away leaves notes.
fn leaves_notes(knobs: &Knobs) -> bool {
    knobs.plan.contains(&Rung::Digest) || (knobs.summarize.is_on() && knobs.plan.contains(&Rung::Summarize))
}

/// Sets aside what the notes on earlier compactions may weigh: whichever rungs act this time, they have to be written anew.
pub fn set_notes_aside(view: &mut View, goal: &Goal, knobs: &Knobs) {
    if leaves_notes(knobs) && view.has_gone() {
        view.set_aside(most(goal, knobs));
    }
}

/// Writes the notes on what earlier compactions took away where no rung of this one did.
pub fn carry_notes(view: &mut View, zones: &Zones, goal: &Goal, knobs: &Knobs) {
    if !leaves_notes(knobs) || !view.has_gone() || view.noted {
        return;
    }
    let mut covered = Vec::new();
    for message in (0..view.messages().len()).filter(|&message| view.is_dropped(message)) {
        passages::of(view, message, &mut covered);
    }
    leave_notes(view, zones, zones.opener.map_or(0, |opener| opener + 1), covered, goal, knobs);
}

/// The most that notes weigh that room is set aside for, in tokens.
fn most(goal: &Goal, knobs: &Knobs) -> u64 {
    ((goal.limits.window as f64 * knobs.digest.share) as u64).min(knobs.digest.max_tokens)
}

/// Drops everything between the opener and turn `tail`, but for what is protected there.
fn fold(view: &mut View, zones: &Zones, tail: usize, goal: &Goal, knobs: &Knobs, notes: bool) {
    let first = zones.opener.map_or(0, |opener| opener + 1);
    let end = view.turns.list.get(tail).map_or(view.messages().len(), |turn| turn.messages.start);
    let stays =
        |view: &View, message: usize| zones.is_last(message) || zones.is_pinned(message) || view.messages()[message].role == Role::System;

    // A turn stays whole when somebody's word in it has to.
    let mut keep = vec![false; view.turns.list.len()];
    for (n, turn) in view.turns.list.iter().enumerate() {
        keep[n] = turn.messages.start >= end || turn.messages.end <= first || turn.messages.clone().any(|message| stays(view, message));
    }
    if view.format().systems_lean() {
        // The turn before such a message stays for its sake, and the turn after it was kept or goes with its own.
        let leaning = |turn: usize| view.turns.list[turn].role == Role::System && view.turns.list[turn].messages.start >= first;
        for turn in (1..keep.len()).filter(|&turn| leaning(turn)) {
            keep[turn - 1] = true;
            if let Some(next) = keep.get_mut(turn + 1) {
                *next = true;
            }
        }
    }
    bridge(view, zones, &mut keep, first, goal.limits.window / LIGHT);

    let mut covered = Vec::new();
    for message in first..end {
        if keep[view.turns.containing(message)] {
            view.restore_dropped(message);
        } else {
            view.drop(message);
            passages::of(view, message, &mut covered);
        }
    }
    if notes && !covered.is_empty() {
        leave_notes(view, zones, first, covered, goal, knobs);
    }
}

/// Where a person's word would follow on another user message, one assistant turn before it stays, so that the roles take turns.
///
/// A light one, and a new one: an old one may say what no longer holds, above all where it names a number. Where results are a user's messages, a turn
/// that ends in them bridges nothing, and a person's word after it needs a bridge too.
fn bridge(view: &View, zones: &Zones, keep: &mut [bool], first: usize, light: u64) {
    if zones.opener.is_none() {
        return;
    }
    let is_system = |turn: usize| view.turns.list[turn].role == Role::System;
    let ends_as_user =
        |turn: usize| view.turns.list[turn].messages.clone().last().is_some_and(|last| view.messages()[last].role == Role::User);
    let after = view.turns.list.iter().position(|turn| turn.messages.start >= first).unwrap_or(keep.len());
    let (mut follows_user, mut between) = (true, after);
    for turn in after..keep.len() {
        if !keep[turn] || is_system(turn) {
            continue;
        }
        if view.turns.list[turn].role == Role::User && follows_user {
            let weight = |turn: usize| view.turns.list[turn].messages.clone().map(|message| view.weight(message)).sum::<u64>();
            let may_bridge = |&before: &usize| !keep[before] && view.turns.list[before].role == Role::Assistant && !ends_as_user(before);
            let candidates = (between..turn).rev().filter(may_bridge).take(RECENT);
            // Of equals the newest. What a light one weighs does not matter.
            let cost = |&before: &usize| weight(before).max(light) * if names_number(view, before) { NUMBER } else { 1 };
            if let Some(bridge) = candidates.min_by_key(cost) {
                keep[bridge] = true;
            }
        }
        (follows_user, between) = (ends_as_user(turn), turn + 1);
    }
}

/// Whether what people said that is gone would weigh more than notes are meant to.
fn has_much_to_say(view: &View, most: u64) -> bool {
    const BYTES_A_TOKEN: u64 = 4;
    let conversation = view.conversation();
    let bytes = |message: &Message| if conversation.is_person(message) { message.span.len() as u64 } else { 0 };
    let end = view.messages().len().checked_sub(1).map_or(0, |last| view.place(last) + 1);
    let said: u64 = conversation.messages[..end].iter().map(bytes).sum();
    let kept: u64 =
        (0..view.messages().len()).filter(|&message| !view.is_dropped(message)).map(|message| bytes(view.messages()[message])).sum();
    said.saturating_sub(kept) > BYTES_A_TOKEN * most
}

/// Whether the words of a turn hold a number.
fn names_number(view: &View, turn: usize) -> bool {
    let texts = |message: usize| {
        view.blocks(message).iter().filter_map(|block| if let Kind::Text { text } = block.kind { Some(text) } else { None })
    };
    view.turns.list[turn].messages.clone().flat_map(texts).any(|text| view.said(text).contains(char::is_numeric))
}

fn leave_notes<'a>(view: &mut View<'a>, zones: &Zones, first: usize, mut covered: Vec<Passage<'a>>, goal: &Goal, knobs: &Knobs) {
    let place = zones.opener.or_else(|| {
        (first..view.messages().len()).find(|&message| !view.is_dropped(message) && view.messages()[message].role != Role::System)
    });
    let Some(place) = place else { return };
    view.take_back_notes(place);
    (view.summarized, view.records) = (false, Records::default());
    let most = most(goal, knobs);
    let spare = if has_much_to_say(view, most) { (most as f64 * SPARE) as u64 } else { most };
    let room = goal.target.saturating_sub(view.tokens() + 8).min(spare);
    // Where even the target is out of reach, the notes still get a little: what a person said costs less than losing it.
    let budget = room.max((most / 6).min(goal.ceiling.saturating_sub(view.tokens() + 8)));
    if budget < LEAST {
        return;
    }
    if goal.draft {
        return view.add_notes(place, None, budget);
    }
    covered.extend(passages::all(&view.gone()));
    covered.sort_by_key(|passage| passage.place);
    let mut kept = Vec::new();
    for message in (0..view.messages().len()).filter(|&message| !view.is_dropped(message)) {
        passages::of(view, message, &mut kept);
    }
    let count = |text: &str| view.count(text) as usize;
    let scope = Scope { covered: &covered, kept: &kept };
    let (notes, summarized, records) = match view.summary {
        Some(summary) => summary::notes(summary, &scope, budget as usize, &count),
        None => {
            let digest = write(&scope, budget as usize, &count);
            let records = digest.records();
            (digest.text, false, records)
        }
    };
    (view.summarized, view.records) = (summarized, records);
    let change = |notes| if zones.opener.is_some() { Change::Append { text: notes } } else { Change::Before { text: notes } };
    view.add_notes(place, (!notes.is_empty()).then(|| change(text(notes))), budget);
}
