//! The plans that were stored recently in mode `observe`: one `Preemption` for each preemptor and set of victims,
//! instead of one for each decision.

use giveway_planner::{Plan, Preemptor, SmolStr};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Minimum interval between two stored plans for a preemptor. In a cluster that changes all the time each decision may
/// have other victims.
const PACE: Duration = Duration::from_secs(60);

/// The last stored plan for a preemptor.
#[derive(Debug)]
struct Last {
    uid: SmolStr,
    victims: BTreeSet<SmolStr>,
    at: Instant,
}

/// The last stored plans, by preemptor.
#[derive(Debug, Default)]
pub struct Observed(BTreeMap<Preemptor, Last>);

impl Observed {
    /// Returns true if a plan for the preemptor with this UID must be stored, and then records it as stored.
    pub fn is_news(&mut self, preemptor: &Preemptor, uid: &SmolStr, plan: &Plan, now: Instant) -> bool {
        let pods = plan.victims.iter().flat_map(|unit| &unit.pods);
        let victims: BTreeSet<SmolStr> = pods.map(|pod| pod.uid.clone()).collect();
        let known = |last: &Last| last.uid == *uid && (last.victims == victims || now.duration_since(last.at) < PACE);
        if self.0.get(preemptor).is_some_and(known) {
            return false;
        }
        self.0.insert(preemptor.clone(), Last { uid: uid.clone(), victims, at: now });
        true
    }

    /// Removes preemptors that are not pending any more.
    pub fn retain(&mut self, waits: impl Fn(&Preemptor) -> bool) {
        self.0.retain(|preemptor, _| waits(preemptor));
    }

    /// Removes all records.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestPod, World};
    use giveway_planner::{Context, Decision, plan};

    /// Returns the plan for `vip` if these pods are running.
    fn plan_over(names: &[&str]) -> (Preemptor, Plan) {
        let mut world = World::new();
        world.node("n1", u32::try_from(names.len()).unwrap());
        for name in names {
            world.pod(TestPod::new(name, 1).on("n1"));
        }
        world.group("vip", 1, 100, "PodGroup").pod(TestPod::new("vip-0", 100).of("vip").held());
        let preemptor = Preemptor::Group(world.key("vip"));
        match plan(&world.model.cluster, &preemptor, &Context::default()) {
            Decision::Preempt(plan) => (preemptor, *plan),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_same_victims_are_told_once_and_others_after_a_minute() {
        let (mut observed, now, uid) = (Observed::default(), Instant::now(), SmolStr::new("uid-vip"));
        let ((vip, first), (_, second)) = (plan_over(&["a"]), plan_over(&["b"]));
        assert!(observed.is_news(&vip, &uid, &first, now));
        assert!(!observed.is_news(&vip, &uid, &first, now + 2 * PACE), "nothing changed");
        assert!(!observed.is_news(&vip, &uid, &second, now + PACE - Duration::from_secs(1)), "too soon");
        assert!(observed.is_news(&vip, &uid, &second, now + PACE));
        assert!(observed.is_news(&vip, &"uid-another".into(), &second, now + PACE), "another group of that name");
        observed.retain(|_| false);
        assert!(observed.is_news(&vip, &uid, &second, now + PACE), "it did not wait any more, and does again");
    }
}
