//! PodGroup, create and update: class, priority and preemption policy are filled (design, section 3, rule 1).

use super::priority::{self, Given, Place};
use crate::object::{self, Map, Metadata};
use crate::patch::Changes;
use crate::review::{Operation, Request};
use crate::verdict::{Notes, Refusal};
use crate::view::Known;
use json_patch::Patch;
use serde::Deserialize;

/// The fields of a PodGroup that this rule reads. The API server validates the others.
#[derive(Debug, Deserialize)]
struct Facts<'a> {
    #[serde(borrow, default)]
    metadata: Map<Metadata<'a>>,
    #[serde(borrow, default)]
    spec: Option<Map<Given<'a>>>,
}

/// Fills in the fields that follow from the priority class. On an update, stored values are kept.
pub fn fill(request: &Request<'_>, view: &Known<'_>, notes: &mut Notes) -> Result<Option<Patch>, Refusal> {
    let group: Facts = object::read("PodGroup", request.object)?;
    let Some(given) = group.spec.filter(|_| group.metadata.deletion_timestamp.is_none()) else { return Ok(None) };
    let stored = match request.operation {
        Operation::Update => Some(object::read::<Facts>("PodGroup", request.old_object)?.spec.unwrap_or_default()),
        _ => None,
    };
    let (spec, mut changes) = (Place::spec(), Changes::default());
    let resolved = priority::fill(&spec, &given, stored.as_deref(), view, &mut changes, notes)?;
    if let (Some(resolved), None) = (resolved, &given.preemption_policy) {
        spec.set("preemptionPolicy", resolved.policy.as_str(), &mut changes);
    }
    Ok(changes.finish())
}
