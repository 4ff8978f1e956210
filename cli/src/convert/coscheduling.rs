//! PodGroups of the scheduler plugin coscheduling (`scheduling.x-k8s.io/v1alpha1`).

use super::shapes::{self, ObjectFields};
use super::{Converted, OURS};
use serde_json::{Value, json};

/// The former API group of these PodGroups.
pub(super) const EARLIER: &str = "scheduling.sigs.k8s.io";

/// The labels by which pods refer to such a group.
pub(super) const LABELS: [&str; 3] =
    ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name"];

/// Converts a PodGroup of the plugin coscheduling into one of Giveway, with notes. It names no PriorityClass: in coscheduling, the
/// classes of the group's pods count.
pub(super) fn podgroup(from: &Value) -> Converted {
    let mut notes = Vec::new();
    let mut spec = ObjectFields::of(&from["spec"], "spec");
    let members = spec.take("minMember").filter(|members| members.as_i64().is_some_and(|members| members > 0));
    let policy = members.map_or_else(|| json!({"basic": {}}), |members| json!({"gang": {"minCount": members}}));
    spec.set("schedulingPolicy", policy);
    spec.set("disruptionMode", "Pod".into());
    notes.push(
        "spec.priorityClassName: coscheduling uses the classes of the pods: name one here, otherwise the group has \
         the default class"
            .to_owned(),
    );
    shapes::long_name(from, &mut notes);
    notes.push(shapes::label(from));
    let spec = spec.done(&mut notes);
    Converted { object: shapes::object(OURS, "PodGroup", from, spec), notes }
}
