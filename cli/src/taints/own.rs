//! Finds Giveway's taints on a node. Pure functions.
//!
//! Nodes are read and written as JSON, so that other taints keep every field, including those of later versions.

use giveway_crds::critical;
use serde_json::Value;
use std::collections::BTreeSet;

/// The taints of a node, divided into Giveway's and others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Split {
    /// Giveway's taints, as kubectl prints them: `KEY=VALUE:EFFECT`.
    pub(super) ours: Vec<String>,
    /// All other taints, unchanged and in their order.
    pub(super) others: Vec<Value>,
}

/// Returns the name in an object's metadata; an empty string if it has none.
pub(super) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Divides the taints of a node into Giveway's, which have one of these UIDs, and others; `None` if the node has none of Giveway's.
pub(super) fn split(node: &Value, uids: &BTreeSet<String>) -> Option<Split> {
    let mut split = Split { ours: Vec::new(), others: Vec::new() };
    for taint in node["spec"]["taints"].as_array()? {
        let field = |name: &str| taint[name].as_str().unwrap_or_default();
        match critical::uid_of(field("key"), field("value"), field("effect")) {
            Some(uid) if uids.contains(uid) => {
                split.ours.push(format!("{}={uid}:{}", field("key"), field("effect")));
            }
            _ => split.others.push(taint.clone()),
        }
    }
    (!split.ours.is_empty()).then_some(split)
}

/// Returns the taints of a node that look like Giveway's, because their value is a UID, as kubectl prints them: `KEY=VALUE:EFFECT`.
pub(super) fn possible_taints(node: &Value) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array().map(Vec::as_slice).unwrap_or_default();
    let alike = taints.iter().filter_map(|taint| {
        let field = |name: &str| taint[name].as_str().unwrap_or_default();
        let uid = critical::uid_of(field("key"), field("value"), field("effect")).filter(|uid| is_uid(uid))?;
        Some(format!("{}={uid}:{}", field("key"), field("effect")))
    });
    alike.collect()
}

/// Returns true if the text is a UID as API servers generate them: 32 hexadecimal digits in five parts.
fn is_uid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const UID: &str = "0d5a1c2e-7f43-4c6b-9a51-3f1f4e5d6c7b";

    #[test]
    fn only_the_taint_with_the_uid_of_a_plan_is_removed() {
        let others = [
            json!({"key": "CriticalAddonsOnly", "effect": "NoSchedule"}),
            json!({"key": "CriticalAddonsOnly", "value": "", "effect": "NoSchedule"}),
            json!({"key": "CriticalAddonsOnly", "value": "true", "effect": "NoSchedule"}),
            json!({"key": "CriticalAddonsOnly", "value": UID, "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}),
            json!({"key": "dedicated", "value": UID, "effect": "NoSchedule", "later": {"version": 1}}),
            json!({"key": "CriticalAddonsOnly", "value": "11111111-2222-4333-8444-555555555555", "effect": "NoSchedule"}),
        ];
        let uids = BTreeSet::from([UID.to_owned()]);
        let node = json!({"metadata": {"name": "n"}, "spec": {"taints": others}});
        assert_eq!(split(&node, &uids), None);
        for place in 0..=others.len() {
            let mut taints = others.to_vec();
            taints.insert(place, json!({"key": "CriticalAddonsOnly", "value": UID, "effect": "NoSchedule"}));
            let node = json!({"metadata": {"name": "n"}, "spec": {"taints": taints}});
            let ours = vec![format!("CriticalAddonsOnly={UID}:NoSchedule")];
            assert_eq!(split(&node, &uids), Some(Split { ours, others: others.to_vec() }), "{place}");
        }
    }

    #[test]
    fn a_taint_with_a_uid_as_its_value_looks_like_one_of_giveway_s() {
        let taint = |key: &str, value: &str, effect: &str| json!({"key": key, "value": value, "effect": effect});
        let taints = [
            taint("CriticalAddonsOnly", UID, "NoSchedule"),
            taint("CriticalAddonsOnly", UID, "NoExecute"),
            taint("CriticalAddonsOnly", "true", "NoSchedule"),
            taint("CriticalAddonsOnly", "0d5a1c2e-7f43-4c6b-9a51-3f1f4e5d6c7g", "NoSchedule"),
            taint("dedicated", UID, "NoSchedule"),
        ];
        assert_eq!(
            possible_taints(&json!({"spec": {"taints": taints}})),
            [format!("CriticalAddonsOnly={UID}:NoSchedule")]
        );
        assert_eq!(possible_taints(&json!({"spec": {}})), [""; 0]);
    }

    #[test]
    fn a_node_without_taints_has_none_of_giveway_s() {
        let uids = BTreeSet::from([UID.to_owned()]);
        for node in [json!({}), json!({"spec": {}}), json!({"spec": {"taints": null}}), json!({"spec": {"taints": []}})]
        {
            assert_eq!(split(&node, &uids), None, "{node}");
        }
    }
}
