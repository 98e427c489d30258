//! A request body, read where it lies.
//!
//! [`Request::read`] finds the messages of a body without building them, [`Request::apply`] splices edits into its bytes, [`check`] says whether the
//! result still satisfies its format. Everything that is not edited is the very bytes that came.

mod answer;
mod ask;
mod chat;
pub mod check;
mod edit;
mod format;
pub mod json;
mod known;
mod messages;
pub mod overflow;
mod reader;
mod responses;
pub mod sse;
mod tape;
pub mod usage;

pub use answer::{Listener, Said};
pub use ask::{Ride, alone};
pub use edit::{Change, Edit};
pub use format::Format;
pub use known::Known;

use crate::conversation::{Conversation, Fingerprint, Kind, Role, Span};
use aho_corasick::{AhoCorasick, MatchKind};
use bytes::Bytes;
use faststr::FastStr;
use known::{Element, Reading};
use reader::Reader;
use std::borrow::Cow;
use std::sync::LazyLock;

/// A body with the places of its parts.
#[derive(Clone, Debug)]
pub struct Request {
    body: Bytes,
    /// It, checked to be UTF-8, which gives no `Bytes` back.
    text: FastStr,
    pub format: Format,
    pub conversation: Conversation,
    /// The list of messages, brackets included. Empty where the conversation is one text (Responses).
    pub list: Span,
    /// The contents of the model's name.
    model: Span,
    pub stream: bool,
    /// The cap on the output: the place of its number, and the number.
    pub cap: Option<(Span, u64)>,
    /// The budget for thinking, which the cap may not go below.
    pub thinking: Option<u64>,
    /// Everything else that weighs: the values of all other members of the body, with their keys.
    pub rest: Vec<(Span, Span)>,
    /// Why this request is none of ours, where it is not.
    pub apart: Option<Apart>,
    /// Bytes of messages that were read, not recognised.
    pub news: usize,
    /// Empty where nobody has asked for them.
    prefixes: Vec<Fingerprint>,
}

/// A body we cannot or may not read: it passes as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    NotUtf8,
    /// Not one JSON object with a list of objects where the format has its messages.
    NotOurs,
    /// Two members of one name, or a name in disguise: which one counts is the provider's to say.
    Ambiguous,
}

/// Requests that gates never touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apart {
    /// The provider holds the history, or parts of it: what we see is not all.
    ProviderHeld,
    /// The agent's own compaction, which must see everything.
    Compaction,
    /// The provider was asked to compact by itself.
    ProviderCompacts,
    /// A question about the connection rather than to the model: an output cap of 16 or less.
    Probe,
    /// The conversation is a single text.
    OneText,
}

impl Apart {
    pub fn name(self) -> &'static str {
        match self {
            Apart::ProviderHeld => "provider_held",
            Apart::Compaction => "agent_compacts",
            Apart::ProviderCompacts => "provider_compacts",
            Apart::Probe => "probe",
            Apart::OneText => "one_text",
        }
    }
}

/// Words by which agents ask a model for a summary of the conversation itself.
static SUMMARISERS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let prompts = lines(include_str!("wire/summariser_prompts.txt"));
    // Only this kind of search goes over text sixteen bytes at a time.
    let kind = MatchKind::LeftmostFirst;
    AhoCorasick::builder().match_kind(kind).build(prompts).unwrap_or_else(|_| unreachable!("a built-in list is small"))
});

/// What some agents put last into every request and take out of the next: the beginning of such a message.
static PASSING_REMARKS: LazyLock<Vec<&str>> = LazyLock::new(|| lines(include_str!("wire/passing_remarks.txt")));

/// The lines of a table, its own remarks left out.
fn lines(table: &'static str) -> Vec<&'static str> {
    table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// An output cap up to this is no answer that anybody reads.
const PROBE_CAP: u64 = 16;

impl Request {
    pub fn read(format: Format, body: Bytes) -> Result<Request, Unreadable> {
        Request::read_after(format, body, None)
    }

    /// The same, with what is known of earlier bodies of an owner, who is one tenant at one place. Of a body too short to be known, which is most often
    /// too short for anything to be due, messages are not fingerprinted: see [`Request::fingerprinted`].
    pub fn read_after(format: Format, body: Bytes, known: Option<(&Known, Fingerprint)>) -> Result<Request, Unreadable> {
        let text = FastStr::from_bytes(body.clone()).map_err(|_| Unreadable::NotUtf8)?;
        let mut request = Request {
            format,
            conversation: Conversation::default(),
            list: Span::default(),
            model: Span::default(),
            stream: false,
            cap: None,
            thinking: None,
            rest: Vec::with_capacity(8),
            apart: None,
            news: 0,
            prefixes: Vec::new(),
            body,
            text: text.clone(),
        };
        let is_short = text.len() < known::WORTH;
        let fingerprints = known.is_none() || !is_short;
        let known = known.filter(|_| !is_short);
        let mut members = Vec::with_capacity(8);
        let (mut ambiguous, mut apart) = (false, None);
        let start = json::space(text.as_bytes(), 0);
        let end = json::each_member_by(&text, start, |key, at| {
            if key.of(&text) != format.list() || text.as_bytes().get(at) != Some(&b'[') {
                let end = match known {
                    Some((known, owner)) => known.skip(owner, text.as_bytes(), at)?,
                    None => json::skip(text.as_bytes(), at)?,
                };
                members.push((key, Span::new(at, end)));
                return Some(end);
            }
            let mut reader = Reader::new(&text, fingerprints);
            let end = read_list(&mut reader, format, at, known)?;
            (ambiguous, apart) = (ambiguous | reader.ambiguous, reader.apart);
            (request.conversation, request.prefixes, request.news) = (reader.conversation, reader.prefixes, reader.news);
            members.push((key, Span::new(at, end)));
            Some(end)
        })
        .ok_or(Unreadable::NotOurs)?;
        if json::space(text.as_bytes(), end) != text.len() {
            return Err(Unreadable::NotOurs);
        }
        if ambiguous || reader::is_ambiguous(&text, &members) {
            return Err(Unreadable::Ambiguous);
        }
        for (key, value) in members {
            request.member(key, value);
        }
        if request.list.is_empty() {
            return if request.apart == Some(Apart::OneText) { Ok(request) } else { Err(Unreadable::NotOurs) };
        }
        request.apart = apart.or(request.apart);
        if request.apart.is_none() {
            request.apart = request.asks_for_summary().then_some(Apart::Compaction);
        }
        Ok(request)
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The body as it came.
    pub fn bytes(&self) -> &Bytes {
        &self.body
    }

    pub fn model(&self) -> &str {
        self.model.of(&self.text)
    }

    /// This request with the fingerprints of its messages and prefixes.
    pub fn fingerprinted(&self) -> Cow<'_, Request> {
        if !self.prefixes.is_empty() || self.list.is_empty() {
            return Cow::Borrowed(self);
        }
        // What was read once can be read again.
        Request::read(self.format, self.bytes().clone()).map_or(Cow::Borrowed(self), Cow::Owned)
    }

    /// The fingerprints of all prefixes: entry `n` is that of the first `n` messages.
    pub fn prefixes(&self) -> &[Fingerprint] {
        &self.prefixes
    }

    fn member(&mut self, key: Span, value: Span) {
        let text = self.text.clone();
        let (name, raw) = (key.of(&text), value.of(&text));
        if name == self.format.list() {
            match raw.as_bytes().first() {
                Some(b'[') => self.list = value,
                Some(b'"') if self.format == Format::Responses => {
                    self.apart = self.apart.or(Some(Apart::OneText));
                    self.rest.push((key, value));
                }
                _ => self.rest.push((key, value)),
            }
            return;
        }
        self.rest.push((key, value));
        match name {
            "model" => self.model = json::inner(&text, value),
            "stream" => self.stream = raw == "true",
            "thinking" => self.thinking = thinking_budget(&text, value),
            "previous_response_id" | "conversation" if raw != "null" => self.apart = Some(Apart::ProviderHeld),
            "context_management" if raw.contains("\"compact") => self.apart = self.apart.or(Some(Apart::ProviderCompacts)),
            _ => {}
        }
        let caps = self.format.output_caps();
        if let (Some(rank), Ok(cap)) = (caps.iter().position(|cap| *cap == name), raw.parse::<u64>()) {
            // The member that counts first wins; the other is left as it is.
            if self.cap.is_none() || rank == 0 {
                self.cap = Some((value, cap));
            }
            if cap <= PROBE_CAP {
                self.apart = self.apart.or(Some(Apart::Probe));
            }
        }
    }

    /// How many messages are history: all but a remark at the end that will not come again.
    pub fn lasting(&self) -> usize {
        let messages = &self.conversation.messages;
        let passing = |place: usize| {
            messages[place].role == Role::User
                && matches!(self.conversation.blocks_of(&messages[place]), [block] if matches!(block.kind, Kind::Text { text }
                    if PASSING_REMARKS.iter().any(|start| json::inner(&self.text, text).of(&self.text).starts_with(start))))
        };
        match messages.len() {
            0 | 1 => messages.len(),
            count if passing(count - 1) => count - 1,
            count => count,
        }
    }

    /// Whether the newest user message is an agent's own request for a summary.
    fn asks_for_summary(&self) -> bool {
        const LOOKED_AT: usize = 4096;
        let Some(place) = self.conversation.last_person() else { return false };
        let message = &self.conversation.messages[place];
        if message.role != Role::User {
            return false;
        }
        self.conversation.blocks_of(message).iter().any(|block| match block.kind {
            Kind::Text { text } => {
                let raw = text.of(&self.text).as_bytes();
                let head = &raw[..raw.len().min(LOOKED_AT)];
                SUMMARISERS.is_match(head)
            }
            _ => false,
        })
    }
}

/// Reads the list of messages at `list`, and says where it ends.
fn read_list(reader: &mut Reader, format: Format, list: usize, known: Option<(&Known, Fingerprint)>) -> Option<usize> {
    let bytes = reader.text.as_bytes();
    let mut elements: Vec<Element> = Vec::new();
    let mut at = json::space(bytes, list + 1);
    let mut is_over = bytes.get(at) == Some(&b']');
    // What lies here as it lay before needs no reading, and if there is nothing else, no remembering either.
    let key = known.and_then(|(known, owner)| known.key(owner, format, bytes, list));
    let mut stretches = Vec::new();
    if let (Some((known, _)), Some(key)) = (known, key)
        && let Some(reading) = known.get(key).filter(|reading| reading.list == list)
    {
        let (count, filled) = reading.repeated(known, bytes);
        if count > 0 {
            elements.extend_from_slice(&reading.elements[..count]);
            (at, is_over) = behind(bytes, reader.resume(&reading, count))?;
        }
        stretches.extend_from_slice(&reading.stretches[..filled]);
    }
    let recognised = elements.len();
    while !is_over {
        if bytes.get(at) != Some(&b'{') {
            return None;
        }
        let element = Span::new(at, reader.tape.read(reader.text, at)?);
        match format {
            Format::Chat => chat::read(reader, element),
            Format::Responses => responses::read(reader, element),
            Format::Messages => messages::read(reader, element),
        }?;
        reader.news += element.len();
        if let Some((known, _)) = known {
            let (hash, parts) = (known.hash(&bytes[element.range()]), reader.conversation.parts.len() as u32);
            elements.push(Element { span: element, bytes: hash, parts });
        }
        (at, is_over) = behind(bytes, element.range().end)?;
    }
    let is_news = elements.len() > recognised && !reader.ambiguous && reader.apart.is_none();
    if let (Some((known, _)), Some(key), true) = (known, key, is_news)
        && let Some(stretch) = known.stretch(bytes, &elements, stretches.last().map_or(0, |last| last.upto))
    {
        stretches.push(stretch);
        let (conversation, prefixes) = (reader.conversation.clone(), reader.prefixes.clone());
        known.put(key, Reading { list, elements, stretches, conversation, prefixes });
    }
    Some(at + 1)
}

/// Where the element starts that comes after one which ends at `end`; or where the list ends, and that it does.
fn behind(bytes: &[u8], end: usize) -> Option<(usize, bool)> {
    let at = json::space(bytes, end);
    match bytes.get(at)? {
        b',' => Some((json::space(bytes, at + 1), false)),
        b']' => Some((at, true)),
        _ => None,
    }
}

fn thinking_budget(text: &str, value: Span) -> Option<u64> {
    let (members, _) = json::members(text, value.start as usize)?;
    members.iter().find(|(key, _)| key.of(text) == "budget_tokens").and_then(|(_, value)| value.of(text).parse().ok())
}
