//! (being written)

pub mod classify;
