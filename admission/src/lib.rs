//! The admission rules of Giveway, as pure functions.
//!
//! A rule gets a [`request`] and what it may [look up](view) in the cluster, and returns a [`verdict`]: a [`patch`], warnings,
//! [events](notice), or a rejection. [`judge`](judge::judge) chooses the rule. Rules have no client, no clock and no
//! environment, so the webhook and `kubectl giveway plan -f` use the same ones. All sentences are in [`wording`].
//!
//! Each module imports from lower layers only; `tests/admission/layers.rs` lists the layers.

pub mod judge;
pub mod namespaced;
pub mod notice;
pub mod object;
pub mod patch;
pub mod request;
pub mod rules;
pub mod verdict;
pub mod view;
pub mod wording;
