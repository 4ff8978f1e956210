//! `kubectl giveway adopt` and `release`: put a PriorityClass under Giveway's management, or return it to
//! kube-scheduler.
//!
//! `preemptionPolicy` is immutable, so a class is deleted and created again. It is first saved in a ConfigMap: the next
//! run of either command finishes an interrupted run.

pub(crate) mod form;
pub(crate) mod record;
mod run;
mod step;
pub(crate) mod store;

use crate::args::{AdoptArgs, ChangeFlags, ReleaseArgs};
use crate::connect::{ClusterConnection, block_on};
use crate::error::CliError;
use crate::job;
use crate::output::Printer;
use crate::role::ChartRole;
use form::ClassChange;
use giveway_crds::priority::SYSTEM_PREFIX;
use run::ClassRun;
use std::collections::BTreeSet;
use store::ClassStore;

/// Runs `kubectl giveway adopt`: puts PriorityClasses under Giveway's management. Returns the exit status.
pub(crate) fn adopt(args: &AdoptArgs, connection: &ClusterConnection) -> Result<u8, CliError> {
    block_on(async {
        let namespace = connection.api().await?.giveway_namespace().await;
        change_all(ClassChange::Adopt, Some(&args.names), &args.flags, &namespace, connection).await
    })
}

/// Runs `kubectl giveway release`: ends Giveway's management of PriorityClasses. Returns the exit status.
pub(crate) fn release(args: &ReleaseArgs, connection: &ClusterConnection) -> Result<u8, CliError> {
    let names = (!args.all).then_some(&args.names);
    block_on(async {
        let namespace = connection.api().await?.giveway_namespace().await;
        let work = async || change_all(ClassChange::Release, names, &args.flags, &namespace, connection).await;
        job::run(&args.job, Some(&namespace), connection, work).await
    })
}

/// Adopts or releases classes one by one, and prints the results; a failure for one class does not stop the others. `names` are the
/// classes, or `None` for all managed ones. `namespace` is Giveway's, where a class is saved between its deletion and its creation.
/// Returns the exit status: 0, or the highest one of the failures.
async fn change_all(
    change: ClassChange,
    names: Option<&Vec<String>>,
    flags: &ChangeFlags,
    namespace: &str,
    connection: &ClusterConnection,
) -> Result<u8, CliError> {
    let api = connection.api().await?;
    let store = ClassStore { api: &api, namespace };
    let names = match names {
        Some(names) => names.clone(),
        None => managed(&store).await?,
    };
    let mut printer = Printer::default();
    if names.is_empty() {
        printer.print("No PriorityClass is managed.\n");
    }
    let mut status = 0;
    for name in &names {
        match change_one(&store, change, name, flags.dry_run).await {
            Ok(text) => printer.print(&text),
            Err(error) => status = status.max(crate::print_error(&error)),
        }
    }
    printer.finish()?;
    Ok(status)
}

/// Returns the names of all managed PriorityClasses, and of those whose change by an earlier run was interrupted; `system-*` classes
/// are left out.
async fn managed(store: &ClassStore<'_>) -> Result<Vec<String>, CliError> {
    let role = ChartRole::ClassAdmin(store.namespace);
    let failed = |what: String| {
        move |error: crate::connect::RequestError| CliError::Cluster { what, problem: role.explain(&error.to_string()) }
    };
    let mut names: BTreeSet<String> =
        store.annotated().await.map_err(failed("listing priority classes".to_owned()))?.into_iter().collect();
    let what = format!("listing configmaps in namespace {}", store.namespace);
    let records = store.all_records().await.map_err(failed(what))?;
    names.extend(records.into_iter().filter_map(|record| record.class.metadata.name));
    names.retain(|name| !name.starts_with(SYSTEM_PREFIX));
    Ok(names.into_iter().collect())
}

/// Adopts or releases the class `name`, or says what that would do in a dry run. Returns the text that is printed.
async fn change_one(
    store: &ClassStore<'_>,
    change: ClassChange,
    name: &str,
    dry_run: bool,
) -> Result<String, CliError> {
    if name.starts_with(SYSTEM_PREFIX) {
        return Err(CliError::SystemClass(name.to_owned()));
    }
    // An invalid name would change the request path.
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.')) {
        return Err(CliError::UnknownClass(not_found(name)));
    }
    let run = ClassRun::new(store, change, name);
    if dry_run {
        return Ok(match run.preview().await? {
            Some(class) => format!(
                "---\n{}",
                serde_yaml_ng::to_string(&class)
                    .map_err(|error| CliError::Class { class: name.to_owned(), problem: error.to_string() })?
            ),
            None => unchanged_message(change, name),
        });
    }
    Ok(match run.finish().await? {
        true => format!("priorityclass.scheduling.k8s.io/{name} {}\n", change.done()),
        false => unchanged_message(change, name),
    })
}

/// Returns the message that `change` is not needed: the class `name` is managed already, or it is not managed.
fn unchanged_message(change: ClassChange, name: &str) -> String {
    match change {
        ClassChange::Adopt => format!("priorityclass.scheduling.k8s.io/{name} is managed already\n"),
        ClassChange::Release => format!("priorityclass.scheduling.k8s.io/{name} is not managed\n"),
    }
}

/// Returns the API server's message that the PriorityClass `name` does not exist.
fn not_found(name: &str) -> String {
    format!("priorityclasses.scheduling.k8s.io {name:?} not found")
}
