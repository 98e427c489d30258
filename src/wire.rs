//! (being written)

pub mod format;

pub use format::Format;
