//! Turns search results into decisions with explanations: plans, shortfalls, and the units that are not evicted.

mod alike;
mod assembly;
mod decide;
mod domains;
#[cfg(test)]
mod domains_tests;
mod hopeless;
mod mutual_exclusion;
mod request;
mod rescue;
mod shortfall;
mod spared;
mod still_fits;
mod unknown;
mod verify;

pub use decide::plan;
pub use mutual_exclusion::mutually_exclusive;
pub use rescue::{feasible_node, must_stay, rescue, reservation_priority};
pub use spared::{Bystander, Sparing, spared};
pub use still_fits::{OUTAGE_TAINTS, still_fits};
