//! Withdrawal of nominations that belong to no plan.

use super::Housekeeping;
use crate::clock::Clock;
use crate::messages::call_key::CallKey;
use crate::messages::command::Command;
use crate::model::Model;
use crate::plans::Flights;
use giveway_crds::policy::PreemptionPolicy;
use giveway_planner::{Preemptor, SmolStr};
use std::time::{Duration, Instant};

/// How often stray nominations are searched for.
const EVERY: Duration = Duration::from_secs(1);
/// How many seconds after its end a plan for a critical add-on may have left a nomination.
const LATELY: i64 = 600;

impl Housekeeping {
    /// Returns the calls that withdraw nominations of pods which belong to no plan any more, because their withdrawal failed or a leader
    /// crashed; they are searched for once per second. Such a nomination would reserve capacity without end. Only pods are considered for
    /// which kube-scheduler sets no nomination itself: gated pods; unschedulable pods of managed priority classes; unschedulable members
    /// with `preemptionPolicy: Never`; and unschedulable critical add-ons whose plan placed them on this node and ended in the last ten
    /// minutes.
    pub fn stray_nominations(&mut self, model: &Model, flights: &Flights, clock: Clock) -> Vec<Command> {
        let now = clock.now;
        let mut commands = Vec::new();
        if self.looked_for_nominations.is_some_and(|at| now.duration_since(at) < EVERY) {
            return commands;
        }
        self.looked_for_nominations = Some(now);
        let is_member = |uid: &str| flights.with_pod(uid).any(|flight| flight.has_member(uid));
        for pod in model.cluster.unbound().filter(|p| p.nominated_node.is_some()) {
            let node = pod.nominated_node.as_deref().unwrap_or_default();
            let rescued = || model.plans.nominated(&pod.uid, node, clock.epoch_seconds - LATELY);
            // kube-scheduler nominates nodes for members of its own PodGroups, whatever their preemption policy is.
            if pod.native() {
                continue;
            }
            let member = pod.group.is_some() && pod.spec_policy == PreemptionPolicy::Never;
            let ours = pod.gated || (pod.unschedulable && (pod.annotation_policy.is_some() || member || rescued()));
            if !ours || is_member(&pod.uid) {
                continue;
            }
            let withdraw = Command::Nominate {
                preemptor: Preemptor::Pod(pod.key.clone()),
                priority: pod.priority,
                plan: String::new(),
                pod: pod.key.clone(),
                uid: pod.uid.clone(),
                node: None,
                rehearsal: false,
            };
            commands.extend(self.calls.start_unreported(withdraw, now));
        }
        commands
    }

    /// Records that a plan withdraws its nomination of the pod with this UID, so that [`Self::stray_nominations`] does not do the same at
    /// once.
    pub fn withdrawn(&mut self, uid: &SmolStr, now: Instant) {
        self.calls.made(CallKey::Nomination(uid.clone()), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::input::{Input, Update};
    use crate::testing::{TestPod, World};
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn a_nomination_without_a_decision_is_withdrawn() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.node("n1", 1).group("g", 1, 10, "Pod");
        world.pod(TestPod::new("gated", 10).of("g").gated().nominated("n1"));
        world.pod(TestPod::new("scheduler-s", 10).nominated("n1"));
        let commands =
            housekeeping.stray_nominations(&world.model, &Flights::default(), Clock { now, epoch_seconds: 0 });
        let [Command::Nominate { pod, node: None, .. }] = commands.as_slice() else { panic!("{commands:?}") };
        assert_eq!(pod.name, "gated");
        assert!(
            housekeeping
                .stray_nominations(&world.model, &Flights::default(), Clock { now, epoch_seconds: 0 })
                .is_empty(),
            "not twice at once"
        );
    }

    #[test]
    fn a_nomination_that_a_plan_withdraws_is_not_withdrawn_beside_it() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.node("n1", 1).group("g", 1, 10, "Pod").pod(TestPod::new("gated", 10).of("g").gated().nominated("n1"));
        housekeeping.withdrawn(&"uid-gated".into(), now);
        let mut strays = |now| {
            housekeeping.stray_nominations(&world.model, &Flights::default(), Clock { now, epoch_seconds: 0 }).len()
        };
        assert_eq!(strays(now), 0);
        assert_eq!(strays(now + Duration::from_secs(2)), 1, "it had no effect");
    }

    #[test]
    fn a_nomination_is_withdrawn_from_an_ungated_member_that_never_preempts() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.node("n1", 1).group("g", 1, 10, "Pod");
        let ungated = |name: &str| TestPod::new(name, 10).of("g").unschedulable().nominated("n1");
        world.pod(ungated("never").spec("preemptionPolicy", json!("Never"))).pod(ungated("scheduler-s"));
        let commands =
            housekeeping.stray_nominations(&world.model, &Flights::default(), Clock { now, epoch_seconds: 0 });
        let [Command::Nominate { pod, node: None, .. }] = commands.as_slice() else { panic!("{commands:?}") };
        assert_eq!(pod.name, "never");
    }

    #[test]
    fn a_nomination_that_a_plan_for_a_critical_addon_left_is_withdrawn_and_one_of_the_scheduler_is_not() {
        let now = Instant::now();
        let withdrawn = |node: &str, state: &str, second: i64| {
            let (mut world, mut housekeeping) = (World::new(), Housekeeping::default());
            world.pod(TestPod::new("dns", 0).unschedulable().nominated("n1"));
            let preemptor =
                json!({"kind": "Pod", "namespace": "default", "name": "dns", "uid": "uid-dns", "priority": 0});
            let plan = json!({
                "metadata": {"name": "p-1", "uid": "u"},
                "spec": {"preemptor": preemptor, "strategy": "critical-addon",
                    "placements": [{"pod": "dns", "uid": "uid-dns", "node": node}]},
                "status": {"state": state, "finishedAt": "1970-01-01T00:16:40Z"}
            });
            let plan = Box::new(serde_json::from_value(plan).unwrap());
            world.model.apply(Input::Preemption(Update::Applied(plan)));
            let clock = Clock { now, epoch_seconds: second };
            housekeeping.stray_nominations(&world.model, &Flights::default(), clock).len()
        };
        assert_eq!(withdrawn("n1", "Cancelled", 1600), 1);
        assert_eq!(withdrawn("n1", "Cancelled", 1601), 0, "ten minutes later it is the scheduler's");
        assert_eq!(withdrawn("n2", "Cancelled", 1600), 0, "another node");
        assert_eq!(withdrawn("n1", "Evicting", 1600), 0, "it is going to be resumed");
    }
}
