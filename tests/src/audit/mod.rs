//! The oracle: checks the promises of the design against the audit log of the API server, not against what Giveway reports.
//!
//! ```text
//! record, json     pods, PodGroups, plans and requests as data, and how JSON is read
//! log              reads the lines of the audit log
//! history          builds the records from the lines
//! unanswered       decides which requests without a response were carried out
//! evictions        queries about evictions in a history
//! groups           queries about PodGroups and priorities
//! plans            queries about plans and preemptors
//! preemptors       the preemptors for which pods were evicted, and their bound pods
//! breach           a promise that was not kept
//! planned          promise 4: one eviction for each pod, for a stored plan
//! terms            promise 4: evictions and plans of one leader
//! causes           promise 4: what justifies the evictions of a `Preemption` without a preemptor
//! disruption       promise 2: whole-group disruption
//! victims          pods that must not be victims
//! in_turn          workloads that evict each other
//! topology         topology domains
//! critical_addons  critical add-ons
//! promises         all of these checks, and the excuses of a test
//! chronicle        watches pods and budgets
//! budgets          promises about PodDisruptionBudgets, from history and chronicle
//! rest             promise 5: no gate, finalizer, taint or plan remains at rest without a reason
//! ```
//!
//! Each file imports only files above it.

mod breach;
pub mod budgets;
mod causes;
pub mod chronicle;
mod critical_addons;
mod disruption;
mod evictions;
mod groups;
#[cfg(test)]
mod handwritten;
pub mod history;
mod in_turn;
mod json;
pub mod log;
mod planned;
mod plans;
pub mod preemptors;
pub mod promises;
mod record;
pub mod rest;
mod terms;
mod topology;
pub mod unanswered;
mod victims;

pub use breach::{Breach, BreachKind};
pub use chronicle::{Chronicle, Chronicler};
pub use history::History;
pub use promises::Promises;
pub use record::{
    Binding, ClassRecord, GroupRecord, How, Key, Mark, NodeWrite, Nomination, PlanRecord, PodRecord, Preemptor, Removal,
};

/// The user name of Giveway's operator.
pub const OPERATOR: &str = "system:serviceaccount:giveway-system:giveway-operator";
/// The user name of kube-scheduler.
pub const SCHEDULER: &str = "system:kube-scheduler";
/// The user name of the test itself.
pub const ADMIN: &str = "admin";
