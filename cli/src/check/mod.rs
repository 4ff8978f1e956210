//! `kubectl giveway check`: checks the installation, and reports classes that still preempt through kube-scheduler and
//! the pods with guaranteed budgets that they expose.
//!
//! [`gather`] reads from the API server, [`judge`] turns the result into findings. Nothing is written, unless a
//! [`gang`] is requested.

mod breakers;
mod certificate;
mod exposure;
mod facts;
mod finding;
mod gang;
mod gather;
mod judge;
mod tolerations;

use crate::args::{CheckArgs, CheckFormat};
use crate::connect::{Connection, block_on};
use crate::error::CliError;
use crate::output::{self, style};
use finding::{Report, Status};

/// Runs the checks and prints the findings. Returns the exit status: 1 if a check failed.
pub(crate) fn run(args: &CheckArgs, connection: &Connection) -> Result<u8, CliError> {
    let (facts, gang) = block_on(async {
        let api = connection.api().await?;
        let facts = gather::facts(&api, &args.giveway_namespace).await?;
        let gang = match &args.gang {
            Some(image) => Some(gang::tried(&api, &api.namespace, image).await),
            None => None,
        };
        Ok((facts, gang))
    })?;
    let findings: Vec<_> = judge::all(&facts).into_iter().chain(gang).collect();
    let ok = findings.iter().all(|finding| finding.status != Status::Fail);
    let report = Report { ok, version: facts.version, namespace: facts.namespace, findings };
    let text = match args.output {
        CheckFormat::Table => report.table(style::width()),
        CheckFormat::Json => {
            let json = serde_json::to_string_pretty(&report).map_err(std::io::Error::from);
            json.map_err(CliError::stdout)? + "\n"
        }
    };
    output::show(&text)?;
    Ok(u8::from(!ok))
}
