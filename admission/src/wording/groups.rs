//! Rejections of PodGroups and of the templates of Workloads because of their priority, and warnings about them.
//!
//! `path` is `spec` or that of a template, and `kind` is `PodGroup` or `PodGroup template`.

use crate::verdict::{Denial, shorten};
use giveway_crds::priority::{PriorityError, Resolved};

/// Rejection (403): the PriorityClass that the group names does not exist. It is a warning if the stored group names it already.
pub fn unknown_class(path: &str, error: &PriorityError) -> Denial {
    Denial::forbidden(&format!("{path}.priorityClassName"), error)
}

/// Rejection (403): the group states another priority than its class, or the default for groups without a class, gives.
pub fn other_priority(path: &str, kind: &str, priority: i64, resolved: &Resolved) -> Denial {
    let detail = format!(
        "the integer value of priority ({priority}) must not be provided in the spec of a \
         {kind}; {} is {}: leave the field out",
        origin(resolved, "its priority"),
        resolved.priority
    );
    Denial::forbidden(&format!("{path}.priority"), detail)
}

/// Rejection (403): the group states another preemption policy than its class, or the default for groups without a class, gives.
pub fn other_policy(path: &str, kind: &str, policy: &str, resolved: &Resolved) -> Denial {
    let detail = format!(
        "the string value of PreemptionPolicy ({}) must not be provided in the spec of a \
         {kind}; {} is {}: leave the field out",
        shorten(policy),
        origin(resolved, "its policy"),
        resolved.policy
    );
    Denial::forbidden(&format!("{path}.preemptionPolicy"), detail)
}

/// Returns the phrase that says where a value of a group comes from: `what`, such as "its priority", and the PriorityClass, or
/// that there is none.
fn origin(resolved: &Resolved, what: &str) -> String {
    match resolved.class_name.as_str() {
        "" => format!("{what} without a PriorityClass"),
        name => format!("{what} by PriorityClass {name}"),
    }
}

/// Warning: the class of the group preempts, and is not managed by Giveway.
pub fn unmanaged_class(class: &str) -> String {
    format!(
        "priority class {class} is not managed by Giveway: kube-scheduler may preempt for single pods of this group; \
         `kubectl giveway adopt {class}` makes the class managed"
    )
}

/// Warning: the PodGroup names a template that its Workload does not have.
pub fn template_not_found(workload: &str, template: &str) -> String {
    format!(
        "spec.podGroupTemplateRef.workload.podGroupTemplateName: PodGroupTemplate {template:?} not found in \
         Workload {workload:?}: the group is not counted in the status of the Workload"
    )
}

/// Warning: the PodGroup names a Workload that does not exist, or not yet.
pub fn workload_not_found(workload: &str) -> String {
    format!(
        "spec.podGroupTemplateRef.workload.workloadName: Workload {workload:?} not found: the group is counted in \
         the status of the Workload when that exists"
    )
}
