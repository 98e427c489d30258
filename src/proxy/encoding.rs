//! Content encodings: gzip, deflate, br, zstd, in any stack, with a cap on what comes out.
//!
//! Only copies are decoded. What is passed on are the bytes that came.

use std::io::{self, Read, Write};

use bytes::Bytes;
use http::{HeaderMap, header::CONTENT_ENCODING};

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

/// The codings in the order in which they were applied; nothing if one is unknown.
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
    Some(out)
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
pub struct Inflate(Option<Stage>);

enum Stage {
    Identity,
    Gzip(Box<flate2::write::MultiGzDecoder<Vec<u8>>>),
    Deflate(Box<flate2::write::ZlibDecoder<Vec<u8>>>),
    Brotli(Box<brotli::DecompressorWriter<Vec<u8>>>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Vec<u8>>>),
}

impl Inflate {
    /// For an answer with these headers. One whose encoding is unknown, or stacked, yields nothing.
    pub fn new(headers: &HeaderMap) -> Inflate {
        let codings = codings(headers);
        Inflate(match codings.as_deref() {
            Some([]) => Some(Stage::Identity),
            Some([Coding::Gzip]) => Some(Stage::Gzip(Box::new(flate2::write::MultiGzDecoder::new(Vec::new())))),
            Some([Coding::Deflate]) => Some(Stage::Deflate(Box::new(flate2::write::ZlibDecoder::new(Vec::new())))),
            Some([Coding::Brotli]) => Some(Stage::Brotli(Box::new(brotli::DecompressorWriter::new(Vec::new(), 4 << 10)))),
            Some([Coding::Zstd]) => zstd::stream::write::Decoder::new(Vec::new()).ok().map(|decoder| Stage::Zstd(Box::new(decoder))),
            _ => None,
        })
    }

    pub fn is_identity(&self) -> bool {
        matches!(self.0, Some(Stage::Identity))
    }

    /// What `piece` adds to the plain text. After a piece that cannot be decoded there is no more.
    pub fn push(&mut self, piece: &Bytes) -> Option<Bytes> {
        let plain = match self.0.as_mut()? {
            Stage::Identity => return Some(piece.clone()),
            Stage::Gzip(decoder) => feed(&mut **decoder, piece).map(|()| std::mem::take(decoder.get_mut())),
            Stage::Deflate(decoder) => feed(&mut **decoder, piece).map(|()| std::mem::take(decoder.get_mut())),
            Stage::Brotli(decoder) => feed(&mut **decoder, piece).map(|()| std::mem::take(decoder.get_mut())),
            Stage::Zstd(decoder) => feed(&mut **decoder, piece).map(|()| std::mem::take(decoder.get_mut())),
        };
        match plain {
            Ok(plain) => Some(plain.into()),
            Err(_) => {
                self.0 = None;
                None
            }
        }
    }
}

fn feed(decoder: &mut impl Write, piece: &[u8]) -> io::Result<()> {
    decoder.write_all(piece)?;
    decoder.flush()
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
        assert_eq!(decode(&headers("snappy"), &Bytes::from_static(b"x"), 9), None);
        assert_eq!(Inflate::new(&headers("snappy")).push(&Bytes::from_static(b"x")), None);
    }
}
