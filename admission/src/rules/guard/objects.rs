//! The objects that only the guard reads: the pods that a scheduler may preempt for, the bound members of groups, and the
//! budgets.
//!
//! The watches are narrow (pods without a node; pods with the group label): this process never receives most pods of a cluster without
//! groups. Where most pods are members, what is equal for many of them is stored once.

use super::facts::{Allowance, BoundPod, PendingPod};
use crate::namespaced::{Namespaced, NamespacedNames, names_of, take};
use crate::view::ClusterView;
use giveway_planner::model::{Interner, LabelInterner};
use std::sync::Arc;

/// What the guard may look up.
pub trait GuardView: ClusterView {
    /// Returns the objects that only the guard reads: pending pods, bound members of groups, and budgets.
    fn guard_objects(&self) -> &GuardObjects;
}

/// The objects of the guard's watches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuardObjects {
    /// The pods that a scheduler may preempt for.
    pub waiting: Namespaced<PendingPod>,
    /// The bound, live pods that belong to a group.
    pub members: BoundPods,
    /// Every budget.
    pub budgets: Namespaced<Allowance>,
}

/// The bound pods that belong to groups.
#[derive(Clone, Debug, Default)]
pub struct BoundPods {
    pods: Namespaced<BoundPod>,
    labels: LabelInterner,
    groups: Interner<str>,
}

impl BoundPods {
    /// Stores a pod, and replaces what was stored for its name.
    pub fn put(&mut self, namespace: &str, mut pod: BoundPod) {
        self.labels.share(&mut pod.labels);
        pod.group = pod.group.map(|group| self.groups.share(group));
        self.pods.entry(namespace.to_owned()).or_default().insert(Arc::clone(&pod.name), pod);
    }

    /// Removes the pod with this name and namespace, if it is there.
    pub fn remove(&mut self, namespace: Option<&str>, name: Option<&str>) {
        take(&mut self.pods, namespace, name);
    }

    /// Returns the names of all pods.
    pub fn names(&self) -> NamespacedNames {
        names_of(&self.pods)
    }

    /// Returns the pods of a namespace.
    pub fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &BoundPod> {
        self.pods.get(namespace).into_iter().flat_map(|pods| pods.values())
    }
}

impl PartialEq for BoundPods {
    fn eq(&self, other: &Self) -> bool {
        self.pods == other.pods
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::PodObject;
    use super::*;
    use giveway_crds::keys;
    use serde_json::json;

    fn pod(number: usize) -> BoundPod {
        let labels = json!({keys::LABEL_POD_GROUP: format!("train-{}", number % 2), "app": "train", "team": "a",
            "batch.kubernetes.io/job-completion-index": number.to_string()});
        let pod = json!({"metadata": {"namespace": "d", "name": format!("pod-{number}"), "labels": labels}, "spec": {"nodeName": "n"}});
        serde_json::from_value::<PodObject<true>>(pod).unwrap().bound()
    }

    #[test]
    fn what_is_equal_for_many_pods_is_stored_once() {
        let mut members = BoundPods::default();
        for number in 0..6 {
            members.put("d", pod(number));
        }
        let pods: Vec<&BoundPod> = members.of_namespace("d").collect();
        let groups: Vec<*const str> =
            pods.iter().filter_map(|pod| pod.group.as_deref()).map(std::ptr::from_ref).collect();
        for (index, pod) in pods.iter().enumerate() {
            assert!(std::ptr::addr_eq(groups[index], groups[index % 2]), "{index}");
            let value = |key| pod.labels.get(key);
            assert_eq!(value("batch.kubernetes.io/job-completion-index"), Some(index.to_string().as_str()));
            let app = |pod: &BoundPod| pod.labels.get("app").map(std::ptr::from_ref);
            assert!(app(pod) == app(pods[0]), "the text of a label is at one address");
        }
    }

    #[test]
    fn a_pod_that_is_stored_again_replaces_the_earlier_one() {
        let mut members = BoundPods::default();
        members.put("d", pod(1));
        let changed = BoundPod { ready: true, ..pod(1) };
        members.put("d", changed.clone());
        assert_eq!(members.of_namespace("d").collect::<Vec<_>>(), [&changed]);
        members.remove(Some("d"), Some("pod-1"));
        assert!(members.names().is_empty());
    }
}
