//! The last gate: does a rewritten body satisfy its wire format?
//!
//! Faults that the agent's own request already has are its own: a rewrite may not add one. The rules are those that providers enforce with a 400.

use super::{Format, Request, json};
use crate::conversation::{Conversation, Fingerprint, Kind, Message, Role};
use std::collections::{HashMap, HashSet};

/// A rule that a body breaks, and what tells two breaches of one rule apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    pub rule: &'static str,
    key: String,
}

/// What a rewrite of `source` breaks that `source` does not. Empty when it may be sent.
pub fn rewrite(source: &Request, rewritten: &Request) -> Vec<Fault> {
    let mut found = Vec::new();
    let mut broken = |rule| found.push(Fault { rule, key: String::new() });
    if !json::is_strict(rewritten.text()) {
        broken("json");
    }
    if rewritten.text().len() >= source.text().len() && rewritten.cap == source.cap {
        broken("bytes");
    }
    let marked = marks(rewritten);
    if marked > 0 && marked > marks(source) {
        broken("cache_marks");
    }
    if systems(source) != systems(rewritten) {
        broken("system");
    }
    let new = faults(rewritten);
    if !new.is_empty() {
        let old: HashSet<Fault> = faults(source).into_iter().collect();
        found.extend(new.into_iter().filter(|fault| !old.contains(fault)));
    }
    found
}

fn marks(request: &Request) -> usize {
    memchr::memmem::find_iter(request.text().as_bytes(), b"\"cache_control\"").count()
}

fn systems(request: &Request) -> Vec<Fingerprint> {
    request.conversation.messages.iter().filter(|message| message.role == Role::System).map(|message| message.fingerprint).collect()
}

/// What a strict provider would refuse, looking at one body alone.
pub fn faults(request: &Request) -> Vec<Fault> {
    let mut found = Faults(Vec::new());
    match request.format {
        Format::Responses => {
            scattered_pairs(request, &mut found);
            reasoning(request, &mut found);
        }
        Format::Chat | Format::Messages => {
            adjacent_pairs(request, &mut found);
            roles(request, &mut found);
        }
    }
    empties(request, &mut found);
    found.0
}

struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, rule: &'static str, key: impl ToString) {
        self.0.push(Fault { rule, key: key.to_string() });
    }
}

fn calls<'a>(body: &'a str, conversation: &'a Conversation, message: &'a Message) -> impl Iterator<Item = &'a str> {
    conversation.blocks_of(message).iter().filter_map(move |block| match &block.kind {
        Kind::Call(call) => Some(call.id.of(body)),
        _ => None,
    })
}

fn results<'a>(body: &'a str, conversation: &'a Conversation, message: &'a Message) -> impl Iterator<Item = &'a str> {
    conversation.blocks_of(message).iter().filter_map(move |block| match &block.kind {
        Kind::Result(outcome) => Some(outcome.id.of(body)),
        _ => None,
    })
}

/// Every call is answered in the message (or run of messages of role `tool`) that follows, and nothing else is answered there.
fn adjacent_pairs(request: &Request, found: &mut Faults) {
    let (body, conversation) = (request.text(), &request.conversation);
    let mut waiting: Vec<&str> = Vec::new();
    for message in &conversation.messages {
        let answers: Vec<&str> = results(body, conversation, message).collect();
        if message.role != Role::Tool && !(message.role == Role::User && request.format == Format::Messages) {
            for id in waiting.drain(..) {
                found.add("unanswered_call", id);
            }
        }
        for id in answers {
            match waiting.iter().position(|waiting| *waiting == id) {
                Some(at) => drop(waiting.swap_remove(at)),
                None => found.add("orphan_result", id),
            }
        }
        if request.format == Format::Messages {
            for id in waiting.drain(..) {
                found.add("unanswered_call", id);
            }
            results_first(conversation, message, found);
        }
        waiting.extend(calls(body, conversation, message));
    }
    for id in waiting {
        found.add("unanswered_call", id);
    }
}

fn results_first(conversation: &Conversation, message: &Message, found: &mut Faults) {
    let is_result = |kind: &Kind| matches!(kind, Kind::Result(_));
    let blocks = conversation.blocks_of(message);
    let leading = blocks.iter().take_while(|block| is_result(&block.kind)).count();
    if blocks[leading..].iter().any(|block| is_result(&block.kind)) {
        found.add("result_after_text", message.fingerprint.short());
    }
}

/// Every call has its output after it, somewhere, and every output its call. Some providers only look whether both are there, so a call that stands
/// twice does not lose the output of the other one either.
fn scattered_pairs(request: &Request, found: &mut Faults) {
    let (body, conversation) = (request.text(), &request.conversation);
    let mut open: HashMap<&str, usize> = HashMap::new();
    let mut known: HashSet<&str> = HashSet::new();
    let messages = || conversation.messages.iter();
    for message in messages() {
        for id in calls(body, conversation, message) {
            *open.entry(id).or_default() += 1;
            known.insert(id);
        }
        for id in results(body, conversation, message) {
            if !known.contains(id) {
                found.add("orphan_result", id);
            }
            open.remove(id);
        }
    }
    let answered: HashSet<&str> = messages().flat_map(|message| results(body, conversation, message)).collect();
    for id in answered.difference(&known) {
        found.add("uncalled_result", id);
    }
    for id in open.into_keys() {
        found.add("unanswered_call", id);
        if !answered.contains(id) {
            found.add("unheard_call", id);
        }
    }
}

/// A reasoning item is followed by the item it belongs to.
fn reasoning(request: &Request, found: &mut Faults) {
    let messages = &request.conversation.messages;
    for (place, message) in messages.iter().enumerate() {
        let is_reasoning = matches!(request.conversation.blocks_of(message), [block] if matches!(block.kind, Kind::Reasoning));
        if is_reasoning && !messages.get(place + 1).is_some_and(|next| matches!(next.role, Role::Assistant | Role::Opaque)) {
            found.add("dangling_reasoning", message.fingerprint.short());
        }
    }
}

/// A user begins, user and assistant take turns, and somebody other than the assistant has the last word.
fn roles(request: &Request, found: &mut Faults) {
    let mut previous: Option<Role> = None;
    for message in request.conversation.messages.iter().filter(|message| message.role != Role::System) {
        match previous {
            None if message.role != Role::User => found.add("first_role", ""),
            Some(role) if role == message.role && matches!(role, Role::User | Role::Assistant) => found.add("same_role_twice", role as u8),
            _ => {}
        }
        previous = Some(message.role);
    }
    if request.format.systems_lean() {
        let messages = &request.conversation.messages;
        let is_system = |place: usize| messages.get(place).is_some_and(|message| message.role == Role::System);
        let apart = |place: usize| {
            is_system(place - 1)
                || messages[place - 1].role != Role::User
                || messages.get(place + 1).is_some_and(|next| next.role != Role::Assistant)
        };
        for place in (1..messages.len()).filter(|&place| is_system(place) && apart(place)) {
            found.add("system_place", messages[place].fingerprint.short());
        }
    }
    match previous {
        None => found.add("no_messages", ""),
        Some(Role::Assistant) => found.add("last_role", ""),
        _ => {}
    }
}

fn empties(request: &Request, found: &mut Faults) {
    let body = request.text();
    for message in &request.conversation.messages {
        for block in request.conversation.blocks_of(message) {
            if let Kind::Text { text } = block.kind
                && says_nothing(json::inner(body, text).of(body))
            {
                found.add("empty_text", message.fingerprint.short());
            }
        }
        if matches!(message.content.of(body), "[]") {
            found.add("empty_content", message.fingerprint.short());
        }
    }
}

/// Whether the contents of a JSON string are white space, however it is spelt.
fn says_nothing(raw: &str) -> bool {
    // Words show at once; a string that begins with a long run of escapes is read to the end.
    match raw.trim_start().as_bytes().first() {
        None => true,
        Some(b'\\') => json::unescape(raw).trim().is_empty(),
        Some(_) => false,
    }
}
