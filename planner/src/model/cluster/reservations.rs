//! Capacity that is set aside for unbound pods, by plans and by nominations (KEP-4832), indexed by node.

use super::Cluster;
use crate::model::{Change, NodeIndex, Pod, PodIndex, Reservation};
use smallvec::SmallVec;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// The reservations of a cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Reservations {
    /// Those of plans, by UID of the pod, with the name of the node. The pod may be bound, or may not exist any more.
    of_plans: BTreeMap<SmolStr, (SmolStr, Reservation)>,
    /// The live pods without a node for which capacity is set aside.
    pods: BTreeMap<PodIndex, NodeReservation>,
    /// The same pods, by the name of the node, which need not exist.
    by_node: BTreeMap<SmolStr, SmallVec<[PodIndex; 4]>>,
    /// Those of them with required anti-affinity.
    repelling: BTreeSet<PodIndex>,
}

/// Capacity that is set aside for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeReservation {
    node: SmolStr,
    /// `None`: the nomination of the pod.
    by_plan: Option<Reservation>,
}

impl Cluster {
    /// Reserves capacity of a node for the pod with this UID, instead of what a plan has reserved for it before. The reservation counts
    /// while the pod exists, is live and is not bound. Returns true if anything changed.
    pub fn reserve(&mut self, uid: &str, node: &str, reservation: Reservation) -> bool {
        if self.reserved_for(uid) == Some((node, reservation)) {
            return false;
        }
        self.reservations.of_plans.insert(uid.into(), (node.into(), reservation));
        self.renew_reservation_of(uid);
        true
    }

    /// Removes the reservation that a plan made for the pod with this UID; kube-scheduler's nomination of the pod counts again. Returns
    /// true if there was such a reservation.
    pub fn unreserve(&mut self, uid: &str) -> bool {
        let removed = self.reservations.of_plans.remove(uid).is_some();
        if removed {
            self.renew_reservation_of(uid);
        }
        removed
    }

    /// Returns the number of pods with a stored reservation of a plan, including withdrawn reservations, and pods that do not exist any
    /// more.
    pub fn planned_reservations(&self) -> usize {
        self.reservations.of_plans.len()
    }

    /// Returns the reservation that a plan made for the pod with this UID, with the name of the node; `None` if there is none.
    pub fn reserved_for(&self, uid: &str) -> Option<(&str, Reservation)> {
        self.reservations.of_plans.get(uid).map(|(node, reservation)| (node.as_str(), *reservation))
    }

    /// Returns true if `status.nominatedNodeName` of the pod with this UID is this node.
    pub fn is_nominated(&self, uid: &str, node: &str) -> bool {
        let pod = self.pod_with_uid(uid).and_then(|index| self.pod_at(index));
        pod.is_some_and(|pod| pod.nominated_node.as_deref() == Some(node))
    }

    /// Recomputes the reservation that counts for the pod with this UID; does nothing if the model does not have the pod.
    fn renew_reservation_of(&mut self, uid: &str) {
        if let Some(index) = self.pod_with_uid(uid) {
            self.renew_reservation(index);
        }
    }

    /// Recomputes the reservation that counts for a pod which was added or changed: that of a plan, or else its nomination. A pod that is
    /// bound, has ended or terminates has none.
    pub(super) fn renew_reservation(&mut self, index: PodIndex) {
        let pod = self.pod_at(index).filter(|pod| pod.live() && !pod.bound());
        let found = pod.and_then(|pod| match self.reservations.of_plans.get(&pod.uid) {
            Some((_, Reservation::Withdrawn)) => None,
            Some((node, reservation)) => Some(NodeReservation { node: node.clone(), by_plan: Some(*reservation) }),
            None => Some(NodeReservation { node: pod.nominated_node.clone()?, by_plan: None }),
        });
        self.set_reservation(index, found);
    }

    /// Removes the reservation that counts for a pod, because the pod is removed. The stored reservation of a plan stays.
    pub(super) fn forget_reservation(&mut self, index: PodIndex) {
        self.set_reservation(index, None);
    }

    /// Sets the reservation that counts for a pod, or removes it (`None`), and logs the change of the nodes concerned.
    fn set_reservation(&mut self, index: PodIndex, reservation: Option<NodeReservation>) {
        let old = match &reservation {
            Some(reservation) => self.reservations.pods.insert(index, reservation.clone()),
            None => self.reservations.pods.remove(&index),
        };
        if old == reservation {
            return;
        }
        let repels = reservation.is_some() && self.pod_at(index).is_some_and(Pod::repels_from_other_nodes);
        let Reservations { by_node, repelling, .. } = &mut self.reservations;
        let _ = if repels { repelling.insert(index) } else { repelling.remove(&index) };
        if let Some(old) = &old
            && let Some(pods) = by_node.get_mut(&old.node)
        {
            pods.retain(|pod| *pod != index);
            if pods.is_empty() {
                by_node.remove(&old.node);
            }
        }
        if let Some(reservation) = &reservation {
            by_node.entry(reservation.node.clone()).or_default().push(index);
        }
        for reservation in [old, reservation].into_iter().flatten() {
            self.note_reserved(&reservation.node);
        }
    }

    /// Logs that the reservations on the node with this name changed.
    fn note_reserved(&mut self, node: &str) {
        if let Some(node) = self.node_index(node) {
            self.changes.note(Change::Pods(node));
        }
    }

    /// Logs that the reservations on a node changed because the priority of this pod did, for which capacity of the node is reserved.
    pub(super) fn note_reservation(&mut self, index: PodIndex) {
        if let Some(node) = self.reservations.pods.get(&index).map(|reservation| reservation.node.clone()) {
            self.note_reserved(&node);
        }
    }

    /// Returns the pods for which capacity of a node is set aside, each with its reservation, in no defined order.
    pub(crate) fn reserved_on(&self, node: NodeIndex) -> impl Iterator<Item = (PodIndex, Reservation)> + '_ {
        let pods = self.nodes.get(node).and_then(|slot| self.reservations.by_node.get(&slot.name));
        pods.into_iter().flatten().filter_map(|pod| Some((*pod, self.reservation_at(*pod)?)))
    }

    /// Returns all pods for which capacity of a node that exists is set aside, each with the node and its reservation.
    pub(crate) fn reserved(&self) -> impl Iterator<Item = (PodIndex, NodeIndex, Reservation)> + '_ {
        let at = |pod: &PodIndex, reservation: &NodeReservation| {
            Some((*pod, self.node_index(&reservation.node)?, self.reservation_at(*pod)?))
        };
        self.reservations.pods.iter().filter_map(move |(pod, reservation)| at(pod, reservation))
    }

    /// Returns the pods with required anti-affinity for which capacity of a node is reserved, each with its reservation.
    pub(crate) fn reserved_repelling(&self) -> impl Iterator<Item = (PodIndex, Reservation)> + '_ {
        self.reservations.repelling.iter().filter_map(|pod| Some((*pod, self.reservation_at(*pod)?)))
    }

    /// Returns true if capacity is set aside for a pod, also on a node that does not exist.
    pub(crate) fn has_reservation(&self, index: PodIndex) -> bool {
        self.reservations.pods.contains_key(&index)
    }

    /// Returns the node on which capacity is set aside for a pod; `None` if there is none, or the node is not in the model.
    pub(crate) fn reserved_node(&self, index: PodIndex) -> Option<NodeIndex> {
        self.node_index(&self.reservations.pods.get(&index)?.node)
    }

    /// Returns the reservation for a pod: by a plan, or else by kube-scheduler's nomination. `None` if no capacity is set aside.
    fn reservation_at(&self, index: PodIndex) -> Option<Reservation> {
        let found = self.reservations.pods.get(&index)?;
        Some(found.by_plan.unwrap_or_else(|| Reservation::Started(self.priority_at(index))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn upsert(cluster: &mut Cluster, uid: &str, nominated: Option<&str>, node: Option<&str>) {
        let object: Value = json!({"metadata": {"namespace": "d", "name": "p", "uid": uid},
            "spec": {"containers": [], "nodeName": node, "priority": 7}, "status": {"nominatedNodeName": nominated}});
        cluster.upsert_pod(&serde_json::from_value(object).unwrap()).unwrap();
    }

    fn cluster() -> Cluster {
        let mut cluster = Cluster::default();
        for name in ["n1", "n2"] {
            cluster.upsert_node(&serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()).unwrap();
        }
        cluster
    }

    /// Returns the reservations by node, and asserts that both indexes agree.
    fn seen(cluster: &Cluster) -> Vec<(String, Reservation)> {
        let name = |node: NodeIndex| cluster.node_at(node).unwrap().name.to_string();
        let all: Vec<_> = cluster.reserved().map(|(_, node, reservation)| (name(node), reservation)).collect();
        let nodes = ["n1", "n2"].map(|node| cluster.node_index(node).unwrap());
        let by_node: Vec<_> = nodes
            .into_iter()
            .flat_map(|node| cluster.reserved_on(node).map(move |(_, reservation)| (name(node), reservation)))
            .collect();
        assert_eq!(all, by_node);
        all
    }

    #[test]
    fn a_plan_replaces_the_nomination_of_its_pod() {
        let mut cluster = cluster();
        upsert(&mut cluster, "u", Some("n1"), None);
        assert_eq!(seen(&cluster), [("n1".to_owned(), Reservation::Started(7))]);
        assert!(cluster.reserve("u", "n2", Reservation::Planned(9)));
        assert!(!cluster.reserve("u", "n2", Reservation::Planned(9)), "nothing changed");
        assert_eq!(seen(&cluster), [("n2".to_owned(), Reservation::Planned(9))]);
        assert!(cluster.reserve("u", "n2", Reservation::Withdrawn));
        assert_eq!(seen(&cluster), []);
        assert_eq!(cluster.reserved_for("u"), Some(("n2", Reservation::Withdrawn)));
        assert!(cluster.unreserve("u") && !cluster.unreserve("u"));
        assert_eq!(seen(&cluster), [("n1".to_owned(), Reservation::Started(7))]);
    }

    #[test]
    fn a_reservation_counts_while_its_pod_is_not_bound_and_outlasts_updates_of_the_pod() {
        let mut cluster = cluster();
        cluster.reserve("u", "n1", Reservation::Started(9));
        assert_eq!(seen(&cluster), [], "there is no such pod");
        upsert(&mut cluster, "u", None, None);
        assert_eq!(seen(&cluster), [("n1".to_owned(), Reservation::Started(9))]);
        cluster.remove_pod(&crate::model::ObjectKey::new("d", "p"));
        assert_eq!(seen(&cluster), []);
        upsert(&mut cluster, "another", None, None);
        assert_eq!(seen(&cluster), [], "a pod of the same name");
        upsert(&mut cluster, "u", None, None);
        assert_eq!(seen(&cluster), [("n1".to_owned(), Reservation::Started(9))]);
        upsert(&mut cluster, "u", Some("n1"), Some("n2"));
        assert_eq!(seen(&cluster), []);
    }

    #[test]
    fn every_change_of_a_reservation_is_a_change_of_its_nodes() {
        let mut cluster = cluster();
        let [n1, n2] = ["n1", "n2"].map(|node| cluster.node_index(node).unwrap());
        let mut seen = cluster.mark_changes_read();
        let mut changed = |cluster: &Cluster| {
            let changes: Vec<Change> = cluster.changes_since(seen).unwrap().collect();
            seen = cluster.mark_changes_read();
            changes.into_iter().filter(|change| matches!(change, Change::Pods(_))).collect::<Vec<_>>()
        };
        upsert(&mut cluster, "u", Some("n1"), None);
        assert_eq!(changed(&cluster), [Change::Pods(n1)]);
        cluster.reserve("u", "n2", Reservation::Started(1));
        assert_eq!(changed(&cluster), [Change::Pods(n1), Change::Pods(n2)]);
        upsert(&mut cluster, "u", Some("n1"), Some("n1"));
        assert_eq!(changed(&cluster), [Change::Pods(n1), Change::Pods(n2)]);
    }
}
