//! Server-sent events, cut out of a stream that arrives in arbitrary pieces.

/// One event. Comments alone make an event with neither name nor data.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub name: String,
    pub data: String,
    /// Bytes of the stream up to and including the blank line that ended this event.
    pub end: u64,
}

impl Event {
    /// Nothing but comments or blank lines.
    pub fn is_empty(&self) -> bool {
        self.name.is_empty() && self.data.is_empty()
    }
}

/// Cuts a stream into events. Holds at most the bytes of one unfinished event.
#[derive(Default)]
pub struct Reader {
    pending: Vec<u8>,
    consumed: u64,
}

impl Reader {
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Bytes of an event that is not complete yet.
    pub fn unfinished(&self) -> &[u8] {
        &self.pending
    }
}

impl Iterator for Reader {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let length = event_length(&self.pending)?;
        let bytes: Vec<u8> = self.pending.drain(..length).collect();
        self.consumed += length as u64;
        let mut event = Event { end: self.consumed, ..Event::default() };
        let text = String::from_utf8_lossy(&bytes);
        for line in text.split(['\n', '\r']) {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "event" => event.name = value.to_owned(),
                "data" => {
                    if !event.data.is_empty() {
                        event.data.push('\n');
                    }
                    event.data.push_str(value);
                }
                _ => {}
            }
        }
        Some(event)
    }
}

/// The length of the first event with its blank line, if it is complete.
fn event_length(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < bytes.len() {
        let end = at + memchr::memchr2(b'\n', b'\r', &bytes[at..])?;
        let next = match (bytes[end], bytes.get(end + 1)) {
            (b'\r', Some(b'\n')) => end + 2,
            (b'\r', None) => return None,
            _ => end + 1,
        };
        if end == at {
            return Some(next);
        }
        at = next;
    }
    None
}
