//! How many tokens a text may be to a tokenizer that we don't have.
//!
//! The common measure: a quarter of a token for an ASCII character, one for a Chinese, Japanese or Korean one or one outside the basic plane, half of
//! one for any other. It is what agents plan by, so that Plimsoll and they see a window fill at the same pace; what it is off by for a model is made
//! up for by the safety on estimates before the first answer, and learnt from the provider's own counts after it. (A closer fit to the tokenizers
//! that we do have counted logs and numbers two thirds higher, and compacted what every agent thought had room.)
//!
//! Weights are never negative, so the estimate never falls as a text grows, and never is more for a whole than for the sum of its parts.

/// In quarters of a token, by the first byte of a character; the others weigh nothing.
static QUARTERS: [u8; 256] = quarters();

const fn quarters() -> [u8; 256] {
    let mut quarters = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        quarters[byte] = match byte as u8 {
            0..=0x7f => 1,
            // The rest of a character.
            0x80..=0xbf => 0,
            // Latin with marks, Greek, Cyrillic, Hebrew, Arabic; Indic and Thai; punctuation.
            0xc0..=0xe2 => 2,
            // U+3000 to U+FFFF: kana, Han, Hangul, wide forms. Beyond: emoji, rare Han.
            0xe3.. => 4,
        };
        byte += 1;
    }
    quarters
}

pub(super) fn estimate(text: &str) -> usize {
    text.bytes().map(|byte| u64::from(QUARTERS[byte as usize])).sum::<u64>().div_ceil(4) as usize
}
