//! Pod, create: a member of a group is stored as the mutating rule leaves it (design, section 3, rule 6).
//!
//! Another mutating webhook may run after Giveway's: one that names the group of a pod that Giveway's webhook was not
//! called for, or that removes the scheduling gate. A pod that is stored without it starts alone. So the mutating rule
//! judges the final object once more: what it rejects is rejected, and so is a pod of which it would still change the
//! group label, the gate or the class.
//!
//! What does no harm is left as it is, because the cluster may have changed between the two calls, which different
//! webhooks may answer: a gate that the group does not need (the operator removes it), and a missing annotation of the
//! class (the operator adds it).

use crate::request::Request;
use crate::verdict::{Denial, Notes};
use crate::view::ClusterView;
use crate::wording::pods;
use json_patch::{Patch, PatchOperation};
use serde_json::Value;

/// Path of the labels in a patch.
const LABELS: &str = "/metadata/labels/";
/// Path of the scheduling gates in a patch.
const GATES: &str = "/spec/schedulingGates";
/// Path of the priority class in a patch.
const CLASS: &str = "/spec/priorityClassName";

/// Checks a pod after all mutating webhooks, as it is to be stored. It adds no warnings: the mutating rule did. Objects that `view`
/// does not contain are recorded in `notes` as missing only if the pod is rejected: a gated pod has no effect until its
/// group is known.
///
/// # Errors
/// Those of the mutating rule, and a pod of a group without the group label, the gate or the class that Giveway gave it (422).
pub fn check(request: &Request<'_>, view: &dyn ClusterView, notes: &mut Notes) -> Result<(), Denial> {
    let mut found = Notes::default();
    let refusal = match super::create(request, view, &mut found) {
        Ok(patch) => patch.as_ref().and_then(undone),
        Err(refusal) => Some(refusal),
    };
    let Some(refusal) = refusal else { return Ok(()) };
    notes.missing.append(&mut found.missing);
    Err(refusal)
}

/// Returns the rejection of a pod that the mutating rule would still change by this patch, because another webhook undid the first
/// change of the group label, the gate or the class. `None` if the patch changes none of these.
fn undone(patch: &Patch) -> Option<Denial> {
    patch.0.iter().find_map(|operation| {
        let PatchOperation::Add(added) = operation else { return None };
        let path = added.path.as_str();
        if path.starts_with(LABELS) {
            Some(pods::lost_group(text(&added.value)))
        } else if path.starts_with(GATES) {
            Some(pods::lost_gate())
        } else if path == CLASS {
            Some(pods::lost_class(text(&added.value)))
        } else {
            None
        }
    })
}

/// Returns the text of a JSON string; an empty text for any other value.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
