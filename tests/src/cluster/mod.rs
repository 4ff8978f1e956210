//! Builders for what is in a cluster: nodes, priority classes, groups, pods and budgets, and handles to wait on them.
//!
//! Everything is created through the API as a user would, with bounded concurrency, and is recorded nowhere but in the
//! cluster: the oracle reads the audit log.

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
pub use events::{Happened, wait_for_event};
pub use fill::FillBuilder;
pub use groups::{Group, GroupBuilder};
pub use kit::Kit;
pub use leftovers::{remove_pods, tidy};
pub use nodes::NodesBuilder;
pub use pods::{PodBuilder, PodHandle, ready, scheduling_gates};
pub use policies::Denial;
pub use preemptions::stored_plans;
pub use shape::{GRACE_SECONDS, Shape, Shaped};
