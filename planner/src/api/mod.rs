//! Requests to the planner and its decisions, as plain values.

mod cost;
mod decision;
mod domain;
mod hopeless;
mod keep;
mod plan;
mod refusal;
mod request;
mod rescue;
mod shortfall;
mod step;
mod terms;
mod unknown;

pub use cost::{Cost, CostBound, Criterion, LostWork, offset_priority};
pub use decision::Decision;
pub use domain::Domain;
pub use hopeless::{Hopeless, Nearest};
pub use keep::{can_taint, taint};
pub use plan::{Placement, Plan, Victim, VictimPod};
pub use refusal::Refusal;
pub use request::{Context, Preemptor, Respect, Strategy};
pub use rescue::{Eviction, Rescue};
pub use shortfall::{GuaranteedBudget, Help, Missing, NearestDomain, Shortfall};
pub use step::Step;
pub use terms::{Fate, Terms, is_shortened};
pub use unknown::Unknown;
