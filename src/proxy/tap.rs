//! Reads the usage out of a passing answer: a copy of its frames, decoded where it is compressed, bounded whatever passes.

use bytes::Bytes;
use http::HeaderMap;

use super::{encoding::Inflate, headers};
use crate::wire::{
    Format,
    sse::Frames,
    usage::{self, Usage},
};

/// The longest event that is looked at, and the longest document; the usage of longer ones is not known.
const EVENT: usize = 64 << 10;
const DOCUMENT: usize = 1 << 20;

pub struct Tap {
    format: Format,
    inflate: Inflate,
    kind: Kind,
}

enum Kind {
    Stream { frames: Frames, usage: usage::Tap },
    Document(Vec<u8>),
    TooLong,
}

impl Tap {
    pub fn new(format: Format, headers: &HeaderMap) -> Tap {
        let kind = if headers::is_event_stream(headers) {
            Kind::Stream { frames: Frames::events(EVENT), usage: usage::Tap::new(format) }
        } else {
            Kind::Document(Vec::new())
        };
        Tap { format, inflate: Inflate::new(headers), kind }
    }

    pub fn push(&mut self, piece: &Bytes) {
        let Some(plain) = self.inflate.push(piece) else { return };
        match &mut self.kind {
            Kind::Stream { frames, usage } => {
                frames.push(plain);
                while let Some(frame) = frames.next_frame() {
                    usage.frame(&frame);
                }
            }
            Kind::Document(body) if body.len() + plain.len() <= DOCUMENT => body.extend_from_slice(&plain),
            Kind::Document(_) => self.kind = Kind::TooLong,
            Kind::TooLong => {}
        }
    }

    /// What the answer said, once it is over.
    pub fn usage(&mut self) -> Option<Usage> {
        match &mut self.kind {
            Kind::Stream { frames, usage } => {
                if let Some(frame) = frames.finish() {
                    usage.frame(&frame);
                }
                usage.usage()
            }
            Kind::Document(body) => Usage::of_answer(self.format, body),
            Kind::TooLong => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::CONTENT_TYPE;

    fn stream() -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, "text/event-stream; charset=utf-8".parse().unwrap())])
    }

    #[test]
    fn usage_is_found_at_both_ends_of_a_long_stream() {
        let mut tap = Tap::new(Format::Messages, &stream());
        tap.push(&Bytes::from_static(
            b"data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":40,\"output_tokens\":1}}}\n\n",
        ));
        for _ in 0..1_000 {
            tap.push(&Bytes::from_static(b"data: {\"delta\":{\"text\":\"some words of output\"}}\n\n"));
        }
        tap.push(&Bytes::from_static(
            b"data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":99}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
        ));
        let usage = tap.usage().unwrap();
        assert_eq!((usage.input, usage.cached, usage.output), (Some(43), Some(40), Some(99)));
    }

    #[test]
    fn a_document_is_read_whole_up_to_a_bound() {
        for (pad, found) in [(100_000, Some(7)), (2_000_000, None)] {
            let mut tap = Tap::new(Format::Chat, &HeaderMap::new());
            let body =
                format!("{{\"pad\":\"{}\",\"choices\":[],\"usage\":{{\"prompt_tokens\":7,\"completion_tokens\":2}}}}", "x".repeat(pad));
            tap.push(&body.into());
            assert_eq!(tap.usage().and_then(|usage| usage.input), found, "{pad}");
        }
    }
}
