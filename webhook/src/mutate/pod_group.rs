//! PodGroup, create and update: class, priority and preemption policy are filled (design, section 3, rule 1).

use super::priority::{self, Given};
use crate::object::{self, Metadata};
use crate::review::{Operation, Request};
use crate::verdict::{Notes, Refusal};
use crate::view::View;
use serde::Deserialize;
use serde_json::Value;

/// The part of a PodGroup that this rule reads. The rest is the API server's to check.
#[derive(Debug, Deserialize)]
struct Facts {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Given,
}

/// Fills what follows from the priority class. On an update, what is stored stays.
pub fn fill(request: &Request, view: &View, notes: &mut Notes) -> Result<Option<Value>, Refusal> {
    let group: Facts = object::read("PodGroup", &request.object)?;
    if group.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let stored = match request.operation {
        Operation::Update => Some(object::read::<Facts>("PodGroup", &request.old_object)?.spec),
        _ => None,
    };
    let mut object = request.object.clone();
    let Some(spec) = object.get_mut("spec") else { return Ok(None) };
    let resolved = priority::fill(spec, "spec", &group.spec, stored.as_ref(), view, notes)?;
    if let (Some(resolved), None) = (resolved, &group.spec.preemption_policy) {
        object::set(spec, &["preemptionPolicy"], resolved.policy.as_str());
    }
    Ok(Some(object))
}
