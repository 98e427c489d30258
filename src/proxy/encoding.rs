//! Content encodings: gzip, deflate, br, zstd, a few on top of each other, with a cap on what comes out.
//!
//! Only copies are decoded. What is passed on are the bytes that came.

use std::io::{self, Read, Write};

use bytes::Bytes;
use http::{HeaderMap, header::CONTENT_ENCODING};

/// So many encodings are undone; nobody who means well applies more, and each is as much work as its output is long.
const MOST_CODINGS: usize = 3;
/// What a piece of a stream may decode to, in bytes, and so many times what came of the stream so far. Answers are told word by word, in events that
/// are flushed one by one: they shrink to a tenth, not to a thousandth.
const MOST_AT_ONCE: usize = 4 << 20;
const MOST_TIMES: usize = 256;
/// What a decoder may look back, as a power of two: 8 MiB, which senders over HTTP keep to (RFC 9659).
const WINDOW_LOG: u32 = 23;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// The plain text of a body with these headers, or nothing where it cannot be had within `cap` bytes.
pub fn decode(headers: &HeaderMap, body: &Bytes, cap: u64) -> Option<Bytes> {
    let mut plain = body.clone();
    for coding in codings(headers)?.into_iter().rev() {
        plain = once(coding, &plain, cap)?;
    }
    Some(plain)
}

/// Whether a body with these headers is sent as it is.
pub fn is_identity(headers: &HeaderMap) -> bool {
    codings(headers).is_some_and(|codings| codings.is_empty())
}

/// The codings in the order in which they were applied; nothing if one is unknown, or there are too many.
fn codings(headers: &HeaderMap) -> Option<Vec<Coding>> {
    let mut out = Vec::new();
    for value in headers.get_all(CONTENT_ENCODING) {
        for name in value.to_str().ok()?.split(',') {
            match name.trim().to_ascii_lowercase().as_str() {
                "" | "identity" => {}
                "gzip" | "x-gzip" => out.push(Coding::Gzip),
                "deflate" => out.push(Coding::Deflate),
                "br" => out.push(Coding::Brotli),
                "zstd" => out.push(Coding::Zstd),
                _ => return None,
            }
        }
    }
    (out.len() <= MOST_CODINGS).then_some(out)
}

fn once(coding: Coding, body: &[u8], cap: u64) -> Option<Bytes> {
    match coding {
        Coding::Gzip => drain(flate2::read::MultiGzDecoder::new(body), cap),
        // "deflate" means zlib, but some senders leave its header out.
        Coding::Deflate => drain(flate2::read::ZlibDecoder::new(body), cap).or_else(|| drain(flate2::read::DeflateDecoder::new(body), cap)),
        Coding::Brotli => drain(brotli::Decompressor::new(body, 16 << 10), cap),
        Coding::Zstd => drain(zstd::stream::read::Decoder::with_buffer(body).ok()?, cap),
    }
}

fn drain(reader: impl Read, cap: u64) -> Option<Bytes> {
    let mut out = Vec::new();
    reader.take(cap + 1).read_to_end(&mut out).ok()?;
    (out.len() as u64 <= cap).then(|| out.into())
}

/// Decodes a stream piece by piece, as far as it has come.
pub struct Inflate {
    stage: Option<Stage>,
    /// Bytes that may still come out.
    room: usize,
}

enum Stage {
    Identity,
    Gzip(Box<flate2::write::MultiGzDecoder<Sink>>),
    Deflate(Box<flate2::write::ZlibDecoder<Sink>>),
    Brotli(Box<brotli::DecompressorWriter<Sink>>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Sink>>),
}

impl Inflate {
    /// For an answer with these headers. One whose encoding is unknown, or stacked, yields nothing.
    pub fn new(headers: &HeaderMap) -> Inflate {
        let sink = Sink::default();
        let stage = match codings(headers).as_deref() {
            Some([]) => Some(Stage::Identity),
            Some([Coding::Gzip]) => Some(Stage::Gzip(Box::new(flate2::write::MultiGzDecoder::new(sink)))),
            Some([Coding::Deflate]) => Some(Stage::Deflate(Box::new(flate2::write::ZlibDecoder::new(sink)))),
            Some([Coding::Brotli]) => Some(Stage::Brotli(Box::new(brotli::DecompressorWriter::new(sink, 4 << 10)))),
            Some([Coding::Zstd]) => zstd_into(sink).ok().map(|decoder| Stage::Zstd(Box::new(decoder))),
            _ => None,
        };
        Inflate { stage, room: MOST_AT_ONCE }
    }

    pub fn is_identity(&self) -> bool {
        matches!(self.stage, Some(Stage::Identity))
    }

    /// What `piece` adds to the plain text. After a piece that cannot be decoded, or decodes to more than anybody means to say, there is no more.
    pub fn push(&mut self, piece: &Bytes) -> Option<Bytes> {
        self.room = self.room.saturating_add(piece.len().saturating_mul(MOST_TIMES)).min(MOST_AT_ONCE);
        let room = self.room;
        let plain = match self.stage.as_mut()? {
            Stage::Identity => return Some(piece.clone()),
            Stage::Gzip(decoder) => feed(&mut **decoder, |decoder| decoder.get_mut(), piece, room),
            Stage::Deflate(decoder) => feed(&mut **decoder, |decoder| decoder.get_mut(), piece, room),
            Stage::Brotli(decoder) => feed(&mut **decoder, |decoder| decoder.get_mut(), piece, room),
            Stage::Zstd(decoder) => feed(&mut **decoder, |decoder| decoder.get_mut(), piece, room),
        };
        match plain {
            Ok(plain) => {
                self.room -= plain.len();
                Some(plain.into())
            }
            Err(_) => {
                self.stage = None;
                None
            }
        }
    }
}

fn zstd_into(sink: Sink) -> io::Result<zstd::stream::write::Decoder<'static, Sink>> {
    let mut decoder = zstd::stream::write::Decoder::new(sink)?;
    decoder.window_log_max(WINDOW_LOG)?;
    Ok(decoder)
}

/// What `decoder` makes of `piece`, if it is no more than `room`.
fn feed<D: Write>(decoder: &mut D, sink: impl Fn(&mut D) -> &mut Sink, piece: &[u8], room: usize) -> io::Result<Vec<u8>> {
    sink(decoder).room = room;
    decoder.write_all(piece)?;
    decoder.flush()?;
    Ok(std::mem::take(&mut sink(decoder).plain))
}

/// Takes what is decoded, and no more than there is room for: a decoder does not ask before it has gone through the whole of its input.
#[derive(Default)]
struct Sink {
    plain: Vec<u8>,
    room: usize,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.room = self.room.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        self.plain.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(coding: &str, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match coding {
            "gzip" => {
                let mut encoder = flate2::write::GzEncoder::new(&mut out, flate2::Compression::default());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap();
            }
            "deflate" => {
                let mut encoder = flate2::write::ZlibEncoder::new(&mut out, flate2::Compression::default());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap();
            }
            "br" => brotli::CompressorWriter::new(&mut out, 4096, 5, 20).write_all(text).unwrap(),
            "zstd" => out = zstd::encode_all(text, 3).unwrap(),
            _ => out = text.to_vec(),
        }
        out
    }

    fn headers(coding: &str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_ENCODING, coding.parse().unwrap())])
    }

    const ALL: [&str; 5] = ["identity", "gzip", "deflate", "br", "zstd"];

    #[test]
    fn every_encoding_decodes_whole_and_in_pieces() {
        let text: Vec<u8> = (0..5000u32).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        for coding in ALL {
            let encoded = Bytes::from(encode(coding, &text));
            assert_eq!(decode(&headers(coding), &encoded, 1 << 20).unwrap(), text, "{coding}");
            for size in [1, 7, 4096] {
                let mut inflate = Inflate::new(&headers(coding));
                let out: Vec<u8> = encoded.chunks(size).flat_map(|piece| inflate.push(&Bytes::copy_from_slice(piece)).unwrap()).collect();
                assert_eq!(out, text, "{coding} in pieces of {size}");
            }
        }
        let twice = Bytes::from(encode("br", &encode("gzip", &text)));
        assert_eq!(decode(&headers("gzip, br"), &twice, 1 << 20).unwrap(), text);
    }

    #[test]
    fn what_decodes_past_the_cap_or_not_at_all_is_nothing() {
        let bomb = vec![0; 1 << 20];
        for coding in &ALL[1..] {
            let encoded = Bytes::from(encode(coding, &bomb));
            assert_eq!(decode(&headers(coding), &encoded, (1 << 20) - 1), None, "{coding}");
            assert!(decode(&headers(coding), &encoded, 1 << 20).is_some(), "{coding}");
            let mut broken = encode(coding, b"some text that is long enough to be broken in the middle");
            let middle = broken.len() / 2;
            broken.truncate(middle);
            broken.extend([0xff; 9]);
            assert_eq!(decode(&headers(coding), &broken.into(), 1 << 20), None, "{coding}");
        }
        let mut often = b"some text".to_vec();
        for _ in 0..=MOST_CODINGS {
            often = encode("gzip", &often);
        }
        assert_eq!(decode(&headers("gzip, gzip, gzip, gzip"), &often.into(), 9_999), None, "too many encodings");
        assert_eq!(decode(&headers("snappy"), &Bytes::from_static(b"x"), 9), None);
        assert_eq!(Inflate::new(&headers("snappy")).push(&Bytes::from_static(b"x")), None);
    }

    #[test]
    fn bounded_a_piece_of_a_stream_decodes_to_no_more_than_may_be_held() {
        for coding in &ALL[1..] {
            let bomb = Bytes::from(encode(coding, &vec![0; MOST_AT_ONCE + 1]));
            assert_eq!(Inflate::new(&headers(coding)).push(&bomb), None, "{coding}, at once");
            let mut inflate = Inflate::new(&headers(coding));
            let endless = Bytes::from(encode(coding, &vec![0; 16 * MOST_AT_ONCE]));
            let came: usize =
                endless.chunks(64).map_while(|piece| inflate.push(&Bytes::copy_from_slice(piece))).map(|plain| plain.len()).sum();
            assert!(came <= MOST_AT_ONCE + MOST_TIMES * endless.len(), "{coding}, bit by bit: {came}");
            assert!(came < 16 * MOST_AT_ONCE, "{coding}: {came} of {}", endless.len());
        }
    }
}
