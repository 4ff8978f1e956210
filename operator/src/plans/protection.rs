//! Victims in namespaces that become protected while the plan is carried out. None of them is evicted any more, not
//! even the other pods of a PodGroup of which a pod was evicted: an eviction cannot be undone, but it can still be made
//! later.

use super::{Flight, current};
use crate::speaker::words::Sentence;
use giveway_crds::plan::PlanState;
use giveway_planner::SmolStr;
use giveway_planner::model::{Cluster, Pod};

impl Flight {
    /// Cancels the plan if a victim whose eviction was not accepted yet is protected. Evictions that have not been sent
    /// yet are withdrawn.
    pub(super) fn exclude_protected(&mut self, cluster: &Cluster) {
        let stays = |victim: &&super::VictimPod| {
            !victim.accepted
                && !self.forbidden.contains(&victim.uid)
                && cluster.protection(&victim.pod.namespace).is_some()
        };
        let excluded: Vec<SmolStr> = self.victims.iter().filter(stays).map(|victim| victim.uid.clone()).collect();
        let Some(first) = excluded.first().and_then(|uid| self.victims.iter().find(|victim| victim.uid == *uid)) else {
            return;
        };
        let why = current(cluster, &first.pod, &first.uid).and_then(|pod| why_protected(cluster, pod));
        self.forbidden.extend(excluded);
        self.hold();
        if let Some(why) = why {
            let what =
                if self.requested_evictions() == 0 { "No pod was evicted: " } else { "No other pod is evicted: " };
            self.drop_plan(PlanState::Cancelled, Sentence::from(what).then(why));
        }
    }
}

/// Returns the reason why pods in the pod's namespace must not be evicted, as a sentence that starts with the pod.
pub(super) fn why_protected(cluster: &Cluster, pod: &Pod) -> Option<Sentence> {
    let why = cluster.protection(&pod.key.namespace)?;
    Some(Sentence::default().object("pod", &pod.key, &pod.uid).text(format!(" must not be evicted: {why}.")))
}
