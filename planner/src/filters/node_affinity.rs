//! Filter: node selector, required node affinity, and the node affinity that the configuration of the scheduler adds (kube-scheduler's
//! NodeAffinity).

use crate::api::Refusal;
use crate::model::{Node, NodeTerm, Pod, Requirement};
/// Returns why node affinity makes a node infeasible: `AddedAffinity` if the node does not match the affinity that the configuration of the
/// pod's scheduler adds, `NodeAffinity` if it does not match the pod's own node selector or required node affinity. `None` if it matches
/// all.
pub(super) fn refuse(pod: &Pod, node: &Node) -> Option<Refusal> {
    let added = pod.constraints.added_affinity.as_ref();
    if added.is_some_and(|terms| !terms.iter().any(|term| term_matches(term, node))) {
        return Some(Refusal::AddedAffinity);
    }
    (!matches(pod, node)).then_some(Refusal::NodeAffinity)
}

/// Returns true if the pod's own node selector and required node affinity allow the node.
pub(super) fn matches(pod: &Pod, node: &Node) -> bool {
    let constraints = &pod.constraints;
    constraints.node_selector.iter().all(|(key, value)| node.labels.get(key) == Some(value))
        && constraints.node_affinity.as_ref().is_none_or(|terms| terms.iter().any(|term| term_matches(term, node)))
}

/// Returns true if a node matches a term of node affinity. A term without requirements matches no node.
pub(super) fn term_matches(term: &NodeTerm, node: &Node) -> bool {
    !(term.labels.is_empty() && term.fields.is_empty())
        && term.labels.iter().all(|rule| holds(rule, node.labels.get(&rule.key).map(String::as_str)))
        && term.fields.iter().all(|rule| rule.key == "metadata.name" && holds(rule, Some(node.name.as_str())))
}

/// Returns true if the value of a label or field satisfies a requirement of a node selector term; `value` is `None` if the node does not
/// have the label. No value satisfies an invalid requirement (`Gt` with a word).
fn holds(rule: &Requirement, value: Option<&str>) -> bool {
    match rule.operator.as_str() {
        "In" => value.is_some_and(|value| rule.lists(value)),
        "NotIn" => value.is_none_or(|value| !rule.lists(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(rule, value).is_some_and(|(value, bound)| value > bound),
        "Lt" => compare(rule, value).is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Returns the value and the bound of a `Gt` or `Lt` requirement as numbers; `None` if one is not a number, or there is not exactly one
/// bound.
fn compare(rule: &Requirement, value: Option<&str>) -> Option<(i64, i64)> {
    let [bound] = rule.values.as_slice() else { return None };
    Some((value?.parse().ok()?, bound.parse().ok()?))
}
