//! The plans in flight, and which of them are advanced in a pass: those affected by a change, and every other plan
//! about once per second, because it may depend on the time.

use super::Flight;
use super::summary::{Summarized, count_visit};
use crate::model::changed::ChangedObjects;
use crate::model::index::Index;
use giveway_crds::plan::PlanState;
use giveway_planner::model::{Cluster, ObjectKey};
use giveway_planner::{Preemptor, SmolStr};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Maximum time for which pending pods of a PodGroup stay gated because others are evicted and have not terminated: a budget may refuse an
/// eviction for ever.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// After how long a plan is advanced although nothing changed. The times that plans wait for are whole seconds.
const AGAIN: Duration = Duration::from_secs(1);
/// Maximum number of plans that one pass advances although nothing changed.
const MOST_AT_ONCE: usize = 500;

/// The plans in flight, by preemptor.
#[derive(Debug, Default)]
pub struct Flights {
    pub(super) all: Summarized,
    by_id: BTreeMap<String, Preemptor>,
    /// By the UID of a member or victim.
    by_pod: Index<SmolStr, Preemptor>,
    /// By the node of a member or victim.
    by_node: Index<SmolStr, Preemptor>,
    /// By the PodGroup that is the preemptor or a victim.
    by_group: Index<ObjectKey, Preemptor>,
    /// Plans with members for which pods on other nodes can make a node infeasible.
    wide: BTreeSet<Preemptor>,
    /// Plans that are advanced in the next pass.
    awake: BTreeSet<Preemptor>,
    /// All other plans, by the time at which they were last advanced.
    asleep: BTreeSet<(Instant, Preemptor)>,
    slept: BTreeMap<Preemptor, Instant>,
}

impl Flights {
    /// Adds a plan, which is advanced in the next pass, and writes what it reserves into the model. The checks of other plans on its nodes
    /// are repeated.
    pub fn insert(&mut self, flight: Flight, cluster: &mut Cluster) {
        let preemptor = flight.preemptor.clone();
        self.remove(&preemptor);
        if flight.depends_on_other_nodes(cluster) {
            self.wide.insert(preemptor.clone());
        }
        self.update_indexes(&flight, true);
        self.awake.insert(preemptor.clone());
        self.nodes_changed(&preemptor, flight.nodes());
        self.all.insert(flight);
        self.reserve(&preemptor, cluster);
    }

    /// Removes a plan. The checks of other plans on its nodes are repeated.
    pub fn remove(&mut self, preemptor: &Preemptor) -> Option<Flight> {
        let flight = self.all.remove(preemptor)?;
        self.update_indexes(&flight, false);
        self.wide.remove(preemptor);
        self.awake.remove(preemptor);
        self.remove_from_asleep(preemptor);
        self.nodes_changed(preemptor, flight.nodes());
        Some(flight)
    }

    /// Adds a plan to the indexes by ID, pod, node and PodGroup if `add` is true, or removes it from them.
    fn update_indexes(&mut self, flight: &Flight, add: bool) {
        let (preemptor, plan) = (&flight.preemptor, &flight.plan);
        match add {
            true => drop(self.by_id.insert(plan.id.clone(), preemptor.clone())),
            false => drop(self.by_id.remove(&plan.id)),
        }
        let members = plan.placements.iter().map(|placement| (&placement.uid, &placement.node));
        let victims = plan.victims.iter().flat_map(|victim| &victim.pods).map(|pod| (&pod.uid, &pod.node));
        for (uid, node) in members.chain(victims) {
            enter(&mut self.by_pod, SmolStr::new(uid), preemptor, add);
            enter(&mut self.by_node, SmolStr::new(node), preemptor, add);
        }
        let victims = plan.victims.iter().filter(|victim| victim.kind == "PodGroup");
        let mut groups: Vec<ObjectKey> =
            victims.map(|victim| ObjectKey::new(&victim.namespace, &victim.name)).collect();
        if let Preemptor::Group(key) = preemptor {
            groups.push(key.clone());
        }
        groups.into_iter().for_each(|group| enter(&mut self.by_group, group, preemptor, add));
    }

    /// Returns the plan in flight for a preemptor, or `None` if it has none.
    pub fn get(&self, preemptor: &Preemptor) -> Option<&Flight> {
        count_visit();
        self.all.get(preemptor)
    }

    /// Returns the plan in flight for a preemptor, for a change: it is advanced in the next pass.
    pub fn get_mut(&mut self, preemptor: &Preemptor) -> Option<&mut Flight> {
        let flight = self.all.get_mut(preemptor)?;
        self.awake.insert(preemptor.clone());
        Some(flight)
    }

    /// Returns the plan in flight whose `Preemption` has this name, for a change: it is advanced in the next pass.
    pub fn with_id(&mut self, id: &str) -> Option<&mut Flight> {
        let preemptor = self.by_id.get(id)?.clone();
        self.get_mut(&preemptor)
    }

    /// Returns the plan in flight for a preemptor, for a change in the pass that advances it. Unlike [`Self::get_mut`], this does not cause
    /// another pass for the plan.
    pub fn get_mut_without_waking(&mut self, preemptor: &Preemptor) -> Option<&mut Flight> {
        self.all.get_mut(preemptor)
    }

    /// Returns all plans in flight, for a change: all of them are advanced in the next pass.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Flight> {
        self.wake_all();
        self.all.values_mut()
    }

    /// Returns true if there is a plan for this preemptor.
    pub fn contains(&self, preemptor: &Preemptor) -> bool {
        self.get(preemptor).is_some()
    }

    /// Returns all plans in flight, for a dump and for what is counted every few seconds. A pass does not examine all of them: its
    /// questions are answered from the indexes in `summary.rs`.
    pub fn values(&self) -> impl Iterator<Item = &Flight> {
        self.all.values()
    }

    /// Returns the number of plans in flight.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns true if no plan is in flight.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the plans in flight that have the pod with this UID as a member or victim.
    pub fn with_pod(&self, uid: &str) -> impl Iterator<Item = &Flight> {
        self.by_pod.of(uid).filter_map(move |preemptor| self.get(preemptor))
    }

    /// Returns true if any plan in flight evicts pods of this PodGroup.
    pub fn any_evicts_from(&self, cluster: &Cluster, group: &ObjectKey) -> bool {
        let of_group = self.by_group.of(group).filter_map(|preemptor| self.get(preemptor));
        let of_members = cluster.members(group).flat_map(|pod| self.with_pod(&pod.uid));
        of_group.chain(of_members).any(|flight| flight.evicts_from(cluster, group))
    }

    /// Returns the number of pods of this PodGroup, which is disrupted as a whole, that plans in flight still have to evict. The PodGroup's
    /// pending pods must not be ungated before. A plan that was made more than a minute ago does not count.
    pub fn pods_to_wait_for(&self, cluster: &Cluster, group: &ObjectKey, now: Instant) -> usize {
        let of_group = self.by_group.of(group).filter_map(|preemptor| self.get(preemptor));
        let waits = |flight: &&Flight| {
            flight.ending.is_none() && !flight.is_postponed() && now.duration_since(flight.started) < LONGEST_WAIT
        };
        of_group.filter(waits).map(|flight| flight.remaining_of(cluster, group)).sum()
    }

    /// Records changes of the cluster: the next pass advances the plans that depend on the changed objects, or on the PodGroups in
    /// `groups`, and checks again whether they fit.
    pub fn note(&mut self, changes: &ChangedObjects, groups: &BTreeSet<ObjectKey>) {
        let mut changed: BTreeSet<Preemptor> = BTreeSet::new();
        if changes.everything {
            changed.extend(self.all.keys().cloned());
        } else {
            changed.extend(changes.pods.iter().flat_map(|uid| self.by_pod.of(uid)).cloned());
            changed.extend(changes.nodes.iter().flat_map(|node| self.by_node.of(node)).cloned());
            changed.extend(groups.iter().flat_map(|group| self.by_group.of(group)).cloned());
            if changes.any_pod || !changes.nodes.is_empty() {
                changed.extend(self.wide.iter().cloned());
            }
            if changes.budgets {
                let evicting = |flight: &&Flight| flight.evicts() && flight.plan.state <= PlanState::Evicting;
                changed.extend(self.starting().filter(evicting).map(|flight| flight.preemptor.clone()));
            }
        }
        self.wake(changed);
    }

    /// Returns the preemptors of the plans that the next pass advances because something changed, not only because a second has passed.
    pub fn awake(&self) -> impl Iterator<Item = &Preemptor> {
        self.awake.iter()
    }

    /// Makes the next pass advance every plan.
    pub fn wake_all(&mut self) {
        self.awake.extend(self.all.keys().cloned());
    }

    /// Makes the next pass advance the plan for this preemptor.
    pub fn wake_one(&mut self, preemptor: &Preemptor) {
        self.awake.insert(preemptor.clone());
    }

    /// Makes the next pass advance this preemptor's plan, which has started or stopped to reserve its placements, and check again the other
    /// plans on its nodes.
    pub(super) fn reservation_changed(&mut self, preemptor: &Preemptor) {
        self.wake_one(preemptor);
        if let Some(flight) = self.all.get(preemptor) {
            let nodes = flight.nodes();
            self.nodes_changed(preemptor, nodes);
        }
    }

    /// Makes the next pass check again all plans that depend on these nodes, except the plan of the preemptor `by`, which has started or
    /// stopped to reserve capacity there.
    fn nodes_changed(&mut self, by: &Preemptor, nodes: BTreeSet<SmolStr>) {
        let on = nodes.iter().flat_map(|node| self.by_node.of(node));
        let changed = on.chain(&self.wide).filter(|other| *other != by).cloned().collect();
        self.wake(changed);
    }

    /// Makes the next pass advance the plans of these preemptors and check again whether they fit.
    fn wake(&mut self, preemptors: BTreeSet<Preemptor>) {
        for preemptor in preemptors {
            if let Some(flight) = self.all.get_mut(&preemptor) {
                flight.checked = None;
                self.awake.insert(preemptor);
            }
        }
    }

    /// Removes a plan from the queue of plans that are advanced about once per second.
    fn remove_from_asleep(&mut self, preemptor: &Preemptor) {
        if let Some(since) = self.slept.remove(preemptor) {
            self.asleep.remove(&(since, preemptor.clone()));
        }
    }

    /// Returns the preemptors of the plans to advance in the pass at this time, and removes them from the queues: the plans for which
    /// something changed, and at most 500 that were not advanced for a second.
    pub fn take_due(&mut self, now: Instant) -> Vec<Preemptor> {
        let mut due = std::mem::take(&mut self.awake);
        let long_ago = self.asleep.iter().take_while(|(since, _)| now.duration_since(*since) >= AGAIN);
        due.extend(long_ago.take(MOST_AT_ONCE).map(|(_, preemptor)| preemptor.clone()));
        due.iter().for_each(|preemptor| self.remove_from_asleep(preemptor));
        due.into_iter().filter(|preemptor| self.all.contains_key(preemptor)).collect()
    }

    /// Records that the plan of a preemptor was advanced at `now`. If that had an effect, it is advanced again in the next pass, and
    /// otherwise after about a second.
    pub fn advanced(&mut self, preemptor: &Preemptor, had_effect: bool, now: Instant) {
        if !self.all.contains_key(preemptor) {
            return;
        }
        if had_effect {
            self.awake.insert(preemptor.clone());
        } else if !self.slept.contains_key(preemptor) {
            self.slept.insert(preemptor.clone(), now);
            self.asleep.insert((now, preemptor.clone()));
        }
    }
}

/// Adds a preemptor to an index under a key if `add` is true, or removes it.
fn enter<K: Ord>(index: &mut Index<K, Preemptor>, key: K, preemptor: &Preemptor, add: bool) {
    match add {
        true => index.insert(key, preemptor.clone()),
        false => index.remove(&key, preemptor),
    }
}

#[cfg(test)]
impl<const N: usize> From<[Flight; N]> for Flights {
    /// Returns these plans as plans in flight, for tests.
    fn from(flights: [Flight; N]) -> Self {
        let mut all = Self::default();
        flights.into_iter().for_each(|flight| all.insert(flight, &mut Cluster::default()));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plans::Check;
    use giveway_crds::plan::{StoredPlacement, StoredPlan, StoredVictim, StoredVictimPod};

    /// Returns a plan that places the pod `NAME-0` of gang `name` on a node and evicts one pod from it.
    fn flight(name: &str, node: &str) -> Flight {
        let victim = StoredVictim {
            kind: "PodGroup".into(),
            namespace: "default".into(),
            name: format!("victims-of-{name}"),
            pods: vec![StoredVictimPod { name: "v".into(), uid: format!("victim-of-{name}"), node: node.into() }],
            ..StoredVictim::default()
        };
        let placement = StoredPlacement { pod: format!("{name}-0"), uid: format!("uid-{name}"), node: node.into() };
        let plan = StoredPlan {
            id: format!("plan-of-{name}"),
            placements: vec![placement],
            victims: vec![victim],
            ..StoredPlan::default()
        };
        let mut flight = Flight::new(gang(name), 10, plan, Instant::now());
        flight.checked = Some(Check::FitsThen);
        flight
    }

    fn gang(name: &str) -> Preemptor {
        Preemptor::Group(ObjectKey::new("default", name))
    }

    /// Returns plan `a` on `n1` and plan `b` on `n2`, both last advanced at `now`.
    fn asleep(now: Instant) -> Flights {
        let mut flights = Flights::from([flight("a", "n1"), flight("b", "n2")]);
        assert_eq!(advance(&mut flights, now), ["a", "b"], "each is advanced after it was added");
        flights
    }

    /// Advances the plans that are due, without an effect, and returns their names.
    fn advance(flights: &mut Flights, now: Instant) -> Vec<String> {
        let due = flights.take_due(now);
        due.iter().for_each(|preemptor| flights.advanced(preemptor, false, now));
        due.iter().map(|preemptor| preemptor.key().name.to_string()).collect()
    }

    fn unchecked(flights: &Flights) -> Vec<String> {
        let unchecked = flights.values().filter(|flight| flight.checked.is_none());
        unchecked.map(|flight| flight.preemptor.key().name.to_string()).collect()
    }

    #[test]
    fn a_plan_is_advanced_and_checked_when_something_changed_that_it_depends_on() {
        let change = |change: &dyn Fn(&mut ChangedObjects, &mut BTreeSet<ObjectKey>)| {
            let now = Instant::now();
            let (mut flights, mut changes, mut groups) = (asleep(now), ChangedObjects::default(), BTreeSet::new());
            change(&mut changes, &mut groups);
            flights.note(&changes, &groups);
            let (due, unchecked) = (advance(&mut flights, now), unchecked(&flights));
            assert_eq!(due, unchecked);
            due
        };
        let none = Vec::<String>::new();
        assert_eq!(change(&|_, _| {}), none);
        assert_eq!(change(&|changes, _| changes.pods.extend(["uid-a".into()])), ["a"], "a member");
        assert_eq!(change(&|changes, _| changes.pods.extend(["victim-of-b".into()])), ["b"], "a victim");
        assert_eq!(change(&|changes, _| changes.pods.extend(["uid-c".into()])), none);
        assert_eq!(change(&|changes, _| changes.nodes.extend(["n2".into()])), ["b"], "its node");
        assert_eq!(change(&|changes, _| changes.nodes.extend(["n3".into()])), none);
        let group = |name: &'static str| {
            move |_: &mut ChangedObjects, groups: &mut BTreeSet<ObjectKey>| {
                groups.extend([ObjectKey::new("default", name)]);
            }
        };
        assert_eq!(change(&group("a")), ["a"], "its preemptor");
        assert_eq!(change(&group("victims-of-b")), ["b"], "a PodGroup that it evicts");
        assert_eq!(change(&group("c")), none);
        assert_eq!(change(&|changes, _| changes.budgets = true), ["a", "b"], "both have victims to evict");
        assert_eq!(change(&|changes, _| changes.everything = true), ["a", "b"]);
    }

    #[test]
    fn budgets_concern_no_plan_with_only_terminating_victims() {
        let now = Instant::now();
        let mut flights = asleep(now);
        flights.get_mut_without_waking(&gang("a")).unwrap().plan.state = PlanState::WaitingForVictims;
        flights.note(&ChangedObjects { budgets: true, ..ChangedObjects::default() }, &BTreeSet::new());
        assert_eq!(unchecked(&flights), ["b"]);
    }

    #[test]
    fn a_plan_to_which_nothing_happens_is_advanced_once_a_second_and_not_checked_again() {
        let now = Instant::now();
        let mut flights = asleep(now);
        assert_eq!(advance(&mut flights, now + AGAIN / 2), Vec::<String>::new());
        flights.get_mut(&gang("a")).unwrap();
        assert_eq!(advance(&mut flights, now + AGAIN / 2), ["a"], "it was changed");
        assert_eq!(advance(&mut flights, now + AGAIN), ["b"]);
        assert_eq!(advance(&mut flights, now + AGAIN * 3 / 2), ["a"]);
        assert_eq!(unchecked(&flights), Vec::<String>::new());
    }

    #[test]
    fn a_plan_whose_advance_had_an_effect_is_advanced_in_the_next_pass() {
        let now = Instant::now();
        let mut flights = asleep(now);
        flights.get_mut(&gang("a")).unwrap();
        for preemptor in flights.take_due(now) {
            flights.advanced(&preemptor, true, now);
        }
        assert_eq!(advance(&mut flights, now), ["a"]);
        assert_eq!(advance(&mut flights, now), Vec::<String>::new());
    }

    #[test]
    fn a_pass_advances_a_bounded_number_of_plans_to_which_nothing_happened_the_longest_ago_first() {
        let now = Instant::now();
        let mut flights = Flights::default();
        for number in 0..=MOST_AT_ONCE {
            flights.insert(flight(&format!("{number:04}"), &format!("n{number}")), &mut Cluster::default());
            advance(&mut flights, now + Duration::from_nanos(u64::try_from(number).unwrap()));
        }
        let last = format!("{MOST_AT_ONCE:04}");
        let first = advance(&mut flights, now + AGAIN * 2);
        assert_eq!((first.len(), first.contains(&last)), (MOST_AT_ONCE, false));
        assert_eq!(advance(&mut flights, now + AGAIN * 2), [last]);
    }

    #[test]
    fn plans_on_the_nodes_of_a_plan_that_is_added_or_removed_are_checked_again() {
        let now = Instant::now();
        let mut flights = asleep(now);
        flights.insert(flight("c", "n2"), &mut Cluster::default());
        assert_eq!(unchecked(&flights), ["b"]);
        flights.get_mut_without_waking(&gang("b")).unwrap().checked = Some(Check::FitsThen);
        assert_eq!(advance(&mut flights, now), ["b", "c"]);
        flights.reservation_changed(&gang("b"));
        assert_eq!(unchecked(&flights), ["c"]);
        flights.get_mut_without_waking(&gang("c")).unwrap().checked = Some(Check::FitsThen);
        assert_eq!(flights.remove(&gang("b")).unwrap().plan.id, "plan-of-b");
        assert_eq!(unchecked(&flights), ["c"]);
        assert!(flights.with_id("plan-of-b").is_none() && flights.with_id("plan-of-c").is_some());
        assert_eq!(advance(&mut flights, now), ["c"], "a plan that was removed is not advanced");
        flights.remove(&gang("a"));
        flights.remove(&gang("c"));
        assert!(flights.is_empty() && flights.by_pod.is_empty() && flights.by_node.is_empty());
        assert!(flights.by_group.is_empty() && flights.by_id.is_empty() && flights.asleep.is_empty());
    }
}
