//! Victims whose namespaces are protected while the plan is carried out: none of them is evicted any more, not even to finish a
//! group that was begun. What is done cannot be undone, and what is not done can be done later.

use super::{Flight, current};
use crate::words::Sentence;
use giveway_crds::plan::PlanState;
use giveway_planner::SmolStr;
use giveway_planner::model::{Cluster, Pod};

impl Flight {
    /// Drops the plan when victims that are not on their way must stay. Evictions that wait for their turn are withdrawn.
    pub(super) fn spare_protected(&mut self, cluster: &Cluster) {
        let stays = |victim: &&super::VictimPod| {
            !victim.accepted
                && !self.forbidden.contains(&victim.uid)
                && cluster.protection(&victim.pod.namespace).is_some()
        };
        let spared: Vec<SmolStr> = self.victims.iter().filter(stays).map(|victim| victim.uid.clone()).collect();
        let Some(first) = spared.first().and_then(|uid| self.victims.iter().find(|victim| victim.uid == *uid)) else {
            return;
        };
        let why = current(cluster, &first.pod, &first.uid).and_then(|pod| why_protected(cluster, pod));
        self.forbidden.extend(spared);
        self.hold();
        if let Some(why) = why {
            let what = if self.begun() == 0 { "Nobody was evicted: " } else { "Nobody else is evicted: " };
            self.drop_plan(PlanState::Cancelled, Sentence::from(what).then(why));
        }
    }
}

/// Why nobody in the pod's namespace is evicted, as a sentence that begins with the pod.
pub(super) fn why_protected(cluster: &Cluster, pod: &Pod) -> Option<Sentence> {
    let why = cluster.protection(&pod.key.namespace)?;
    Some(Sentence::default().object("pod", &pod.key, &pod.uid).text(format!(" must stay: {why}.")))
}
