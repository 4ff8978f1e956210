//! The oracle: what the API server's audit log proves, whatever Giveway says of itself.
//!
//! [`log`] reads the lines, [`history`] turns them into who removed, bound and nominated which pod and which plans
//! were stored when, [`unanswered`] concludes what came of requests whose client was gone before the answer, and [`promises`]
//! checks all that against the promises of the design, those about critical add-ons in [`rescues`], those about terms in
//! [`terms`] and those about domains in [`topology`]; [`rest`] looks at what is left when nothing happens any more.
//! [`chronicle`] adds which pods were healthy at every moment, and [`budgets`] checks the promises about budgets against both.

pub mod budgets;
pub mod chronicle;
#[cfg(test)]
mod handwritten;
pub mod history;
pub mod log;
pub mod promises;
mod record;
mod rescues;
pub mod rest;
mod terms;
mod topology;
pub mod unanswered;

pub use chronicle::{Chronicle, Chronicler};
pub use history::{
    Binding, GroupRecord, History, How, NodeWrite, Nomination, PlanRecord, PodRecord, Preemptor, Removal,
};
pub use promises::Promises;

/// The user name of Giveway's operator.
pub const OPERATOR: &str = "system:serviceaccount:giveway-system:giveway-operator";
/// The user name of the stock scheduler.
pub const SCHEDULER: &str = "system:kube-scheduler";
/// The user name of whoever runs the test.
pub const ADMIN: &str = "admin";
