//! The PodGroups that were created for an owner.

use crate::connect::{Api, GetResult};
use crate::error::CliError;
use crate::role::ChartRole;
use giveway_crds::PodGroup;
use giveway_crds::kinds::{OwnerKind, of_version};
use giveway_planner::ObjectKey;
use kube::ResourceExt as _;
use kube::core::ObjectList;

/// Returns the PodGroups in the namespace of the command whose owner is the object `name` of the kind `row`, sorted by name. It is an
/// error if there is none.
pub(super) async fn groups(api: &Api, row: &OwnerKind, name: &str) -> Result<Vec<ObjectKey>, CliError> {
    let path = format!("/apis/scheduling.giveway.dev/v1alpha1/namespaces/{}/podgroups", api.namespace);
    let all = match api.get::<ObjectList<PodGroup>>(&path).await? {
        GetResult::Found(groups) => groups.items,
        GetResult::Missing => Vec::new(),
        GetResult::Forbidden(problem) => {
            return Err(CliError::Cluster {
                what: format!("GET {path}"),
                problem: ChartRole::Planner.explain(&problem),
            });
        }
    };
    let mut keys: Vec<ObjectKey> = all
        .iter()
        .filter(|group| is_of(group, row, name))
        .map(|group| ObjectKey::new(&api.namespace, group.name_any()))
        .collect();
    if keys.is_empty() {
        let namespace = &api.namespace;
        let (kind, label) = (row.kind, giveway_crds::keys::LABEL_GANG);
        return Err(CliError::NoSuchObject(format!(
            "no pod group of namespace {namespace} belongs to {kind} {name}: pod groups are created with the first pod of an object that has had the label {label}: \"true\""
        )));
    }
    keys.sort();
    Ok(keys)
}

/// Returns true if the object `name` of the kind `row` owns the PodGroup.
fn is_of(group: &PodGroup, row: &OwnerKind, name: &str) -> bool {
    let mut owners = group.owner_references().iter();
    owners
        .any(|owner| owner.name == name && of_version(&owner.api_version, &owner.kind).is_some_and(|kind| kind == row))
}
