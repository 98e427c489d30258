//! What was read of earlier bodies, so that a history that comes again is recognised by its bytes instead of being read again.
//!
//! Agents send their whole history with every request. The bytes of a message that was read before, at the same place of a body that begins with the
//! same two messages, lead to the same places: comparing a hash of them costs a tenth of reading them. Nothing is decided here, and losing it
//! loses nothing but time.

use super::{Format, json};
use crate::conversation::{Conversation, Fingerprint, Span};
use std::collections::{HashMap, hash_map::RandomState};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use twox_hash::XxHash3_128;

/// Shorter bodies are read faster than they are looked up.
pub const WORTH: usize = 1 << 10;
/// So many messages tell one conversation from another.
pub const TELLING: usize = 2;
/// So many bytes tell one long value from another. A shorter one is skipped faster than it is looked up.
const BEGINNING: usize = 256;
/// Values that are remembered, tools and schemas for the most part: a few of each agent.
const VALUES: usize = 4096;

/// Readings of all conversations, the least recently used of which are forgotten first.
#[derive(Debug)]
pub struct Known {
    /// Unknown to those who send bodies, so that nobody can make two messages meet. Readings of one tenant are never used for another in any case.
    seed: u64,
    most: usize,
    shelf: Mutex<Shelf>,
    /// Whose long values begin how.
    values: Mutex<HashMap<(Fingerprint, u128), Value>>,
}

/// Whose conversation, in which format, and how it begins.
pub type Key = (Fingerprint, Format, u128);

#[derive(Debug, Default)]
struct Shelf {
    young: HashMap<Key, Arc<Reading>>,
    old: HashMap<Key, Arc<Reading>>,
    /// Bytes of the young ones.
    held: usize,
}

/// Where the messages of one body lie.
#[derive(Debug)]
pub struct Reading {
    /// Where the list starts, without which no place is what it was.
    pub list: usize,
    pub elements: Vec<Element>,
    /// They and what lies between them in a few pieces, one for each time that some were read, so that one look tells whether all of a piece are there.
    pub stretches: Vec<Stretch>,
    pub conversation: Conversation,
    pub prefixes: Vec<Fingerprint>,
}

/// One element of a list: its bytes, and how many parts there are up to its end.
#[derive(Clone, Copy, Debug)]
pub struct Element {
    pub span: Span,
    pub bytes: u128,
    pub parts: u32,
}

/// The elements from the stretch before on, and all that lies between them.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// How many elements there are up to its end.
    pub upto: usize,
    pub bytes: u128,
}

/// A long list or object.
#[derive(Clone, Copy, Debug)]
struct Value {
    len: usize,
    bytes: u128,
}

impl Known {
    /// Holds about `bytes` at most.
    pub fn new(bytes: usize) -> Self {
        Known { seed: RandomState::new().hash_one(()), most: bytes / 2, shelf: Mutex::default(), values: Mutex::default() }
    }

    /// Where the value ends that starts at `at`, as [`json::skip`] finds it. Of a long list or object that `owner` sent before, only the bytes are
    /// compared.
    pub fn skip(&self, owner: Fingerprint, body: &[u8], at: usize) -> Option<usize> {
        let beginning = body.get(at..at + BEGINNING).filter(|bytes| matches!(bytes[0], b'[' | b'{'));
        let Some(beginning) = beginning else { return json::skip(body, at) };
        let name = (owner, self.hash(beginning));
        let is_here = |value: &Value| body.get(at..at + value.len).is_some_and(|here| self.hash(here) == value.bytes);
        let before = self.values().get(&name).copied();
        if let Some(value) = before.filter(is_here) {
            return Some(at + value.len);
        }
        let end = json::skip(body, at)?;
        let bytes = self.hash(&body[at..end]);
        let mut values = self.values();
        if values.len() >= VALUES && !values.contains_key(&name) {
            values.clear();
        }
        values.insert(name, Value { len: end - at, bytes });
        Some(end)
    }

    fn values(&self) -> MutexGuard<'_, HashMap<(Fingerprint, u128), Value>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names a conversation of `owner` by the bytes of the messages that its list, at `list` of `body`, begins with. They are skipped, not read: what
    /// is known of them tells whether they were well-formed. Nothing for a shorter one.
    pub fn key(&self, owner: Fingerprint, format: Format, body: &[u8], list: usize) -> Option<Key> {
        let start = json::space(body, list + 1);
        let mut end = json::skip(body, start)?;
        for _ in 1..TELLING {
            end = json::skip(body, comma(body, end)?)?;
        }
        Some((owner, format, self.hash(&body[start..end])))
    }

    pub fn get(&self, key: Key) -> Option<Arc<Reading>> {
        let mut shelf = self.shelf.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = shelf.young.get(&key) {
            return Some(found.clone());
        }
        let reading = shelf.old.remove(&key)?;
        shelf.put(key, reading.clone(), self.most);
        Some(reading)
    }

    pub fn put(&self, key: Key, reading: Reading) {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner).put(key, Arc::new(reading), self.most);
    }

    pub fn hash(&self, bytes: &[u8]) -> u128 {
        XxHash3_128::oneshot_with_seed(self.seed, bytes)
    }

    /// What was read behind the first `from` of these elements, in one piece.
    pub fn stretch(&self, body: &[u8], elements: &[Element], from: usize) -> Option<Stretch> {
        let (first, last) = (elements.get(from)?, elements.last()?);
        let bytes = self.hash(body.get(first.span.range().start..last.span.range().end)?);
        Some(Stretch { upto: elements.len(), bytes })
    }
}

impl Shelf {
    fn put(&mut self, key: Key, reading: Arc<Reading>, most: usize) {
        self.held += reading.weight();
        if let Some(before) = self.young.insert(key, reading) {
            self.held -= before.weight();
        }
        if self.held > most {
            self.old = std::mem::take(&mut self.young);
            self.held = 0;
        }
    }
}

impl Reading {
    /// How many of these elements lie in a body at the places where they lay, one after the other, and how many stretches they fill.
    pub fn repeated(&self, known: &Known, body: &[u8]) -> (usize, usize) {
        let (mut count, mut filled) = (0, 0);
        for stretch in &self.stretches {
            let elements = &self.elements[..stretch.upto];
            if !self.follows(count, body) || known.stretch(body, elements, count).is_none_or(|here| here.bytes != stretch.bytes) {
                break;
            }
            (count, filled) = (stretch.upto, filled + 1);
        }
        let is_here = |n: usize| {
            let element = &self.elements[n];
            self.follows(n, body) && body.get(element.span.range()).is_some_and(|bytes| known.hash(bytes) == element.bytes)
        };
        count += (count..self.elements.len()).take_while(|n| is_here(*n)).count();
        (count, filled)
    }

    /// Whether the element of this number starts where it did, given that the one before it ends where it did.
    fn follows(&self, n: usize, body: &[u8]) -> bool {
        let Some(before) = n.checked_sub(1) else { return true };
        comma(body, self.elements[before].span.end as usize) == Some(self.elements[n].span.start as usize)
    }

    fn weight(&self) -> usize {
        let conversation = &self.conversation;
        size_of::<Self>()
            + size_of_val(&self.elements[..])
            + size_of_val(&self.stretches[..])
            + size_of_val(&self.prefixes[..])
            + size_of_val(&conversation.messages[..])
            + size_of_val(&conversation.blocks[..])
            + size_of_val(&conversation.parts[..])
    }
}

/// Where the element after the one that ends at `end` starts.
fn comma(body: &[u8], end: usize) -> Option<usize> {
    let at = json::space(body, end);
    (body.get(at) == Some(&b',')).then(|| json::space(body, at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Request;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn message() -> impl Strategy<Value = Value> {
        let text = "(?s).{0,40}[\"\\\\\\n]{0,3}";
        prop_oneof![
            text.prop_map(|text| json!({"role": "user", "content": text})),
            text.prop_map(
                |text| json!({"role": "user", "content": [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]})
            ),
            text.prop_map(|text| json!({"role": "assistant", "content": text, "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]})),
            text.prop_map(
                |text| json!({"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": text}, {"type": "image"}]})
            ),
            text.prop_map(|text| json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": text}]}]})),
            text.prop_map(|text| json!({"type": "function_call_output", "call_id": "c1", "output": text})),
        ]
    }

    /// A body that is long enough to be remembered.
    fn body(head: &str, name: &str, messages: &[Value]) -> Vec<u8> {
        let pad = "x".repeat(WORTH);
        format!("{{{head}\"{name}\": {} , \"pad\": \"{pad}\"}}", serde_json::to_string_pretty(messages).unwrap_or_default()).into_bytes()
    }

    proptest! {
        #[test]
        fn what_is_recognised_is_what_would_be_read(
            messages in prop::collection::vec(message(), 3..10), new in prop::collection::vec(message(), 0..3),
            at in 0usize..10, what in 0u8..5, shift in any::<bool>(), format in 0usize..3,
        ) {
            let format = Format::ALL[format];
            let known = Known::new(1 << 20);
            let told = |read: Result<Request, _>| format!("{:?}", read.map(|request| Request { news: 0, ..request }));
            let read = |body: &[u8]| told(Request::read(format, body.to_vec().into()));
            let again = |body: &[u8]| told(Request::read_after(format, body.to_vec().into(), Some((&known, Fingerprint::default()))));
            let first = body("", format.list(), &messages);
            prop_assert_eq!(again(&first), read(&first));
            let mut grown = messages.clone();
            let at = at % grown.len();
            match what {
                0 => grown[at] = json!({"role": "user", "content": "another"}),
                1 => drop(grown.remove(at)),
                2 => grown.truncate(at + 1),
                _ => grown.extend(new),
            }
            let second = body(if shift { "\"a\": 1, " } else { "" }, format.list(), &grown);
            prop_assert_eq!(again(&second), read(&second));
            prop_assert_eq!(again(&first), read(&first));
            prop_assert_eq!(again(&second), read(&second));
        }
    }

    proptest! {
        #[test]
        fn a_value_that_came_before_ends_where_it_would_be_found_to(
            values in prop::collection::vec(prop::collection::vec(message(), 1..8), 1..4), order in prop::collection::vec(0usize..4, 1..12),
            cut in prop::option::of(0usize..2000),
        ) {
            let known = Known::new(1 << 20);
            for at in order {
                let mut body = serde_json::to_vec(&values[at % values.len()]).unwrap();
                body.truncate(cut.unwrap_or(usize::MAX));
                prop_assert_eq!(known.skip(Fingerprint::default(), &body, 0), json::skip(&body, 0));
                body.extend(b", \"more\"");
                prop_assert_eq!(known.skip(Fingerprint::default(), &body, 0), json::skip(&body, 0));
            }
        }
    }

    #[test]
    fn of_values_without_end_some_are_remembered() {
        let known = Known::new(1 << 20);
        for n in 0..2 * VALUES {
            let value = format!("[{n:>300}]");
            assert_eq!(known.skip(Fingerprint::default(), value.as_bytes(), 0), Some(302));
        }
        assert!(known.values().len() <= VALUES);
    }

    #[test]
    fn a_short_body_is_fingerprinted_when_somebody_asks() {
        let known = Known::new(1 << 20);
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}).to_string();
        let short = Request::read_after(Format::Chat, body.clone().into(), Some((&known, Fingerprint::default()))).unwrap();
        assert!(short.prefixes().is_empty());
        let whole = Request::read(Format::Chat, body.into()).unwrap();
        assert_eq!(format!("{:?}", short.fingerprinted()), format!("{whole:?}"));
        assert_eq!(whole.prefixes().len(), 3);
    }

    #[test]
    fn what_is_remembered_stays_within_its_bytes_and_is_nobody_elses() {
        let known = Known::new(64 << 10);
        let conversation = |n: usize| {
            let messages: Vec<Value> = (0..40).map(|m| json!({"role": "user", "content": format!("{n} {m}")})).collect();
            body("", "messages", &messages)
        };
        let held = |owner: u8, n: usize| {
            let body = conversation(n);
            let list = memchr::memchr(b'[', &body).unwrap();
            known.get(known.key(Fingerprint([owner; 16]), Format::Chat, &body, list).unwrap()).is_some()
        };
        for n in 0..100 {
            Request::read_after(Format::Chat, conversation(n).into(), Some((&known, Fingerprint([1; 16])))).unwrap();
        }
        assert!(held(1, 99) && !held(2, 99) && !held(1, 0));
        let shelf = known.shelf.lock().unwrap();
        let bytes: usize = shelf.young.values().chain(shelf.old.values()).map(|reading| reading.weight()).sum();
        assert!(bytes <= 80 << 10, "{bytes}");
    }
}
