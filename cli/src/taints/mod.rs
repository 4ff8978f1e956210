//! `kubectl giveway release --taints`: takes the operator's taints from every node, when no operator does it any more.
//!
//! A taint is Giveway's when it has the UID of a pod for which a `Preemption` of the strategy `critical-addon` was made.
//! Every other one, also with the same key, belongs to somebody else and stays as it is.

mod node;
mod own;
pub(crate) mod store;

use crate::connect::{Connection, block_on};
use crate::error::CliError;
use crate::output;
use store::Store;

/// What is done to a taint of Giveway's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// It is removed.
    Remove,
    /// It is named, and nothing is written.
    DryRun,
}

impl Mode {
    fn done(self) -> &'static str {
        match self {
            Self::Remove => "removed",
            Self::DryRun => "would be removed",
        }
    }
}

/// `release --taints`. Returns the exit status.
pub(crate) fn release(dry_run: bool, connection: &Connection) -> Result<u8, CliError> {
    let mode = if dry_run { Mode::DryRun } else { Mode::Remove };
    block_on(async {
        let store = Store { api: connection.api().await? };
        let Some(uids) = store.tainted_for().await? else {
            output::show("The cluster has no Preemptions, so none of its taints is Giveway's.\n")?;
            return Ok(0);
        };
        let (mut status, mut found) = (0, false);
        for node in store.nodes().await? {
            let name = own::name(&node).to_owned();
            // One node that fails does not keep the others from it.
            let removed = match mode {
                Mode::DryRun => Ok(own::split(&node, &uids).map(|split| split.ours).unwrap_or_default()),
                Mode::Remove => node::clear(&store, node, &uids).await,
            };
            match removed {
                Ok(removed) => {
                    found |= !removed.is_empty();
                    for taint in removed {
                        output::show(&format!("node/{name}: taint {taint} {}\n", mode.done()))?;
                    }
                }
                Err(error) => {
                    found = true;
                    status = status.max(crate::complain(&error));
                }
            }
        }
        if !found {
            output::show("No node has a taint of Giveway's.\n")?;
        }
        Ok(status)
    })
}
