//! The catalogue of sentences that users read: one function for each, whose arguments are numbers, names and states. `tests/wording.txt`
//! has every sentence of [`conditions`] and [`events`], with counts of 0, 1 and 2.
//!
//! A sentence may contain what another component says: kube-scheduler, an admission webhook, the API server, or a controller. Some parts
//! come from types of this repository that say themselves why, because the plugin shows them, too:
//!
//! * The planner says why a preemptor does not fit: `Shortfall`, `Hopeless` and `Unknown` of `planner/src/api`, the reasons of `still_fits`,
//!   the effect of a `Step`, and the reason of a `Protection`.
//! * [`Mode::restraint`](crate::mode::Mode::restraint) says what a mode prevents, and [`lending`](crate::lending) what to do about pods
//!   with another priority than their group.
//! * Errors of calls and certificates say what failed: `operator/src/calls`, `operator/src/certificate`.

pub mod conditions;
mod counts;
pub mod events;
pub mod sentence;

pub use counts::{agree, counted, part_of, pods};
pub use sentence::{Names, Sentence};
