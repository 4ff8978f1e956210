//! Victims in namespaces that become protected while the plan is carried out. None of them is evicted any more, not
//! even the other pods of a PodGroup of which a pod was evicted: an eviction cannot be undone, but it can still be made
//! later.

use super::{Flight, current};
use giveway_crds::plan::PlanState;
use giveway_crds::wording::conditions::plan_end;
use giveway_planner::SmolStr;
use giveway_planner::model::Cluster;

impl Flight {
    /// Cancels the plan if a victim whose eviction was not accepted yet is in a protected namespace. Evictions that have not been sent yet
    /// are withdrawn.
    pub(super) fn cancel_if_victim_protected(&mut self, cluster: &Cluster) {
        let stays = |victim: &&super::VictimPod| {
            !victim.accepted
                && !self.forbidden.contains(&victim.uid)
                && cluster.protection(&victim.pod.namespace).is_some()
        };
        let excluded: Vec<SmolStr> = self.victims.iter().filter(stays).map(|victim| victim.uid.clone()).collect();
        let Some(first) = excluded.first().and_then(|uid| self.victims.iter().find(|victim| victim.uid == *uid)) else {
            return;
        };
        let pod = current(cluster, &first.pod, &first.uid);
        let message = pod.and_then(|pod| Some((pod, cluster.protection(&pod.key.namespace)?))).map(|(pod, why)| {
            plan_end::victim_protected(self.requested_evictions() > 0, &pod.key, &pod.uid, &why.to_string())
        });
        self.forbidden.extend(excluded);
        self.withdraw_unsent_evictions();
        if let Some(message) = message {
            self.drop_plan(PlanState::Cancelled, message);
        }
    }
}
