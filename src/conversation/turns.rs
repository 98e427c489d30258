//! Turns: what lives or dies together, and the places where an agent would have sent a request.
//!
//! A turn is an assistant's move with all that answers it. Cutting only between turns keeps every call with its results, parallel calls with
//! each other, and reasoning with the item it belongs to.

use super::{Conversation, Kind, Message, Role};
use std::collections::HashMap;
use std::ops::Range;

/// `messages` is a range of indices. A turn of a person or a system message is that message alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    pub messages: Range<usize>,
    /// The role that opens it.
    pub role: Role,
    /// A call in it has no result yet.
    pub open: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Turns {
    pub list: Vec<Turn>,
    of_message: Vec<u32>,
}

impl Turns {
    /// The turns of `messages`, which stand at `places` of the conversation. What is not there separates moves.
    pub fn of(body: &str, conversation: &Conversation, messages: &[&Message], places: &[usize]) -> Self {
        let answers = answers(body, conversation, messages);
        let mut turns = Turns::default();
        // Ids of calls that are waiting for a result that does come, and the place where the last of them comes.
        let mut waiting_until = 0usize;
        for (place, message) in messages.iter().enumerate() {
            let previous = place.checked_sub(1).filter(|&before| places[before] + 1 == places[place]).map(|before| messages[before]);
            let joins = place < waiting_until || previous.is_some_and(|previous| continues(conversation, previous, message));
            match turns.list.last_mut() {
                Some(turn) if joins => turn.messages.end = place + 1,
                _ => turns.list.push(Turn { messages: place..place + 1, role: message.role, open: false }),
            }
            turns.of_message.push(turns.list.len() as u32 - 1);
            for block in conversation.blocks_of(message) {
                let Kind::Call(call) = &block.kind else { continue };
                // Ids may be used again later: the answer is the next one.
                let answered = answers.get(call.id.of(body)).and_then(|places| places.get(places.partition_point(|&at| at <= place)));
                match answered {
                    Some(&answered) => waiting_until = waiting_until.max(answered + 1),
                    None => {
                        if let Some(turn) = turns.list.last_mut() {
                            turn.open = true;
                        }
                    }
                }
            }
        }
        turns
    }

    pub fn containing(&self, message: usize) -> usize {
        self.of_message.get(message).map_or(self.list.len(), |&turn| turn as usize)
    }
}

/// Whether `message` belongs to the same move as the one before it, when no call is waiting.
fn continues(conversation: &Conversation, previous: &Message, message: &Message) -> bool {
    let assistant_side = |m: &Message| matches!(m.role, Role::Assistant | Role::Opaque);
    match message.role {
        Role::System => false,
        // A result whose call we did not see still belongs to what stands before it.
        Role::Tool => assistant_side(previous) || previous.role == Role::Tool,
        Role::User => conversation.has_results(message) && (assistant_side(previous) || previous.role == Role::Tool),
        // Where reasoning, text and calls are elements of their own, they are one move. Elsewhere two assistant messages in a row are two.
        Role::Assistant | Role::Opaque => {
            assistant_side(previous) && (is_element(conversation, previous) || is_element(conversation, message))
        }
    }
}

/// An element that is nothing but one reasoning, call or opaque block, as in formats that list those apart from messages.
fn is_element(conversation: &Conversation, message: &Message) -> bool {
    message.role == Role::Opaque
        || (message.content.is_empty()
            && matches!(conversation.blocks_of(message), [block] if matches!(block.kind, Kind::Reasoning | Kind::Call(_) | Kind::Opaque) && block.span == message.span))
}

/// For each call id, the messages that answer it, in order.
fn answers<'a>(body: &'a str, conversation: &Conversation, messages: &[&Message]) -> HashMap<&'a str, Vec<usize>> {
    let mut answers: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, message) in messages.iter().enumerate() {
        for block in conversation.blocks_of(message) {
            if let Kind::Result(outcome) = &block.kind {
                answers.entry(outcome.id.of(body)).or_default().push(place);
            }
        }
    }
    answers
}

/// Whether an agent with the first `len` messages would have sent a request with exactly the first `end` of them: whoever speaks next is the
/// assistant, and it is not already speaking. The whole is always such a place.
pub fn is_cut(conversation: &Conversation, len: usize, end: usize) -> bool {
    let messages = &conversation.messages[..len.min(conversation.messages.len())];
    if end == 0 || end > messages.len() {
        return false;
    }
    let assistant_side = |m: &Message| matches!(m.role, Role::Assistant | Role::Opaque);
    end == messages.len() || (assistant_side(&messages[end]) && !assistant_side(&messages[end - 1]))
}
