//! `plimsoll classify`: what an answer of a provider means, as the relay would judge it.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::wire::Format;
use crate::wire::overflow::{self, Answer, Class, Classified, MAX_BODY};

/// Say whether an answer is an overflow, and with what numbers.
#[derive(Args, Debug)]
pub struct Classify {
    /// Status of the answer.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(100..=599))]
    status: u16,

    /// Wire format of the request. The verdict is the same without it.
    #[arg(long, value_name = "chat|responses|messages")]
    format: Option<Format>,

    /// A header of the answer; may be repeated. The content-encoding named so is undone.
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(String, String)>,

    /// The body is the head of a stream.
    #[arg(long)]
    stream: bool,

    /// The answer's body; `-` is standard input.
    #[arg(value_name = "FILE", default_value = "-")]
    body: PathBuf,
}

impl Classify {
    /// Prints the verdict as one line of JSON.
    ///
    /// # Errors
    /// When the body can't be read or is not encoded as its header says.
    pub fn run(self) -> io::Result<ExitCode> {
        let body = decoded(super::body::bytes(&self.body)?.into(), &self.headers)?;
        let answer = Answer { status: self.status, body: &body, stream: self.stream };
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        writeln!(io::stdout(), "{}", report(&overflow::classify(answer, headers)))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn report(verdict: &Classified) -> serde_json::Value {
    let class = match verdict.class {
        Class::Input => "input",
        Class::InputPlusOutput => "input_plus_output",
        Class::Bytes => "bytes",
        Class::RateCeiling => "rate_ceiling",
        Class::None => "none",
    };
    serde_json::json!({
        "class": class,
        "limit": verdict.limit,
        "requested": verdict.requested,
        "output": verdict.output,
        "rule": verdict.rule,
    })
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME: VALUE")?;
    Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
}

/// The body without its encodings, the last one named undone first. Not more of it than is looked at.
fn decoded(mut body: Vec<u8>, headers: &[(String, String)]) -> io::Result<Vec<u8>> {
    let encodings = headers.iter().filter(|(name, _)| name == "content-encoding").flat_map(|(_, value)| value.split(','));
    let mut encodings: Vec<String> = encodings.map(|encoding| encoding.trim().to_ascii_lowercase()).collect();
    while let Some(encoding) = encodings.pop() {
        let bytes = body.as_slice();
        let reader: Box<dyn Read + '_> = match encoding.as_str() {
            "" | "identity" => continue,
            "gzip" | "x-gzip" => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
            // Some servers send raw deflate under this name; zlib starts with a checked header.
            "deflate" if zlib(bytes) => Box::new(flate2::read::ZlibDecoder::new(bytes)),
            "deflate" => Box::new(flate2::read::DeflateDecoder::new(bytes)),
            "br" => Box::new(brotli::Decompressor::new(bytes, 4096)),
            "zstd" => Box::new(zstd::Decoder::new(bytes)?),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("unknown content-encoding {encoding}"))),
        };
        let mut plain = Vec::new();
        reader.take(MAX_BODY as u64).read_to_end(&mut plain)?;
        body = plain;
    }
    Ok(body)
}

fn zlib(bytes: &[u8]) -> bool {
    matches!(bytes, [a, b, ..] if a & 0x0f == 8 && u16::from_be_bytes([*a, *b]) % 31 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn every_encoding_is_undone() {
        let plain = b"{\"error\":{\"message\":\"prompt is too long\"}}".repeat(20);
        let level = flate2::Compression::default();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), level);
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), level);
        let mut raw = flate2::write::DeflateEncoder::new(Vec::new(), level);
        gzip.write_all(&plain).expect("gzip");
        zlib.write_all(&plain).expect("zlib");
        raw.write_all(&plain).expect("deflate");
        let mut br = Vec::new();
        brotli::BrotliCompress(&mut plain.as_slice(), &mut br, &Default::default()).expect("br");
        let twice = zstd::encode_all(br.as_slice(), 3).expect("zstd");
        let cases = [
            ("gzip", gzip.finish().expect("gzip")),
            ("deflate", zlib.finish().expect("zlib")),
            ("deflate", raw.finish().expect("deflate")),
            ("br", br.clone()),
            ("zstd", zstd::encode_all(plain.as_slice(), 3).expect("zstd")),
            ("br, zstd", twice),
            ("identity", plain.clone()),
        ];
        for (encoding, body) in cases {
            let headers = [("content-encoding".to_owned(), encoding.to_owned())];
            assert_eq!(decoded(body, &headers).expect(encoding), plain, "{encoding}");
        }
        assert!(decoded(plain, &[("content-encoding".to_owned(), "lzma".to_owned())]).is_err());
    }
}
