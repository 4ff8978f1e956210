//! Rejections of owners of pods, such as Jobs, and warnings and events about them. `kind` is that of the owner.

use super::label_path;
use crate::verdict::Denial;
use giveway_crds::json::MOST;
use giveway_crds::keys::LABEL_GANG;
use giveway_crds::kinds::traps::Obstacle;

/// Rejection (422): the metadata of a pod template cannot be read; `field` is its path.
pub fn unreadable_template(field: &str, error: impl std::fmt::Display) -> Denial {
    Denial::unprocessable(format!("{field}: Invalid value: {error}: the template cannot be read, correct this field"))
}

/// Rejection (422): the owner has so many pod templates that not all of them are read.
pub fn too_many_templates() -> Denial {
    Denial::unprocessable(format!(
        "spec: Too many: must have at most {MOST} pod templates: split it into several objects"
    ))
}

/// Rejection (422): the owner asks for a gang that can never start.
pub fn gang_never_starts(obstacle: &Obstacle) -> Denial {
    Denial::unprocessable(obstacle.refusal())
}

/// Warning: the stored owner already is a gang that can never start. It is not rejected, because each repair is an update.
pub fn stored_gang_never_starts(kind: &str, obstacle: &Obstacle) -> String {
    obstacle.warning(kind)
}

/// Warning: gangs are enabled for the kind of an owner without the label, and the gang could never start, so that the owner becomes no
/// gang.
pub fn no_gang(kind: &str, obstacle: &Obstacle) -> String {
    let Obstacle { field, value, detail } = obstacle;
    format!("{field}: {value:?}: Giveway creates no gang for this {kind}: {detail}")
}

/// Warning: the gang label was added to an owner of this kind that already has pods, so that it has no effect.
pub fn label_too_late(kind: &str) -> String {
    format!("{}: {}", label_path(LABEL_GANG), pods_without_gang(kind))
}

/// Message of an event on an owner of this kind to which the gang label was added when it already had pods, for users who do not see the
/// [warning](label_too_late).
pub fn label_too_late_event(kind: &str) -> String {
    format!("The label {LABEL_GANG} came too late: {}.", pods_without_gang(kind))
}

/// Returns the end of the warning about a gang label that was added to an owner of this kind (such as Job) after its pods were created: why
/// it has no effect, and what to do.
fn pods_without_gang(kind: &str) -> String {
    format!(
        "the existing pods of this {kind} are no gang, and it creates further pods without Giveway's scheduling gate: delete the \
         {kind} and create it again"
    )
}

/// Message of an event on an owner (a TrainJob) about the object `name` of the kind `kind` that its controller created (a JobSet): the
/// first `warning` about that object, which otherwise only the controller sees.
pub fn warning_about_part(kind: &str, name: &str, warning: &str) -> String {
    format!("{kind} {name}: {warning}.")
}
