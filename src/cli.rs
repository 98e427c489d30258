//! Subcommands, each a file.
pub mod compact;
pub mod explain;
