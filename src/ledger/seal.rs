//! Values as they lie in a store: compressed, and with a key, encrypted and bound to the place where they lie.
//!
//! `version, kind, nonce or checksum, length, zstd frame`. Whatever does not open is nothing.

use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom, SystemRandom},
};

use super::store::VERSION;
use crate::conversation::Fingerprint;

const OPEN: u8 = 0;
const ENCRYPTED: u8 = 1;
/// What a value may grow to, in bytes. An epoch has some hundred thousand.
const MOST: usize = 64 << 20;
const CHECKSUM: usize = 16;

/// Seals and opens with a key, or without one.
pub struct Seal {
    key: Option<[u8; 32]>,
    random: SystemRandom,
}

impl Seal {
    pub fn new(key: Option<[u8; 32]>) -> Seal {
        Seal { key, random: SystemRandom::new() }
    }

    /// Nothing if there is no randomness to be had.
    pub fn seal(&self, at: Fingerprint, value: &[u8]) -> Option<Vec<u8>> {
        let mut body = u32::try_from(value.len()).ok()?.to_le_bytes().to_vec();
        body.extend(zstd::bulk::compress(value, 1).ok()?);
        let mut out = vec![VERSION as u8];
        match &self.key {
            None => {
                out.push(OPEN);
                out.extend(checksum(at, &body));
            }
            Some(key) => {
                let mut nonce = [0; NONCE_LEN];
                self.random.fill(&mut nonce).ok()?;
                own_key(key, at)?.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(at.0), &mut body).ok()?;
                out.push(ENCRYPTED);
                out.extend(nonce);
            }
        }
        out.extend(body);
        Some(out)
    }

    pub fn open(&self, at: Fingerprint, sealed: &[u8]) -> Option<Vec<u8>> {
        let (&[version, kind], rest) = sealed.split_first_chunk()?;
        if version != VERSION as u8 {
            return None;
        }
        let mut opened;
        let body = match (&self.key, kind) {
            (None, OPEN) => {
                let (sum, body) = rest.split_at_checked(CHECKSUM)?;
                (sum == checksum(at, body)).then_some(body)?
            }
            (Some(key), ENCRYPTED) => {
                let (nonce, body) = rest.split_first_chunk::<NONCE_LEN>()?;
                opened = body.to_vec();
                &*own_key(key, at)?.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(at.0), &mut opened).ok()?
            }
            _ => return None,
        };
        let (length, frame) = body.split_first_chunk()?;
        let length = u32::from_le_bytes(*length) as usize;
        let value = (length <= MOST).then(|| zstd::bulk::decompress(frame, length).ok())??;
        (value.len() == length).then_some(value)
    }
}

/// Each place has a key of its own, so that nonces drawn at random never meet.
fn own_key(key: &[u8; 32], at: Fingerprint) -> Option<LessSafeKey> {
    let own = blake3::keyed_hash(key, &at.0);
    UnboundKey::new(&CHACHA20_POLY1305, own.as_bytes()).ok().map(LessSafeKey::new)
}

fn checksum(at: Fingerprint, body: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = blake3::Hasher::new();
    let mut sum = [0; CHECKSUM];
    hasher.update(&at.0).update(body).finalize_xof().fill(&mut sum);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT: Fingerprint = Fingerprint([3; 16]);

    proptest! {
        #[test]
        fn what_was_sealed_opens_there_and_nothing_else_does(value in prop::collection::vec(any::<u8>(), 0..300), flip in any::<prop::sample::Index>(), bit in 0u8..8, cut in any::<prop::sample::Index>()) {
            for key in [None, Some([7; 32])] {
                let seal = Seal::new(key);
                let sealed = seal.seal(AT, &value).unwrap();
                prop_assert_eq!(seal.open(AT, &sealed), Some(value.clone()));
                prop_assert_eq!(seal.open(Fingerprint([4; 16]), &sealed), None, "elsewhere");
                prop_assert_eq!(Seal::new(Some([8; 32])).open(AT, &sealed), None, "with another key");
                prop_assert_eq!(seal.open(AT, &sealed[..cut.index(sealed.len())]), None, "torn");
                let mut flipped = sealed.clone();
                flipped[flip.index(sealed.len())] ^= 1 << bit;
                prop_assert_eq!(seal.open(AT, &flipped), None, "a bit is another");
            }
        }

        #[test]
        fn alien_bytes_open_to_nothing(alien in prop::collection::vec(any::<u8>(), 0..100)) {
            for key in [None, Some([7; 32])] {
                prop_assert_eq!(Seal::new(key).open(AT, &alien), None);
            }
        }
    }

    #[test]
    fn words_are_not_to_be_read_where_there_is_a_key() {
        let words = b"the quick brown fox jumps over the lazy dog";
        let has_words = |sealed: Vec<u8>| sealed.windows(5).any(|five| five == b"brown");
        assert!(has_words(Seal::new(None).seal(AT, words).unwrap()));
        assert!(!has_words(Seal::new(Some([1; 32])).seal(AT, words).unwrap()));
    }
}
