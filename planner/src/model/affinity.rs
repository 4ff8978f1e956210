//! Inter-pod constraints: pod affinity, anti-affinity and topology spread.

use super::selector::Selector;
use k8s_openapi::api::core::v1::{PodAffinityTerm, PodSpec, TopologySpreadConstraint};
use std::collections::BTreeMap;

/// All labels of a pod, as in its metadata.
type PodLabels = BTreeMap<String, String>;

/// A required (anti-)affinity term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AffinityTerm {
    /// Which pods it is about; `None` matches none.
    pub(crate) selector: Option<Selector>,
    /// Namespaces of those pods.
    pub(crate) namespaces: NamespaceSet,
    /// Label of nodes that makes a domain.
    pub(crate) topology_key: String,
}

/// Namespaces given by name or by label selector: the union of both. [`super::Cluster::in_namespaces`] evaluates it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NamespaceSet {
    /// Names.
    pub(crate) names: Vec<String>,
    /// Labels; the empty selector means every namespace, `None` means none.
    pub(crate) selector: Option<Selector>,
}

/// A topology spread constraint that must hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SpreadConstraint {
    /// Which pods are counted, in the pod's own namespace.
    pub(crate) selector: Option<Selector>,
    /// Label of nodes that makes a domain.
    pub(crate) topology_key: String,
    /// Maximum difference between the number of pods in a domain and the global minimum (`maxSkew`).
    pub(crate) max_skew: usize,
    /// If there are fewer domains than this, the global minimum is 0 (`minDomains`).
    pub(crate) min_domains: usize,
    /// True if nodes that the pod's node selector and affinity exclude do not count (`nodeAffinityPolicy`).
    pub(crate) honors_affinity: bool,
    /// True if nodes with a taint that the pod does not tolerate do not count (`nodeTaintsPolicy`).
    pub(crate) honors_taints: bool,
}

/// Returns the required pod affinity terms in the spec of a pod; `namespace` and `labels` are those of this pod.
pub(super) fn required_affinity(spec: &PodSpec, namespace: &str, labels: &PodLabels) -> Vec<AffinityTerm> {
    let affinity = spec.affinity.as_ref().and_then(|a| a.pod_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref());
    required.unwrap_or_default().iter().map(|t| term(t, namespace, labels)).collect()
}

/// Returns the required pod anti-affinity terms in the spec of a pod; `namespace` and `labels` are those of this pod.
pub(super) fn required_anti_affinity(spec: &PodSpec, namespace: &str, labels: &PodLabels) -> Vec<AffinityTerm> {
    let affinity = spec.affinity.as_ref().and_then(|a| a.pod_anti_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_deref());
    required.unwrap_or_default().iter().map(|t| term(t, namespace, labels)).collect()
}

/// Converts a term of pod affinity or anti-affinity; `namespace` and `labels` are those of the pod that has the term. A term that names no
/// namespaces is about the pod's own; `matchLabelKeys` and `mismatchLabelKeys` become rules of the selector.
fn term(from: &PodAffinityTerm, namespace: &str, labels: &PodLabels) -> AffinityTerm {
    let mut names = from.namespaces.clone().unwrap_or_default();
    if names.is_empty() && from.namespace_selector.is_none() {
        names.push(namespace.to_owned());
    }
    let mut selector = from.label_selector.as_ref().map(Selector::from_object);
    if let Some(selector) = &mut selector {
        selector.merge_own(from.match_label_keys.as_deref(), "In", labels);
        selector.merge_own(from.mismatch_label_keys.as_deref(), "NotIn", labels);
    }
    let namespaces = NamespaceSet { names, selector: from.namespace_selector.as_ref().map(Selector::from_object) };
    AffinityTerm { selector, namespaces, topology_key: from.topology_key.clone() }
}

/// Returns those topology spread constraints in the spec of a pod that have `whenUnsatisfiable: DoNotSchedule`; `labels` are those of this
/// pod.
pub(super) fn spread(spec: &PodSpec, labels: &PodLabels) -> Vec<SpreadConstraint> {
    let constraints = spec.topology_spread_constraints.iter().flatten();
    constraints.filter(|c| c.when_unsatisfiable == "DoNotSchedule").map(|c| constraint(c, labels)).collect()
}

/// Converts a topology spread constraint, with the API's defaults for absent fields; `labels` are those of the pod that has the constraint,
/// for its `matchLabelKeys`.
fn constraint(from: &TopologySpreadConstraint, labels: &PodLabels) -> SpreadConstraint {
    let mut selector = from.label_selector.as_ref().map(Selector::from_object);
    if let Some(selector) = &mut selector {
        selector.merge_own(from.match_label_keys.as_deref(), "In", labels);
    }
    SpreadConstraint {
        selector,
        topology_key: from.topology_key.clone(),
        max_skew: usize::try_from(from.max_skew).unwrap_or(1).max(1),
        min_domains: from.min_domains.and_then(|n| usize::try_from(n).ok()).unwrap_or(1),
        honors_affinity: from.node_affinity_policy.as_deref() != Some("Ignore"),
        honors_taints: from.node_taints_policy.as_deref() == Some("Honor"),
    }
}
