//! Gangs that kube-scheduler bound by half: some members have a node, others were released with them and are bound nowhere,
//! for a reason that the planner does not know. Such a gang does no work and holds room; after a time it is taken down (design,
//! section 5, "Release"), by the way of a [cascade](crate::cascade), so that others get the room and its owner's new pods wait
//! for each other again.
//!
//! A gang that was whole once is another matter: a member made anew was created after the others had started, and nobody is
//! evicted for want of it.

use crate::model::Model;
use giveway_planner::model::{Finished, Group, ObjectKey, Pod};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

const NANOSECONDS: i64 = 1_000_000_000;

/// A gang that is bound by half.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HalfBound {
    /// How many members have a node.
    pub bound: usize,
    /// How many pods go when it is taken down.
    pub pods: usize,
    /// How many are needed, less those that have finished.
    pub needed: usize,
    /// One that was released with them and has none.
    pub waits: ObjectKey,
    /// A member that nobody makes anew when it is deleted: then the gang is left as it is.
    pub ownerless: Option<ObjectKey>,
}

impl HalfBound {
    /// What is so of this gang now; `None` when it is whole, or not started, or lacks a member that came later.
    pub fn of(model: &Model, group: &Group) -> Option<Self> {
        let min_count = group.min_count?;
        let live = || model.cluster.members(&group.key).filter(|pod| pod.live() && !pod.mirror);
        let bound = live().filter(|pod| pod.bound()).count();
        if bound == 0 {
            return None;
        }
        // Until a kubelet has said when a pod started, it has not.
        let started = live().filter(|pod| pod.bound()).map(|pod| pod.start_time.unwrap_or(i64::MAX)).min()?;
        let waits = live().filter(|pod| is_free(pod)).find(|pod| pod.existed_at(started / NANOSECONDS))?;
        let record = model.groups.get(&group.key)?;
        let finished = Finished::of(&record.status.finished, model.cluster.members(&group.key)).count;
        let needed = min_count.saturating_sub(finished);
        let goes = |pod: &&Pod| pod.bound() || is_free(pod);
        let ownerless = live().filter(goes).find(|pod| pod.owner.is_none());
        (bound < needed).then(|| Self {
            bound,
            pods: live().filter(goes).count(),
            needed,
            waits: waits.key.clone(),
            ownerless: ownerless.map(|pod| pod.key.clone()),
        })
    }
}

impl HalfBound {
    /// How the gang is after this time, what becomes of it, and why: what kube-scheduler says of a member that waits.
    pub fn sentence(&self, group: &ObjectKey, after: Duration, what: &str, said: Option<&str>) -> String {
        let Self { bound, needed, waits, .. } = self;
        let have = if *bound == 1 { "has" } else { "have" };
        let said = said.map(|said| format!(" kube-scheduler says of pod {}: {said}", waits.name)).unwrap_or_default();
        let seconds = after.as_secs();
        format!(
            "Pod group {} is bound by half for {seconds} s: {bound} of {needed} pods {have} a node. {what}{said}",
            group.name
        )
    }

    /// What becomes of the gang, as a sentence.
    pub fn remedy(&self) -> String {
        match &self.ownerless {
            None => "All its pods are evicted, so that those made instead wait for each other.".to_owned(),
            Some(pod) => format!(
                "It is not taken down, because pod {} has no controller that makes it anew: delete the pods yourself.",
                pod.name
            ),
        }
    }
}

/// Whether a pod has no node though nobody holds it.
pub fn is_free(pod: &Pod) -> bool {
    !pod.bound() && !pod.held && !pod.gated_by_others
}

/// Since when gangs are bound by half, without another member being bound.
#[derive(Debug, Default)]
pub struct HalfStarts(BTreeMap<ObjectKey, (usize, Instant)>);

impl HalfStarts {
    /// Notes what became of the groups that something happened to.
    pub fn note(&mut self, model: &Model, touched: &BTreeSet<ObjectKey>, now: Instant) {
        for key in touched {
            match model.cluster.group(key).and_then(|group| HalfBound::of(model, group)) {
                Some(half) => {
                    let known = self.0.entry(key.clone()).or_insert((half.bound, now));
                    if half.bound > known.0 {
                        known.1 = now;
                    }
                    known.0 = half.bound;
                }
                None => drop(self.0.remove(key)),
            }
        }
    }

    /// Those for which it is time, with what is so of them.
    pub fn due(&self, model: &Model, after: Duration, now: Instant) -> Vec<(ObjectKey, HalfBound)> {
        let old = self.0.iter().filter(|(_, (_, since))| now.duration_since(*since) >= after);
        old.filter_map(|(key, _)| Some((key.clone(), HalfBound::of(model, model.cluster.group(key)?)?))).collect()
    }

    /// Begins anew to count for a gang: it is being taken down, or cannot be.
    pub fn start_anew(&mut self, key: &ObjectKey, now: Instant) {
        if let Some((_, since)) = self.0.get_mut(key) {
            *since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestPod, World};

    const AFTER: Duration = Duration::from_secs(600);

    fn world() -> World {
        let mut world = World::new();
        world.node("n1", 8).group("g", 3, 10, "PodGroup");
        for name in ["g0", "g1"] {
            world.pod(TestPod::new(name, 10).of("g").of_job("job").created(100).on("n1").started(105));
        }
        world.pod(TestPod::new("g2", 10).of("g").of_job("job").created(100).unschedulable());
        world
    }

    fn due(starts: &mut HalfStarts, world: &mut World, now: Instant) -> Vec<(ObjectKey, HalfBound)> {
        let touched = std::mem::take(&mut world.model.touched);
        starts.note(&world.model, &touched, now);
        starts.due(&world.model, AFTER, now)
    }

    #[test]
    fn a_gang_of_which_some_are_bound_and_others_not_is_noticed_after_the_time() {
        let (mut world, mut starts, now) = (world(), HalfStarts::default(), Instant::now());
        assert_eq!(due(&mut starts, &mut world, now), []);
        assert_eq!(due(&mut starts, &mut world, now + AFTER - Duration::from_secs(1)), []);
        let found = due(&mut starts, &mut world, now + AFTER);
        let half = HalfBound { bound: 2, pods: 3, needed: 3, waits: world.key("g2"), ownerless: None };
        assert_eq!(found, [(world.key("g"), half)]);
        starts.start_anew(&world.key("g"), now + AFTER);
        assert_eq!(due(&mut starts, &mut world, now + AFTER), []);
    }

    #[test]
    fn another_member_that_is_bound_begins_the_time_anew_and_the_last_one_ends_it() {
        let (mut world, mut starts, now) = (world(), HalfStarts::default(), Instant::now());
        world.group("g", 4, 10, "PodGroup");
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
    fn a_gang_that_lost_a_member_after_it_had_started_is_left_alone() {
        let (mut world, mut starts, now) = (world(), HalfStarts::default(), Instant::now());
        world.remove_pod("g2");
        world.pod(TestPod::new("g2-again", 10).of("g").of_job("job").created(500).unschedulable());
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER), []);
        // Neither is one of which the others are held: they were not released with those that run.
        world.remove_pod("g2-again").pod(TestPod::new("g3", 10).of("g").of_job("job").created(100).held());
        due(&mut starts, &mut world, now + AFTER);
        assert_eq!(due(&mut starts, &mut world, now + 2 * AFTER), []);
    }

    #[test]
    fn a_member_that_came_after_the_first_one_had_started_is_none_that_was_released_with_it() {
        let (mut world, mut starts, now) = (world(), HalfStarts::default(), Instant::now());
        world.pod(TestPod::new("g1", 10).of("g").of_job("job").created(300).on("n1").started(400));
        world.remove_pod("g2");
        world.pod(TestPod::new("g2-again", 10).of("g").of_job("job").created(300).unschedulable());
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER), [], "g0 ran since second 105");
    }

    #[test]
    fn a_member_that_somebody_else_gates_is_not_waited_for() {
        let (mut world, mut starts, now) = (world(), HalfStarts::default(), Instant::now());
        let gates = serde_json::json!([{"name": "example.com/quota"}]);
        world.pod(TestPod::new("g2", 10).of("g").of_job("job").created(100).spec("schedulingGates", gates));
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER), [], "kube-scheduler was not asked about it");
    }

    #[test]
    fn members_that_have_finished_count_and_a_member_that_nobody_makes_anew_is_named() {
        let (mut world, mut starts, now) = (world(), HalfStarts::default(), Instant::now());
        world.pod(TestPod::new("done", 10).of("g").created(100).on("n1").finished("job"));
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER), []);
        world.group("g", 4, 10, "PodGroup").pod(TestPod::new("lone", 10).of("g").created(100).unschedulable());
        due(&mut starts, &mut world, now);
        assert_eq!(due(&mut starts, &mut world, now + AFTER)[0].1.ownerless, Some(world.key("lone")));
    }
}
