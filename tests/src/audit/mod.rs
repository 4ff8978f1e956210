//! The oracle: what the API server's audit log proves, whatever Giveway says of itself.
//!
//! [`log`] reads the lines, [`history`] turns them into who removed, bound and nominated which pod and which plans
//! were stored when, and [`promises`] checks that against the promises of the design, those about
//! critical add-ons in [`rescues`] and those about domains in [`topology`]. [`chronicle`] adds which pods were
//! healthy at every moment, and [`budgets`] checks the promises about budgets against both.

pub mod budgets;
pub mod chronicle;
#[cfg(test)]
mod handwritten;
pub mod history;
pub mod log;
pub mod promises;
mod record;
mod rescues;
mod topology;

pub use chronicle::{Chronicle, Chronicler};
pub use history::{
    Binding, GroupRecord, History, How, NodeWrite, Nomination, PlanRecord, PodRecord, Preemptor, Removal,
};
pub use promises::Promises;

use anyhow::Result;
use kube::Client;
use std::path::Path;
use std::time::Duration;

/// The user name of Giveway's operator.
pub const OPERATOR: &str = "system:serviceaccount:giveway-system:giveway-operator";
/// The user name of the stock scheduler.
pub const SCHEDULER: &str = "system:kube-scheduler";
/// The user name of whoever runs the test.
pub const ADMIN: &str = "admin";

/// Reads the audit log as far as it goes now, and at least up to everything that was answered before this call.
///
/// # Errors
/// The log cannot be read, or the API server does not write it.
pub async fn read(client: &Client, path: &Path) -> Result<History> {
    log::flush(client, path, Duration::from_secs(20)).await?;
    Ok(History::new(&log::read(path)?))
}
