//! Server-sent events and JSON lines as they pass: where one frame ends and the next begins, and what a frame of the head means for a retry.
//!
//! A frame is a slice of the stream with its closing blank line (or a line with its newline). Frames joined are the stream again, byte for byte:
//! nothing here alters, drops or invents a byte, and nothing is copied while a frame lies within one chunk.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use memchr::{memchr, memchr2};

use crate::wire::Format;

pub mod head;

pub use head::HeadEvent;

/// Cuts a stream of chunks into frames. Memory is bounded by `limit`: a frame that grows over it comes out in parts, none of them `whole`.
#[derive(Debug)]
pub struct Frames {
    lines: bool,
    limit: usize,
    chunk: Bytes,
    /// The part of the current frame that came with earlier chunks.
    held: BytesMut,
    /// No byte of the current line has been seen.
    blank: bool,
    /// The last byte was a carriage return, so a line feed next belongs to the same line end.
    after_cr: bool,
    /// That carriage return ended a blank line: the frame is over once it is known whether a line feed follows.
    ending: bool,
    /// A part of the current frame is out already.
    over: bool,
}

/// One frame, or what there is of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub bytes: Bytes,
    /// False for the tail of a stream that ended within a frame and for the parts of a frame over the limit. Parts carry no meaning.
    pub whole: bool,
}

impl Frames {
    /// Frames of `text/event-stream`. `limit` is in bytes; one frame of several megabytes is normal (echoed pictures, whole responses).
    pub fn events(limit: usize) -> Frames {
        Frames::new(false, limit)
    }

    /// Lines of newline-delimited JSON.
    pub fn lines(limit: usize) -> Frames {
        Frames::new(true, limit)
    }

    fn new(lines: bool, limit: usize) -> Frames {
        Frames { lines, limit, chunk: Bytes::new(), held: BytesMut::new(), blank: true, after_cr: false, ending: false, over: false }
    }

    /// Takes the next chunk. Call [`Frames::next_frame`] until it has no more before the next one; what was left over is kept either way.
    pub fn push(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            let mut both = BytesMut::from(&self.chunk[..]);
            both.extend_from_slice(&chunk);
            self.chunk = both.freeze();
        }
    }

    /// The next frame that is complete.
    pub fn next_frame(&mut self) -> Option<Frame> {
        let end = if self.lines { memchr(b'\n', &self.chunk).map(|at| at + 1) } else { self.event_end() };
        if let Some(end) = end {
            let last = self.chunk.split_to(end);
            let bytes = self.join(last);
            let whole = !std::mem::take(&mut self.over);
            self.blank = true;
            return Some(Frame { bytes, whole });
        }
        let rest = std::mem::take(&mut self.chunk);
        if self.held.len() + rest.len() > self.limit {
            self.over = true;
            return Some(Frame { bytes: self.join(rest), whole: false });
        }
        self.held.extend_from_slice(&rest);
        None
    }

    /// What is left when the stream has ended: a frame whose closing blank line never came. Nothing after a clean end.
    pub fn finish(&mut self) -> Option<Frame> {
        let rest = std::mem::take(&mut self.chunk);
        let bytes = self.join(rest);
        // A carriage return was all there was of the last line end.
        let whole = std::mem::take(&mut self.ending) && !self.over;
        (!bytes.is_empty()).then_some(Frame { bytes, whole })
    }

    fn join(&mut self, last: Bytes) -> Bytes {
        if self.held.is_empty() {
            return last;
        }
        self.held.extend_from_slice(&last);
        self.held.split().freeze()
    }

    /// Where in the chunk the current frame ends. Every byte is looked at once, however the stream was cut into chunks.
    fn event_end(&mut self) -> Option<usize> {
        let bytes = &self.chunk[..];
        let mut at = 0;
        while at < bytes.len() {
            if std::mem::take(&mut self.after_cr) {
                at += usize::from(bytes[at] == b'\n');
                if std::mem::take(&mut self.ending) {
                    return Some(at);
                }
                continue;
            }
            let Some(n) = memchr2(b'\r', b'\n', &bytes[at..]) else {
                self.blank = false;
                return None;
            };
            let blank = self.blank && n == 0;
            at += n + 1;
            self.blank = true;
            if bytes[at - 1] == b'\r' {
                self.after_cr = true;
                self.ending = blank;
            } else if blank {
                return Some(at);
            }
        }
        None
    }
}

impl Frame {
    /// Name and value of every field line. A comment's name is empty.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let bytes = self.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&self.bytes);
        bytes.split(|&b| b == b'\n' || b == b'\r').filter(|line| !line.is_empty()).map(|line| match memchr(b':', line) {
            Some(colon) => (&line[..colon], line[colon + 1..].strip_prefix(b" ").unwrap_or(&line[colon + 1..])),
            None => (line, &b""[..]),
        })
    }

    /// The event's name, if it has one.
    pub fn event(&self) -> Option<&[u8]> {
        self.fields().filter(|(name, _)| *name == b"event").last().map(|(_, value)| value)
    }

    /// The event's data; several lines of it are joined by newlines. `None` for comments, pings and blank lines.
    pub fn data(&self) -> Option<Cow<'_, [u8]>> {
        let mut lines = self.fields().filter(|(name, _)| *name == b"data").map(|(_, value)| value);
        let mut data = Cow::Borrowed(lines.next()?);
        for line in lines {
            let data = data.to_mut();
            data.push(b'\n');
            data.extend_from_slice(line);
        }
        Some(data)
    }
}

/// What this frame of a stream's head means: see [`HeadEvent`].
pub fn head_event(format: Format, frame: &Frame) -> HeadEvent {
    head::of(format, frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(mut frames: Frames, chunks: &[&[u8]]) -> Vec<(Vec<u8>, bool)> {
        let mut out = Vec::new();
        for chunk in chunks {
            frames.push(Bytes::copy_from_slice(chunk));
            out.extend(std::iter::from_fn(|| frames.next_frame()));
        }
        out.extend(frames.finish());
        out.into_iter().map(|frame| (frame.bytes.to_vec(), frame.whole)).collect()
    }

    #[test]
    fn frames_end_at_blank_lines_of_any_kind() {
        for (stream, expected) in [
            (&b"data: 1\n\ndata: 2\n\n"[..], vec![&b"data: 1\n\n"[..], b"data: 2\n\n"]),
            (b"data: 1\r\n\r\ndata: 2\r\n\r\n", vec![b"data: 1\r\n\r\n", b"data: 2\r\n\r\n"]),
            (b"data: 1\r\rdata: 2\r\r", vec![b"data: 1\r\r", b"data: 2\r\r"]),
            (b"data: 1\n\r\ndata: 2\r\n\n", vec![b"data: 1\n\r\n", b"data: 2\r\n\n"]),
            (b"\n\n: ping\n\n", vec![b"\n", b"\n", b": ping\n\n"]),
            (b"event: a\ndata: 1\ndata: 2\nid: 9\nfoo\n\n", vec![b"event: a\ndata: 1\ndata: 2\nid: 9\nfoo\n\n"]),
        ] {
            let got = frames(Frames::events(1 << 20), &[stream]);
            assert_eq!(got.iter().map(|(bytes, _)| &bytes[..]).collect::<Vec<_>>(), expected);
            assert!(got.iter().all(|(_, whole)| *whole), "{stream:?}");
        }
    }

    #[test]
    fn a_tail_without_its_blank_line_is_no_whole_frame() {
        assert_eq!(frames(Frames::events(99), &[b"data: 1\n\ndata: 2\n"]).last(), Some(&(b"data: 2\n".to_vec(), false)));
        assert_eq!(frames(Frames::lines(99), &[b"{}\n{\"a\"", b":1}"]), [(b"{}\n".to_vec(), true), (b"{\"a\":1}".to_vec(), false)]);
        assert!(frames(Frames::events(99), &[]).is_empty());
    }

    #[test]
    fn a_frame_over_the_limit_passes_in_parts() {
        let got = frames(Frames::events(8), &[b"data: 12", b"345678", b"9\n\ndata: 1", b"\n\n"]);
        assert_eq!(got.iter().flat_map(|(bytes, _)| bytes.clone()).collect::<Vec<_>>(), b"data: 123456789\n\ndata: 1\n\n");
        assert_eq!(got.iter().map(|(_, whole)| *whole).collect::<Vec<_>>(), [false, false, true]);
    }

    proptest::proptest! {
        #[test]
        fn a_stream_cut_anywhere_gives_the_same_frames(stream in r"(data: |event: x|: c|é|[\r\n]|\r\n|\{){0,40}", cuts: [u8; 6], lines: bool) {
            let stream = stream.as_bytes();
            let mut at: Vec<usize> = cuts.iter().map(|&cut| usize::from(cut).min(stream.len())).collect();
            at.extend([0, stream.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            let new = || if lines { Frames::lines(1 << 20) } else { Frames::events(1 << 20) };
            let whole = frames(new(), &[stream]);
            proptest::prop_assert_eq!(&frames(new(), &chunks), &whole);
            proptest::prop_assert_eq!(whole.iter().flat_map(|(bytes, _)| bytes.clone()).collect::<Vec<_>>(), stream);
        }

        #[test]
        fn any_frame_has_a_meaning(bytes: Vec<u8>, json in r#"\{("(type|choices|delta|usage|error|response)":(null|\[\]|\{\}|"response.created"|[0-9]),){0,4}"x":1\}"#) {
            for format in Format::ALL {
                let mut tap = crate::wire::usage::Tap::new(format);
                for bytes in [bytes.clone(), [b"data: ", json.as_bytes(), b"\n\n"].concat()] {
                    let frame = Frame { bytes: bytes.into(), whole: true };
                    head_event(format, &frame);
                    tap.frame(&frame);
                }
            }
        }
    }

    #[test]
    fn fields_are_read_without_touching_the_bytes() {
        let frame = |text: &str| Frame { bytes: Bytes::copy_from_slice(text.as_bytes()), whole: true };
        let one = frame("\u{feff}event: x\r\ndata:  a\r\ndata:b\r\n: note\r\n\r\n");
        assert_eq!((one.event(), one.data().as_deref()), (Some(&b"x"[..]), Some(&b" a\nb"[..])));
        assert!(frame(": ping\n\n").data().is_none());
        assert_eq!(frame("data\n\n").data().as_deref(), Some(&b""[..]));
    }
}
