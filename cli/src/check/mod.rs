//! `kubectl giveway check`: checks the installation, and reports classes that still preempt through kube-scheduler and
//! the pods with guaranteed budgets that they expose.
//!
//! [`gather`] reads from the API server, [`judge`] turns the result into findings, with the sentences of [`wording`]. Nothing is
//! written, unless a [`gang`] is requested. [`pre`] checks a cluster before the installation.

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
mod wording;

use crate::args::{CheckArgs, CheckFormat};
use crate::connect::{Api, ClusterConnection, block_on};
use crate::error::CliError;
use crate::output::{self, style};
use finding::{CheckReport, Finding};

/// Runs `kubectl giveway check`: checks the installation, or with `--pre` the cluster before it, and prints the findings. Returns the
/// exit status: 1 if a check failed.
pub(crate) fn run(args: &CheckArgs, connection: &ClusterConnection) -> Result<u8, CliError> {
    let (namespace, findings) =
        if args.pre { pre::findings(args, connection)? } else { check_installation(args, connection)? };
    let report = CheckReport::new(namespace, findings);
    let text = match args.output {
        CheckFormat::Table => report.table(style::width()),
        CheckFormat::Json => output::json(&report)?,
        CheckFormat::Yaml => output::yaml(&report)?,
    };
    output::show(&text)?;
    Ok(u8::from(!report.ok))
}

/// Returns the report about the installation in Giveway's namespace. Nothing is created; the test gang of `--gang` is not started.
pub(crate) async fn report(api: &Api) -> Result<CheckReport, CliError> {
    let namespace = api.giveway_namespace().await;
    let findings = judge::all(&gather::facts(api, &namespace).await?);
    Ok(CheckReport::new(namespace, findings))
}

/// Returns Giveway's namespace, and the findings about the installation there. With `--gang`, a test gang is started too.
fn check_installation(args: &CheckArgs, connection: &ClusterConnection) -> Result<(String, Vec<Finding>), CliError> {
    block_on(async {
        let api = connection.api().await?;
        let mut report = report(&api).await?;
        if let Some(image) = &args.gang {
            report.findings.push(gang::try_gang(&api, &api.namespace, image).await);
        }
        Ok((report.namespace, report.findings))
    })
}
