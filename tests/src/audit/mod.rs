//! The oracle: what the API server's audit log proves, whatever Giveway says of itself.
//!
//! [`log`] reads the lines, [`history`] turns them into who removed, bound and nominated which pod, with [`groups`] and their
//! priorities, and [`plans`] says which were stored when and who went for which; [`unanswered`] concludes what came of requests whose client was gone before the answer, and [`promises`]
//! checks all that against the promises of the design, those about critical add-ons in [`rescues`], those about terms in
//! [`terms`], who is no victim in [`victims`], and those about domains in [`topology`]; [`rest`] looks at what is left when nothing happens any more.
//! [`chronicle`] adds which pods were healthy at every moment, and [`budgets`] checks the promises about budgets against both.

pub mod budgets;
pub mod chronicle;
mod groups;
#[cfg(test)]
mod handwritten;
pub mod history;
pub mod log;
mod plans;
pub mod promises;
mod record;
mod rescues;
pub mod rest;
mod terms;
mod topology;
pub mod unanswered;
mod victims;

pub use chronicle::{Chronicle, Chronicler};
pub use groups::GroupRecord;
pub use history::{Binding, History, How, NodeWrite, Nomination, PodRecord, Removal};
pub use plans::{PlanRecord, Preemptor};
pub use promises::Promises;

/// The user name of Giveway's operator.
pub const OPERATOR: &str = "system:serviceaccount:giveway-system:giveway-operator";
/// The user name of the stock scheduler.
pub const SCHEDULER: &str = "system:kube-scheduler";
/// The user name of whoever runs the test.
pub const ADMIN: &str = "admin";
