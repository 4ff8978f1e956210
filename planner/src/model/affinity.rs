//! Demands on the pods around: pod affinity, anti-affinity and topology spread.

use super::selector::Selector;
use k8s_openapi::api::core::v1::{PodAffinityTerm, PodSpec};

/// A required (anti-)affinity term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AffinityTerm {
    /// Which pods it is about; `None` matches none.
    pub(crate) selector: Option<Selector>,
    /// Namespaces of those pods; empty means all (an empty `namespaceSelector`).
    pub(crate) namespaces: Vec<String>,
    /// Label of nodes that makes a domain.
    pub(crate) topology_key: String,
}

/// A topology spread constraint that must hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SpreadConstraint {
    /// Which pods are counted, in the pod's own namespace.
    pub(crate) selector: Option<Selector>,
    /// Label of nodes that makes a domain.
    pub(crate) topology_key: String,
    /// How much a domain may have above the one that has least.
    pub(crate) max_skew: usize,
    /// Fewer domains than this count as one that has none.
    pub(crate) min_domains: usize,
}

/// The required pod affinity of a pod.
pub(super) fn required_affinity(spec: &PodSpec, namespace: &str) -> Vec<AffinityTerm> {
    let affinity = spec.affinity.as_ref().and_then(|a| a.pod_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref());
    required.unwrap_or_default().iter().map(|t| term(t, namespace)).collect()
}

/// The required pod anti-affinity of a pod.
pub(super) fn required_anti_affinity(spec: &PodSpec, namespace: &str) -> Vec<AffinityTerm> {
    let affinity = spec.affinity.as_ref().and_then(|a| a.pod_anti_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref());
    required.unwrap_or_default().iter().map(|t| term(t, namespace)).collect()
}

fn term(from: &PodAffinityTerm, namespace: &str) -> AffinityTerm {
    let mut namespaces = from.namespaces.clone().unwrap_or_default();
    if from.namespace_selector.is_some() {
        namespaces.clear();
    } else if namespaces.is_empty() {
        namespaces.push(namespace.to_owned());
    }
    AffinityTerm {
        selector: from.label_selector.as_ref().map(Selector::from_object),
        namespaces,
        topology_key: from.topology_key.clone(),
    }
}

/// The spread constraints of a pod that must hold.
pub(super) fn spread(spec: &PodSpec) -> Vec<SpreadConstraint> {
    let constraints = spec.topology_spread_constraints.iter().flatten();
    constraints
        .filter(|c| c.when_unsatisfiable == "DoNotSchedule")
        .map(|c| SpreadConstraint {
            selector: c.label_selector.as_ref().map(Selector::from_object),
            topology_key: c.topology_key.clone(),
            max_skew: usize::try_from(c.max_skew).unwrap_or(1).max(1),
            min_domains: c.min_domains.and_then(|n| usize::try_from(n).ok()).unwrap_or(1),
        })
        .collect()
}

/// Parts of these constraints that the planner reads more coarsely than the scheduler does.
pub(super) fn not_modeled(spec: &PodSpec) -> Vec<&'static str> {
    let mut list = Vec::new();
    let affinity = spec.affinity.as_ref();
    let near = affinity.and_then(|a| a.pod_affinity.as_ref());
    let near = near.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref());
    let far = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
    let far = far.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref());
    let mut terms = near.unwrap_or_default().iter().chain(far.unwrap_or_default());
    if terms.any(|t| {
        let selective = t.namespace_selector.as_ref().is_some_and(|s| *s != Default::default());
        selective || t.match_label_keys.is_some() || t.mismatch_label_keys.is_some()
    }) {
        list.push("the namespaceSelector, matchLabelKeys and mismatchLabelKeys of its pod affinity");
    }
    if spec.topology_spread_constraints.iter().flatten().any(|c| {
        let policies = c.node_affinity_policy.is_some() || c.node_taints_policy.is_some();
        policies || c.match_label_keys.as_ref().is_some_and(|keys| !keys.is_empty())
    }) {
        list.push("the matchLabelKeys and node policies of its topology spread constraints");
    }
    list
}
