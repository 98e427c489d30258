//! (being written)

pub mod format;
pub mod sse;
pub mod usage;

pub use format::Format;
