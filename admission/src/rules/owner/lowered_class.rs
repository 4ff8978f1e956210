//! Owners of gangs, update: the class of the pod templates and the PodGroup that exists. A PodGroup keeps its class, so pods
//! with a lower one are rejected, which otherwise only the owner's controller would see.

use crate::request::Request;
use crate::view::ClusterView;
use giveway_crds::kinds::templates::Grouped;
use giveway_crds::kinds::{OwnerKind, classes, name};
use serde_json::value::RawValue;

/// Returns the warning for an update of the owner with this name whose pod templates have a PriorityClass below the priority
/// of the PodGroup that Giveway created for it: new pods would be rejected. `None` if no class is lower, there is no such
/// PodGroup, or the kind has several PodGroups for each owner.
pub fn warning(
    row: &OwnerKind,
    request: &Request<'_>,
    owner: &str,
    templates: &[Grouped<&RawValue>],
    view: &dyn ClusterView,
) -> Option<String> {
    let group_name = name::of(owner, &[]);
    let group = view.group(request.namespace(), &group_name).filter(|_| row.replica.is_empty())?;
    let (kind, made_for) = group.made_for.as_ref()?;
    if (kind.as_str(), made_for.as_str()) != (row.kind, owner) {
        return None;
    }
    let named = classes::named(row, request.object, templates);
    classes::warning_below(&named, &group_name, group.priority?, view.classes())
}
