//! `kubectl giveway cleanup finalizers`: removes Giveway's finalizer from the PodGroups of a namespace that are being deleted, if no
//! operator does it. Otherwise neither their deletion nor that of the namespace ends.

use super::{clean_object, leading_operator, name, traces};
use crate::args::cleanup::CleanFinalizersArgs;
use crate::connect::{Api, ClusterConnection, block_on};
use crate::error::CliError;
use crate::output::Printer;
use crate::taints::store;
use giveway_crds::wording::{agree, pods};
use serde_json::Value;
use std::collections::BTreeMap;

/// Runs `kubectl giveway cleanup finalizers`: checks that no operator leads, removes Giveway's finalizer from the PodGroups that are
/// being deleted, and prints it. Returns the exit status.
pub(crate) fn run(args: &CleanFinalizersArgs, connection: &ClusterConnection) -> Result<u8, CliError> {
    let mut printer = Printer::default();
    let status = block_on(async {
        let api = connection.api().await?;
        if !args.dry_run
            && let Some(sentence) = leading_operator(&api, &api.giveway_namespace().await).await?
        {
            return Err(CliError::OperatorLeads(sentence));
        }
        clean(&api, args.dry_run, &mut printer).await
    })?;
    printer.finish()?;
    Ok(status)
}

/// Removes Giveway's finalizer from the PodGroups of the namespace that are being deleted and have no pod left, and prints each.
/// Returns 1 if a PodGroup keeps its finalizer, otherwise 0.
async fn clean(api: &Api, dry_run: bool, printer: &mut Printer) -> Result<u8, CliError> {
    let namespace = &api.namespace;
    let path = format!("/apis/scheduling.giveway.dev/v1alpha1/namespaces/{namespace}/podgroups");
    let marked = |group: Value| (!traces::of_deleted_group(&group).found.is_empty()).then(|| traces::part_of(group));
    let groups = store::list_of(api, &path, marked).await?.unwrap_or_default();
    if groups.is_empty() {
        let words =
            format!("No PodGroup of namespace {namespace} is being deleted and has the finalizer of Giveway.\n");
        printer.print(&words);
        return Ok(0);
    }
    let members = members(api).await?;
    let mut status = 0;
    for group in groups {
        let (name, target) = (name(&group).to_owned(), format!("{path}/{}", name(&group)));
        if let Some(count) = members.get(&name) {
            let have = agree(*count, "has", "have");
            printer.print(&format!(
                "podgroup/{namespace}/{name}: finalizer KEPT: {} of it {have} not ended. Run the command again afterwards\n",
                pods(*count)
            ));
            status = 1;
            continue;
        }
        if dry_run {
            printer.print(&format!("podgroup/{namespace}/{name}: finalizer would be removed\n"));
            continue;
        }
        // A failure for one PodGroup does not stop the others.
        match clean_object(api, &target, group, &traces::of_deleted_group).await {
            Ok(_) => printer.print(&format!("podgroup/{namespace}/{name}: finalizer removed\n")),
            Err(error) => {
                let what = format!("podgroup/{namespace}/{name}");
                status = crate::print_error(&CliError::Cluster { what, problem: error.to_string() });
            }
        }
    }
    Ok(status)
}

/// Returns by name of a PodGroup how many of its pods in the namespace have not ended. Such a PodGroup keeps its finalizer.
async fn members(api: &Api) -> Result<BTreeMap<String, usize>, CliError> {
    let selector = "labelSelector=scheduling.giveway.dev%2Fpod-group";
    let path = format!("/api/v1/namespaces/{}/pods?{selector}", api.namespace);
    let groups = store::list_of(api, &path, |pod| traces::group_kept_by(&pod).map(Value::from)).await?;
    let mut members = BTreeMap::new();
    for group in groups.iter().flatten().filter_map(Value::as_str) {
        *members.entry(group.to_owned()).or_default() += 1;
    }
    Ok(members)
}
