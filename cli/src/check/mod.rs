//! `kubectl giveway check`: is everything installed and well, which classes still preempt through kube-scheduler, and
//! which guarded pods does that expose?
//!
//! [`gather`] asks the API server, [`judge`] turns what it said into findings; nothing is written, but where a
//! [`gang`] is asked for.

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

/// Looks and prints. Returns the exit status: 1 when something is wrong.
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
