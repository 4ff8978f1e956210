//! The planner of Giveway: chooses placements for a preemptor and the victims that must be evicted for it.
//!
//! It is a pure library: no API client, clock, environment variable, randomness or async code. [`model::Cluster`] is the snapshot of the
//! cluster; [`plan()`] decides for one preemptor; [`spared()`] lists the units of lower priority that a plan does not evict, with reasons;
//! [`still_fits`] checks an earlier plan against a newer snapshot; [`rescue()`] selects a node and victims for a critical add-on. The same
//! cluster state gives the same decision, in whatever order its objects arrived.
//!
//! Layers, each of which uses only those before it (`tests/layers.rs`): [`model`] snapshot of the cluster, [`api`] requests and decisions,
//! `filters` scheduler filters, `problem` one preemption problem, `search` strategies, `index` cached results per equivalence class,
//! `answer` decisions with their explanations. Every layer reads `limits`, the table of all bounds.

#[cfg(test)]
extern crate self as giveway_planner;

mod answer;
pub mod api;
mod filters;
mod index;
mod limits;
pub mod model;
mod problem;
mod search;
/// Random worlds and their oracle, which the tests of bounds share with the tests from outside.
#[cfg(test)]
#[path = "../tests/planner/common/mod.rs"]
mod worlds;

pub use answer::{Bystander, OUTAGE_TAINTS, Sparing, mutually_exclusive, plan, spared, still_fits};
pub use api::{
    Context, Cost, CostBound, Criterion, Decision, Domain, GuaranteedBudget, LostWork, Placement, Plan, Preemptor,
    Rescue, Respect, Shortfall, Step, Strategy, Terms, Unknown, Victim, VictimPod,
};
pub use model::{Cluster, ModelError, ObjectKey, Reservation, UnitKind, quantity};
pub use rescue::rescue;
pub use smol_str::SmolStr;

/// Rescue of critical add-ons (design, section 5, "Critical pods").
pub mod rescue {
    pub use crate::answer::{feasible_node, must_stay, rescue, reservation_priority};
    pub use crate::api::{Eviction, Fate, Hopeless, Nearest, Rescue, Step, Terms, can_taint, is_shortened, taint};
}
