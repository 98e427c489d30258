//! Stand-ins for what the transport needs of the wire formats, until the real ones are merged.

pub mod format;
pub mod head;
pub mod overflow;
pub mod sse;
pub mod usage;

pub use format::Format;
