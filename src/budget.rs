//! (being written)

pub mod models;
