//! `kubectl giveway check`: checks the installation, and reports classes that still preempt through kube-scheduler and
//! the pods with guaranteed budgets that they expose.
//!
//! [`gather`] reads from the API server, [`judge`] turns the result into findings. Nothing is written, unless a
//! [`gang`] is requested. [`pre`] checks a cluster before the installation.

mod breakers;
mod certificate;
mod exposure;
mod facts;
mod finding;
mod gang;
mod gather;
mod judge;
mod pre;
mod tolerations;

use crate::args::{CheckArgs, CheckFormat};
use crate::connect::{ClusterConnection, block_on};
use crate::error::CliError;
use crate::output::{self, style};
use finding::{CheckReport, Finding, Status};

/// Runs the checks and prints the findings. Returns the exit status: 1 if a check failed.
pub(crate) fn run(args: &CheckArgs, connection: &ClusterConnection) -> Result<u8, CliError> {
    let (namespace, findings) = if args.pre { pre::findings(args, connection)? } else { installed(args, connection)? };
    let ok = findings.iter().all(|finding| finding.status != Status::Fail);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let report = CheckReport { ok, version, namespace, findings };
    let text = match args.output {
        CheckFormat::Table => report.table(style::width()),
        CheckFormat::Json => output::json(&report)?,
        CheckFormat::Yaml => output::yaml(&report)?,
    };
    output::show(&text)?;
    Ok(u8::from(!ok))
}

/// Returns Giveway's namespace, and the findings about an installation there.
fn installed(args: &CheckArgs, connection: &ClusterConnection) -> Result<(String, Vec<Finding>), CliError> {
    let (namespace, facts, gang) = block_on(async {
        let api = connection.api().await?;
        let namespace = api.giveway_namespace().await;
        let facts = gather::facts(&api, &namespace).await?;
        let gang = match &args.gang {
            Some(image) => Some(gang::tried(&api, &api.namespace, image).await),
            None => None,
        };
        Ok((namespace, facts, gang))
    })?;
    Ok((namespace, judge::all(&facts).into_iter().chain(gang).collect()))
}
