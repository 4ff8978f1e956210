//! The plans that are stored in mode `observe`: one `Preemption` for each preemptor and set of victims, instead of one for each decision.
//!
//! At most [`MOST`] plans are stored in a minute. The preemptors of the others take turns: when a plan may be stored again, the preemptor
//! that has waited longest is decided again, so that its plan is up to date.

use giveway_crds::plan::PreemptionSummary;
use giveway_planner::{Plan, Preemptor, SmolStr};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// Minimum interval between two stored plans for a preemptor. In a cluster that changes all the time each decision may
/// have other victims.
const PACE: Duration = Duration::from_secs(60);
/// Maximum number of plans that are stored in a minute.
pub const MOST: usize = 60;
/// The time in which [`MOST`] plans are stored at most.
const MINUTE: Duration = Duration::from_secs(60);
/// How long a preemptor whose turn has come may take to be decided.
const TURN: Duration = Duration::from_secs(10);

/// The last stored plan for a preemptor.
#[derive(Debug)]
struct Last {
    uid: SmolStr,
    victims: BTreeSet<SmolStr>,
    at: Instant,
}

/// A plan whose creation the API server has not acknowledged.
#[derive(Clone, Debug)]
pub struct Unwritten {
    /// The preemptor.
    pub preemptor: Preemptor,
    /// Its UID.
    pub uid: SmolStr,
    /// What the status of the preemptor says about the plan when it is stored.
    pub summary: PreemptionSummary,
}

/// Whether a plan that is only observed is stored as a `Preemption`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storing {
    /// It is stored now.
    Now,
    /// Too many plans were stored in the last minute. The preemptor is decided again when it has its turn.
    Later,
    /// It is not stored: the same victims are stored, or a plan for the preemptor was stored in the last minute.
    Known,
}

/// The last stored plans, and the preemptors whose plans are stored later.
#[derive(Debug, Default)]
pub struct ObservedPlans {
    last: BTreeMap<Preemptor, Last>,
    /// When the plans of the last minute were stored.
    stored: VecDeque<Instant>,
    /// The preemptors whose plan is stored later, with their number in the queue.
    queue: BTreeMap<Preemptor, u64>,
    queued: u64,
    /// The preemptors whose turn has come, and when.
    turns: BTreeMap<Preemptor, Instant>,
    unwritten: BTreeMap<String, Unwritten>,
}

impl ObservedPlans {
    /// Decides whether `plan`, which was made in mode `observe` for the preemptor with this UID, is stored as a `Preemption`. If it is
    /// stored now, that is recorded; if later, the preemptor is queued.
    pub fn storing(&mut self, preemptor: &Preemptor, uid: &SmolStr, plan: &Plan, now: Instant) -> Storing {
        let pods = plan.victims.iter().flat_map(|unit| &unit.pods);
        let victims: BTreeSet<SmolStr> = pods.map(|pod| pod.uid.clone()).collect();
        let known = |last: &Last| last.uid == *uid && (last.victims == victims || now.duration_since(last.at) < PACE);
        if self.last.get(preemptor).is_some_and(known) {
            self.leave(preemptor);
            return Storing::Known;
        }
        let has_turn = self.turns.contains_key(preemptor);
        if !has_turn && (!self.queue.is_empty() || self.free_slots(now) == 0) {
            if !self.queue.contains_key(preemptor) {
                self.queued += 1;
                self.queue.insert(preemptor.clone(), self.queued);
            }
            return Storing::Later;
        }
        self.leave(preemptor);
        self.stored.push_back(now);
        self.last.insert(preemptor.clone(), Last { uid: uid.clone(), victims, at: now });
        Storing::Now
    }

    /// Takes the preemptors out of the queue whose plans may be stored now. The caller decides about them again, and then calls
    /// [`Self::storing`].
    pub fn next_turns(&mut self, now: Instant) -> Vec<Preemptor> {
        if self.queue.is_empty() {
            return Vec::new();
        }
        let free = self.free_slots(now);
        let mut order: Vec<(u64, &Preemptor)> =
            if free > 0 { self.queue.iter().map(|(preemptor, place)| (*place, preemptor)).collect() } else { vec![] };
        order.sort();
        let next: Vec<Preemptor> = order.into_iter().take(free).map(|(_, preemptor)| preemptor.clone()).collect();
        for preemptor in &next {
            self.queue.remove(preemptor);
            self.turns.insert(preemptor.clone(), now);
        }
        next
    }

    /// Returns how many more plans may be stored at `now`, without those of the preemptors whose turn has come. Turns that were not used in
    /// time are removed.
    fn free_slots(&mut self, now: Instant) -> usize {
        while self.stored.front().is_some_and(|at| now.duration_since(*at) >= MINUTE) {
            self.stored.pop_front();
        }
        self.turns.retain(|_, since| now.duration_since(*since) < TURN);
        MOST.saturating_sub(self.stored.len() + self.turns.len())
    }

    /// Removes a preemptor from the queue and from the preemptors whose turn has come.
    fn leave(&mut self, preemptor: &Preemptor) {
        self.queue.remove(preemptor);
        self.turns.remove(preemptor);
    }

    /// Records that the creation of the `Preemption` named `plan` was requested. `unwritten` is its preemptor and summary, which
    /// [`Self::written`] returns.
    pub fn requested(&mut self, plan: &str, unwritten: Unwritten) {
        self.unwritten.insert(plan.to_owned(), unwritten);
    }

    /// Records whether the `Preemption` named `plan` was created. Returns its preemptor and summary if it was. Otherwise the next plan for
    /// the preemptor may be stored at once.
    pub fn written(&mut self, plan: &str, is_stored: bool) -> Option<Unwritten> {
        let unwritten = self.unwritten.remove(plan)?;
        if !is_stored {
            self.last.remove(&unwritten.preemptor);
        }
        is_stored.then_some(unwritten)
    }

    /// Removes the preemptors for which `waits` returns false, because they are not pending any more.
    pub fn retain(&mut self, waits: impl Fn(&Preemptor) -> bool) {
        self.last.retain(|preemptor, _| waits(preemptor));
        self.queue.retain(|preemptor, _| waits(preemptor));
        self.turns.retain(|preemptor, _| waits(preemptor));
    }

    /// Forgets the stored plans and the queue, because the mode has changed. The number of plans stored in the last minute still counts.
    pub fn clear(&mut self) {
        self.last.clear();
        self.queue.clear();
        self.turns.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestPod, World};
    use giveway_planner::{Context, Decision, ObjectKey, plan};

    /// Returns the plan for `vip` if these pods are running.
    fn plan_over(names: &[&str]) -> (Preemptor, Plan) {
        let mut world = World::new();
        world.node("n1", u32::try_from(names.len()).unwrap());
        for name in names {
            world.pod(TestPod::new(name, 1).on("n1"));
        }
        world.group("vip", 1, 100, "PodGroup").pod(TestPod::new("vip-0", 100).of("vip").gated());
        let preemptor = Preemptor::Group(world.key("vip"));
        match plan(&world.model.cluster, &preemptor, &Context::default()) {
            Decision::Preempt(plan) => (preemptor, *plan),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_same_victims_are_reported_once_and_others_after_a_minute() {
        let (mut observed, now, uid) = (ObservedPlans::default(), Instant::now(), SmolStr::new("uid-vip"));
        let ((vip, first), (_, second)) = (plan_over(&["a"]), plan_over(&["b"]));
        assert_eq!(observed.storing(&vip, &uid, &first, now), Storing::Now);
        assert_eq!(observed.storing(&vip, &uid, &first, now + 2 * PACE), Storing::Known, "nothing changed");
        let soon = now + PACE - Duration::from_secs(1);
        assert_eq!(observed.storing(&vip, &uid, &second, soon), Storing::Known, "too soon");
        assert_eq!(observed.storing(&vip, &uid, &second, now + PACE), Storing::Now);
        let another = "uid-another".into();
        assert_eq!(observed.storing(&vip, &another, &second, now + PACE), Storing::Now, "another group of that name");
        observed.retain(|_| false);
        let again = observed.storing(&vip, &uid, &second, now + PACE);
        assert_eq!(again, Storing::Now, "it did not wait any more, and does again");
    }

    #[test]
    fn sixty_plans_are_stored_in_a_minute_and_the_preemptors_of_the_others_take_turns() {
        let (mut observed, start, uid) = (ObservedPlans::default(), Instant::now(), SmolStr::new("uid"));
        let (_, plan) = plan_over(&["a"]);
        let preemptors: Vec<Preemptor> =
            (0..150).map(|number| Preemptor::Pod(ObjectKey::new("default", format!("p{number:03}")))).collect();
        let decide = |observed: &mut ObservedPlans, preemptors: &[Preemptor], seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            let stored = preemptors.iter().filter(|p| observed.storing(p, &uid, &plan, now) == Storing::Now);
            stored.cloned().collect::<Vec<_>>()
        };
        assert_eq!(decide(&mut observed, &preemptors, 0), preemptors[..60]);
        assert!(decide(&mut observed, &preemptors, 30).is_empty(), "the others wait, and those of before are known");
        assert!(observed.next_turns(start + Duration::from_secs(59)).is_empty());
        let turns = observed.next_turns(start + MINUTE);
        assert_eq!(turns, preemptors[60..120], "in the order in which they came");
        assert!(observed.next_turns(start + MINUTE).is_empty(), "no more than sixty");
        let out_of_turn = decide(&mut observed, &preemptors[120..], 60);
        assert!(out_of_turn.is_empty(), "{out_of_turn:?}");
        assert_eq!(decide(&mut observed, &turns[..50], 61), turns[..50]);
        let later = start + MINUTE + TURN;
        assert_eq!(observed.next_turns(later), preemptors[120..130], "ten did not need their turn");
        assert_eq!(decide(&mut observed, &turns[50..], 71), Vec::<Preemptor>::new(), "it was theirs for ten seconds");
    }

    #[test]
    fn a_plan_that_could_not_be_stored_is_stored_by_the_next_decision() {
        let (mut observed, now, uid) = (ObservedPlans::default(), Instant::now(), SmolStr::new("uid-vip"));
        let (vip, plan) = plan_over(&["a"]);
        for is_stored in [false, true] {
            assert_eq!(observed.storing(&vip, &uid, &plan, now), Storing::Now);
            let summary = PreemptionSummary::default();
            observed.requested("p-1", Unwritten { preemptor: vip.clone(), uid: uid.clone(), summary });
            assert_eq!(observed.written("p-1", is_stored).is_some(), is_stored);
            assert!(observed.written("p-1", is_stored).is_none(), "reported once");
        }
        assert_eq!(observed.storing(&vip, &uid, &plan, now), Storing::Known);
    }
}
