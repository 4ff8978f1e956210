//! Pods and pod templates in manifests: replaces how they name their group with Giveway's label.

use super::{Converted, coscheduling};
use giveway_crds::keys::LABEL_POD_GROUP;
use serde_json::{Value, json};

/// Returns the object with Giveway's label in its pods and pod templates that name a group in another way; an object without such pods
/// is unchanged.
pub(super) fn relabelled(from: &Value) -> Converted {
    let (mut object, mut notes) = (from.clone(), Vec::new());
    relabel_pods(&mut object, "", &mut notes);
    Converted { object, notes }
}

/// Replaces how the pods and pod templates at or below `value` name their group by Giveway's label. `path` is the field path of `value`
/// in its object, for the notes.
fn relabel_pods(value: &mut Value, path: &str, notes: &mut Vec<String>) {
    if value.pointer("/spec/containers").is_some_and(Value::is_array) {
        return relabel_pod(value, path, notes);
    }
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                relabel_pods(item, &format!("{}[{index}]", path.trim_end_matches('.')), notes);
            }
        }
        Value::Object(map) => map.iter_mut().for_each(|(key, inner)| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            relabel_pods(inner, &path, notes);
        }),
        _ => {}
    }
}

/// Replaces how one pod or pod template at the field path `path` names its group by Giveway's label, and adds a note if Giveway does
/// not preempt for its scheduler by default.
fn relabel_pod(pod: &mut Value, path: &str, notes: &mut Vec<String>) {
    let at = |field: &str| if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") };
    let native = pod["spec"].as_object_mut().and_then(|spec| spec.remove("schedulingGroup"));
    let mut group = native.and_then(|native| native["podGroupName"].as_str().map(str::to_owned));
    if let Some(labels) = pod.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        for label in coscheduling::LABELS {
            let named = labels.remove(label).and_then(|name| name.as_str().map(str::to_owned));
            group = group.or(named);
        }
    }
    let Some(group) = group else { return };
    if pod["metadata"].is_null() {
        pod["metadata"] = json!({});
    }
    if pod["metadata"]["labels"].is_null() {
        pod["metadata"]["labels"] = json!({});
    }
    pod["metadata"]["labels"][LABEL_POD_GROUP] = group.into();
    if let Some(scheduler) = pod["spec"]["schedulerName"].as_str().filter(|name| *name != "default-scheduler") {
        notes.push(format!(
            "{}: {scheduler}: Giveway preempts only for pods of the schedulers that it is configured for (default: default-scheduler)",
            at("spec.schedulerName")
        ));
    }
}
