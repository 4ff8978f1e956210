//! Pending critical add-ons, with the time since when, and their order. Pure. The planner decides about them, and the
//! plans in flight carry them out.

use crate::model::Model;
use crate::plans::Flights;
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::{ObjectKey, Pod};
use giveway_planner::rescue::Terms;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Minimum interval between two decisions about the same add-on.
const PACE: Duration = Duration::from_secs(1);
/// How often that interval is doubled at most, up to 16 seconds.
const SELDOM: u32 = 4;
/// Interval of decisions although the cluster has not changed, because terminating pods become overdue with time.
const ANYWAY: Duration = Duration::from_secs(30);
/// How long after a plan for an add-on its nomination may still be Giveway's, because its withdrawal is in progress.
const WITHDRAWN: Duration = Duration::from_secs(10);

/// A pending add-on.
#[derive(Clone, Debug)]
pub struct PendingAddon {
    /// The pod.
    pub pod: ObjectKey,
    /// When it was first observed to be `Unschedulable`.
    pub since: Instant,
    /// When the planner was last asked, and the version of the model at that time.
    asked: Option<(Instant, u64)>,
    /// How often in a row the planner found nothing. It is then asked less and less often.
    hopeless: u32,
    /// When a plan for it was last in flight.
    helped: Option<Instant>,
}

/// The pending critical add-ons, by UID.
#[derive(Debug, Default)]
pub struct AddonQueue {
    waiting: BTreeMap<SmolStr, PendingAddon>,
}

impl AddonQueue {
    /// Updates the queue of pending add-ons from the model: unschedulable pods that are critical by `terms`, and that one of these
    /// schedulers binds. An add-on with a plan in flight stays in the queue until the plan ends.
    pub fn note(&mut self, model: &Model, flights: &Flights, terms: &Terms, schedulers: &[String], now: Instant) {
        let in_flight = |pod: &Pod| flights.contains(&Preemptor::Pod(pod.key.clone()));
        let waits = |pod: &&Pod| {
            pod.unschedulable
                && terms.evicts_for(pod)
                && !pod.placeholder()
                && !pod.gated
                && !pod.gated_by_others
                && schedulers.contains(&pod.scheduler_name)
        };
        let mut before = std::mem::take(&mut self.waiting);
        for pod in model.pending.single().filter_map(|pod| model.cluster.pod(pod)).filter(waits) {
            let new = || PendingAddon { pod: pod.key.clone(), since: now, asked: None, hopeless: 0, helped: None };
            let mut entry = before.remove(&pod.uid).unwrap_or_else(new);
            if in_flight(pod) {
                entry.helped = Some(now);
            }
            // kube-scheduler has nominated a node for the pod, so it preempts for the pod itself.
            let ours = entry.helped.is_some_and(|helped| now.duration_since(helped) < WITHDRAWN);
            if pod.nominated_node.is_none() || ours {
                self.waiting.insert(pod.uid.clone(), entry);
            }
        }
        // The plan of a pod that is not unschedulable any more shows in a moment whether the pod was bound.
        before.retain(|_, waits| flights.contains(&Preemptor::Pod(waits.pod.clone())));
        self.waiting.append(&mut before);
    }

    /// Returns the number of pending critical add-ons, including those with a plan in flight.
    pub fn count(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the pending critical add-ons as preemptors, one for each pod.
    pub fn preemptors(&self) -> impl Iterator<Item = Preemptor> {
        self.waiting.values().map(|waits| Preemptor::Pod(waits.pod.clone()))
    }

    /// Returns when the add-on with this UID was first observed to be unschedulable; `None` if it is not pending.
    pub fn since(&self, uid: &str) -> Option<Instant> {
        self.waiting.get(uid).map(|waits| waits.since)
    }

    /// Returns the add-ons that have been pending for at least `after`, each with the time since when: by priority, then by age. Those for
    /// which the planner found nothing come last, so that they do not delay others.
    pub fn due(&self, model: &Model, after: Duration, now: Instant) -> Vec<(ObjectKey, Instant)> {
        let due = self.waiting.values().filter(|waits| now.duration_since(waits.since) >= after);
        let mut due: Vec<(&PendingAddon, &Pod)> = due.filter_map(|w| Some((w, model.cluster.pod(&w.pod)?))).collect();
        let order = |pod: &Pod| (Reverse(pod.priority), pod.created.unwrap_or(i64::MAX), pod.key.clone());
        due.sort_by_cached_key(|(waits, pod)| (waits.hopeless > 0, order(pod)));
        due.into_iter().map(|(waits, _)| (waits.pod.clone(), waits.since)).collect()
    }

    /// Returns true if the planner must be asked now about the add-on with this UID, and then records that it is asked. It is asked at most
    /// once per second, less often after it found nothing, and not twice about the same `version` of the model within 30 s, unless
    /// `is_forced` is set.
    pub fn is_turn(&mut self, uid: &str, version: u64, is_forced: bool, now: Instant) -> bool {
        let Some(waits) = self.waiting.get_mut(uid) else { return false };
        let pace = PACE * (1 << waits.hopeless.min(SELDOM));
        let again = waits.asked.is_none_or(|(at, seen)| {
            let since = now.duration_since(at);
            ((is_forced || seen != version) && since >= pace) || since >= ANYWAY
        });
        if again {
            waits.asked = Some((now, version));
        }
        again
    }

    /// Records whether the planner found a plan (`helped`) for the add-on with this UID.
    pub fn answered(&mut self, uid: &str, helped: bool) {
        if let Some(waits) = self.waiting.get_mut(uid) {
            waits.hopeless = if helped { 0 } else { waits.hopeless.saturating_add(1) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plans::Flight;
    use crate::testing::{TestPod, World};
    use giveway_crds::plan::StoredPlan;
    use std::collections::BTreeSet;

    const AFTER: Duration = Duration::from_secs(30);

    fn terms() -> Terms {
        Terms { namespaces: BTreeSet::from(["default".to_owned()]), stranded: false }
    }

    fn addon(name: &str, priority: i32) -> TestPod {
        TestPod::new(name, priority).annotated(giveway_crds::keys::ANNOTATION_CRITICAL, "true").unschedulable()
    }

    fn due(rescues: &mut AddonQueue, world: &World, now: Instant) -> Vec<String> {
        rescues.note(&world.model, &Flights::default(), &terms(), &["default-scheduler".to_owned()], now);
        rescues.due(&world.model, AFTER, now).into_iter().map(|(pod, _)| pod.name.to_string()).collect()
    }

    #[test]
    fn only_a_critical_pod_without_another_plan_is_a_candidate() {
        let (mut world, mut rescues, now) = (World::new(), AddonQueue::default(), Instant::now());
        world.pod(addon("dns", 0)).pod(TestPod::new("system", 2_000_000_000).unschedulable());
        world.pod(TestPod::new("ordinary", 1_000_000_000).unschedulable());
        world.pod(TestPod::new("fresh", 2_000_000_000)).pod(addon("nominated", 0).nominated("n1"));
        world.pod(addon("gated", 0).gated()).pod(addon("foreign", 0).scheduler("other"));
        world.pod(addon("member", 0).of("g")).pod(addon("elsewhere", 0).in_namespace("tenant"));
        world.pod(TestPod::new("system-elsewhere", 2_000_000_000).unschedulable().in_namespace("tenant"));
        world.pod(addon("going", 0).terminating()).pod(addon("bound", 0).on("n1"));
        assert_eq!(due(&mut rescues, &world, now), Vec::<String>::new(), "not at once");
        assert_eq!(rescues.count(), 2);
        assert_eq!(due(&mut rescues, &world, now + AFTER), ["system", "dns"]);
    }

    #[test]
    fn the_most_important_is_first_then_the_oldest() {
        let (mut world, mut rescues, now) = (World::new(), AddonQueue::default(), Instant::now());
        world.pod(addon("late", 5).created(20)).pod(addon("early", 5).created(10)).pod(addon("vip", 9).created(30));
        due(&mut rescues, &world, now);
        assert_eq!(due(&mut rescues, &world, now + AFTER), ["vip", "early", "late"]);
    }

    #[test]
    fn a_pod_lingers_if_it_terminates_slowly_or_is_overdue() {
        let mut world = World::new();
        // The pod's deletionTimestamp is 2026-01-01T00:00:00Z.
        world.pod(TestPod::new("going", 0).on("n1").terminating());
        let due = 1_767_225_600;
        let lingers = |world: &mut World, second: i64| {
            world.model.note_time(second);
            world.model.lingering(second).contains("uid-going")
        };
        assert!(lingers(&mut world, due - 21) && !lingers(&mut world, due - 20));
        assert!(!lingers(&mut world, due + 30) && lingers(&mut world, due + 31));
        world.remove_pod("going");
        assert!(!lingers(&mut world, due + 31));
    }

    #[test]
    fn only_overdue_pods_linger_for_other_preemptors_which_are_decided_again_when_a_pod_becomes_overdue() {
        let mut world = World::new();
        world.pod(TestPod::new("going", 0).on("n1").terminating());
        let (due, before) = (1_767_225_600, world.model.version);
        for (second, overdue, later) in
            [(due - 21, false, 0), (due + 30, false, 0), (due + 31, true, 1), (due + 40, true, 1)]
        {
            world.model.note_time(second);
            assert_eq!(world.model.overdue().contains("uid-going"), overdue, "{second}");
            assert_eq!(world.model.version, before + later, "{second}");
        }
        world.remove_pod("going");
        world.model.note_time(due + 41);
        assert!(world.model.overdue().is_empty());
    }

    #[test]
    fn a_pod_that_loses_its_nomination_waits_from_that_time() {
        let (mut world, mut rescues, now) = (World::new(), AddonQueue::default(), Instant::now());
        world.pod(addon("dns", 0));
        due(&mut rescues, &world, now);
        world.pod(addon("dns", 0).nominated("n1"));
        assert_eq!(due(&mut rescues, &world, now + AFTER), Vec::<String>::new());
        world.pod(addon("dns", 0));
        assert_eq!(due(&mut rescues, &world, now + AFTER), Vec::<String>::new());
        assert_eq!(due(&mut rescues, &world, now + AFTER * 2), ["dns"]);
    }

    #[test]
    fn a_pod_with_a_failed_plan_keeps_waiting_while_its_nomination_is_withdrawn() {
        let (mut world, mut rescues, now) = (World::new(), AddonQueue::default(), Instant::now());
        world.pod(addon("dns", 0));
        due(&mut rescues, &world, now);
        world.pod(addon("dns", 0).nominated("n1"));
        let pod = Preemptor::Pod(world.key("dns"));
        let flight = Flight::new(pod, 0, StoredPlan::default(), now);
        let (flights, schedulers) = (Flights::from([flight]), ["default-scheduler".to_owned()]);
        rescues.note(&world.model, &flights, &terms(), &schedulers, now + AFTER);
        assert_eq!(due(&mut rescues, &world, now + AFTER), ["dns"], "at once, not after another half minute");
        assert_eq!(due(&mut rescues, &world, now + AFTER + WITHDRAWN), Vec::<String>::new(), "a nomination of others");
    }

    #[test]
    fn the_planner_is_asked_once_a_second_and_only_when_something_changed() {
        let (mut world, mut rescues, now) = (World::new(), AddonQueue::default(), Instant::now());
        world.pod(addon("dns", 0));
        due(&mut rescues, &world, now);
        assert!(rescues.is_turn("uid-dns", 1, false, now));
        assert!(!rescues.is_turn("uid-dns", 2, false, now + Duration::from_millis(999)));
        assert!(!rescues.is_turn("uid-dns", 1, false, now + PACE));
        assert!(rescues.is_turn("uid-dns", 1, true, now + PACE), "a victim may be asked for again");
        assert!(rescues.is_turn("uid-dns", 2, false, now + PACE * 2));
    }

    #[test]
    fn infeasible_pods_are_decided_less_often_and_after_the_others() {
        let (mut world, mut rescues, now) = (World::new(), AddonQueue::default(), Instant::now());
        world.pod(addon("vip", 9)).pod(addon("dns", 0));
        due(&mut rescues, &world, now);
        let later = now + AFTER;
        assert_eq!(due(&mut rescues, &world, later), ["vip", "dns"]);
        let mut asked = 0;
        for second in 0..60 {
            if rescues.is_turn("uid-vip", second, false, later + Duration::from_secs(second)) {
                asked += 1;
                rescues.answered("uid-vip", false);
            }
        }
        assert_eq!(asked, 6, "after 2, 4, 8, 16 and 16 s");
        assert_eq!(due(&mut rescues, &world, later), ["dns", "vip"]);
        rescues.answered("uid-vip", true);
        assert_eq!(due(&mut rescues, &world, later), ["vip", "dns"]);
    }
}
