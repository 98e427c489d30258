//! `trim_tail`: what is protected is too heavy, so its bulk goes: outputs first, oldest first, the newest least; then long texts, and the task and the
//! newest word of a person only where nothing else can make the request fit.

use super::{Goal, Knobs, View, Zones, marker, view::text};
use crate::conversation::{Kind, Role};
use crate::wire::Change;

/// Texts under this many tokens are left alone.
const WORTH: u64 = 160;
/// A person's text, and the newest output, is never cut up to this share of the window.
const LONG: f64 = 0.085;
/// At least so many characters stay of whatever is cut.
const LEAST_LEFT: usize = 320;

pub fn run(view: &mut View, zones: &Zones, goal: &Goal, knobs: &Knobs) {
    let target = goal.target.max(view.rest());
    let kept: Vec<usize> = (0..view.messages().len())
        .filter(|&message| !view.is_dropped(message) && !view.messages()[message].pinned && view.messages()[message].role != Role::System)
        .collect();
    let spoken = |message: usize| zones.opener == Some(message) || zones.is_last(message);

    // What is newest and small is what the agent is waiting to read.
    let newest = view.messages().len().saturating_sub(1);
    let is_news = |view: &View, message: usize| message == newest && view.weight(message) <= (goal.limits.window as f64 * LONG) as u64;
    let outputs: Vec<(usize, usize)> =
        places(view, &kept, |kind| matches!(kind, Kind::Result(_))).into_iter().filter(|(message, _)| !is_news(view, *message)).collect();
    // What the agent has not read yet gives way only as far as the request has to.
    let unread = view.turns.list.get(zones.newest).map_or(newest, |turn| turn.messages.start);
    let (fresh, old): (Vec<_>, Vec<_>) = outputs.into_iter().partition(|(message, _)| *message >= unread);
    cut(view, &old, target);
    cut(view, &fresh, if goal.hard { target } else { goal.tolerable().max(target) });
    let texts: Vec<(usize, usize)> =
        places(view, &kept, |kind| matches!(kind, Kind::Text { .. })).into_iter().filter(|(message, _)| !spoken(*message)).collect();
    cut(view, &texts, target);
    if view.tokens() <= goal.tolerable() {
        return;
    }
    // Nothing but words of a person is left. They are shortened only where they do not fit beside system prompt and tools, and only what is long.
    let share = |share: f64| (goal.limits.window as f64 * share) as u64;
    let said: u64 = (0..view.messages().len())
        .filter(|&message| spoken(message) || view.messages()[message].role == Role::System)
        .map(|message| view.weight(message))
        .sum();
    if view.rest() + said <= share(knobs.running_loop * view.doubt()) {
        return;
    }
    let mut words: Vec<(usize, usize)> =
        places(view, &kept, |kind| matches!(kind, Kind::Text { .. })).into_iter().filter(|(message, _)| spoken(*message)).collect();
    // The bulk of what people say is what they paste: the longest text gives way first.
    words.retain(|&(message, block)| view.block_weighs(message, block) > share(LONG));
    words.sort_by_key(|&(message, block)| std::cmp::Reverse(view.block_weighs(message, block)));
    let weight: u64 = words.iter().map(|&(message, block)| view.block_weighs(message, block)).sum();
    if view.tokens().saturating_sub(weight) + 2 * WORTH <= goal.ceiling {
        cut(view, &words, target);
    }
}

fn places(view: &View, kept: &[usize], wanted: impl Fn(&Kind) -> bool) -> Vec<(usize, usize)> {
    kept.iter()
        .flat_map(|&message| {
            view.blocks(message)
                .iter()
                .enumerate()
                .filter(|(_, block)| wanted(&block.kind))
                .map(move |(n, _)| (message, n))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Cuts block by block, oldest first, until the target is reached; the last cut takes no more than is needed.
fn cut(view: &mut View, places: &[(usize, usize)], target: u64) {
    for &(message, block) in places {
        let excess = view.tokens().saturating_sub(target);
        if excess == 0 {
            return;
        }
        let tokens = view.block_weighs(message, block);
        if tokens < WORTH {
            continue;
        }
        let said = match &view.blocks(message)[block].kind {
            Kind::Result(outcome) if outcome.editable => view.output(outcome),
            Kind::Text { text } => view.said(*text),
            _ => continue,
        };
        let chars = said.chars().count();
        // As many characters as make up what may stay, less the marker's, at the text's own density.
        let may_stay = tokens.saturating_sub(excess + 24);
        let keep = ((chars as u64 * may_stay / tokens.max(1)) as usize).max(LEAST_LEFT);
        let Some(short) = marker::ends(&said, keep * 2 / 3, keep / 3, view.messages()[message].fingerprint) else { continue };
        let change = match &view.blocks(message)[block].kind {
            Kind::Result(_) => Change::Result { block, text: text(short) },
            _ => Change::Text { block, text: text(short) },
        };
        view.propose(message, change);
    }
}
