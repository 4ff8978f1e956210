//! The decision engine of Giveway: who gives way, and for whom.
//!
//! It is pure: no client, no clock, no environment, no randomness, no async. [`model::Cluster`] holds what is known of
//! the cluster; [`plan()`] decides for one preemptor; [`spared()`] says who stays then, and why; [`still_fits`] checks a
//! decision again later; [`rescue()`] makes room for a critical add-on. The same cluster gives the same decision, in
//! whatever order its objects arrived.
//!
//! Layers, each of which knows only those before it (`tests/layers.rs`): [`model`] what is known, [`api`] what is asked and
//! answered, `filters` where a pod fits, `problem` one question, `search` strategies, `incremental` answers that are kept,
//! `answer` plans in words.

mod answer;
pub mod api;
mod filters;
mod incremental;
pub mod model;
mod problem;
mod search;

pub use answer::{Bystander, OUTAGE_TAINTS, Sparing, crowding, plan, spared, still_fits};
pub use api::sentence;
pub use api::{
    Context, Cost, Decision, Domain, GuaranteedBudget, Holds, Placement, Plan, Preemptor, Rescue, Reservation,
    Shortfall, Step, Strategy, Terms, Unknown, Victim, VictimPod,
};
pub use model::{Cluster, ModelError, ObjectKey, UnitKind, quantity};
pub use rescue::rescue;
pub use smol_str::SmolStr;

/// Room for critical add-ons (design, section 5, "Critical pods").
pub mod rescue {
    pub use crate::answer::{must_stay, rank, rescue, room_for};
    pub use crate::api::{Eviction, Fate, Hopeless, Nearest, Rescue, Step, Terms, can_taint, is_shortened, taint};
}
