//! What pictures, documents and sounds weigh. Their base64 is never counted as text: the dimensions in a picture's head decide, by the
//! rules of `config/images.toml`.

mod dimensions;

use std::sync::LazyLock;

use serde::Deserialize;

/// Where the picture is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source<'a> {
    /// In the request: base64, bare or as a `data:` URL, with or without the escapes it has in JSON. Only its head is looked at.
    Base64(&'a str),
    /// Elsewhere: a URL, or the id of a file.
    Reference,
}

/// The tokens of a picture for the model of that name. `detail` is what the request asks for: `low`, `high`, `auto`, `original`, or
/// Gemini's media resolution. A picture that can't be measured is taken to be 1,280 by 960 pixels.
pub fn price(model: &str, source: Source, detail: Option<&str>) -> u32 {
    const UNMEASURED: (u32, u32) = (1_280, 960);
    let measured = match source {
        Source::Base64(base64) => dimensions::of(base64),
        Source::Reference => None,
    };
    rule(model).price(measured.unwrap_or(UNMEASURED), Detail::of(detail))
}

/// The tokens of a document (a PDF) given as base64: by the pages that it says it has, else by its size; each is its text and a picture
/// of it.
pub fn document(base64: &str) -> u32 {
    const PAGE: u32 = 2_000;
    /// Providers refuse longer ones.
    const PAGES: u32 = 600;
    const BYTES_A_PAGE: usize = 50_000;
    /// What isn't said is bounded, for much of a large file is pictures and fonts.
    const GUESSED: usize = 100;
    let guess = (decoded_len(base64) / BYTES_A_PAGE + 1).min(GUESSED) as u32;
    PAGE * dimensions::pages(base64).unwrap_or(guess).min(PAGES)
}

/// The tokens of a sound of `bytes` decoded bytes, by 32 tokens a second, the most that a provider takes.
pub fn audio(format: &str, bytes: usize) -> u32 {
    const TOKENS_A_SECOND: usize = 32;
    const MOST: usize = 300_000;
    let bytes_a_second = match format {
        "wav" | "pcm16" | "audio/wav" | "audio/pcm" => 32_000,
        "flac" | "audio/flac" => 16_000,
        _ => 8_000,
    };
    (bytes.saturating_mul(TOKENS_A_SECOND) / bytes_a_second).clamp(1, MOST) as u32
}

/// The bytes that a base64 text stands for, near enough.
pub fn decoded_len(base64: &str) -> usize {
    base64.len() / 4 * 3
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    Low,
    Medium,
    High,
    Original,
    Auto,
}

impl Detail {
    fn of(detail: Option<&str>) -> Self {
        let detail = detail.unwrap_or_default();
        let says = |word: &str| detail.get(detail.len().saturating_sub(word.len())..).is_some_and(|end| end.eq_ignore_ascii_case(word));
        match () {
            _ if says("low") => Detail::Low,
            _ if says("medium") => Detail::Medium,
            _ if says("high") => Detail::High,
            _ if says("original") => Detail::Original,
            _ => Detail::Auto,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    rule: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    models: Vec<String>,
    #[serde(flatten)]
    rule: Rule,
}

/// See `config/images.toml`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Rule {
    Area { edge: u32, most: u32 },
    Tiles { base: u32, tile: u32 },
    Patches { side: u32, times: f64, most: u32, original: Option<u32>, auto: Option<u32> },
    Squares { side: u32, tokens: u32, small: Option<u32>, more: Option<u32>, most: Option<u32> },
    Levels { low: u32, medium: u32, high: u32 },
    Flat(u32),
}

static RULES: LazyLock<Vec<Entry>> =
    LazyLock::new(|| toml::from_str::<Rules>(include_str!("../../config/images.toml")).map_or(Vec::new(), |rules| rules.rule));

fn rule(model: &str) -> Rule {
    let model = model.to_ascii_lowercase();
    let starts_word = |at: usize| !model[..at].ends_with(|before: char| before.is_ascii_alphanumeric());
    let is_named = |name: &String| model.match_indices(name.as_str()).any(|(at, _)| starts_word(at));
    RULES.iter().find(|entry| entry.models.iter().any(is_named)).map_or(Rule::Flat(1_200), |entry| entry.rule)
}

impl Rule {
    fn price(self, (width, height): (u32, u32), detail: Detail) -> u32 {
        let (long, short) = (f64::from(width.max(height)), f64::from(width.min(height)));
        let tokens = match self {
            Rule::Area { edge, most } => {
                let shrunk = (f64::from(edge) / long).min(1.0);
                (long * short * shrunk * shrunk / 750.0).min(f64::from(most))
            }
            Rule::Tiles { base, .. } if detail == Detail::Low => f64::from(base),
            Rule::Tiles { base, tile } => {
                let shrunk = (2_048.0 / long).min(1.0);
                let shrunk = shrunk * (768.0 / (short * shrunk)).min(1.0);
                f64::from(base) + f64::from(tile) * pieces(long * shrunk, 512.0) * pieces(short * shrunk, 512.0)
            }
            Rule::Patches { side, times, most, original, auto } => {
                let most = match detail {
                    Detail::Low => 256,
                    Detail::Original => original.unwrap_or(most),
                    Detail::Auto => auto.unwrap_or(most),
                    Detail::Medium | Detail::High => most,
                };
                let side = f64::from(side);
                (pieces(long, side) * pieces(short, side)).min(f64::from(most)) * times
            }
            Rule::Squares { side, tokens, small, more, most } => {
                let whole = long <= f64::from(small.unwrap_or(0));
                let squares = if whole { 1.0 } else { pieces(long, f64::from(side)) * pieces(short, f64::from(side)) };
                (squares.min(f64::from(most.unwrap_or(1_000))) + f64::from(more.unwrap_or(0))) * f64::from(tokens)
            }
            Rule::Levels { low, medium, high } => f64::from(match detail {
                Detail::Low => low,
                Detail::Medium => medium,
                Detail::High | Detail::Original | Detail::Auto => high,
            }),
            Rule::Flat(tokens) => f64::from(tokens),
        };
        tokens.ceil().max(1.0) as u32
    }
}

/// Into how many of `side` a length is cut. The least bit over doesn't make another.
fn pieces(length: f64, side: f64) -> f64 {
    (length / side - 1e-6).ceil().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule_price(model: &str, width: u32, height: u32, detail: Option<&str>) -> u32 {
        rule(model).price((width, height), Detail::of(detail))
    }

    #[test]
    fn the_table_is_read_and_ends_with_a_rule_for_all() {
        assert!(RULES.len() > 15);
        assert!(RULES.iter().all(|entry| !entry.models.is_empty()));
        assert_eq!(RULES.last().unwrap().models, [""]);
    }

    #[test]
    fn prices_are_those_of_the_documents() {
        let check = |model, (width, height), detail, tokens| {
            assert_eq!(rule_price(model, width, height, detail), tokens, "{model} {width} x {height} {detail:?}");
        };
        check("claude-sonnet-4-6", (200, 200), None, 54);
        check("claude-sonnet-4-6", (1000, 1000), None, 1334);
        check("us.anthropic.claude-haiku-4-5-20251001-v1:0", (4000, 3000), None, 1600);
        check("claude-opus-4-7", (1920, 1080), None, 2765);
        check("anthropic/claude-opus-4.8", (4000, 4000), None, 4784);
        check("gpt-4o", (1024, 1024), Some("high"), 765);
        check("gpt-4o", (2048, 4096), None, 1105);
        check("gpt-4o", (4096, 8192), Some("low"), 85);
        check("openai/gpt-4.1", (512, 512), None, 255);
        check("gpt-4o-mini", (1024, 1024), None, 25_501);
        check("gpt-5.1-codex", (1024, 1024), None, 630);
        check("o3", (1024, 1024), None, 675);
        check("o4-mini", (1024, 1024), None, 1762);
        check("gpt-4.1-mini", (1800, 2400), None, 2489);
        check("gpt-5.4", (1024, 1024), None, 1229);
        check("gpt-5.4", (4000, 3000), Some("high"), 3000);
        check("gpt-5.6-sol", (4000, 3000), None, 12_000);
        check("gpt-5.6-sol", (2000, 1000), None, 2420);
        check("gpt-5.6-sol", (4000, 3000), Some("low"), 308);
        check("gemini-2.5-pro", (384, 384), None, 258);
        check("models/gemini-2.5-flash", (1536, 768), None, 516);
        check("gemini-3-flash-preview", (10, 10), None, 1120);
        check("gemini-4-neon", (10, 10), Some("MEDIA_RESOLUTION_LOW"), 280);
        check("qwen2.5-vl-72b-instruct", (280, 280), None, 100);
        check("qwen3-vl-plus", (320, 320), None, 100);
        check("grok-4.5", (448, 448), None, 512);
        check("grok-4.5", (4480, 4480), None, 1792);
        check("somebody/something", (10, 10), None, 1200);
    }

    #[test]
    fn a_picture_that_cannot_be_measured_has_a_middling_price() {
        assert_eq!(price("claude-sonnet-4-6", Source::Reference, None), 1600);
        assert_eq!(price("gpt-4o", Source::Base64("no picture"), None), 765);
        assert_eq!(price("", Source::Reference, Some("")), 1200);
    }

    #[test]
    fn any_dimensions_have_a_bounded_price() {
        for entry in RULES.iter() {
            for side in [0, 1, 100, 65_535, u32::MAX] {
                for other in [0, 1, 3_000, u32::MAX] {
                    let price = entry.rule.price((side, other), Detail::Auto);
                    assert!((1..=260_000).contains(&price), "{entry:?} {side} x {other}: {price}");
                }
            }
        }
    }

    #[test]
    fn sounds_and_documents_are_bounded() {
        assert_eq!(audio("wav", 320_000), 320);
        assert_eq!(audio("mp3", usize::MAX), 300_000);
        assert_eq!(audio("", 0), 1);
        assert_eq!(document(""), 2_000);
        assert_eq!(document(&"A".repeat(1_000_000)), 2_000 * 16);
        assert_eq!(document(&"A".repeat(20_000_000)), 2_000 * 100);
    }
}
