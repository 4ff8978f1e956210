//! The pending preemptors, ordered by priority, then age, then name. A preemptor for which no plan is possible is
//! examined again when the cluster changes, and never blocks others.

use crate::messages::report::CallError;
use crate::model::Model;
use crate::plans::{Flights, RejectedCall};
use crate::status::WaitReason;
use giveway_crds::policy::PreemptionPolicy;
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::{ObjectKey, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long a victim is excluded after a budget refused its eviction, or the eviction failed repeatedly. A victim whose eviction was rejected
/// is [banned](crate::limits::bans).
const EXCLUDED_AFTER_REFUSAL: Duration = Duration::from_secs(30);
/// Minimum interval between two searches for free capacity for a preemptor that is backing off after a failure.
const PEEK: Duration = Duration::from_secs(1);
/// How long a gang waits after its partially scheduled pods were evicted, and a critical add-on after it was not bound, so that others are
/// scheduled first.
const DISRUPTION_BACK_OFF: Duration = Duration::from_secs(60);
/// Delay after which a rejected call is rehearsed: it doubles with each rejection.
const REHEARSED_AGAIN: Duration = Duration::from_secs(10);
/// The longest such delay.
const LONGEST_REHEARSED_AGAIN: Duration = Duration::from_secs(600);
/// Number of refusals in a row after which the preemptor backs off.
const REFUSALS: u32 = 8;

/// A rejected call, and when a dry run of it is made.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// The call.
    pub call: RejectedCall,
    /// When the dry run is made.
    pub due: Instant,
    /// True if the dry run has no answer yet.
    pub in_flight: bool,
}

/// The state of a pending preemptor.
#[derive(Clone, Debug, Default)]
pub struct PendingPreemptor {
    /// [`Model::version`] when it was last examined.
    pub seen: Option<u64>,
    /// When the next plan may be made, after a failed plan, or after a search that reached its limit of effort.
    pub not_before: Option<Instant>,
    /// [`Model::version`] and time of the last search for free capacity during the back-off.
    pub peeked: Option<(u64, Instant)>,
    /// Number of failed plans, and of searches that reached their limit of effort, in a row.
    pub failures: u32,
    /// True if the last plan failed and had no victims. Then free capacity does not end the back-off early.
    pub failed_without_victims: bool,
    /// Why it is pending, by the last decision.
    pub wait_reason: Option<WaitReason>,
    /// Victims whose eviction a budget refused, or failed repeatedly, and until when they are excluded.
    pub excluded_victims: BTreeMap<SmolStr, Instant>,
    /// The last such refusal, as a sentence, while victims are excluded.
    pub refusal: Option<String>,
    /// Number of plans in a row that were cancelled because an eviction was refused or rejected.
    pub refusals: u32,
    /// Number of plans in a row that were cancelled because a member was deleted and enough members were left.
    pub again: u32,
    /// The call for a member that was rejected. No plan is made until a dry run of it succeeds.
    pub rejected: Option<Rejected>,
    /// Number of such rejections since the last plan was completed.
    pub rejections: u32,
    /// When the first plan was made, if its delay or a limit postponed it and no plan has evicted a pod since then.
    pub postponed_since: Option<Time>,
    /// True if the last plan was superseded by one with fewer victims.
    pub superseded: bool,
    /// Until when other preemptors come first, because the partially scheduled pods of this gang were evicted, or this critical add-on was
    /// not bound.
    pub disruption_back_off: Option<Instant>,
}

impl PendingPreemptor {
    /// Records at `now` a failed plan, or a search for one that reached its limit of effort. The next plan is made after a delay, which
    /// doubles with each failure in a row, from 0.5 s to about a minute.
    pub fn back_off(&mut self, now: Instant) {
        self.not_before = Some(now + Duration::from_millis(500) * (1 << self.failures.min(7)));
        self.failures += 1;
        self.seen = None;
    }

    /// Records that a plan was cancelled because a member was deleted. The next plan is made at once; after more than `REFUSALS` of them
    /// in a row the preemptor backs off. Otherwise a user who repeatedly creates and deletes a pod could fill the history with plans.
    pub fn planned_again(&mut self, now: Instant) {
        self.again += 1;
        if self.again > REFUSALS {
            self.back_off(now);
        }
    }

    /// Records that the partially scheduled pods of this gang were evicted, or that this critical add-on was not bound: for a while other
    /// preemptors come first.
    pub fn back_off_after_disruption(&mut self, now: Instant) {
        self.disruption_back_off = Some(now + DISRUPTION_BACK_OFF);
        (self.failures, self.seen) = (0, None);
    }

    /// Returns until when other preemptors are decided before this one, because its gang was disrupted or its
    /// critical add-on was not bound; `None` if the time has passed.
    pub fn disruption_back_off(&mut self, now: Instant) -> Option<Instant> {
        if self.disruption_back_off.take_if(|until| *until <= now).is_some() {
            self.seen = None;
        }
        self.disruption_back_off
    }

    /// Returns true if this state must be kept although the preemptor has no pending pods: victims are excluded, other preemptors come
    /// first, or a call was rejected.
    pub fn remembers(&self, now: Instant) -> bool {
        let mut times = self.excluded_victims.values().chain(&self.disruption_back_off);
        times.any(|until| *until > now) || self.rejected.is_some()
    }

    /// Records that evictions of a plan were refused or rejected. The next plan is made at once; after more than `REFUSALS` of such plans
    /// in a row the preemptor backs off. It must not evict the pods with these UIDs, those whose evictions were refused or failed, for some
    /// time. `sentence` is about one of them.
    pub fn refused<'a>(&mut self, uids: impl Iterator<Item = &'a SmolStr>, sentence: Option<&str>, now: Instant) {
        if let Some(sentence) = sentence {
            self.refusal = Some(sentence.to_owned());
        }
        self.refusals += 1;
        self.seen = None;
        self.not_before = None;
        if self.refusals > REFUSALS {
            self.back_off(now);
        }
        // The victims stay excluded until the next plan is made, even if that is delayed.
        let until = self.not_before.unwrap_or(now) + EXCLUDED_AFTER_REFUSAL;
        self.excluded_victims.extend(uids.map(|uid| (uid.clone(), until)));
    }

    /// Records that the API server rejected a call for a member. No plan is made until a dry run of this call succeeds. It is made after a
    /// delay, which doubles with each rejection.
    pub fn record_rejection(&mut self, call: RejectedCall, now: Instant) {
        let delay = REHEARSED_AGAIN * (1 << self.rejections.min(6));
        self.rejections += 1;
        self.rejected = Some(Rejected { call, due: now + delay.min(LONGEST_REHEARSED_AGAIN), in_flight: false });
    }

    /// Records the answer to the dry run of the call that was rejected for the member with this UID: if it succeeded, plans are made again.
    pub fn dry_run_answered(&mut self, uid: &str, result: &Result<(), CallError>, now: Instant) {
        let Some(rejected) = self.rejected.take_if(|rejected| rejected.call.uid == uid) else { return };
        match result {
            Ok(()) | Err(CallError::Gone) => self.seen = None,
            Err(CallError::Rejected(words) | CallError::Failed(words)) => {
                self.record_rejection(RejectedCall { words: words.clone(), ..rejected.call }, now);
            }
            Err(CallError::Unanswered(_) | CallError::NotLeader) => {
                self.rejected = Some(Rejected { due: now + REHEARSED_AGAIN, in_flight: false, ..rejected });
            }
        }
    }

    /// Decides whether a plan for the preemptor is searched for now; `version` is [`Model::version`]. `None`: no. `Some(false)`: yes.
    /// `Some(true)`: only one without victims, because it backs off after a failed plan; that is done at most once per second, if the
    /// cluster has changed.
    pub fn turn(&mut self, version: u64, now: Instant) -> Option<bool> {
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

    /// Returns the UIDs of the pods that plans for this preemptor must not evict at `now`. Pods whose exclusion has ended are removed from
    /// the state.
    pub fn excluded_victims(&mut self, now: Instant) -> BTreeSet<SmolStr> {
        let before = self.excluded_victims.len();
        self.excluded_victims.retain(|_, until| *until > now);
        if self.excluded_victims.len() < before {
            self.seen = None;
        }
        if self.excluded_victims.is_empty() {
            self.refusal = None;
        }
        self.excluded_victims.keys().cloned().collect()
    }
}

/// The PodGroups with pending pods and without a plan in flight, as of the last changes. Passes do not examine the others.
#[derive(Debug, Default)]
pub struct Candidates(BTreeSet<ObjectKey>);

impl Candidates {
    /// Returns every PodGroup that has a live pod without a node.
    pub fn all(model: &Model) -> Self {
        Self(model.pending.groups().cloned().collect())
    }

    /// Adds those of the PodGroups in `changed` that have pending pods. The caller passes a PodGroup after each change of its pods, and
    /// when its plan has ended.
    pub fn note(&mut self, model: &Model, changed: &BTreeSet<ObjectKey>) {
        let pending = changed.iter().filter(|key| model.pending.of_group(key).next().is_some());
        self.0.extend(pending.cloned());
    }

    /// Returns all pending preemptors without a plan in flight, PodGroups and single pods, in the order in which they are decided: by
    /// priority, age and name. Only single pods of the schedulers in `scheduler_names` are preemptors.
    pub fn preemptors(&mut self, model: &Model, flights: &Flights, scheduler_names: &[String]) -> Vec<Preemptor> {
        let cluster = &model.cluster;
        let mut order: Vec<(Reverse<i32>, i64, Preemptor)> = Vec::new();
        self.0.retain(|key| {
            let preemptor = Preemptor::Group(key.clone());
            if model.pending.of_group(key).next().is_none() || flights.contains(&preemptor) {
                return false;
            }
            // kube-scheduler preempts for Kubernetes' own PodGroups. A PodGroup whose PriorityClass does not exist has no
            // priority.
            let group = cluster.group(key).filter(|group| !group.native && group.class_problem.is_none());
            let Some(group) = group else { return true };
            let waits =
                |pod: &Pod| !pod.gated_by_others && (group.min_count.is_some() || pod.unschedulable || pod.gated);
            if model.pending.of_group(key).any(|pod| cluster.pod(pod).is_some_and(waits)) {
                order.push((Reverse(group.priority), group.created.unwrap_or(i64::MAX), preemptor));
            }
            true
        });
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
}

/// Returns true if a pod without a PodGroup is a preemptor: kube-scheduler, under one of these names, reports it as unschedulable, and its
/// class is managed by Giveway and permits preemption.
fn preempts_alone(model: &Model, pod: &Pod, scheduler_names: &[String]) -> bool {
    pod.unschedulable
        && !pod.gated
        && !pod.gated_by_others
        && !pod.placeholder()
        && scheduler_names.contains(&pod.scheduler_name)
        && model.cluster.effective_policy(pod) == PreemptionPolicy::PreemptLowerPriority
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plans::Flight;
    use crate::testing::{TestPod, World};
    use giveway_crds::plan::StoredPlan;

    fn names(world: &World) -> Vec<String> {
        let schedulers = ["default-scheduler".to_owned()];
        let order = Candidates::all(&world.model).preemptors(&world.model, &Flights::default(), &schedulers);
        order.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_group_is_a_candidate_from_a_change_of_its_pods_until_it_has_a_plan_and_again_after_it() {
        let (mut world, mut candidates) = (World::new(), Candidates::default());
        let mut order = |world: &World, flights: &Flights, changed: &[&str]| {
            candidates.note(&world.model, &changed.iter().map(|name| world.key(name)).collect());
            let order = candidates.preemptors(&world.model, flights, &[]);
            order.iter().map(|preemptor| preemptor.key().name.to_string()).collect::<Vec<_>>()
        };
        let (none, no_plan) = (Vec::<String>::new(), Flights::default());
        world.node("n1", 1).group("a", 1, 10, "Pod").group("b", 1, 10, "Pod");
        assert_eq!(order(&world, &no_plan, &["a", "b"]), none);
        world.pod(TestPod::new("a-0", 0).of("a").gated()).pod(TestPod::new("b-0", 0).of("b").gated());
        assert_eq!(order(&world, &no_plan, &["a", "b"]), ["a", "b"]);
        assert_eq!(order(&world, &no_plan, &[]), ["a", "b"], "until something changes");
        let plan = Flight::new(Preemptor::Group(world.key("a")), 10, StoredPlan::default(), Instant::now());
        assert_eq!(order(&world, &Flights::from([plan]), &[]), ["b"]);
        assert_eq!(order(&world, &no_plan, &["a"]), ["a", "b"]);
        world.pod(TestPod::new("a-0", 0).of("a").on("n1"));
        assert_eq!(order(&world, &no_plan, &["a"]), ["b"]);
    }

    #[test]
    fn priority_counts_first_then_age_then_name() {
        let mut world = World::new();
        world.group("b", 1, 10, "Pod").group("a", 1, 10, "Pod").group("urgent", 1, 20, "Pod");
        for group in ["b", "a", "urgent"] {
            world.pod(TestPod::new(&format!("{group}-0"), 0).of(group).gated());
        }
        let order = ["podgroup/default/urgent", "podgroup/default/a", "podgroup/default/b"];
        assert_eq!(names(&world), order, "whatever the priorities of their pods: the planner considers these");
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
        world.pod(TestPod::new("orphan", 5).of("missing").gated()).pod(TestPod::new("bound", 5).of("g").on("n1"));
        assert_eq!(names(&world), Vec::<String>::new());
    }

    #[test]
    fn a_pod_that_came_before_its_basic_group_waits_until_it_is_ungated() {
        let mut world = World::new();
        world.basic_group("b", 5).pod(TestPod::new("free", 5).of("b"));
        assert_eq!(names(&world), Vec::<String>::new(), "the scheduler has not looked at it yet");
        world.pod(TestPod::new("early", 5).of("b").gated());
        assert_eq!(names(&world), ["podgroup/default/b"]);
    }

    #[test]
    fn a_refused_victim_is_excluded_for_a_while_and_the_next_plan_waits_only_after_many_refusals() {
        let (mut waiting, now) = (PendingPreemptor::default(), Instant::now());
        let uid = SmolStr::new("uid-db");
        for _ in 0..8 {
            waiting.refused([&uid].into_iter(), Some("Refused."), now);
            assert_eq!(waiting.not_before, None, "at once");
        }
        assert!(waiting.excluded_victims(now).contains(&uid));
        assert_eq!(waiting.refusal.as_deref(), Some("Refused."));
        waiting.refused([&uid].into_iter(), Some("Refused."), now);
        assert!(waiting.not_before.is_some_and(|time| time > now), "bounded");
        assert!(
            !waiting.excluded_victims(now + Duration::from_secs(30)).is_empty(),
            "the next plan is made without it"
        );
        assert!(waiting.excluded_victims(now + Duration::from_secs(31)).is_empty());
        assert_eq!(waiting.refusal, None);
    }

    #[test]
    fn a_plan_with_a_deleted_member_is_followed_by_another_at_once_but_only_once() {
        let (mut waiting, now) = (PendingPreemptor::default(), Instant::now());
        for _ in 0..REFUSALS {
            waiting.planned_again(now);
            assert_eq!(waiting.not_before, None);
        }
        waiting.planned_again(now);
        waiting.planned_again(now);
        assert_eq!(waiting.not_before, Some(now + Duration::from_secs(1)), "longer each time");
    }

    #[test]
    fn a_disrupted_gang_backs_off_whatever_else_happens_to_it() {
        let (mut waiting, now) = (PendingPreemptor::default(), Instant::now());
        waiting.again = 3;
        waiting.back_off_after_disruption(now);
        waiting.back_off(now);
        waiting.not_before = None;
        let later = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(waiting.disruption_back_off(later(59)), Some(later(60)), "also when a plan of it fails meanwhile");
        assert!(waiting.remembers(later(59)) && waiting.again == 3, "what is known of it stays known");
        waiting.seen = Some(7);
        assert_eq!(waiting.disruption_back_off(later(60)), None);
        assert_eq!(waiting.turn(7, later(60)), Some(false), "it is looked at again");
    }

    #[test]
    fn failures_in_a_row_wait_longer_up_to_about_a_minute() {
        let (mut waiting, now) = (PendingPreemptor::default(), Instant::now());
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
        let (mut waiting, mut now) = (PendingPreemptor::default(), Instant::now());
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
        let (mut waiting, now) = (PendingPreemptor::default(), Instant::now());
        for _ in 0..8 {
            waiting.back_off(now);
        }
        waiting.failed_without_victims = true;
        assert_eq!(waiting.turn(1, now + Duration::from_secs(63)), None);
        assert_eq!(waiting.turn(1, now + Duration::from_secs(64)), Some(false));
    }
}
