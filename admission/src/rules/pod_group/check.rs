//! PodGroup, create and update: the final object can be read by the controllers, and its priority is its class's.

use crate::object::{self, Map, Metadata};
use crate::request::{Operation, Request};
use crate::rules::priority::{self, SpecPath, StatedPriority};
use crate::verdict::{Denial, Notes, Reference};
use crate::view::ClusterView;
use crate::wording::groups;
use giveway_crds::pod_group::{PodGroupSpec, PodGroupTemplateRef};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
struct StoredPodGroup<'a> {
    #[serde(borrow, default)]
    spec: Map<StatedPriority<'a>>,
}

#[derive(Debug, Deserialize)]
struct Final<'a> {
    #[serde(borrow, default)]
    metadata: Map<Metadata<'a>>,
    #[serde(borrow, default)]
    spec: Map<StatedPriority<'a>>,
}

/// What the controllers read of it; the rest of the object is the API server's to check.
#[derive(Debug, Deserialize)]
struct ReadablePodGroup {
    spec: PodGroupSpec,
}

/// Checks a PodGroup as it is to be stored. A template that does not exist is only a warning: it may be created later.
///
/// # Errors
/// The controllers could not read the object (422), or its priority is not that of its class (403).
pub fn check(request: &Request<'_>, view: &dyn ClusterView, notes: &mut Notes) -> Result<(), Denial> {
    let group: Final = object::read("PodGroup", request.object)?;
    if group.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let parsed: ReadablePodGroup = object::read("PodGroup", request.object)?;
    let stored = match request.operation {
        Operation::Update => Some(object::read::<StoredPodGroup>("PodGroup", request.old_object)?.spec),
        _ => None,
    };
    priority::check(&SpecPath::spec(), &group.spec, stored.as_deref(), view, notes)?;
    if let (Operation::Create, Some(reference)) = (request.operation, &parsed.spec.pod_group_template_ref) {
        warn_dangling(reference, request.namespace(), view, notes);
    }
    Ok(())
}

/// Adds a warning if the Workload or the template that a PodGroup names does not exist.
fn warn_dangling(reference: &PodGroupTemplateRef, namespace: &str, view: &dyn ClusterView, notes: &mut Notes) {
    let (workload, template) = (&reference.workload.workload_name, &reference.workload.pod_group_template_name);
    match view.template(namespace, workload, template) {
        Some(_) => {}
        None if view.has_workload(namespace, workload) => notes.warn(groups::template_not_found(workload, template)),
        None => {
            notes.miss(Reference::Workload { namespace: namespace.to_owned(), name: workload.clone() });
            notes.warn(groups::workload_not_found(workload));
        }
    }
}
