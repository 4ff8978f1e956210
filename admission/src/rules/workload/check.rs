//! Workload, create and update: the controllers can parse the final object, the priority of each template is its
//! class's, and pods can join the groups that are created from it.

use super::fill::{WorkloadFields, stored_templates};
use crate::object;
use crate::request::Request;
use crate::rules::priority::{self, SpecPath};
use crate::verdict::{Denial, Notes};
use crate::view::ClusterView;
use crate::wording::workloads;
use giveway_crds::workload::WorkloadSpec;
use giveway_crds::{keys, membership};
use serde::Deserialize;

/// The fields that the controllers read; the API server validates the others.
#[derive(Deserialize)]
struct ReadableWorkload {
    #[serde(rename = "spec")]
    _spec: WorkloadSpec,
}

/// Checks a Workload as it is to be stored.
///
/// # Errors
/// With status 422: the controllers could not parse the object, it has too many templates, or its name and that of a template
/// are too long for the names of its PodGroups. With status 403: a priority is not that of its class.
pub fn check(request: &Request<'_>, view: &dyn ClusterView, notes: &mut Notes) -> Result<(), Denial> {
    let workload: WorkloadFields = object::read("Workload", request.object)?;
    if workload.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    if workload.spec.pod_group_templates.are_too_many() {
        return Err(workloads::too_many_templates());
    }
    let _: ReadableWorkload = object::read("Workload", request.object)?;
    let stored = stored_templates(request)?;
    let name = workload.metadata.name.as_deref().unwrap_or_default();
    for (index, template) in workload.spec.pod_group_templates.iter().enumerate() {
        let place = SpecPath::template(index);
        let before = stored.as_ref().and_then(|s| s.get(&template.name));
        priority::check(&place, &template.given(), before, view, notes)?;
        let group = membership::derived_name(name, &template.name, None);
        if before.is_none() && group.len() > keys::MAX_GROUP_NAME {
            return Err(workloads::group_name_too_long(&place.path(), &template.name, &group));
        }
    }
    Ok(())
}
