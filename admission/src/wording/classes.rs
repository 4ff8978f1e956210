//! Rejections of PriorityClasses because of Giveway's annotations.

use super::{annotation_path, invalid_annotation};
use crate::verdict::Denial;
use giveway_crds::keys::{ANNOTATION_MANAGED, ANNOTATION_PREEMPTION_POLICY, ANNOTATION_THRESHOLD};
use giveway_crds::priority::{MAX_THRESHOLD, SYSTEM_PREFIX};

/// Rejection (422): an update changes one of the annotations of a managed class; `value` is the new one, or empty.
pub fn immutable(key: &str, value: &str) -> Denial {
    let detail = "field is immutable: delete the class and create it again; existing pods do not change";
    invalid_annotation(key, value, detail)
}

/// Rejection (403): a class of Kubernetes itself (`system-`) is annotated as managed.
pub fn managed_system_class() -> Denial {
    let detail = format!(
        "a class whose name starts with {SYSTEM_PREFIX} cannot be managed, because the cluster's own \
         components depend on how kube-scheduler preempts for it: remove the annotation"
    );
    Denial::forbidden(&annotation_path(ANNOTATION_MANAGED), detail)
}

/// Rejection (403): a managed class is about to be stored with a preemption policy other than `Never`.
pub fn managed_class_preempts() -> Denial {
    let detail = "a managed class has preemptionPolicy Never, which Giveway's mutating webhook sets: it did not run, or \
                  another webhook changed the policy after it; try again";
    Denial::forbidden(&annotation_path(ANNOTATION_MANAGED), detail)
}

/// Rejection (422): the annotation that makes a class a managed one has another value than `true` and `false`.
pub fn managed_value(value: &str) -> Denial {
    invalid_annotation(ANNOTATION_MANAGED, value, "must be \"true\" or \"false\"")
}

/// Rejection (422): a class that is not managed has the annotation with the preemption policy of managed classes.
pub fn policy_of_unmanaged_class(value: &str) -> Denial {
    let detail = format!("only a managed class has it: remove it, or set {ANNOTATION_MANAGED} to \"true\"");
    invalid_annotation(ANNOTATION_PREEMPTION_POLICY, value, detail)
}

/// Rejection (422): the annotation with the preemption policy of a managed class has a value that is no preemption policy.
pub fn policy_value(value: &str) -> Denial {
    let detail = "must be \"PreemptLowerPriority\" or \"Never\", or be left out";
    invalid_annotation(ANNOTATION_PREEMPTION_POLICY, value, detail)
}

/// Rejection (422): a managed class is created with one policy in its field and another one, `value`, in the annotation.
pub fn contradicting_policies(field: &str, value: &str) -> Denial {
    let detail = format!(
        "the class asks for preemptionPolicy {field}, and Giveway writes that into this annotation: remove \
         the annotation, or set preemptionPolicy to {value}"
    );
    invalid_annotation(ANNOTATION_PREEMPTION_POLICY, value, detail)
}

/// Rejection (422): the threshold of a class is no integer of the permitted range.
pub fn threshold_value(value: &str) -> Denial {
    let detail =
        format!("must be an integer from {} to {MAX_THRESHOLD}, the priority of system-cluster-critical", i32::MIN);
    invalid_annotation(ANNOTATION_THRESHOLD, value, detail)
}
