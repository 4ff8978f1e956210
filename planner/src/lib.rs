//! The decision engine of Giveway: who gives way, and for whom.
//!
//! It is pure: no client, no clock, no environment, no randomness, no async. [`model::Cluster`] holds what is known of
//! the cluster; [`plan()`] decides for one preemptor; [`spared()`] says who stays then, and why; [`still_fits`] checks a
//! decision again later; [`rescue()`] makes room for a critical add-on. The same cluster gives the same decision, in
//! whatever order its objects arrived.

mod budgets;
mod clearing;
pub mod cost;
mod demand;
mod domain;
mod domains;
pub mod error;
pub mod explain;
pub mod feasibility;
mod importance;
mod kep5710;
mod lean;
mod least_cost;
pub mod model;
mod overlay;
mod placement;
pub mod plan;
mod problem;
pub mod quantity;
mod reprieve;
pub mod rescue;
mod spared;
mod still_fits;

pub use cost::Cost;
pub use error::ModelError;
pub use explain::{GuaranteedBudget, Shortfall};
pub use model::{Cluster, ObjectKey};
pub use plan::{
    Context, Decision, Domain, Placement, Plan, Preemptor, Reservation, Strategy, UnitKind, Victim, VictimPod, plan,
};
pub use rescue::{Rescue, Step, Terms, rescue};
pub use smol_str::SmolStr;
pub use spared::{Spared, Sparing, spared};
pub use still_fits::still_fits;
