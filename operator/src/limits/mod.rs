//! What administrators limit: evictions per minute, and the mode.

pub mod rates;
pub mod switch;
