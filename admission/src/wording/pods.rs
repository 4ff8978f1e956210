//! Rejections of pods, and warnings about them.

use super::{annotation_path, invalid_annotation, invalid_label, label_path};
use crate::verdict::{Denial, shorten};
use giveway_crds::keys::{ANNOTATION_MIN_COUNT, ANNOTATION_PLAN, GATE, LABEL_POD_GROUP, LABEL_WORKLOAD};
use giveway_crds::kinds::origin::OriginError;
use giveway_crds::kinds::settings::SettingError;
use giveway_crds::kinds::spark;
use giveway_crds::membership::MembershipError;

/// Rejection (422): a user created the pod with the annotation in which Giveway stores its plan.
pub fn foreign_plan(plan: &str) -> Denial {
    let detail = "Giveway writes here what it decided for this pod: remove the annotation";
    invalid_annotation(ANNOTATION_PLAN, plan, detail)
}

/// Rejection (422): the pod has Giveway's scheduling gate twice; the index is that of the second one.
pub fn duplicate_gate(index: usize) -> Denial {
    Denial::unprocessable(format!("spec.schedulingGates[{index}]: Duplicate value: {GATE:?}: remove one of them"))
}

/// Rejection (422): a user created the pod with Giveway's scheduling gate, and it names no group.
pub fn gate_without_group() -> Denial {
    let detail = format!(
        "only Giveway adds this gate, and only to members of gangs: remove the gate, or name the pod's \
         group in the label {LABEL_POD_GROUP}"
    );
    Denial::invalid("spec.schedulingGates", GATE, detail)
}

/// Rejection (422): the labels of the pod name no valid group.
pub fn invalid_membership(error: &MembershipError) -> Denial {
    Denial::unprocessable(error.to_string())
}

/// Rejection (422): the gang label or a gang annotation of a pod, or of an owner of pods, has an invalid value.
pub fn invalid_setting(error: &SettingError) -> Denial {
    Denial::unprocessable(error.to_string())
}

/// Rejection (422): the pod asks for a gang, and neither its labels nor a controller identify its owner.
pub fn no_owner(error: OriginError) -> Denial {
    Denial::unprocessable(error.to_string())
}

/// Rejection (422): the pod asks for a gang without its size, and its owner has a kind that is not in the table of kinds.
pub fn no_min_count(kind: &str, owner: &str) -> Denial {
    Denial::unprocessable(format!(
        "{}: Required value: how many pods of {kind} {owner:?} start together? Giveway does not know that kind: say it here, on the \
         pod template",
        annotation_path(ANNOTATION_MIN_COUNT)
    ))
}

/// Rejection (422): the PodGroup that the pod would join was created for another owner, whose name is not disclosed: a client that reaches
/// the port can forge a pod.
pub fn group_of_another_owner(group: &str, kind: &str, owner: &str) -> Denial {
    let detail = format!(
        "the PodGroup of this name was created for another owner (its metadata.ownerReferences), and the pod belongs \
         to {kind} {owner:?}: rename one of them"
    );
    invalid_label(LABEL_POD_GROUP, group, detail)
}

/// Rejection (422): the PodGroup that the pod would join was created from another template, whose name is not disclosed: a client that
/// reaches the port can forge a pod.
pub fn group_of_another_template(group: &str, workload: &str, template: &str) -> Denial {
    let detail = format!(
        "the PodGroup of this name was created from another template (its spec.podGroupTemplateRef), and the pod's \
         labels name template {template:?} of Workload {workload:?}: rename one of the workloads or templates"
    );
    invalid_label(LABEL_POD_GROUP, group, detail)
}

/// Rejection (422): the pod belongs to a native group, and a label names a group of Giveway: a PodGroup.
pub fn native_and_own_group(native: &str, group: &str) -> Denial {
    invalid_label(LABEL_POD_GROUP, group, beside_native(native))
}

/// Rejection (422): the pod belongs to a native group, and labels name a template of a Workload of Giveway.
pub fn native_and_own_template(native: &str, workload: &str) -> Denial {
    invalid_label(LABEL_WORKLOAD, workload, beside_native(native))
}

/// Returns the clause that says what to do about a pod that belongs to a native group and to a group of Giveway.
fn beside_native(native: &str) -> String {
    format!(
        "the pod belongs to the native pod group {native:?} (spec.schedulingGroup), and a pod belongs to one group: remove \
         the labels of Giveway, or spec.schedulingGroup"
    )
}

/// Warning: the pod has a managed class and belongs to a native group. Giveway preempts only for its own groups, and
/// kube-scheduler not for managed classes.
pub fn native_group_never_preempts(class: &str, native: &str) -> String {
    format!(
        "priority class {class} is managed by Giveway, which does not preempt for pods of native pod groups ({}): use a \
         class that is not managed, or a PodGroup of Giveway",
        shorten(native)
    )
}

/// Warning: the pod is the driver of a Spark application and a member of a gang.
pub fn spark_driver(group: &str) -> String {
    spark::warning(group)
}

/// Rejection (422): the class of the pod is below the priority of its group; `detail` has both numbers and the fix
/// ([`refusal`](giveway_crds::lending::RequestedPriority::refusal)).
pub fn class_below_group(class: &str, detail: &str) -> Denial {
    Denial::invalid("spec.priorityClassName", class, detail)
}

/// Rejection (403): the pod has the annotation `key`, which Giveway copies from its class, with another value (`given`) than the class
/// has (`computed`; `None`: none). `type_` describes the value. `other_class` is a class with the given value, if there is one: then
/// another webhook may have changed the class of the pod after Giveway's had written the annotation.
pub fn class_annotation(
    (key, type_): (&str, &str),
    given: &str,
    computed: Option<&str>,
    other_class: Option<&str>,
) -> Denial {
    let cause = other_class.map_or_else(String::new, |other| {
        format!(
            "; it is that of class {other}: if another webhook changes the class of pods, let it run before Giveway's, which run in \
             the order of the names of their configurations"
        )
    });
    let detail = format!(
        "the {type_} value of {key} ({}) must not be provided in pod annotations; admission computed {} from \
         the given PriorityClass name{cause}",
        shorten(given),
        computed.unwrap_or("no value")
    );
    Denial::forbidden(&annotation_path(key), detail)
}

/// Rejection (422): another admission plugin changed the label with the PodGroup `group` after Giveway had written it.
pub fn lost_group(group: &str) -> Denial {
    lost(&label_path(LABEL_POD_GROUP), group)
}

/// Rejection (422): another admission plugin removed the scheduling gate after Giveway had added it.
pub fn lost_gate() -> Denial {
    lost("spec.schedulingGates", GATE)
}

/// Rejection (422): another admission plugin changed the PriorityClass of the pod after Giveway had written `class`, that of its group.
pub fn lost_class(class: &str) -> Denial {
    lost("spec.priorityClassName", class)
}

/// Returns the rejection (422) of a pod in which another admission plugin changed the field that Giveway had set to `value`.
fn lost(field: &str, value: &str) -> Denial {
    Denial::unprocessable(format!(
        "{field}: Required value: {value}: Giveway gives it to the pods of this group, and another admission plugin changed the pod \
         afterwards: exclude the pod from that plugin"
    ))
}
