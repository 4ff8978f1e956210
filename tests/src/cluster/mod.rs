//! Builders of nodes, priority classes, groups, pods and budgets, and handles that wait for their states.
//!
//! All objects are created through the API, as a user would do, with bounded concurrency. The builders keep no records: the
//! oracle reads the audit log.

mod budgets;
mod classes;
mod deployments;
mod events;
mod fill;
mod groups;
mod kit;
mod leftovers;
mod nodes;
mod pods;
mod policies;
mod preemptions;
mod shape;

pub use budgets::BudgetBuilder;
pub use classes::ClassBuilder;
pub use deployments::DeploymentBuilder;
pub use events::{EventRecord, events_about, wait_for_event};
pub use fill::FillBuilder;
pub use groups::{Group, GroupBuilder};
pub use kit::Kit;
pub use leftovers::{remove_pods, tidy};
pub use nodes::{NodesBuilder, is_ready};
pub use pods::{PodBuilder, PodHandle, ready, scheduling_gates};
pub use policies::{Addition, Denial};
pub use preemptions::stored_plans;
pub use shape::{GRACE_SECONDS, Shape, Shaped};
