//! `kubectl giveway cleanup taints`: removes the operator's taints from every node, if no operator does it any more.
//!
//! A taint belongs to Giveway if it has the UID of a pod for which a `Preemption` of the strategy `critical-addon` was
//! stored. Every other taint, even with the same key, is kept.

mod node;
mod own;
pub(crate) mod store;

use crate::args::cleanup::CleanTaintsArgs;
use crate::connect::{Api, ClusterConnection, block_on};
use crate::error::CliError;
use crate::job;
use crate::output::Printer;
use store::TaintStore;

/// What is done with Giveway's taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CleanupMode {
    /// They are removed.
    Remove,
    /// They are printed, and nothing is written.
    DryRun,
}

impl CleanupMode {
    /// Returns for the output what is done with a taint: `removed` or `would be removed`.
    fn done(self) -> &'static str {
        match self {
            Self::Remove => "removed",
            Self::DryRun => "would be removed",
        }
    }
}

/// Runs `kubectl giveway cleanup taints`: removes Giveway's taints from nodes. Returns the exit status.
pub(crate) fn run(args: &CleanTaintsArgs, connection: &ClusterConnection) -> Result<u8, CliError> {
    let work = async || remove_all(args, connection).await;
    block_on(job::run(&args.job, None, connection, work))
}

/// Removes Giveway's taints from all nodes, and prints them. Returns the exit status.
async fn remove_all(args: &CleanTaintsArgs, connection: &ClusterConnection) -> Result<u8, CliError> {
    let mut printer = Printer::default();
    let status = remove_from_all_nodes(connection.api().await?, args.dry_run, &mut printer).await?;
    printer.finish()?;
    Ok(status)
}

/// Removes Giveway's taints from all nodes, and prints them; a dry run only prints them. Returns the exit status. If the cluster has no
/// Preemptions, it is not known which taints are Giveway's, and none is removed.
pub(crate) async fn remove_from_all_nodes(api: Api, dry_run: bool, printer: &mut Printer) -> Result<u8, CliError> {
    let mode = if dry_run { CleanupMode::DryRun } else { CleanupMode::Remove };
    let store = TaintStore { api };
    let Some(uids) = store.tainted_pod_uids().await? else { return report_possible_taints(&store, printer).await };
    let (mut status, mut found) = (0, false);
    for node in store.nodes().await? {
        let name = own::name(&node).to_owned();
        // A failure for one node does not stop the others.
        let removed = match mode {
            CleanupMode::DryRun => Ok(own::split(&node, &uids).map(|split| split.ours).unwrap_or_default()),
            CleanupMode::Remove => node::remove_taints(&store, node, &uids).await,
        };
        match removed {
            Ok(removed) => {
                found |= !removed.is_empty();
                for taint in removed {
                    printer.print(&format!("node/{name}: taint {taint} {}\n", mode.done()));
                }
            }
            Err(error) => {
                found = true;
                status = status.max(crate::print_error(&error));
            }
        }
    }
    if !found {
        printer.print("No node has a taint of Giveway's.\n");
    }
    Ok(status)
}

/// Prints the taints that look like Giveway's and keeps them: without the kind `Preemption` it is not known which are. Returns the exit
/// status: 1 if there is such a taint.
async fn report_possible_taints(store: &TaintStore, printer: &mut Printer) -> Result<u8, CliError> {
    let mut status = 0;
    for node in store.nodes().await? {
        let name = own::name(&node);
        for taint in own::possible_taints(&node) {
            let problem = format!(
                "taint {taint} stays: it looks like one of Giveway's, but the Preemptions that would confirm it no \
                 longer exist. Remove it unless another component set it: kubectl taint node {name} {taint}-"
            );
            status = status.max(crate::print_error(&CliError::Cluster { what: format!("node/{name}"), problem }));
        }
    }
    if status == 0 {
        printer.print("The cluster has no Preemptions, and no node has a taint that looks like one of Giveway's.\n");
    }
    Ok(status)
}
