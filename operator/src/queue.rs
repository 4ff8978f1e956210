//! Who waits for a decision, and in which order: priority, then age, then name. A preemptor that cannot be helped now
//! is looked at again when something changed, and never stands in the way of others.

use crate::ledger::Flights;
use crate::model::Model;
use crate::status::LastWord;
use giveway_crds::policy::PreemptionPolicy;
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long a victim that a budget refused is spared.
const SPARE: Duration = Duration::from_secs(30);
/// How long a victim is spared whose eviction is not allowed at all: until then nobody asks again.
const SPARE_FORBIDDEN: Duration = Duration::from_secs(600);
/// How long nobody goes for a member that the scheduler did not bind though it had a place.
pub const UNBINDABLE: Duration = Duration::from_secs(600);
/// How often a preemptor that waits after a failure is looked at, at the most.
const PEEK: Duration = Duration::from_secs(1);
/// How long a gang that was taken down waits, so that others get the room first.
const STAND_BACK: Duration = Duration::from_secs(60);
/// Refusals in a row after which the next plan waits.
const REFUSALS: u32 = 8;

/// A preemptor that waits.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// [`Model::version`] when it was last looked at.
    pub seen: Option<u64>,
    /// Not before this time, after a plan that failed.
    pub not_before: Option<Instant>,
    /// When it was last looked at before that time, and the [`Model::version`] then: only for room that is free.
    pub peeked: Option<(u64, Instant)>,
    /// Plans in a row that failed.
    pub failures: u32,
    /// Whether the last plan failed without victims: free capacity is no reason to plan before the time, then.
    pub failed_without_victims: bool,
    /// What was decided last.
    pub last_word: Option<LastWord>,
    /// Victims that the API server refused, and until when they are spared.
    pub spared: BTreeMap<SmolStr, Instant>,
    /// The last refusal, as a sentence, while victims are spared.
    pub refusal: Option<String>,
    /// Plans in a row that were given up for a refusal.
    pub refusals: u32,
    /// Plans in a row that were given up because a member went, of which there were enough.
    pub again: u32,
    /// Whether an eviction was not allowed at all: of the next plan nobody goes before all may.
    pub careful: bool,
    /// Members, by UID, and nodes on which the scheduler did not bind them though they fit, and until when nobody goes for them
    /// there.
    pub unbindable: BTreeMap<(SmolStr, SmolStr), Instant>,
    /// How the last plan for them ended, as a sentence.
    pub unbound: String,
    /// When the plan was made in whose place the next one is made at once.
    pub put_off_since: Option<Time>,
    /// Until when others go first, because it was taken down.
    pub stands_back: Option<Instant>,
}

impl Waiting {
    /// Notes that a plan failed: the next one is made after a while, at most a minute later.
    pub fn back_off(&mut self, now: Instant) {
        self.not_before = Some(now + Duration::from_millis(500) * (1 << self.failures.min(7)));
        self.failures += 1;
        self.seen = None;
    }

    /// Notes that a plan was given up for a member that went. The next one is made at once; after many in a row it waits as after a
    /// failure, or who makes and deletes a pod again and again would fill the history with plans.
    pub fn planned_again(&mut self, now: Instant) {
        self.again += 1;
        if self.again > REFUSALS {
            self.back_off(now);
        }
    }

    /// Notes that it was taken down, because it was bound by half: for a while others go first.
    pub fn stand_back(&mut self, now: Instant) {
        self.stands_back = Some(now + STAND_BACK);
        (self.failures, self.seen) = (0, None);
    }

    /// Until when others go first, if they do.
    pub fn stands_back(&mut self, now: Instant) -> Option<Instant> {
        if self.stands_back.take_if(|until| *until <= now).is_some() {
            self.seen = None;
        }
        self.stands_back
    }

    /// Whether it is not forgotten when it waits for nothing at the moment: for ten minutes at most.
    pub fn remembers(&self, now: Instant) -> bool {
        let mut times = self.spared.values().chain(self.unbindable.values()).chain(&self.stands_back);
        times.any(|until| *until > now)
    }

    /// Notes that the API server refused victims, for their budgets or (`forbidden`) at all. The next plan spares them and is made
    /// at once; after many refusals in a row it waits as after a failure.
    pub fn refused<'a>(
        &mut self,
        uids: impl Iterator<Item = &'a SmolStr>,
        forbidden: &BTreeSet<SmolStr>,
        sentence: &str,
        now: Instant,
    ) {
        self.careful |= !forbidden.is_empty();
        self.refusal = Some(sentence.to_owned());
        self.refusals += 1;
        self.seen = None;
        self.not_before = None;
        if self.refusals > REFUSALS {
            self.back_off(now);
        }
        // The next plan does without them, whenever it is made.
        let start = self.not_before.unwrap_or(now);
        let time = |uid: &SmolStr| if forbidden.contains(uid) { SPARE_FORBIDDEN } else { SPARE };
        self.spared.extend(uids.map(|uid| (uid.clone(), start + time(uid))));
    }

    /// Notes that the scheduler did not bind members on these nodes: for a reason that is not known here.
    pub fn not_bound(&mut self, members: &[(SmolStr, SmolStr)], sentence: &str, now: Instant) {
        if !members.is_empty() {
            sentence.clone_into(&mut self.unbound);
        }
        self.unbindable.extend(members.iter().map(|member| (member.clone(), now + UNBINDABLE)));
    }

    /// The nodes on which this member had a place and was not bound: while one of them would do, nobody is to go for it.
    pub fn unbound_on<'w>(&'w self, uid: &'w SmolStr) -> impl Iterator<Item = &'w SmolStr> {
        self.unbindable.keys().filter(move |(member, _)| member == uid).map(|(_, node)| node)
    }

    /// Whether it is time to look at it. `Some(true)` only for room that is free: after a plan that failed nobody is evicted for a
    /// while, but what became free meanwhile is taken at once (looked for once a second, when something changed).
    pub fn turn(&mut self, version: u64, now: Instant) -> Option<bool> {
        let before = self.unbindable.len();
        self.unbindable.retain(|_, until| *until > now);
        if self.unbindable.len() < before {
            self.seen = None;
        }
        if self.seen == Some(version) {
            return None;
        }
        if self.not_before.is_none_or(|until| until <= now) {
            self.seen = Some(version);
            return Some(false);
        }
        let peeks = self.failures > 0
            && !self.failed_without_victims
            && self.peeked.is_none_or(|(seen, at)| seen != version && now.duration_since(at) >= PEEK);
        peeks.then(|| {
            self.peeked = Some((version, now));
            true
        })
    }

    /// Victims to spare now.
    pub fn spared(&mut self, now: Instant) -> BTreeSet<SmolStr> {
        let before = self.spared.len();
        self.spared.retain(|_, until| *until > now);
        if self.spared.len() < before {
            self.seen = None;
        }
        if self.spared.is_empty() {
            self.refusal = None;
        }
        self.spared.keys().cloned().collect()
    }
}

/// Every preemptor without a plan in flight, most urgent first. Of PodGroups that have a plan no pod is looked at.
pub fn preemptors(model: &Model, flights: &Flights, scheduler_names: &[String]) -> Vec<Preemptor> {
    let cluster = &model.cluster;
    let mut order: Vec<(Reverse<i32>, i64, Preemptor)> = Vec::new();
    for (key, pods) in model.pending.of_groups() {
        // kube-scheduler preempts for its own groups. A group whose class does not exist has no priority to decide by.
        let Some(group) = cluster.group(key).filter(|group| !group.native && group.class_problem.is_none()) else {
            continue;
        };
        let preemptor = Preemptor::Group(key.clone());
        if flights.contains(&preemptor) {
            continue;
        }
        let waits = |pod: &Pod| !pod.gated_by_others && (group.min_count.is_some() || pod.unschedulable || pod.held);
        if pods.iter().any(|pod| cluster.pod(pod).is_some_and(waits)) {
            order.push((Reverse(group.priority), group.created.unwrap_or(i64::MAX), preemptor));
        }
    }
    for pod in model.pending.single().filter_map(|pod| cluster.pod(pod)) {
        let preemptor = Preemptor::Pod(pod.key.clone());
        if preempts_alone(model, pod, scheduler_names) && !flights.contains(&preemptor) {
            let created = pod.created.unwrap_or(i64::MAX);
            order.push((Reverse(cluster.effective_priority(pod)), created, preemptor));
        }
    }
    order.sort();
    order.into_iter().map(|(_, _, preemptor)| preemptor).collect()
}

/// Whether Giveway preempts for this pod on its own: a pod of a managed class that the scheduler could not place.
fn preempts_alone(model: &Model, pod: &Pod, scheduler_names: &[String]) -> bool {
    pod.unschedulable
        && !pod.held
        && !pod.gated_by_others
        && !pod.placeholder()
        && scheduler_names.contains(&pod.scheduler_name)
        && model.cluster.effective_policy(pod) == PreemptionPolicy::PreemptLowerPriority
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestPod, World};

    fn names(world: &World) -> Vec<String> {
        let schedulers = ["default-scheduler".to_owned()];
        preemptors(&world.model, &Flights::default(), &schedulers).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn priority_counts_first_then_age_then_name() {
        let mut world = World::new();
        world.group("b", 1, 10, "Pod").group("a", 1, 10, "Pod").group("urgent", 1, 20, "Pod");
        for group in ["b", "a", "urgent"] {
            world.pod(TestPod::new(&format!("{group}-0"), 0).of(group).held());
        }
        let order = ["podgroup/default/urgent", "podgroup/default/a", "podgroup/default/b"];
        assert_eq!(names(&world), order, "whatever their pods pay for: the planner looks at that");
    }

    #[test]
    fn a_single_pod_waits_only_if_its_class_is_managed_and_the_scheduler_gave_up() {
        let mut world = World::new();
        world.pod(TestPod::new("plain", 5).unschedulable());
        world.pod(TestPod::new("fresh", 5).managed());
        world.pod(TestPod::new("waiting", 5).managed().unschedulable());
        world.pod(TestPod::new("foreign", 5).managed().unschedulable().scheduler("other"));
        assert_eq!(names(&world), ["pod/default/waiting"]);
    }

    #[test]
    fn members_of_native_groups_wait_for_no_decision_whatever_their_class_and_whether_the_group_exists() {
        let mut world = World::new();
        world.native_group("a", 100, "all");
        for group in ["a", "missing"] {
            world.pod(TestPod::new(&format!("of-{group}"), 5).native(group).managed().unschedulable());
        }
        assert_eq!(names(&world), Vec::<String>::new());
    }

    #[test]
    fn members_of_a_group_that_does_not_exist_and_bound_pods_wait_for_no_decision() {
        let mut world = World::new();
        world.node("n1", 1).group("g", 1, 10, "Pod");
        world.pod(TestPod::new("orphan", 5).of("missing").held()).pod(TestPod::new("bound", 5).of("g").on("n1"));
        assert_eq!(names(&world), Vec::<String>::new());
    }

    #[test]
    fn a_pod_that_came_before_its_basic_group_waits_for_its_release() {
        let mut world = World::new();
        world.basic_group("b", 5).pod(TestPod::new("free", 5).of("b"));
        assert_eq!(names(&world), Vec::<String>::new(), "the scheduler has not looked at it yet");
        world.pod(TestPod::new("early", 5).of("b").held());
        assert_eq!(names(&world), ["podgroup/default/b"]);
    }

    #[test]
    fn a_refused_victim_is_spared_for_a_while_and_the_next_plan_waits_only_after_many_refusals() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        let uid = SmolStr::new("uid-db");
        for _ in 0..8 {
            waiting.refused([&uid].into_iter(), &BTreeSet::new(), "Refused.", now);
            assert_eq!(waiting.not_before, None, "at once");
        }
        assert!(waiting.spared(now).contains(&uid));
        assert_eq!(waiting.refusal.as_deref(), Some("Refused."));
        waiting.refused([&uid].into_iter(), &BTreeSet::new(), "Refused.", now);
        assert!(waiting.not_before.is_some_and(|time| time > now), "bounded");
        assert!(!waiting.spared(now + Duration::from_secs(30)).is_empty(), "the next plan is made without it");
        assert!(waiting.spared(now + Duration::from_secs(31)).is_empty());
        assert_eq!(waiting.refusal, None);
    }

    #[test]
    fn nobody_goes_for_a_while_for_a_member_that_the_scheduler_did_not_bind() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        let (uid, node) = (SmolStr::new("uid-g1"), SmolStr::new("n1"));
        waiting.not_bound(&[(uid.clone(), node.clone())], "Not bound.", now);
        waiting.not_bound(&[], "Another plan.", now);
        assert_eq!(waiting.unbound, "Not bound.");
        assert_eq!(waiting.turn(1, now), Some(false));
        assert_eq!(waiting.unbound_on(&uid).collect::<Vec<_>>(), [&node]);
        assert_eq!(waiting.unbound_on(&"uid-g2".into()).count(), 0);
        assert_eq!(waiting.turn(1, now + Duration::from_secs(599)), None);
        assert_eq!(
            waiting.turn(1, now + Duration::from_secs(600)),
            Some(false),
            "looked at again, though nothing changed"
        );
        assert_eq!(waiting.unbound_on(&uid).count(), 0);
    }

    #[test]
    fn a_plan_whose_member_went_is_followed_by_another_at_once_but_not_again_and_again() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        for _ in 0..REFUSALS {
            waiting.planned_again(now);
            assert_eq!(waiting.not_before, None);
        }
        waiting.planned_again(now);
        waiting.planned_again(now);
        assert_eq!(waiting.not_before, Some(now + Duration::from_secs(1)), "longer each time");
    }

    #[test]
    fn who_was_taken_down_lets_others_go_first_whatever_else_happens_to_it() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        waiting.careful = true;
        waiting.stand_back(now);
        waiting.back_off(now);
        waiting.not_before = None;
        let later = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(waiting.stands_back(later(59)), Some(later(60)), "also when a plan of it fails meanwhile");
        assert!(waiting.remembers(later(59)) && waiting.careful, "what is known of it stays known");
        waiting.seen = Some(7);
        assert_eq!(waiting.stands_back(later(60)), None);
        assert_eq!(waiting.turn(7, later(60)), Some(false), "it is looked at again");
    }

    #[test]
    fn a_member_that_the_scheduler_did_not_bind_is_remembered_while_it_does_not_wait() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        assert!(!waiting.remembers(now));
        waiting.not_bound(&[("uid-p".into(), "n1".into())], "It was not bound.", now);
        assert!(waiting.remembers(now + UNBINDABLE - Duration::from_secs(1)));
        assert!(!waiting.remembers(now + UNBINDABLE));
    }

    #[test]
    fn failures_in_a_row_wait_longer_up_to_about_a_minute() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        let waits: Vec<u128> = (0..9)
            .map(|_| {
                waiting.back_off(now);
                waiting.not_before.unwrap().duration_since(now).as_millis()
            })
            .collect();
        assert_eq!(waits, [500, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 64000]);
    }

    #[test]
    fn after_a_failure_no_pod_is_evicted_for_a_while_and_free_capacity_is_looked_for_once_a_second() {
        let (mut waiting, mut now) = (Waiting::default(), Instant::now());
        assert_eq!(waiting.turn(1, now), Some(false));
        assert_eq!(waiting.turn(1, now), None, "nothing changed");
        for _ in 0..8 {
            waiting.back_off(now);
        }
        assert_eq!(waiting.turn(1, now), Some(true), "only for free capacity");
        now += Duration::from_secs(2);
        assert_eq!(waiting.turn(1, now), None, "nothing changed");
        assert_eq!(waiting.turn(2, now), Some(true));
        assert_eq!(waiting.turn(3, now + Duration::from_millis(900)), None, "once a second");
        now += Duration::from_secs(64);
        assert_eq!(waiting.turn(3, now), Some(false));
    }

    #[test]
    fn after_a_plan_without_victims_failed_free_capacity_is_no_reason_to_plan_before_the_time() {
        let (mut waiting, now) = (Waiting::default(), Instant::now());
        for _ in 0..8 {
            waiting.back_off(now);
        }
        waiting.failed_without_victims = true;
        assert_eq!(waiting.turn(1, now + Duration::from_secs(63)), None);
        assert_eq!(waiting.turn(1, now + Duration::from_secs(64)), Some(false));
    }
}
