//! (being written)

pub mod format;
pub mod overflow;
pub mod sse;
pub mod usage;

pub use format::Format;
