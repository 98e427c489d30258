//! Keeps what is needed of a passing answer to read its usage, and no more: the first and the last bytes.
//!
//! Usage stands in the first event (Messages) or the last ones, so nothing in between is looked at.

use std::mem;

use bytes::Bytes;
use http::HeaderMap;

use super::encoding::Inflate;
use crate::wire::{
    Format,
    usage::{self, Usage},
};

/// Bytes kept from the beginning.
const HEAD: usize = 2 << 10;
/// Bytes kept from the end.
const TAIL: usize = 4 << 10;

pub struct Tap {
    format: Format,
    inflate: Inflate,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Tap {
    pub fn new(format: Format, headers: &HeaderMap) -> Tap {
        Tap { format, inflate: Inflate::new(headers), head: Vec::new(), tail: Vec::new() }
    }

    pub fn push(&mut self, piece: &Bytes) {
        let Some(plain) = self.inflate.push(piece) else { return };
        if self.head.len() < HEAD {
            self.head.extend_from_slice(&plain[..plain.len().min(HEAD - self.head.len())]);
        }
        let last = &plain[plain.len().saturating_sub(TAIL)..];
        // Twice the room, so that small pieces are moved once in a while and not each time.
        if self.tail.len() + last.len() > 2 * TAIL {
            let surplus = (self.tail.len() + last.len() - TAIL).min(self.tail.len());
            self.tail.drain(..surplus);
        }
        self.tail.extend_from_slice(last);
    }

    /// What the answer said, once it is over.
    pub fn usage(&mut self) -> Option<Usage> {
        usage::read(self.format, &mem::take(&mut self.head), &mem::take(&mut self.tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_found_at_both_ends_of_a_long_stream_and_little_is_kept() {
        let mut tap = Tap::new(Format::Messages, &HeaderMap::new());
        tap.push(&Bytes::from_static(
            b"data: {\"message\":{\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":40,\"output_tokens\":1}}}\n\n",
        ));
        for _ in 0..10_000 {
            tap.push(&Bytes::from_static(b"data: {\"delta\":{\"text\":\"some words of output\"}}\n\n"));
        }
        assert!(tap.head.len() <= HEAD && tap.tail.len() <= 2 * TAIL);
        tap.push(&Bytes::from_static(
            b"data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":99}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
        ));
        assert_eq!(tap.usage(), Some(Usage { input: 43, cached: 40, output: 99 }));
    }

    #[test]
    fn a_body_that_comes_in_one_piece_is_read_at_its_end() {
        let mut tap = Tap::new(Format::Chat, &HeaderMap::new());
        let body = format!("{{\"pad\":\"{}\",\"usage\":{{\"prompt_tokens\":7,\"completion_tokens\":2}}}}", "x".repeat(100_000));
        tap.push(&body.into());
        assert_eq!(tap.usage(), Some(Usage { input: 7, cached: 0, output: 2 }));
        assert_eq!(Tap::new(Format::Chat, &HeaderMap::new()).usage(), None);
    }
}
