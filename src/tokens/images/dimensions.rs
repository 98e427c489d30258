//! Width and height from the first bytes of a PNG, JPEG, GIF or WebP, and the pages of a PDF from its ends, all given as base64.

/// How much is decoded at most. A JPEG's dimensions come after its metadata; a picture that has more than this isn't measured.
const HEAD: usize = 64 << 10;

/// Width and height in pixels, as stored: a rotation in the metadata isn't looked at.
pub(super) fn of(base64: &str) -> Option<(u32, u32)> {
    let data = payload(base64);
    // Enough for all but JPEG.
    let head = decode(data.bytes(), 64);
    let (width, height) = match &head[..] {
        [0x89, b'P', b'N', b'G', ..] => png(&head)?,
        [b'G', b'I', b'F', b'8', ..] => (u16_le(&head, 6)?, u16_le(&head, 8)?),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => webp(&head)?,
        [0xff, 0xd8, 0xff, ..] => jpeg(&decode(data.bytes(), HEAD))?,
        _ => return None,
    };
    (width > 0 && height > 0).then_some((width, height))
}

/// The number of pages, if a PDF says it where it can be read without unpacking.
pub(super) fn pages(base64: &str) -> Option<u32> {
    let data = payload(base64);
    let head = decode(data.bytes(), HEAD);
    if !head.starts_with(b"%PDF") {
        return None;
    }
    if let Some(at) = memchr::memmem::find(&head, b"/Linearized") {
        let dictionary = head.get(at..(at + 256).min(head.len())).unwrap_or_default();
        return number_after(dictionary, b"/N ");
    }
    // The trees of pages are mostly near the end; base64 begins anew every four characters.
    let tail = data.len().saturating_sub(HEAD / 3 * 4).next_multiple_of(4);
    let tail = decode(data.bytes().skip(tail), HEAD);
    let counts =
        [head, tail].map(|part| memchr::memmem::find_iter(&part, b"/Count ").filter_map(|at| number_after(&part[at..], b"/Count ")).max());
    counts.into_iter().flatten().max().filter(|count| *count > 0)
}

/// What follows the comma of a `data:` URL, or all.
fn payload(base64: &str) -> &str {
    let base64 = base64.trim_start_matches('"');
    match base64.strip_prefix("data:") {
        Some(url) => url.split_once(',').map_or("", |(_, data)| data),
        None => base64,
    }
}

/// Up to `limit` bytes, or to the first thing that isn't base64, of either alphabet. Line breaks and what JSON escapes are passed over.
fn decode(base64: impl Iterator<Item = u8>, limit: usize) -> Vec<u8> {
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(limit.min(1 << 10)), 0u32, 0);
    for byte in base64 {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            b'\\' | b'\r' | b'\n' | b' ' => continue,
            _ => break,
        };
        bits = bits << 6 | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            if bytes.len() == limit {
                break;
            }
        }
    }
    bytes
}

fn png(head: &[u8]) -> Option<(u32, u32)> {
    (head.get(12..16)? == b"IHDR").then_some((u32_be(head, 16)?, u32_be(head, 20)?))
}

fn webp(head: &[u8]) -> Option<(u32, u32)> {
    match head.get(12..16)? {
        // 14 bits each, the rest is a scale for showing.
        b"VP8 " => (head.get(23..26)? == [0x9d, 0x01, 0x2a]).then_some((u16_le(head, 26)? & 0x3fff, u16_le(head, 28)? & 0x3fff)),
        b"VP8L" => {
            let bits = u16_le(head, 21)? | u16_le(head, 23)? << 16;
            (head.get(20)? == &0x2f).then_some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => {
            let u24 = |at| Some(u16_le(head, at)? | u32::from(*head.get(at + 2)?) << 16);
            Some((u24(24)? + 1, u24(27)? + 1))
        }
        _ => None,
    }
}

/// Walks the segments up to the frame header.
fn jpeg(head: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *head.get(at)? != 0xff {
            return None;
        }
        match *head.get(at + 1)? {
            0xff => at += 1,
            0x01 | 0xd0..=0xd7 => at += 2,
            // C4, C8 and CC are tables. 0 and the start of the scan come too late for a header.
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => return Some((u16_be(head, at + 7)?, u16_be(head, at + 5)?)),
            0x00 | 0xd9 | 0xda => return None,
            _ => at += 2 + (u16_be(head, at + 2)? as usize).max(2),
        }
    }
}

fn number_after(bytes: &[u8], key: &[u8]) -> Option<u32> {
    let at = memchr::memmem::find(bytes, key)? + key.len();
    let digits = bytes.get(at..)?.iter().take(6).take_while(|byte| byte.is_ascii_digit());
    let number = digits.fold(0, |number, digit| number * 10 + u32::from(digit - b'0'));
    (number > 0).then_some(number)
}

fn u16_be(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes).into())
}

fn u16_le(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes).into())
}

fn u32_be(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine, engine::general_purpose};
    use proptest::prelude::*;

    fn encode(bytes: &[u8]) -> String {
        general_purpose::STANDARD.encode(bytes)
    }

    /// The heads of real files, up to where the pixels begin.
    fn heads() -> Vec<(&'static str, Vec<u8>, (u32, u32))> {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x05\0\0\0\x03\xc0\x08\x06\0\0\0".to_vec();
        let gif = b"GIF89a\x40\x01\xf0\0\xf7\0\0".to_vec();
        let lossy = b"RIFF\x24\0\0\0WEBPVP8 \x18\0\0\0\x30\x01\0\x9d\x01\x2a\x20\x03\x58\x42".to_vec();
        let lossless = b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\x1f\xc3\x95\0\x07".to_vec();
        let extended = b"RIFF\x1a\0\0\0WEBPVP8X\x0a\0\0\0\x10\0\0\0\x7f\x07\0\x37\x04\0".to_vec();
        let mut jpeg = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xe1\x20\0".to_vec();
        jpeg.resize(jpeg.len() + 0x2000 - 2, 7);
        jpeg.extend(b"\xff\xff\xdb\0\x04ab\xff\xc4\0\x03a\xff\xc2\0\x11\x08\x04\x38\x07\x80\x03\x01\x22\0");
        vec![
            ("png", png, (1280, 960)),
            ("gif", gif, (320, 240)),
            ("webp", lossy, (800, 600)),
            ("webp", lossless, (800, 600)),
            ("webp", extended, (1920, 1080)),
            ("jpeg", jpeg, (1920, 1080)),
        ]
    }

    #[test]
    fn dimensions_are_read_from_the_head() {
        for (kind, head, dimensions) in heads() {
            let bare = encode(&[&head[..], &[0; 300]].concat());
            let url = format!("data:image/{kind};base64,{bare}");
            let escaped = url.replace('/', r"\/");
            let url_safe = bare.replace('+', "-").replace('/', "_");
            for text in [&bare, &url, &escaped, &url_safe, &format!("\"{url}\"")] {
                assert_eq!(of(text), Some(dimensions), "{kind}");
            }
            for len in 0..head.len().min(60) {
                of(&encode(&head[..len]));
            }
            assert_eq!(of(&encode(&head[..8])), None, "{kind}");
        }
    }

    #[test]
    fn other_things_have_no_dimensions() {
        for text in ["", "data:", "data:,", "data:image/png;base64", "iVBORw0KGgo", "/9j/", "/9j//////////////////////////////", "漢"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn pages_are_read_from_either_end() {
        let filler = [b'x'; 200_000];
        let check = |parts: &[&[u8]], count| assert_eq!(pages(&encode(&parts.concat())), count);
        check(&[b"%PDF-1.7\n1 0 obj << /Linearized 1 /L 9 /N 12 /O 3 >>", &filler], Some(12));
        check(&[b"%PDF-1.4\n", &filler, b"<< /Type /Pages /Kids [] /Count 7 >> << /Count 3 >> %%EOF"], Some(7));
        check(&[b"%PDF-1.4 << /Count 40 >>", &filler], Some(40));
        check(&[b"%PDF-1.4", &filler], None);
        check(&[b"<< /Count 40 >>"], None);
    }

    proptest! {
        #[test]
        fn anything_is_read_without_harm(head in 0..6usize, at in 0..40usize, noise: Vec<u8>, text in ".*") {
            let (_, mut bytes, _) = heads().swap_remove(head);
            bytes.truncate(at);
            bytes.extend(noise);
            of(&encode(&bytes));
            of(&text);
            pages(&text);
            pages(&encode(&[b"%PDF", &bytes[..]].concat()));
        }
    }
}
