//! Conversations to try things on: generated ones in three wire formats, and those of the shared folder where it is there.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod conversations;

use std::path::PathBuf;

/// The shared folder of corpora and captures, or `None`, said aloud, where it is not there.
pub fn shared(part: &str) -> Option<PathBuf> {
    let root = std::env::var_os("PLIMSOLL_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared"));
    let path = root.join(part);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: no {} (set PLIMSOLL_SHARED)", path.display());
    None
}
