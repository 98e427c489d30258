//! Any bytes: read, run the ladder, validate. Run with `cargo +nightly fuzz run --fuzz-dir tests/fuzz rewrite`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, u16, Vec<u8>)| plimsoll::decide::rewrite_any(input.0, input.1.into(), input.2));
