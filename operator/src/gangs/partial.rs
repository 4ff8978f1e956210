//! Gangs that are partially scheduled: some members are bound, and the others cannot be bound, because of a constraint that the planner
//! does not model or because their scheduling gate cannot be removed. Such a gang does no work and occupies capacity. After a time limit
//! its pods are evicted (design, section 5, "Partially scheduled gangs") by a [departure](crate::departures), so that other pods get the
//! capacity and the replacement pods start together.
//!
//! A gang that had enough bound members in its current run and lost one is not partially scheduled in this sense, and is not disrupted.

use crate::model::Model;
use giveway_crds::PodGroupStatus;
use giveway_crds::condition::{self, types};
use giveway_crds::wording::conditions::disruption::{self, PartialGangFacts, PartialGangRemedy};
use giveway_planner::SmolStr;
use giveway_planner::model::{Group, ObjectKey, Pod};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

const NANOSECONDS: i64 = 1_000_000_000;

/// The state of a gang that is partially scheduled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialGang {
    /// Number of members that are bound.
    pub bound: usize,
    /// Number of pods that are evicted when it is disrupted.
    pub pods: usize,
    /// Number of members that it needs, less those that have succeeded.
    pub needed: usize,
    /// A pending member, if possible one without our scheduling gate.
    pub waits: ObjectKey,
    /// A member without a controller, which would not be replaced: then no pod is evicted.
    pub ownerless: Option<ObjectKey>,
}

impl PartialGang {
    /// Returns the state of a gang if it is partially scheduled: fewer members are bound than it needs, and it has not had enough since the
    /// first of them was bound. A gang without bound members counts if it waits for a topology domain that has no node. `observed` is true
    /// if this leader has observed that the gang has not had enough in its current run; otherwise its conditions decide.
    fn of(model: &Model, group: &Group, observed: bool) -> Option<Self> {
        let (bound, needed) = bound_and_needed(model, group)?;
        if bound >= needed {
            return None;
        }
        let live = || live(model, &group.key);
        let pending = |pod: &&Pod| !pod.bound() && !pod.gated_by_others && !group.is_above(pod);
        let waits = live().filter(pending).min_by_key(|pod| (pod.gated, pod.key.clone()))?;
        let is_partially_scheduled = match bound {
            0 => waits_for_no_node(model, group, waits),
            _ => observed || !had_enough(&model.groups.get(&group.key)?.status, live()),
        };
        if !is_partially_scheduled {
            return None;
        }
        let is_evictable = |pod: &&Pod| pod.bound() || is_unbound_and_ungated(pod);
        let ownerless = live().filter(is_evictable).find(|pod| pod.owner.is_none());
        Some(Self {
            bound,
            pods: live().filter(is_evictable).count(),
            needed,
            waits: waits.key.clone(),
            ownerless: ownerless.map(|pod| pod.key.clone()),
        })
    }

    /// Returns the message that the gang has been partially scheduled for `after`, with what is done about it (`remedy`), and what
    /// kube-scheduler says about a pending member (`said`).
    pub fn sentence(&self, after: Duration, remedy: PartialGangRemedy<'_>, said: Option<&str>) -> String {
        let said = said.map(|said| (self.waits.name.as_str(), said));
        let (seconds, bound, needed) = (after.as_secs(), self.bound, self.needed);
        disruption::partially_scheduled(PartialGangFacts { seconds, bound, needed, said }, remedy)
    }

    /// Returns what is done about the gang: its ungated pods are evicted; nothing if one of them has no controller and would not be
    /// replaced.
    pub fn remedy(&self) -> PartialGangRemedy<'_> {
        match &self.ownerless {
            None => PartialGangRemedy::Evict,
            Some(pod) => PartialGangRemedy::NoController(&pod.name),
        }
    }
}

/// Returns the live members of a PodGroup: not finished, not terminating, and no mirror pods.
pub fn live<'a>(model: &'a Model, group: &ObjectKey) -> impl Iterator<Item = &'a Pod> + use<'a> {
    model.cluster.members(group).filter(|pod| is_live(pod))
}

/// Returns true if a pod has not finished, is not terminating, and is no mirror pod.
pub fn is_live(pod: &Pod) -> bool {
    pod.live() && !pod.mirror
}

/// Returns the number of live bound members of a gang, and the number of members that it needs, less those that have succeeded; `None` if
/// the group is no gang.
fn bound_and_needed(model: &Model, group: &Group) -> Option<(usize, usize)> {
    let bound = live(model, &group.key).filter(|pod| pod.bound()).count();
    Some((bound, group.min_count?.saturating_sub(model.cluster.finished(group))))
}

/// Returns true if `pod`, a member without our scheduling gate, asks for a value of the group's topology key that no node has.
fn waits_for_no_node(model: &Model, group: &Group, pod: &Pod) -> bool {
    let Some(key) = group.topology.as_deref().filter(|_| !pod.gated) else { return false };
    let asked = pod.asks_for(key);
    asked.is_some_and(|value| !model.cluster.nodes().any(|node| node.labels.get(key).is_some_and(|has| has == value)))
}

/// Returns true if the conditions in `status` show that enough members were bound after the first of the live members (`live`) was bound. A
/// group without the condition `Scheduled` may have had enough, so it counts as if it had. A group that never had enough has the condition
/// `PodGroupInitiallyScheduled` with status `False`; the time of a condition alone does not show it, because the leader's clock wrote it.
fn had_enough<'a>(status: &PodGroupStatus, live: impl Iterator<Item = &'a Pod>) -> bool {
    let Some(found) = condition::find(&status.conditions, types::SCHEDULED) else { return true };
    if found.status == "True" {
        return true;
    }
    let ever = condition::find(&status.conditions, types::INITIALLY_SCHEDULED).is_none_or(|ever| ever.status == "True");
    // The time is from the API server's clock. For a pod that was created with a node, only the kubelet's time is known.
    let bound_at = |pod: &Pod| pod.bound_at.or(pod.start_time);
    let Some(first) = live.filter(|pod| pod.bound()).filter_map(bound_at).min() else { return true };
    ever && found.last_transition_time.0.as_second() > first / NANOSECONDS
}

/// Returns true if a gang has bound members, and its conditions show that enough were bound since the first of them was.
fn shows_enough(model: &Model, key: &ObjectKey) -> bool {
    let status = model.groups.get(key).map(|record| &record.status);
    let has_condition = |status: &&PodGroupStatus| condition::find(&status.conditions, types::SCHEDULED).is_some();
    let mut bound = live(model, key).filter(|pod| pod.bound());
    bound.next().is_some() && status.filter(has_condition).is_some_and(|status| had_enough(status, live(model, key)))
}

/// Returns true if a pod is not bound and has no scheduling gate, neither Giveway's nor another one.
pub fn is_unbound_and_ungated(pod: &Pod) -> bool {
    !pod.bound() && !pod.gated && !pod.gated_by_others
}

/// How long gangs have been partially scheduled without another member being bound.
#[derive(Debug, Default)]
pub struct PartialGangs {
    /// UIDs of the bound members, and since when no other member was bound.
    since: BTreeMap<ObjectKey, (BTreeSet<SmolStr>, Instant)>,
    /// Gangs that have had enough bound members, with the UIDs of these: the watch may not show yet that their status says so. Their
    /// run ends when none of these members is bound any more; then the set is empty until they have enough again.
    had_enough: BTreeMap<ObjectKey, BTreeSet<SmolStr>>,
}

impl PartialGangs {
    /// Prepares for the first pass of a leader: reads from the completed plans of earlier leaders which gangs have had enough bound
    /// members, even if the leader ended before it wrote that to the status of the PodGroup. The time of gangs that are partially scheduled
    /// begins again: an earlier leader may have ungated the other members just now.
    pub fn resume(&mut self, model: &Model) {
        self.since.clear();
        let mut placed: BTreeMap<(ObjectKey, &str), BTreeSet<&str>> = BTreeMap::new();
        for (group, pod) in model.plans.completed() {
            let key = ObjectKey::new(&group.namespace, &group.name);
            placed.entry((key, group.uid.as_str())).or_default().insert(pod);
        }
        for ((key, uid), pods) in placed {
            if model.cluster.group(&key).is_none_or(|group| group.uid != uid) {
                continue;
            }
            let bound = live(model, &key).filter(|pod| pod.bound() && pods.contains(pod.uid.as_str()));
            let bound: BTreeSet<SmolStr> = bound.map(|pod| pod.uid.clone()).collect();
            // Otherwise that run has ended.
            if !bound.is_empty() {
                self.had_enough.insert(key, bound);
            }
        }
    }

    /// Updates, after the PodGroups in `touched` or their pods changed, which of them have had as many bound members as they need, and
    /// since when others have been partially scheduled without another member being bound.
    pub fn note(&mut self, model: &Model, touched: &BTreeSet<ObjectKey>, now: Instant) {
        for key in touched {
            let group = model.cluster.group(key);
            let bound = || live(model, key).filter(|pod| pod.bound());
            match group.and_then(|group| bound_and_needed(model, group)) {
                Some((have, needed)) if have >= needed => {
                    self.had_enough.insert(key.clone(), bound().map(|pod| pod.uid.clone()).collect());
                }
                Some(_) => match self.had_enough.get_mut(key) {
                    Some(known) if !bound().any(|pod| known.contains(&pod.uid)) => known.clear(),
                    Some(_) => {}
                    // An earlier leader wrote that it has had enough. From now on the end of its run is observed.
                    None if shows_enough(model, key) => {
                        self.had_enough.insert(key.clone(), bound().map(|pod| pod.uid.clone()).collect());
                    }
                    None => {}
                },
                None => drop(self.had_enough.remove(key)),
            }
            match group.and_then(|group| self.state(model, group)) {
                Some(_) => {
                    let bound: BTreeSet<SmolStr> = bound().map(|pod| pod.uid.clone()).collect();
                    let known = self.since.entry(key.clone()).or_insert_with(|| (bound.clone(), now));
                    if !bound.is_subset(&known.0) {
                        known.1 = now;
                    }
                    known.0 = bound;
                }
                None => drop(self.since.remove(key)),
            }
        }
    }

    /// Returns the gangs that have been partially scheduled for at least `after` without another member being bound, each with its state.
    pub fn due(&self, model: &Model, after: Duration, now: Instant) -> Vec<(ObjectKey, PartialGang)> {
        let old = self.since.iter().filter(|(_, (_, since))| now.duration_since(*since) >= after);
        old.filter_map(|(key, _)| Some((key.clone(), self.state(model, model.cluster.group(key)?)?))).collect()
    }

    /// Returns the state of a gang if it is partially scheduled; `None` otherwise, also if it has had enough bound members in its current
    /// run.
    fn state(&self, model: &Model, group: &Group) -> Option<PartialGang> {
        match self.had_enough.get(&group.key) {
            Some(members) if !members.is_empty() => None,
            observed => PartialGang::of(model, group, observed.is_some()),
        }
    }

    /// Begins the time again for which a gang has been partially scheduled, because its pods are being evicted or cannot be evicted.
    pub fn restart(&mut self, key: &ObjectKey, now: Instant) {
        if let Some((_, since)) = self.since.get_mut(key) {
            *since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::input::{Input, Update};
    use crate::testing::{TestPod, World};
    use serde_json::json;

    const AFTER: Duration = Duration::from_secs(600);

    fn world() -> World {
        let mut world = World::new();
        world.node("n1", 8).group("g", 3, 10, "PodGroup");
        for name in ["g0", "g1"] {
            world.pod(TestPod::new(name, 10).of("g").of_job("job").created(100).on("n1").started(105));
        }
        world.pod(TestPod::new("g2", 10).of("g").of_job("job").created(100).unschedulable());
        world.scheduled("g", "False", 90);
        world
    }

    fn due(starts: &mut PartialGangs, world: &mut World, now: Instant) -> Vec<(ObjectKey, PartialGang)> {
        let touched = std::mem::take(&mut world.model.touched);
        starts.note(&world.model, &touched, now);
        starts.due(&world.model, AFTER, now)
    }

    #[test]
    fn a_partially_scheduled_gang_is_disrupted_after_the_timeout() {
        let (mut world, mut starts, now) = (world(), PartialGangs::default(), Instant::now());
        assert_eq!(due(&mut starts, &mut world, now), []);
        assert_eq!(due(&mut starts, &mut world, now + AFTER - Duration::from_secs(1)), []);
        let found = due(&mut starts, &mut world, now + AFTER);
        let half = PartialGang { bound: 2, pods: 3, needed: 3, waits: world.key("g2"), ownerless: None };
        assert_eq!(found, [(world.key("g"), half)]);
        starts.restart(&world.key("g"), now + AFTER);
        assert_eq!(due(&mut starts, &mut world, now + AFTER), []);
    }

    #[test]
    fn a_node_with_a_wrong_clock_changes_nothing() {
        for started in [50, 900] {
            let (mut world, mut starts, now) = (world(), PartialGangs::default(), Instant::now());
            for name in ["g0", "g1"] {
                let pod = TestPod::new(name, 10).of("g").of_job("job").created(100).on("n1").started(started);
                world.pod(pod.bound_at(105));
            }
            world.scheduled("g", "False", 90);
            due(&mut starts, &mut world, now);
            assert_eq!(due(&mut starts, &mut world, now + AFTER).len(), 1);
            world.scheduled("g", "False", 106);
            due(&mut starts, &mut world, now);
            assert_eq!(due(&mut starts, &mut world, now + AFTER), [], "it had enough until second 106");
        }
    }

    #[test]
    fn the_timeout_starts_again_with_each_bound_member_and_ends_with_the_last_one() {
        let (mut world, mut starts, now) = (world(), PartialGangs::default(), Instant::now());
        world.group("g", 4, 10, "PodGroup").scheduled("g", "False", 90);
        world.pod(TestPod::new("g3", 10).of("g").of_job("job").created(100).unschedulable());
        due(&mut starts, &mut world, now);
        world.pod(TestPod::new("g2", 10).of("g").of_job("job").created(100).on("n1").started(400));
        let later = now + Duration::from_secs(300);
        due(&mut starts, &mut world, later);
        assert_eq!(due(&mut starts, &mut world, now + AFTER), []);
        assert_eq!(due(&mut starts, &mut world, later + AFTER).len(), 1);
        world.pod(TestPod::new("g3", 10).of("g").of_job("job").created(100).on("n1").started(500));
        assert_eq!(due(&mut starts, &mut world, later + AFTER), []);
    }

    #[test]
    fn the_timeout_starts_again_when_a_replacement_is_bound() {
        let (mut world, mut starts, now) = (world(), PartialGangs::default(), Instant::now());
        world.group("g", 4, 10, "PodGroup").scheduled("g", "False", 90);
        world.pod(TestPod::new("g3", 10).of("g").of_job("job").created(100).unschedulable());
        due(&mut starts, &mut world, now);
        // After an interruption the watch shows both changes at once, so that the number of bound members stays the same.
        let later = now + Duration::from_secs(300);
        world.remove_pod("g1").pod(TestPod::new("g2", 10).of("g").of_job("job").created(100).on("n1").started(400));
        due(&mut starts, &mut world, later);
        assert_eq!(due(&mut starts, &mut world, now + AFTER), []);
        assert_eq!(due(&mut starts, &mut world, later + AFTER).len(), 1);
    }

    #[test]
    fn a_gang_that_had_enough_members_in_its_current_run_is_not_disrupted() {
        let (mut world, mut starts, now) = (world(), PartialGangs::default(), Instant::now());
        for (status, since, due_now) in [("False", 90, 1), ("True", 110, 0), ("False", 400, 0), ("False", 100, 1)] {
            starts = PartialGangs::default();
            world.scheduled("g", status, since);
            due(&mut starts, &mut world, now);
            assert_eq!(due(&mut starts, &mut world, now + AFTER).len(), due_now, "Scheduled={status} since {since}");
        }
        world.group("g", 3, 10, "PodGroup");
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER), [], "not known without the condition");
    }

    #[test]
    fn a_gang_that_never_had_enough_members_is_disrupted_although_the_clock_of_the_leader_is_fast() {
        let (mut world, mut starts, now) = (world(), PartialGangs::default(), Instant::now());
        world.scheduled("g", "False", 400).never_scheduled("g", 400);
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER).len(), 1);
    }

    /// Stores a plan in this state that placed these pods of the PodGroup `g` with this UID.
    fn store_plan(world: &mut World, state: &str, uid: &str, pods: [&str; 3]) {
        let place = |name: &str| json!({"pod": name, "uid": format!("uid-{name}"), "node": "n1"});
        let plan = json!({
            "metadata": {"name": "p-1", "uid": "uid-p-1", "creationTimestamp": "1970-01-01T00:01:00Z"},
            "spec": {"preemptor": {"kind": "PodGroup", "namespace": "default", "name": "g", "uid": uid, "priority": 10},
                     "strategy": "least-cost", "placements": pods.map(place)},
            "status": {"state": state, "term": "t"}
        });
        let plan = Box::new(serde_json::from_value(plan).unwrap());
        world.model.apply(Input::Preemption(Update::Applied(plan)));
    }

    #[test]
    fn a_gang_with_a_plan_that_an_earlier_leader_completed_had_enough_members_although_its_status_does_not_say_so() {
        let bound = ["g0", "g1", "lost"];
        for (state, uid, pods, due_now) in [
            ("Completed", "uid-g", bound, 0),
            ("Completed", "uid-g", ["lost", "l1", "l2"], 1),
            ("Completed", "another", bound, 1),
            ("Ungating", "uid-g", bound, 1),
            ("Cancelled", "uid-g", bound, 1),
        ] {
            let (mut world, mut starts, now) = (world(), PartialGangs::default(), Instant::now());
            world.never_scheduled("g", 90);
            store_plan(&mut world, state, uid, pods);
            starts.resume(&world.model);
            due(&mut starts, &mut world, now);
            assert_eq!(due(&mut starts, &mut world, now + AFTER).len(), due_now, "{state} {uid} {pods:?}");
            world.remove_pod("g0").remove_pod("g1");
            world.pod(TestPod::new("g3", 10).of("g").of_job("job").created(110).on("n1").started(115));
            due(&mut starts, &mut world, now);
            assert_eq!(due(&mut starts, &mut world, now + AFTER).len(), 1, "its members were replaced");
        }
    }

    #[test]
    fn the_end_of_a_run_is_observed_that_had_enough_members_according_to_the_status() {
        let (mut world, mut starts, now) = (world(), PartialGangs::default(), Instant::now());
        world.scheduled("g", "False", 10_000);
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER), []);
        // The clock of an earlier leader was fast, so the time in the condition is later than that of the new members.
        world.remove_pod("g0").remove_pod("g1");
        world.pod(TestPod::new("g3", 10).of("g").of_job("job").created(500).on("n1").started(500));
        due(&mut starts, &mut world, now + AFTER);
        assert_eq!(due(&mut starts, &mut world, now + 2 * AFTER).len(), 1);
    }

    #[test]
    fn a_gang_is_disrupted_if_every_member_was_replaced_since_it_had_enough() {
        let (mut world, mut starts, now) = (world(), PartialGangs::default(), Instant::now());
        world.pod(TestPod::new("g2", 10).of("g").of_job("job").created(100).on("n1").started(106));
        due(&mut starts, &mut world, now);
        world.remove_pod("g0").remove_pod("g2");
        world.pod(TestPod::new("g3", 10).of("g").of_job("job").created(110).on("n1").started(115));
        world.pod(TestPod::new("g4", 10).of("g").of_job("job").created(110).unschedulable());
        world.scheduled("g", "False", 108);
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER), [], "g1 has run since");
        world.remove_pod("g1");
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER).len(), 1);
    }

    #[test]
    fn the_end_of_a_run_that_the_leader_observed_counts_and_not_the_time_that_its_fast_clock_wrote() {
        let (mut world, mut starts, now) = (world(), PartialGangs::default(), Instant::now());
        world.pod(TestPod::new("g2", 10).of("g").of_job("job").created(100).on("n1").started(106));
        due(&mut starts, &mut world, now);
        world.remove_pod("g0").remove_pod("g1").remove_pod("g2");
        world.pod(TestPod::new("g3", 10).of("g").of_job("job").created(110).on("n1").started(115));
        world.pod(TestPod::new("g4", 10).of("g").of_job("job").created(110).unschedulable());
        world.scheduled("g", "False", 118);
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER).len(), 1);
    }

    #[test]
    fn a_gang_with_bound_and_gated_members_is_disrupted_without_its_gated_members() {
        let (mut world, mut starts, now) = (world(), PartialGangs::default(), Instant::now());
        world.pod(TestPod::new("g2", 10).of("g").of_job("job").created(100).gated());
        due(&mut starts, &mut world, now);
        let found = due(&mut starts, &mut world, now + AFTER);
        let half = PartialGang { bound: 2, pods: 2, needed: 3, waits: world.key("g2"), ownerless: None };
        assert_eq!(found, [(world.key("g"), half)]);
    }

    #[test]
    fn the_time_of_a_partially_scheduled_gang_begins_again_when_a_standby_becomes_the_leader() {
        let (mut world, mut starts, now) = (world(), PartialGangs::default(), Instant::now());
        world.pod(TestPod::new("g2", 10).of("g").of_job("job").created(100).gated());
        due(&mut starts, &mut world, now);
        starts.resume(&world.model);
        world.model.touch_all();
        assert_eq!(due(&mut starts, &mut world, now + AFTER), [], "the earlier leader may just have ungated the rest");
        assert_eq!(due(&mut starts, &mut world, now + 2 * AFTER).len(), 1);
    }

    #[test]
    fn a_gang_without_a_bound_member_is_disrupted_if_its_topology_domain_has_no_node() {
        let (mut world, mut starts, now) = (World::new(), PartialGangs::default(), Instant::now());
        world.node("n1", 8).gang_within("g", 2, 10, "rack").scheduled("g", "False", 90);
        let member = |name: &str| TestPod::new(name, 10).of("g").of_job("job").created(100);
        let selector = serde_json::json!({"rack": "r1"});
        world.pod(member("g0").spec("nodeSelector", selector.clone()).unschedulable());
        world.pod(member("g1").spec("nodeSelector", selector.clone()).unschedulable());
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER)[0].1.pods, 2);
        world.labelled_node("n2", 8, "rack", "r1");
        due(&mut starts, &mut world, now);
        world.model.touched.insert(world.key("g"));
        assert_eq!(due(&mut starts, &mut world, now + AFTER), [], "its members are only pending");
        for name in ["g0", "g1"] {
            world.pod(member(name).spec("nodeSelector", selector.clone()).gated());
        }
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER), [], "what the owner asks for stays gated");
    }

    #[test]
    fn a_member_with_a_gate_of_another_component_does_not_count_as_pending() {
        let (mut world, mut starts, now) = (world(), PartialGangs::default(), Instant::now());
        let gates = serde_json::json!([{"name": "example.com/quota"}]);
        world.pod(TestPod::new("g2", 10).of("g").of_job("job").created(100).spec("schedulingGates", gates));
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER), [], "kube-scheduler was not asked about it");
    }

    #[test]
    fn finished_members_count_and_a_member_without_a_controller_is_named() {
        let (mut world, mut starts, now) = (world(), PartialGangs::default(), Instant::now());
        world.pod(TestPod::new("done", 10).of("g").created(100).on("n1").finished("job"));
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER), []);
        let mut starts = PartialGangs::default();
        world.group("g", 4, 10, "PodGroup").scheduled("g", "False", 90);
        world.pod(TestPod::new("lone", 10).of("g").created(100).unschedulable());
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER)[0].1.ownerless, Some(world.key("lone")));
    }
}
