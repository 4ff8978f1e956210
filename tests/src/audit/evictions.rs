//! Queries about the evictions in a history, and about the times at which they are judged.

use super::OPERATOR;
use super::history::History;
use super::json::text;
use super::record::Removal;
use jiff::Timestamp;

impl History {
    /// The accepted removals by Giveway's operator, without those of its own placeholder pods.
    pub fn evicted(&self) -> Vec<&Removal> {
        let own = |removal: &&Removal| self.pods.get(&removal.uid).is_some_and(|pod| pod.placeholder);
        self.removed_by(OPERATOR).into_iter().filter(|removal| !own(removal)).collect()
    }

    /// The accepted removals by this user.
    pub fn removed_by(&self, user: &str) -> Vec<&Removal> {
        self.removals.iter().filter(|removal| removal.accepted && removal.user == user).collect()
    }

    /// The sorted names of the pods that Giveway evicted.
    pub fn evicted_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.evicted().into_iter().map(|removal| removal.pod.1.clone()).collect();
        names.sort();
        names
    }

    /// Returns true if a PodDisruptionBudget refused to evict this pod for the same plan before this removal.
    pub(super) fn refused_before(&self, removal: &Removal) -> bool {
        let plan = |removal: &Removal| self.plan_of(removal).map(|record| record.plan.id.as_str());
        let earlier =
            |other: &&Removal| other.uid == removal.uid && other.user == removal.user && other.at <= removal.at;
        let mut refused = self.removals.iter().filter(earlier).filter(|other| other.refused_for_budget());
        refused.any(|other| plan(other) == plan(removal))
    }

    /// The first accepted removal of a pod.
    pub(super) fn first_accepted(&self, uid: &str) -> Option<&Removal> {
        self.removals.iter().find(|removal| removal.accepted && removal.uid == uid)
    }

    /// Returns the time at which an event of a namespace at time `at` is judged: the next rest; `None` for the end of
    /// the log.
    pub fn judged_at(&self, namespace: &str, at: Timestamp) -> Option<Timestamp> {
        self.rests.iter().find(|(rest, of)| *rest > at && of == namespace).map(|(rest, _)| *rest)
    }

    /// Returns the holder of the operator's Lease at this time; `None` if the log does not contain it.
    pub fn leader_at(&self, at: Timestamp) -> Option<&str> {
        self.leaders.iter().rev().find(|(since, _)| *since <= at).map(|(_, holder)| holder.as_str())
    }

    /// Returns true if the operator wrote a taint with this value to a node, or requested it without a response.
    pub fn tainted_with(&self, value: &str) -> bool {
        let asked = self.nodes_asked.iter().map(|(_, write)| write);
        let mut writes = self.nodes.iter().chain(asked).filter(|write| write.user == OPERATOR);
        writes.any(|write| write.taints.iter().any(|taint| text(taint, "/value") == value))
    }
}
