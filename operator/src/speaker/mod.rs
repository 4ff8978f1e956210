//! What events and conditions have in common: phrases, names that a reader may see, and a limit on events.

pub(crate) mod event_budget;
pub mod notice;
pub mod words;
