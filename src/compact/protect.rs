//! What the rungs may not touch, and where the tail begins.
//!
//! The task, the newest user message, the running loop while it fits, the newest turn, pinned tools and evidence of errors that are not resolved are
//! never touched below the aggressive rungs. System messages and elements of unknown kinds are never touched at all.

use super::{Goal, Knobs, View, digest::evidence};
use crate::conversation::{Kind, Role};
use std::collections::HashSet;

/// Places in the conversation; turns and messages are indices.
#[derive(Clone, Debug)]
pub struct Zones {
    /// The first user message: the task.
    pub opener: Option<usize>,
    /// The newest user message.
    pub last_person: Option<usize>,
    /// The newest that has words, where that one only shows something.
    last_words: Option<usize>,
    /// The first turn of the tail.
    pub tail: usize,
    /// The first turn that not even a shorter tail may give up.
    pub newest: usize,
    /// Messages whose results and calls stay.
    pinned: HashSet<usize>,
    /// Results (message, block) that are evidence of an error nobody has resolved.
    evidence: HashSet<(usize, usize)>,
}

impl Zones {
    pub fn of(view: &View, goal: &Goal, knobs: &Knobs) -> Zones {
        let (conversation, messages) = (view.conversation(), view.messages());
        let person = |message: &usize| conversation.is_person(messages[*message]);
        let opener = (0..messages.len()).find(person);
        let last_person = (0..messages.len()).rev().find(person);
        let speaks = |message: &usize| person(message) && view.blocks(*message).iter().any(|block| matches!(block.kind, Kind::Text { .. }));
        let last_words = (0..messages.len()).rev().find(speaks).filter(|&message| Some(message) != last_person && Some(message) != opener);
        let turns = &view.turns.list;
        let weight = |turn: usize| turns[turn].messages.clone().map(|message| view.weight(message)).sum::<u64>();

        let newest = turns.iter().rposition(|turn| turn.role != Role::System).unwrap_or(0);
        let first_open = turns.iter().position(|turn| turn.open).filter(|&turn| turn + WAITING > turns.len());
        let newest = first_open.map_or(newest, |open| open.min(newest));

        let window_share = |share: f64| (goal.limits.window as f64 * share) as u64;
        let systems: u64 =
            (0..messages.len()).filter(|&message| messages[message].role == Role::System).map(|message| view.weight(message)).sum();
        let opener_weight = opener.map_or(0, |message| view.weight(message));
        let fixed = view.rest() + systems + opener_weight;
        let last_words = last_words.filter(|&message| fixed + view.weight(message) <= window_share(knobs.running_loop));

        // The running loop: everything after the newest user message, with that message.
        let loop_start = last_person.map_or(newest, |message| view.turns.containing(message)).min(newest);
        let loop_weight: u64 =
            (loop_start..turns.len()).map(weight).sum::<u64>() - if opener.is_some() && opener == last_person { opener_weight } else { 0 };
        let loop_fits = !goal.hard && fixed + loop_weight <= window_share(knobs.running_loop * view.doubt());
        let least = if loop_fits { loop_start } else { newest };

        // The tail reaches back from there while it is light enough to leave room for a digest.
        let last_person_weight = last_person.filter(|&message| opener != Some(message)).map_or(0, |message| view.weight(message));
        let last_words_weight =
            last_words.filter(|&message| view.turns.containing(message) < least).map_or(0, |message| view.weight(message));
        let protected = fixed
            + (least..turns.len()).map(weight).sum::<u64>()
            + if least > loop_start { last_person_weight } else { 0 }
            + last_words_weight;
        let room = goal.target.saturating_sub(protected);
        let budget = if goal.hard { 0 } else { window_share(knobs.tail).max(knobs.tail_tokens).min(room / 2) };
        // Turns that were asked for by their number may take more of the room, but not all.
        let most = if goal.hard { 0 } else { room / 4 * 3 };
        let first = opener.map_or(0, |message| view.turns.containing(message) + 1);
        let moves = |turn: usize| usize::from(turns[turn].role == Role::Assistant);
        let (mut tail, mut spent) = (least, 0);
        let mut kept_turns: usize = (least..turns.len()).map(moves).sum();
        let mut kept_messages: usize = (least..turns.len()).map(|turn| turns[turn].messages.len()).sum();
        while tail > first {
            spent += weight(tail - 1);
            let is_asked_for = kept_turns < knobs.tail_turns || kept_messages < knobs.tail_messages;
            if spent > if is_asked_for { most } else { budget } {
                break;
            }
            tail -= 1;
            kept_turns += moves(tail);
            kept_messages += turns[tail].messages.len();
        }
        let mut zones = Zones { opener, last_person, last_words, tail, newest, pinned: HashSet::new(), evidence: HashSet::new() };
        zones.pin(view, knobs);
        zones
    }

    /// Whether a message stands between the opener and the tail, and is not protected there.
    pub fn is_middle(&self, view: &View, message: usize) -> bool {
        self.opener.is_none_or(|opener| message > opener)
            && view.turns.containing(message) < self.tail
            && !self.is_last(message)
            && view.messages()[message].role != Role::System
            && !view.messages()[message].pinned
            && !self.pinned.contains(&message)
    }

    /// Whether a message is the user's last, or the last that says something.
    pub fn is_last(&self, message: usize) -> bool {
        [self.last_person, self.last_words].contains(&Some(message))
    }

    pub fn is_pinned(&self, message: usize) -> bool {
        self.pinned.contains(&message)
    }

    pub fn is_evidence(&self, message: usize, block: usize) -> bool {
        self.evidence.contains(&(message, block))
    }

    fn pin(&mut self, view: &View, knobs: &Knobs) {
        for message in (0..view.messages().len()).filter(|_| !knobs.pin_tools.is_empty()) {
            let is_pinned = |tool: &str| knobs.pin_tools.iter().any(|pinned| pinned.eq_ignore_ascii_case(tool));
            if view.blocks(message).iter().any(|block| matches!(&block.kind, Kind::Call(call) if is_pinned(call.tool.of(view.body())))) {
                self.pinned.extend(view.turns.list[view.turns.containing(message)].messages.clone());
            }
        }
        // The same call that succeeds later resolves an error; so does any later error take its place as the newest evidence. Looked for from the
        // newest back, because reading outputs is dear.
        let mut later = HashSet::new();
        for message in (0..view.messages().len()).rev() {
            for (n, block) in view.blocks(message).iter().enumerate().rev() {
                let Kind::Result(outcome) = &block.kind else { continue };
                let call = view.call_of(message, outcome).map(|(call, _)| (call.tool.of(view.body()), call.arguments.of(view.body())));
                if later.insert(call) && evidence::is_error(&view.output(outcome), outcome.failed) {
                    self.evidence.insert((message, n));
                    if self.evidence.len() == KEPT_ERRORS {
                        return;
                    }
                }
            }
        }
    }
}

/// Calls that nobody answered are waiting for it only in so many of the newest turns.
const WAITING: usize = 8;

/// More errors than these at once are no evidence any more but a log.
const KEPT_ERRORS: usize = 3;
