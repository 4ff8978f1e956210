//! A `PodDisruptionBudget`: how many of its pods may be evicted.

use super::error::ModelError;
use super::labels::LabelSet;
use super::pod::{Pod, nanoseconds};
use super::selector::Selector;
use super::unit::Row;
use crate::limits::MOST_SELECTOR_RULES;
use giveway_crds::ObjectKey;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// Returns the selector of a PodDisruptionBudget unchanged; above [`MOST_SELECTOR_RULES`] requirements and values, a selector that matches
/// every pod of the namespace. The latter protects at least as many pods, and matching thousands of pods against it takes no noticeable
/// time.
fn bounded(selector: &LabelSelector) -> Selector {
    let labels = selector.match_labels.as_ref().map_or(0, BTreeMap::len);
    let rules = selector.match_expressions.iter().flatten();
    let asked: usize = rules.map(|rule| 1 + rule.values.as_ref().map_or(0, Vec::len)).sum();
    match labels + asked {
        0..=MOST_SELECTOR_RULES => Selector::from_object(selector),
        _ => Selector::from_object(&LabelSelector::default()),
    }
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its key.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
    /// How many more pods may be evicted now; 0 while its status is older than its spec, as in the eviction API.
    pub disruptions_allowed: i32,
    /// Number of healthy pods that it requires (`desiredHealthy`).
    pub desired_healthy: i32,
    /// Whether pods that are not ready may be evicted even at 0 allowed disruptions (`unhealthyPodEvictionPolicy`): always, or because as
    /// many as desired are healthy.
    pub unready_may_be_evicted: bool,
    /// Pods whose eviction was granted and is not observed yet, by name, with the time of the grant in ns since the epoch; they are counted
    /// already.
    pub disrupted_pods: BTreeMap<String, i64>,
    /// `None` matches nothing, the empty selector everything in the namespace.
    selector: Option<Selector>,
}

impl Budget {
    /// Reads a PodDisruptionBudget.
    ///
    /// # Errors
    /// The object has no name.
    pub fn from_object(budget: &PodDisruptionBudget) -> Result<Self, ModelError> {
        let metadata = &budget.metadata;
        let (namespace, name) = (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone());
        let Some(name) = name else {
            return Err(ModelError::nameless("PodDisruptionBudget", namespace, "metadata.name"));
        };
        let (spec, status) = (budget.spec.as_ref(), budget.status.as_ref());
        let always = spec.and_then(|s| s.unhealthy_pod_eviction_policy.as_deref()) == Some("AlwaysAllow");
        let healthy = status.is_some_and(|s| s.current_healthy >= s.desired_healthy && s.desired_healthy > 0);
        let current = status.filter(|s| s.observed_generation >= metadata.generation);
        Ok(Self {
            key: ObjectKey::new(namespace, name),
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            disruptions_allowed: current.map_or(0, |s| s.disruptions_allowed),
            desired_healthy: status.map_or(0, |s| s.desired_healthy),
            unready_may_be_evicted: always || healthy,
            disrupted_pods: status
                .iter()
                .flat_map(|s| s.disrupted_pods.iter().flatten())
                .map(|(pod, since)| (pod.clone(), nanoseconds(since).unwrap_or(i64::MAX)))
                .collect(),
            selector: spec.and_then(|s| s.selector.as_ref()).map(bounded),
        })
    }

    /// Returns true if both budgets have the same selector.
    pub(super) fn selects_like(&self, other: &Self) -> bool {
        self.selector == other.selector
    }

    /// Returns true if the eviction of a pod that this budget selects uses up one of its allowed disruptions, as the Eviction API counts.
    /// It uses up none if the eviction was granted already, if the pod is bound and has not started, or if the pod is unready and may be
    /// evicted at 0 allowed disruptions ([`Self::unready_may_be_evicted`]).
    pub fn counts(&self, pod: &Pod) -> bool {
        !self.exempts(pod.unstarted(), pod.ready) && !self.has_granted(pod)
    }

    /// Returns true if the budget's status (`disruptedPods`) counts the eviction of this pod already. An entry stays there for up to two
    /// minutes: for a pod that was created later under the same name, as by a StatefulSet, it does not count.
    pub(crate) fn has_granted(&self, pod: &Pod) -> bool {
        let since = self.disrupted_pods.get(pod.key.name.as_str());
        // The API stores times in whole seconds.
        since.is_some_and(|since| pod.created.is_none_or(|created| *since >= created))
    }

    /// Returns what [`Self::counts`] does, for the pod with this summary row. `pod` is called to get the pod itself only if the row does
    /// not suffice; the result is false if `pod` then returns `None`.
    pub(crate) fn counts_row<'p>(&self, row: &Row, pod: impl FnOnce() -> Option<&'p Pod>) -> bool {
        let granted = || pod().is_none_or(|pod| self.has_granted(pod));
        !self.exempts(row.unstarted, row.ready) && (self.disrupted_pods.is_empty() || !granted())
    }

    /// Returns true if the eviction of a pod uses up none of the budget's allowed disruptions because of the state of the pod: `unstarted`
    /// is true if the pod is bound and has not started, `ready` if it is ready.
    pub(crate) fn exempts(&self, unstarted: bool, ready: bool) -> bool {
        unstarted || (!ready && self.unready_may_be_evicted)
    }

    /// Returns true if the budget's selector matches these labels of a pod. Namespaces are not compared.
    pub fn matches(&self, labels: &impl LabelSet) -> bool {
        self.selector.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::resources::ResourceNames;
    use serde_json::json;

    #[test]
    fn an_entry_of_an_evicted_pod_does_not_count_for_a_recreated_pod_of_its_name() {
        let object = json!({"metadata": {"name": "b"}, "spec": {"selector": {}}, "status": {"currentHealthy": 0, "desiredHealthy": 0,
            "disruptionsAllowed": 0, "expectedPods": 0, "disruptedPods": {"web-0": "2026-01-01T00:01:00Z"}}});
        let budget = Budget::from_object(&serde_json::from_value(object).unwrap()).unwrap();
        let counts = |name: &str, created: Option<&str>| {
            let metadata = json!({"namespace": "d", "name": name, "creationTimestamp": created});
            let pod = json!({"metadata": metadata, "spec": {"nodeName": "n1", "containers": []}, "status": {"phase": "Running"}});
            let (pod, key) = (serde_json::from_value(pod).unwrap(), ObjectKey::new("d", name));
            budget.counts(&Pod::from_object(&pod, key, None, &ResourceNames::default(), None).0)
        };
        assert!(!counts("web-0", Some("2026-01-01T00:00:00Z")), "its eviction was granted");
        assert!(!counts("web-0", None), "when it was created is not known");
        assert!(counts("web-0", Some("2026-01-01T00:01:30Z")), "it was created after the eviction");
        assert!(counts("web-1", Some("2026-01-01T00:00:00Z")));
    }

    #[test]
    fn a_selector_of_thousands_of_rules_selects_everything_and_any_other_what_it_says() {
        let budget = |rules: usize| {
            let rules: Vec<_> =
                (0..rules).map(|n| json!({"key": format!("k{n}"), "operator": "DoesNotExist"})).collect();
            let object = json!({"metadata": {"name": "b"}, "spec": {"selector": {"matchExpressions": rules}}});
            Budget::from_object(&serde_json::from_value(object).unwrap()).unwrap()
        };
        let labels = BTreeMap::from([("k0".to_owned(), "x".to_owned())]);
        assert!(!budget(100).matches(&labels) && budget(100).matches(&BTreeMap::<String, String>::new()));
        assert!(budget(101).matches(&labels));
    }
}
