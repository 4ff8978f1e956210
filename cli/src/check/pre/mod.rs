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

/// Runs the checks before an installation and returns the findings.
pub(super) fn findings(args: &CheckArgs, connection: &ClusterConnection) -> Result<Vec<Finding>, CliError> {
    let values = values::read(&args.values)?;
    let facts = block_on(async {
        let api = connection.api().await?;
        gather::facts(&api, &args.giveway_namespace, &values).await
    })?;
    Ok(judge::all(&facts, &values))
}
