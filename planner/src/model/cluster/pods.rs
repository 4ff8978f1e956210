//! Pods of the model, and what counts for them: effective priority, policy and budgets.

use super::{Cluster, PodSlot};
use crate::model::ModelError;
use crate::model::{Budget, Change, NodeIndex, ObjectKey, Pod, PodIndex, Row};
use giveway_crds::policy::PreemptionPolicy;
use k8s_openapi::api::core::v1::Pod as PodObject;

impl Cluster {
    /// Adds or replaces a pod. Returns true if anything changed that a decision can depend on.
    ///
    /// # Errors
    /// A quantity cannot be parsed. A pending pod is then not in the model. A bound pod is: it counts with what kube-scheduler counts for
    /// it, and can be evicted like any other. An object without a name is an error as well.
    pub fn upsert_pod(&mut self, object: &PodObject) -> Result<bool, ModelError> {
        self.upsert_pod_in(object, None)
    }

    /// Adds or replaces a pod; `native_group` is the name of the native group (PodGroup of Kubernetes itself) in its
    /// `spec.schedulingGroup`, if any. Returns true if anything changed that a decision can depend on.
    ///
    /// # Errors
    /// Those of [`Cluster::upsert_pod`].
    pub fn upsert_pod_in(&mut self, object: &PodObject, native_group: Option<&str>) -> Result<bool, ModelError> {
        let key = Pod::key_of(object)?;
        let known = self.pod_index(&key);
        let known_pod = known.and_then(|index| self.pod_at(index));
        match Pod::from_object(object, key, native_group, &self.names, known_pod) {
            (pod, None) => Ok(self.store_pod(pod, known)),
            (pod, Some(error)) => {
                if pod.bound() {
                    self.store_pod(pod, known);
                } else {
                    self.remove_pod(&pod.key);
                }
                Err(error)
            }
        }
    }

    /// Stores a pod as the newest version, and updates all that depends on it. Returns true if the pod differs from the stored version.
    /// `known` is the index of that version; `None` if there is none.
    fn store_pod(&mut self, mut pod: Pod, known: Option<PodIndex>) -> bool {
        self.derive_fields(&mut pod);
        let claims = self.claim_uses(&pod);
        match known.and_then(|index| Some((index, self.pod_at(index)?))) {
            Some((_, known)) if *known == pod => return false,
            Some((index, known)) if known.differs_only_in_progress(&pod) => {
                let uid = pod.uid.clone();
                self.update_progress(index, pod);
                self.note_claims(index);
                self.recount_held(&uid);
            }
            Some(_) => {
                self.remove_pod(&pod.key);
                self.insert_pod(pod);
            }
            None => self.insert_pod(pod),
        }
        self.update_users_of_claims(claims);
        true
    }

    /// Adds a pod that is not in the model, and updates all indexes.
    pub(super) fn insert_pod(&mut self, mut pod: Pod) {
        let (key, uid) = (pod.key.clone(), pod.uid.clone());
        let node = self.node_slot_of(&mut pod);
        let group = pod.group_key().map(|key| self.group_slot(&key));
        let requests = pod.requests.clone();
        let (kind, new) = self.kinds.hold(&pod.class);
        if new {
            self.changes.note(Change::Class(kind));
        }
        if let Some(class) = self.kinds.get(kind) {
            self.shared.share(&mut pod, class);
        }
        let index = self.pods.insert(PodSlot { pod, node, group, budgets: Vec::new() });
        if let Some(node) = node {
            self.put_on_node(index, node, &requests);
        }
        let pods = &self.pods;
        let before = |other: PodIndex| pods.get(other).is_some_and(|slot| slot.pod.key < key);
        if let Some(slot) = group.and_then(|group| self.groups.get_mut(group)) {
            let at = slot.members.partition_point(|other| before(*other));
            slot.members.insert(at, index);
        }
        if let Some(slot) = self.pods.get(index) {
            self.pod_lists.insert(index, slot);
        }
        self.note_unnumbered(index);
        self.note_claims(index);
        self.recount_held(&uid);
        self.add_to_budgets(index);
        self.pod_index.insert(key.clone(), index);
        self.renew_pod(index, kind);
        self.renew_reservation(index);
        if let Some(group) = group.filter(|group| node.is_some() && self.is_disrupted_together(*group)) {
            self.renew_group_for(group, index, &key);
        }
    }

    /// Removes a pod. Returns whether it was there.
    pub fn remove_pod(&mut self, key: &ObjectKey) -> bool {
        let claims = self.pod(key).map(|pod| self.claim_uses(pod));
        let was_there = self.drop_pod(key);
        claims.into_iter().for_each(|claims| self.update_users_of_claims(claims));
        was_there
    }

    /// Removes a pod without updating the other pods that use its PersistentVolumeClaims, because it may be added again. Returns true if
    /// the model had it.
    pub(super) fn drop_pod(&mut self, key: &ObjectKey) -> bool {
        let Some(index) = self.pod_index.remove(key) else { return false };
        let kind = self.row(index).class;
        self.forget_reservation(index);
        self.set_row(index, Row::default());
        self.remove_from_budgets(index);
        let Some(removed) = self.pods.remove(index) else { return false };
        self.kinds.release(kind);
        self.pod_lists.remove(index, &removed.pod);
        self.forget_unnumbered(index, &removed.pod);
        self.forget_claims(index, &removed.pod);
        self.recount_held(&removed.pod.uid);
        if let Some(node) = removed.node {
            self.take_from_node(index, node, &removed.pod.requests);
            self.drop_node_slot_if_unused(node);
        }
        if let Some(group) = removed.group {
            let pods = &self.pods;
            let before = |other: PodIndex| pods.get(other).is_some_and(|slot| slot.pod.key < *key);
            if let Some(slot) = self.groups.get_mut(group) {
                // The removed pod is the first that is not before its own key.
                let at = slot.members.partition_point(|other| before(*other));
                if slot.members.get(at) == Some(&index) {
                    slot.members.remove(at);
                }
            }
            if removed.node.is_some() && self.is_disrupted_together(group) {
                self.renew_group_for(group, index, key);
            }
            self.drop_group_slot_if_unused(group);
        }
        true
    }

    /// Returns every pod of the model, sorted by namespace and name.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        self.pod_index.all().filter_map(|index| self.pod_at(index))
    }

    /// Returns the pods of a namespace, by name.
    pub fn pods_in(&self, namespace: &str) -> impl Iterator<Item = &Pod> {
        self.pod_index.in_namespace(namespace).filter_map(|index| self.pod_at(index))
    }

    /// Returns the pod with this key; `None` if it is not in the model.
    pub fn pod(&self, key: &ObjectKey) -> Option<&Pod> {
        self.pod_at(self.pod_index(key)?)
    }

    /// Returns the effective priority of a pod: the lower one of its group's and its own, because a group
    /// [lends none](giveway_crds::lending); its own if it has no group, the group does not exist, or the group's `PriorityClass` is
    /// unknown. All bound pods of a group that is disrupted together have the lowest effective priority among them.
    pub fn effective_priority(&self, pod: &Pod) -> i32 {
        match self.pod_index(&pod.key).filter(|index| self.pod_at(*index).is_some_and(|known| known.uid == pod.uid)) {
            Some(index) => self.row(index).priority,
            None => self.group_of(pod).map_or(pod.priority, |group| group.counts_for(pod)),
        }
    }

    /// Returns true if a pod's own priority is lower than its group's. A pending pod of this kind is neither planned for nor ungated as a
    /// member.
    pub fn is_below_group(&self, pod: &Pod) -> bool {
        self.group_of(pod).is_some_and(|group| group.is_above(pod))
    }

    /// Returns the policy that says whether Giveway preempts for a pod: that of its group, or else that of its annotation, or else `Never`
    /// (see [`Cluster::trust_pod_policy`]). For members of native groups it is `Never`, even if the group does not exist.
    pub fn effective_policy(&self, pod: &Pod) -> PreemptionPolicy {
        if pod.native() {
            return PreemptionPolicy::Never;
        }
        if let Some(group) = self.group_of(pod) {
            return group.policy;
        }
        let fallback = if self.trust_pod_policy { pod.spec_policy } else { PreemptionPolicy::Never };
        pod.annotation_policy.unwrap_or(fallback)
    }

    /// Returns the budgets that select a pod of the model, sorted by name.
    pub fn budgets_of<'a>(&'a self, pod: &Pod) -> Vec<&'a Budget> {
        let numbers = self.pod_index(&pod.key).map_or(&[][..], |index| self.budgets_at(index));
        let budgets = numbers.iter().filter_map(|number| self.budget_at(*number)).map(|(budget, _)| budget);
        let mut budgets: Vec<&Budget> = budgets.collect();
        budgets.sort_unstable_by_key(|budget| &budget.key);
        budgets
    }

    /// Returns true if any budget selects a pod of the model.
    pub fn is_budgeted(&self, pod: &Pod) -> bool {
        self.pod_index(&pod.key).is_some_and(|index| !self.budgets_at(index).is_empty())
    }

    /// Returns the effective priority of one pod of the model, regardless of the other pods of its unit of eviction; 0 if there is no pod
    /// with this index.
    pub(crate) fn priority_at(&self, index: PodIndex) -> i32 {
        let Some(slot) = self.pods.get(index) else { return 0 };
        let group = slot.group.and_then(|group| self.group_at(group));
        group.map_or(slot.pod.priority, |group| group.counts_for(&slot.pod))
    }

    /// Returns the index of the pod with this key; `None` if it is not in the model.
    pub(crate) fn pod_index(&self, key: &ObjectKey) -> Option<PodIndex> {
        self.pod_index.get(key)
    }

    /// Returns the pod with this index; `None` if there is none.
    pub(crate) fn pod_at(&self, index: PodIndex) -> Option<&Pod> {
        self.pods.get(index).map(|slot| &slot.pod)
    }

    /// Returns the index of every pod that uses capacity of a node: it is bound and has not ended.
    pub(crate) fn bound(&self) -> impl Iterator<Item = PodIndex> + '_ {
        (0..).zip(&self.rows).filter(|(_, row)| row.node.is_some()).map(|(index, _)| index)
    }

    /// Returns the index of every pod of a namespace that uses capacity of a node: it is bound and has not ended.
    pub(crate) fn bound_in(&self, namespace: &str) -> impl Iterator<Item = PodIndex> + '_ {
        self.pod_index.in_namespace(namespace).filter(|index| self.row(*index).node.is_some())
    }

    /// Returns one more than the largest index of a pod: the length of a list with an entry for each pod index.
    pub(crate) fn pod_bound(&self) -> usize {
        self.pods.bound()
    }

    /// Returns the node whose capacity a pod uses; `None` if it is not bound or has ended.
    pub(crate) fn node_index_of(&self, index: PodIndex) -> Option<NodeIndex> {
        self.row(index).node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::sync::Arc;

    /// Returns a pod of an indexed Job as the API server stores it, on a node if `node` names one.
    fn of_job(index: usize, node: &str) -> PodObject {
        let toleration =
            |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        let tolerations = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"].map(toleration);
        let labels: Value = (0..8)
            .map(|n| (format!("example.com/label-{n}"), json!("a value of some length")))
            .chain([("batch.kubernetes.io/job-completion-index".to_owned(), json!(index.to_string()))])
            .chain([("scheduling.giveway.dev/pod-group".to_owned(), json!("train"))])
            .collect();
        serde_json::from_value(json!({
            "metadata": {"namespace": "research", "name": format!("train-large-model-{index}-x7k2p"), "labels": labels,
                "uid": format!("00000000-0000-0000-0000-{index:012}"),
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": true}]},
            "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
                "tolerations": tolerations},
            "status": {"phase": if node.is_empty() { "Pending" } else { "Running" }}
        }))
        .unwrap()
    }

    #[test]
    fn pods_of_one_owner_share_what_is_equal_also_after_they_made_progress() {
        let mut cluster = Cluster::default();
        for index in 0..20 {
            cluster.upsert_pod(&of_job(index, "")).unwrap();
        }
        for index in 0..10 {
            assert_eq!(cluster.upsert_pod(&of_job(index, "a-node-with-a-name-of-its-cloud")), Ok(true));
        }
        let first = cluster.pods().next().unwrap();
        for pod in cluster.pods() {
            assert!(Arc::ptr_eq(&pod.origin, &first.origin), "{}", pod.key);
            assert!(Arc::ptr_eq(&pod.labels.common, &first.labels.common), "{}", pod.key);
            assert_eq!(pod.labels.iter().count(), 10);
        }
        let class = cluster.class(cluster.row(0).class).unwrap();
        assert!(Arc::ptr_eq(&first.origin.class, class), "requests and constraints are those of the class");
        let nodes: Vec<&str> = cluster.pods().filter_map(|pod| pod.node.as_deref()).collect();
        assert!(nodes.len() == 10 && nodes.iter().all(|node| std::ptr::eq(*node, nodes[0])), "one text");
    }

    #[test]
    fn pods_of_different_owners_share_the_labels_of_their_template() {
        let mut cluster = Cluster::default();
        for index in 0..6 {
            let (job, uid) = (format!("sweep-{}", index / 2), format!("00000000-0000-0000-0000-{:012}", index / 2));
            let mut pod = of_job(index, "");
            let labels = pod.metadata.labels.as_mut().unwrap();
            for (key, value) in [
                ("batch.kubernetes.io/controller-uid", &uid),
                ("batch.kubernetes.io/job-name", &job),
                ("controller-uid", &uid),
                ("job-name", &job),
                ("scheduling.giveway.dev/pod-group", &job),
            ] {
                labels.insert(key.to_owned(), value.clone());
            }
            cluster.upsert_pod(&pod).unwrap();
        }
        let pods: Vec<&Pod> = cluster.pods().collect();
        for (index, pod) in pods.iter().enumerate() {
            assert!(Arc::ptr_eq(&pod.labels.common, &pods[0].labels.common), "{}", pod.key);
            let of_owner = pods.iter().filter(|other| Arc::ptr_eq(&pod.labels.of_owner, &other.labels.of_owner));
            assert_eq!(of_owner.count(), 2, "{}", pod.key);
            let job = format!("sweep-{}", index / 2);
            assert_eq!(pod.labels.get("job-name"), Some(job.as_str()));
        }
    }

    #[test]
    fn a_pod_whose_priority_differs_is_not_confused_with_others_of_its_owner() {
        let mut cluster = Cluster::default();
        let mut other = of_job(1, "");
        other.spec.as_mut().unwrap().priority = Some(7);
        cluster.upsert_pod(&of_job(0, "")).unwrap();
        cluster.upsert_pod(&other).unwrap();
        let priorities: Vec<i32> = cluster.pods().map(|pod| pod.priority).collect();
        assert_eq!(priorities, [0, 7]);
    }

    #[test]
    fn a_pod_of_a_known_owner_needs_at_most_700_bytes() {
        // The nodes of a B-tree are at least half full, and two thirds on average.
        let in_tree = |entry: usize| entry * 3 / 2;
        let in_lists =
            size_of::<Option<PodSlot>>() + size_of::<Row>() + size_of::<(PodIndex, Row)>() + size_of::<PodIndex>();
        let indexed = in_tree(size_of::<(ObjectKey, PodIndex)>()) + in_tree(size_of::<(u64, PodIndex)>());
        // Its name, its UID, its own label and the list of its budgets.
        let allocated = 64 + 64 + 48 + 32;
        assert!(in_lists + indexed + allocated <= 700, "{in_lists} + {indexed} + {allocated}");
    }
}
