//! `kubectl giveway check --pre`: what an installation with given values of the chart needs from a cluster.
//!
//! [`values`] reads the values, [`gather`] reads from the API server, [`judge`] turns the result into findings. Nothing is written.

mod facts;
mod gather;
mod judge;
mod values;

use super::finding::Finding;
use crate::args::CheckArgs;
use crate::connect::{ClusterConnection, block_on};
use crate::error::CliError;

/// Runs the checks before an installation in Giveway's namespace. Returns that namespace, and the findings.
pub(super) fn findings(args: &CheckArgs, connection: &ClusterConnection) -> Result<(String, Vec<Finding>), CliError> {
    let values = values::read(&args.values)?;
    let (namespace, facts) = block_on(async {
        let api = connection.api().await?;
        let namespace = api.giveway_namespace().await;
        let facts = gather::facts(&api, &namespace, &values).await?;
        Ok((namespace, facts))
    })?;
    Ok((namespace, judge::all(&facts, &values)))
}
