//! Subcommands, each a file.
pub mod compact;
