//! (being written)

pub mod digest;
