//! Pod, update: Giveway's labels and annotations are immutable, and only the operator removes the gate (design,
//! section 3, rule 5).

use crate::mutate::pod::Facts;
use crate::object::{self, annotation_path, label_path};
use crate::review::Request;
use crate::verdict::Refusal;
use crate::view::Known;
use giveway_crds::keys;

/// The annotations of pods that only the operator changes.
const ANNOTATIONS: [&str; 3] = [keys::ANNOTATION_PREEMPTION_POLICY, keys::ANNOTATION_THRESHOLD, keys::ANNOTATION_PLAN];

/// Refuses changes that only the operator may make. Adding a label or annotation later is a change too.
///
/// Errors: a changed label or annotation (422), a removed gate (403).
pub fn update(request: &Request<'_>, view: &Known<'_>) -> Result<(), Refusal> {
    if request.user() == view.settings.operator_user {
        return Ok(());
    }
    let pod: Facts = object::read("Pod", request.object)?;
    let stored: Facts = object::read("Pod", request.old_object)?;
    if stored.is_mirror() {
        return Ok(());
    }
    for key in keys::GROUP_LABELS {
        immutable(label_path(key), stored.metadata.label(key), pod.metadata.label(key))?;
    }
    for key in ANNOTATIONS {
        immutable(annotation_path(key), stored.metadata.annotation(key), pod.metadata.annotation(key))?;
    }
    if stored.has_gate() && !pod.has_gate() {
        return Err(Refusal::forbidden(
            "spec.schedulingGates",
            format_args!(
                "the gate {} is removed by Giveway when the whole pod group has a place; `kubectl describe \
                 podgroup.{}` says what it waits for",
                keys::GATE,
                keys::GROUP
            ),
        ));
    }
    Ok(())
}

fn immutable(path: String, before: Option<&str>, after: Option<&str>) -> Result<(), Refusal> {
    match before == after {
        true => Ok(()),
        false => Err(Refusal::invalid(&path, after.unwrap_or_default(), "field is immutable")),
    }
}
