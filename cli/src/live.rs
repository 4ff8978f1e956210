//! Reads what the planner needs from the API server: lists, page by page, whose objects are decoded one by one while they arrive.

use crate::connect::{Api, Got};
use crate::error::CliError;
use crate::role::Role;
use giveway_cluster::objects::Kind;
use giveway_cluster::objects::kinds::{IN_SNAPSHOTS, NATIVE_GROUPS};
use giveway_crds::native;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::api::ListParams;
use serde_json::Value;

/// Objects per page.
const PAGE: u32 = 2000;

/// The kinds without which no command works. The others may be missing in the user's permissions.
const NECESSARY: [&str; 4] = ["Node", "Pod", "PodDisruptionBudget", "PriorityClass"];

/// Objects, their source, and notes about them.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    /// Source: a file, or `cluster`.
    pub(crate) source: String,
    /// The objects.
    pub(crate) items: Vec<Value>,
    /// What is missing, as sentences.
    pub(crate) notes: Vec<String>,
}

/// Reads everything that the planner needs.
pub(crate) async fn read(api: &Api) -> Result<Objects, CliError> {
    read_kinds(api, |_| true).await
}

/// Reads the kinds for which `wanted` returns true.
pub(crate) async fn read_kinds(api: &Api, wanted: impl Fn(&str) -> bool) -> Result<Objects, CliError> {
    let mut items = Vec::new();
    let notes = each(api, wanted, |object| {
        items.push(object);
        Ok(())
    })
    .await?;
    Ok(Objects { source: "cluster".to_owned(), items, notes })
}

/// Reads the kinds for which `wanted` returns true: `take` gets each object as it arrives. Returns what is missing, as sentences.
pub(crate) async fn each(
    api: &Api,
    wanted: impl Fn(&str) -> bool,
    mut take: impl FnMut(Value) -> Result<(), CliError>,
) -> Result<Vec<String>, CliError> {
    let mut notes = Vec::new();
    for kind in IN_SNAPSHOTS.iter().copied().filter(|kind| wanted(kind.kind)) {
        if !list(api, kind, &mut take, &mut notes).await? && kind.is_own() {
            notes.push(format!("The cluster has no {}s: Giveway is not installed.", kind.kind));
        }
    }
    if wanted("PodGroup")
        && let Some(kind) = native_groups(api).await?
    {
        list(api, kind, &mut take, &mut notes).await?;
    }
    Ok(notes)
}

/// Returns the kind of native PodGroups in the newest version that is served. Every user may read which versions are
/// served; a missing permission to list native PodGroups is reported only if a version is served.
async fn native_groups(api: &Api) -> Result<Option<&'static Kind>, CliError> {
    for kind in &NATIVE_GROUPS {
        let served: Got<APIResourceList> = api.get(&format!("/apis/{}", kind.api_version)).await?;
        if let Got::Found(list) = served
            && list.resources.iter().any(|resource| resource.name == native::PLURAL)
        {
            return Ok(Some(kind));
        }
    }
    Ok(None)
}

/// Returns true if the cluster may lack the kind. Giveway's own ones are missing where it is not installed.
fn may_be_missing(kind: &Kind) -> bool {
    kind.is_own() || kind.is_optional()
}

/// Lists a kind. Returns false if the cluster lacks the kind.
///
/// # Errors
/// The cluster lacks a kind that every cluster has: its objects are unknown.
async fn list(
    api: &Api,
    kind: &Kind,
    take: &mut impl FnMut(Value) -> Result<(), CliError>,
    notes: &mut Vec<String>,
) -> Result<bool, CliError> {
    let mut params = ListParams { limit: Some(PAGE), ..ListParams::default() };
    if kind.kind == "ValidatingAdmissionPolicy" {
        params.field_selector = Some("metadata.name=giveway-namespaces".to_owned());
    }
    loop {
        let failed = |problem: String| CliError::Cluster { what: format!("GET {}", kind.path()), problem };
        let next = match api.page(kind, &params, take).await? {
            Got::Found(next) => next,
            Got::Missing if may_be_missing(kind) => return Ok(false),
            Got::Forbidden(problem) if !NECESSARY.contains(&kind.kind) => {
                let problem = Role::Planner.explain(&problem);
                notes.push(format!("You may not list {}, so none is known: {problem}", plural(kind)));
                return Ok(true);
            }
            Got::Missing => return Err(failed("the API server does not know this kind".to_owned())),
            Got::Forbidden(problem) => return Err(failed(Role::Planner.explain(&problem))),
        };
        if next.is_empty() {
            return Ok(true);
        }
        params.continue_token = Some(next);
    }
}

fn plural(kind: &Kind) -> String {
    let native =
        if kind.api_version.starts_with("scheduling.k8s.io/") && kind.kind == native::KIND { "native " } else { "" };
    match kind.kind {
        "ValidatingAdmissionPolicy" => "ValidatingAdmissionPolicies".to_owned(),
        name if name.ends_with('s') => format!("{native}{name}es"),
        name => format!("{native}{name}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kinds_of_giveway_and_of_newer_versions_of_kubernetes_may_be_missing() {
        let missing: Vec<_> = IN_SNAPSHOTS.iter().filter(|kind| may_be_missing(kind)).map(|kind| kind.kind).collect();
        assert_eq!(missing, ["DeviceClass", "PodGroup", "Preemption", "Workload"]);
        assert!(NATIVE_GROUPS.iter().all(|kind| !may_be_missing(kind)), "only a version that is served is listed");
    }

    #[test]
    fn every_necessary_kind_is_listed() {
        let listed = |name: &&str| IN_SNAPSHOTS.iter().any(|kind| kind.kind == *name);
        assert!(NECESSARY.iter().all(listed));
    }
}
