//! Plimsoll keeps agents' requests under their model's context window, in flight, byte for byte.
//!
//! A request is bytes. [`wire`] reads where its messages lie, [`tokens`] measures them, [`budget`] says whether they weigh too much,
//! [`compact`] proposes edits, [`ledger`] remembers what was decided, and `proxy` carries the result. Nothing is ever re-serialised:
//! edits are data, spliced into the original bytes in one place ([`wire::Request::apply`]) and read back before they are sent.
//!
//! What is deliberately absent:
//! - no strategy does IO, reads a clock or knows a provider; no wire format knows a strategy; no strategy knows another;
//! - no file knows two providers;
//! - only `proxy`, `config`, `cli`, the ledger's stores and `main.rs` know tokio, hyper, clocks, environment or files.
//!
//! `cargo check --no-default-features --lib` builds everything but those.

pub mod budget;
pub mod compact;
pub mod conversation;
pub mod decide;
mod escape;
pub mod ledger;
pub mod tokens;
pub mod wire;

#[cfg(feature = "proxy")]
pub mod cli;
#[cfg(feature = "proxy")]
pub mod config;
#[cfg(feature = "proxy")]
pub mod proxy;
