//! Cascade: when kube-scheduler preempts one pod of a group in mode `PodGroup`, the rest of that group goes too (design,
//! section 5 and promise 2). kube-scheduler knows no groups; it does this for preemptors of classes that Giveway does
//! not manage.
//!
//! How it is seen: kube-scheduler writes the condition `DisruptionTarget=True, PreemptionByScheduler` to its victim and
//! deletes it. Giveway writes the same reason, but its messages begin with [`OURS`]; drains, users and the eviction API
//! write no such reason. The condition alone is not enough: the pod must be on its way out, or gone.
//!
//! Who goes: members that were bound and existed at that time; pods that the group's owner creates instead do not. Each
//! goes through the eviction API, and by DELETE where a budget refuses it and no pod of the group is guarded. A guarded budget
//! is never forced, because Giveway does not know the preemptor's priority: the eviction is tried again until the budget
//! allows it.
//!
//! What a plan began with a group and could not finish, because a policy forbids some of its evictions or a guaranteed budget refuses
//! them for long, is finished here too; and a gang that kube-scheduler has left [bound by half](half_bound) for too long is taken
//! down, with the members that were released and have no node, as far as budgets allow it.
//!
//! Nobody goes whose namespace is protected, also where a group stays that is torn already: that is what the administrator said.
//!
//! Guarantee: the group's condition says who began before the first eviction, and its status who goes of those that were made only seconds
//! before, so a new leader finishes what was begun; but for what a plan left, which is known from memory alone. A pod that was taken and
//! gone while no operator ran leaves no trace and is not noticed.

use crate::command::{Cause, Command, EvictCall, EvictOutcome};
use crate::fallen::{Fallen, OURS};
use crate::half_bound;
use crate::ledger::{Call, Flights, Torn};
use crate::model::Model;
use crate::status::Victimhood;
use crate::words::Sentence;
use giveway_crds::condition::{self, Reason, types};
use giveway_crds::plan::PlanState;
use giveway_crds::policy::DisruptionMode;
use giveway_planner::SmolStr;
use giveway_planner::model::{ObjectKey, Pod};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a group waits for the pods that are to go: a budget may refuse them for ever.
const GOING: Duration = Duration::from_secs(60);
/// How long a pod is left alone whose eviction is not allowed.
const FORBIDDEN: Duration = Duration::from_secs(60);
/// By how many seconds the time at which a group was told may be off: whole seconds, and what an earlier leader's clock may have
/// differed by after it was [set right](crate::server_time).
const MARGIN: i64 = 4;
/// So many members a group remembers by UID that are too new to be told by their age.
const MOST_NEW: usize = 10_000;
/// Who preempted, in `status.preemptedBy` of a group.
const SCHEDULER: &str = "kube-scheduler";

/// A group whose rest is going.
#[derive(Debug)]
struct Cascade {
    /// UIDs of the members that were there when it began: those that the group's owner makes instead stay.
    members: BTreeSet<SmolStr>,
    /// The sentence for the group and its pods.
    message: Sentence,
    /// Who began it.
    began: Began,
    /// Whether a budget of one of them is guaranteed, be it one that is gone by now: one guards all.
    guarded: bool,
    /// Since when it is carried out.
    since: Option<Instant>,
    /// The evictions, by UID.
    calls: BTreeMap<SmolStr, Call>,
    /// Cancelled when nobody else is to go: evictions that wait for their turn are not made.
    permission: CancellationToken,
}

/// Who began with a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Began {
    /// kube-scheduler.
    Scheduler,
    /// A plan: the group was told already.
    Plan,
    /// Nobody: the gang is [bound by half](half_bound), and no budget is violated for that.
    HalfBound,
}

impl Cascade {
    /// Of a group of which a member was taken at this second. Those with these UIDs go as well.
    fn new(model: &Model, group: &ObjectKey, at: i64, also: &[String], message: Sentence, began: Began) -> Self {
        let also: BTreeSet<&str> = also.iter().map(String::as_str).collect();
        let goes = |pod: &&Pod| pod.existed_at(at) || also.contains(pod.uid.as_str());
        let members = there(model, group, began).filter(goes).map(|pod| pod.uid.clone()).collect();
        let guarded = model.cluster.members(group).any(|pod| model.threshold(pod).is_some());
        Self { guarded, ..Self::of(members, message, began) }
    }

    fn of(members: BTreeSet<SmolStr>, message: Sentence, began: Began) -> Self {
        let (calls, permission) = (BTreeMap::new(), CancellationToken::new());
        Self { members, message, began, guarded: false, since: None, calls, permission }
    }
}

/// What [`Cascades::pass`] wants.
#[derive(Debug, Default)]
pub struct Step {
    /// The evictions to make.
    pub commands: Vec<Command>,
    /// Pods that have to wait for their budgets: group, pod, UID and reason.
    pub refused: Vec<(ObjectKey, ObjectKey, SmolStr, String)>,
    /// Groups that are through.
    pub through: Vec<ObjectKey>,
}

/// Every group whose rest is going.
#[derive(Debug, Default)]
pub struct Cascades(BTreeMap<ObjectKey, Cascade>);

impl Cascades {
    /// Whether the rest of this group is going.
    pub fn holds(&self, group: &ObjectKey) -> bool {
        self.0.contains_key(group)
    }

    /// How many pods of a group that goes whole are still to go: nobody is evicted for those made instead before they went, for these
    /// would go as well. None after a minute, and of a gang that is bound by half, which may still become whole.
    pub fn to_go(&self, model: &Model, group: &ObjectKey, now: Instant) -> usize {
        let going = |cascade: &&Cascade| {
            cascade.began != Began::HalfBound && cascade.since.is_none_or(|since| now.duration_since(since) < GOING)
        };
        let Some(cascade) = self.0.get(group).filter(going) else { return 0 };
        there(model, group, cascade.began).filter(|pod| cascade.members.contains(&pod.uid)).count()
    }

    /// UIDs of pods whose eviction was asked for and not refused.
    pub fn asked(&self) -> impl Iterator<Item = &SmolStr> {
        let calls = self.0.values().flat_map(|cascade| &cascade.calls);
        calls.filter(|(_, call)| matches!(call, Call::Pending(_) | Call::Done(_))).map(|(uid, _)| uid)
    }

    /// UIDs of the pods of this group that were to go when it began.
    pub fn members(&self, group: &ObjectKey) -> impl Iterator<Item = &SmolStr> {
        self.0.get(group).into_iter().flat_map(|cascade| &cascade.members)
    }

    /// What an earlier leader began and did not finish. Returns the groups, with what is to be told of them.
    pub fn resume(&mut self, model: &Model) -> Vec<(ObjectKey, Victimhood)> {
        let begun = model.groups.iter().filter_map(|(key, record)| Some((key, record, told(&record.status)?)));
        let begun: Vec<_> = begun
            .filter_map(|(key, record, began)| {
                let found = condition::find(&record.status.conditions, types::DISRUPTION_TARGET)?;
                // Who was created when the group was told may have been made instead, and bound since.
                let before = found.last_transition_time.0.as_second().saturating_sub(MARGIN);
                Some((key.clone(), before, found.message.clone(), began, record.status.going.as_slice()))
            })
            .collect();
        let begin = |(key, at, text, began, also): (_, _, String, _, &[String])| {
            self.begin(model, key, at, also, text.into(), began)
        };
        begun.into_iter().filter_map(begin).collect()
    }

    /// Groups of which kube-scheduler took a pod that nothing followed for yet, with what is to be told of them.
    pub fn fallen(&mut self, model: &mut Model) -> Vec<(ObjectKey, Victimhood)> {
        let mut begun = Vec::new();
        for Fallen { pod, group, at } in model.take_fallen().into_values() {
            let rest = rest(model, &group, at, Began::Scheduler).count();
            let message = format!(
                "{OURS}{SCHEDULER}, which took pod {}. The group goes whole: {rest} more {}.",
                pod.name,
                if rest == 1 { "pod goes" } else { "pods go" }
            );
            begun.extend(self.begin(model, group, at, &[], message.into(), Began::Scheduler));
        }
        begun
    }

    /// Groups of which kube-scheduler took a pod that nothing followed for yet, and of which nobody else is to go: which pod, and how many
    /// are left. A group that is going already is finished. `only_protected` leaves those alone whose namespace is not protected.
    pub fn spare(&self, model: &mut Model, only_protected: bool) -> Vec<(ObjectKey, SmolStr, usize)> {
        let mut spared = Vec::new();
        let (taken, left): (BTreeMap<SmolStr, Fallen>, BTreeMap<SmolStr, Fallen>) = model
            .take_fallen()
            .into_iter()
            .partition(|(_, fallen)| !only_protected || model.cluster.protection(&fallen.group.namespace).is_some());
        model.fallen.extend(left);
        for Fallen { pod, group, at } in taken.into_values() {
            let whole = model.cluster.group(&group).is_some_and(|g| g.mode == DisruptionMode::PodGroup);
            let rest = rest(model, &group, at, Began::Scheduler).count();
            if whole && rest > 0 && !self.holds(&group) {
                spared.push((group, pod.name, rest));
            }
        }
        spared
    }

    fn begin(
        &mut self,
        model: &Model,
        group: ObjectKey,
        at: i64,
        also: &[String],
        message: Sentence,
        began: Began,
    ) -> Option<(ObjectKey, Victimhood)> {
        let whole = model.cluster.group(&group).is_some_and(|g| g.mode == DisruptionMode::PodGroup);
        let protected = model.cluster.protection(&group.namespace).is_some();
        if !(whole || began == Began::HalfBound) || protected {
            return None;
        }
        let mut cascade = Cascade::new(model, &group, at, also, message.clone(), began);
        let earlier = self.0.get(&group);
        // A gang that is bound by half goes for a better reason now, or members go who were not there when the others began to.
        let news = earlier.is_none_or(|earlier| {
            let better = earlier.began == Began::HalfBound || !cascade.members.is_subset(&earlier.members);
            began == Began::Scheduler && better
        });
        if cascade.members.is_empty() || !news {
            return None;
        }
        tracing::info!(%group, %message, "cascade");
        if let Some(earlier) = self.0.remove(&group) {
            cascade.members.extend(earlier.members);
            (cascade.calls, cascade.permission) = (earlier.calls, earlier.permission);
        }
        let new = there(model, &group, began)
            .filter(|pod| cascade.members.contains(&pod.uid) && !pod.existed_at(at.saturating_sub(2 * MARGIN)));
        let going = new.map(|pod| pod.uid.to_string()).take(MOST_NEW).collect();
        self.0.insert(group.clone(), cascade);
        let preemptor = (began == Began::Scheduler).then(|| SCHEDULER.into());
        Some((group, Victimhood { plan: String::new(), preemptor, message, whole: true, going }))
    }

    /// Begins to take down a gang that is [bound by half](half_bound), at this second. Returns what is to be told of it.
    pub fn take_down(
        &mut self,
        model: &Model,
        group: ObjectKey,
        at: i64,
        message: Sentence,
    ) -> Option<(ObjectKey, Victimhood)> {
        self.begin(model, group, at, &[], message, Began::HalfBound)
    }

    /// Goes on with the members of a group that a plan began with and could not finish, because their evictions are not allowed or their
    /// budgets keep them. They are tried again, about once a minute and every few seconds, beside the next plans.
    pub fn finish(&mut self, torn: Torn) {
        let Torn { group, members, message, guarded } = torn;
        let cascade = match self.0.entry(group) {
            Entry::Occupied(earlier) => {
                let earlier = earlier.into_mut();
                earlier.members.extend(members);
                earlier
            }
            Entry::Vacant(place) => place.insert(Cascade::of(members, message, Began::Plan)),
        };
        cascade.guarded |= guarded;
    }

    /// Takes back the evictions that wait for their turn.
    pub fn hold(&mut self) {
        for cascade in self.0.values_mut().filter(|cascade| cascade.calls.values().any(|call| call.pending())) {
            std::mem::take(&mut cascade.permission).cancel();
        }
    }

    /// Notes the answer to an eviction. Returns the sentence for the pod's event.
    pub fn evicted(&mut self, group: &ObjectKey, uid: &str, outcome: &EvictOutcome, now: Instant) -> Option<Sentence> {
        let cascade = self.0.get_mut(group)?;
        let call = cascade.calls.entry(uid.into()).or_default();
        match outcome {
            EvictOutcome::Accepted | EvictOutcome::Forced | EvictOutcome::Gone => call.answered(true, now),
            // Nothing says that it will ever be allowed.
            EvictOutcome::Forbidden(_) => *call = Call::Failed(now + FORBIDDEN, call.tries() + 1),
            EvictOutcome::Withdrawn => *call = Call::Idle,
            _ => call.answered(false, now),
        }
        Some(cascade.message.clone())
    }

    /// What is to be done now. `written` says whether the status of a group, as it was stored, says who began.
    pub fn pass(
        &mut self,
        model: &Model,
        flights: &Flights,
        written: impl Fn(&ObjectKey) -> bool,
        now: Instant,
    ) -> Step {
        let mut step = Step::default();
        if self.0.is_empty() {
            return step;
        }
        let evicting = flights.values().filter(|f| f.ending.is_none() && f.plan.state == PlanState::Evicting);
        let taken: BTreeSet<&SmolStr> = evicting.flat_map(|flight| flight.asked()).collect();
        self.0.retain(|group, cascade| {
            cascade.since.get_or_insert(now);
            let rest: Vec<&Pod> =
                there(model, group, cascade.began).filter(|pod| cascade.members.contains(&pod.uid)).collect();
            let asked = |pod: &Pod| {
                cascade.calls.get(&pod.uid).is_some_and(|call| matches!(call, Call::Pending(_) | Call::Done(_)))
            };
            let whole_again = cascade.began == Began::HalfBound && is_whole(model, group, asked);
            if rest.is_empty() || whole_again || model.cluster.protection(&group.namespace).is_some() {
                cascade.permission.cancel();
                step.through.push(group.clone());
                return false;
            }
            cascade.guarded |= rest.iter().any(|pod| model.threshold(pod).is_some());
            let guarded = cascade.guarded;
            let due = |pod: &Pod| cascade.calls.get(&pod.uid).is_none_or(|call| call.due(now));
            let breaches = if guarded && rest.iter().any(|pod| due(pod)) {
                let (going, next): (Vec<&Pod>, Vec<&Pod>) = rest.iter().partition(|pod| asked(pod));
                model.breaches(going.into_iter().chain(next))
            } else {
                BTreeMap::new()
            };
            let told = cascade.began == Began::Plan || written(group);
            for pod in rest.into_iter().filter(|pod| told && !taken.contains(&pod.uid)) {
                let call = cascade.calls.entry(pod.uid.clone()).or_default();
                if call.due(now) {
                    call.start();
                    let budgeted = model.cluster.is_budgeted(pod);
                    if let Some(why) = breaches.get(&pod.uid) {
                        call.answered(false, now);
                        step.refused.push((group.clone(), pod.key.clone(), pod.uid.clone(), why.clone()));
                        continue;
                    }
                    step.commands.push(Command::Evict(Box::new(EvictCall {
                        cause: Cause::Cascade(group.clone()),
                        priority: model.cluster.effective_priority(pod).saturating_add(1),
                        pod: pod.key.clone(),
                        uid: pod.uid.clone(),
                        budgeted,
                        may_force: !guarded && cascade.began != Began::HalfBound,
                        grace: pod.capped_grace(),
                        rehearsal: false,
                        again: true,
                        message: cascade.message.clone(),
                        permission: cascade.permission.clone(),
                    })));
                }
            }
            true
        });
        step
    }
}

/// Who began, by what a status says, unless it was a plan.
fn told(status: &giveway_crds::PodGroupStatus) -> Option<Began> {
    let found = condition::find(&status.conditions, types::DISRUPTION_TARGET).filter(|found| found.status == "True")?;
    match status.preempted_by.as_deref() {
        _ if found.reason == Reason::HalfBound.as_str() => Some(Began::HalfBound),
        Some(SCHEDULER) => Some(Began::Scheduler),
        _ => None,
    }
}

/// Whether a status says that the group goes, and not for a plan.
pub fn is_told(status: &giveway_crds::PodGroupStatus) -> bool {
    told(status).is_some()
}

/// Whether as many members of a gang have a node as it needs, not counting those that go.
fn is_whole(model: &Model, group: &ObjectKey, goes: impl Fn(&Pod) -> bool) -> bool {
    model.cluster.group(group).is_some_and(|group| {
        let bound = there(model, &group.key, Began::Scheduler).filter(|pod| !goes(pod)).count();
        group.min_count.is_some_and(|min| bound + model.cluster.finished(group) >= min)
    })
}

/// The members that may go: those with a node; of a gang that is bound by half those that were released, too.
fn there<'a>(model: &'a Model, group: &ObjectKey, began: Began) -> impl Iterator<Item = &'a Pod> + use<'a> {
    half_bound::live(model, group)
        .filter(move |pod| pod.bound() || (began == Began::HalfBound && half_bound::is_free(pod)))
}

/// Those of them that were there when the first one was taken. Times are whole seconds: who was created in that second and has a
/// node counts, since what is made instead of a member of a gang is held at first.
fn rest<'a>(model: &'a Model, group: &ObjectKey, at: i64, began: Began) -> impl Iterator<Item = &'a Pod> + use<'a> {
    there(model, group, began).filter(move |pod| pod.existed_at(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Flight;
    use crate::testing::{TestPod, World};
    use giveway_crds::plan::{StoredPlan, StoredVictim, StoredVictimPod};
    use giveway_planner::Preemptor;

    const THEIRS: &str = "default-scheduler: preempting to accommodate a higher priority pod";

    /// Group `low` of three pods on one node.
    fn world() -> World {
        let mut world = World::new();
        world.node("n1", 8).group("low", 3, 10, "PodGroup").group("loose", 1, 10, "Pod");
        for name in ["l1", "l2", "l3"] {
            world.pod(member(name));
        }
        world
    }

    fn member(name: &str) -> TestPod {
        TestPod::new(name, 10).of("low").on("n1").created(100)
    }

    fn torn<const N: usize>(group: ObjectKey, pods: [&str; N]) -> Torn {
        let members = pods.map(|pod| format!("uid-{pod}").into()).into();
        Torn { group, members, message: "Preempted by pod group default/train.".into(), guarded: false }
    }

    fn evictions(cascades: &mut Cascades, world: &World, now: Instant) -> Vec<String> {
        let commands = cascades.pass(&world.model, &Flights::new(), |_| true, now).commands;
        let call = |command: &Command| match command {
            Command::Evict(call) => format!("{} {}", call.pod.name, if call.may_force { "force" } else { "ask" }),
            other => format!("{other:?}"),
        };
        commands.iter().map(call).collect()
    }

    #[test]
    fn who_was_made_in_the_second_in_which_kube_scheduler_took_one_does_not_go_for_the_next_leader() {
        let (mut world, mut cascades, now) = (world(), Cascades::default(), Instant::now());
        // Seen for the first time on its way out, as a new leader sees it.
        world.pod(member("l4").preempted(200, THEIRS).terminating()).pod(member("again").created(200));
        cascades.fallen(&mut world.model);
        let mut going = evictions(&mut cascades, &world, now);
        going.sort();
        assert_eq!(going, ["l1 force", "l2 force", "l3 force"]);
        // Members are made together: those of one that was itself made a moment before were there.
        let (mut world, mut cascades) = (World::new(), Cascades::default());
        world.node("n1", 8).group("low", 3, 10, "PodGroup");
        world.pod(member("l4").created(199).preempted(200, THEIRS).terminating()).pod(member("l5").created(200));
        cascades.fallen(&mut world.model);
        assert_eq!(evictions(&mut cascades, &world, now), ["l5 force"]);
    }

    #[test]
    fn the_rest_of_a_group_goes_when_kube_scheduler_takes_one_and_the_group_says_who_began() {
        let (mut world, mut cascades, now) = (world(), Cascades::default(), Instant::now());
        world.pod(member("l2").preempted(200, THEIRS));
        assert!(cascades.fallen(&mut world.model).is_empty(), "announced, but not deleted");
        world.pod(member("l2").preempted(200, THEIRS).terminating());
        let begun = cascades.fallen(&mut world.model);
        assert_eq!(begun[0].1.preemptor.as_ref().map(ToString::to_string).as_deref(), Some("kube-scheduler"));
        let words = "Preempted by kube-scheduler, which took pod l2. The group goes whole: 2 more pods go.";
        assert_eq!(begun[0].1.message.to_string(), words);
        let step = cascades.pass(&world.model, &Flights::new(), |_| false, now);
        assert!(step.commands.is_empty(), "the group does not say it yet");
        assert_eq!(evictions(&mut cascades, &world, now), ["l1 force", "l3 force"]);
        assert!(evictions(&mut cascades, &world, now).is_empty(), "no answers yet");
        let group = world.key("low");
        cascades.evicted(&group, "uid-l1", &EvictOutcome::Accepted, now);
        cascades.evicted(&group, "uid-l3", &EvictOutcome::Error("down".into()), now);
        world.remove_pod("l1");
        assert_eq!(evictions(&mut cascades, &world, now + Duration::from_secs(1)), ["l3 force"]);
        world.remove_pod("l3");
        let step = cascades.pass(&world.model, &Flights::new(), |_| true, now);
        assert_eq!(step.through, std::slice::from_ref(&group));
        assert!(!cascades.holds(&group));
    }

    #[test]
    fn a_pod_without_a_grace_period_is_noticed_too() {
        let (mut world, mut cascades) = (world(), Cascades::default());
        world.pod(member("l2").preempted(200, THEIRS)).remove_pod("l2");
        assert_eq!(cascades.fallen(&mut world.model).len(), 1);
    }

    #[test]
    fn evictions_by_giveway_by_users_and_by_drains_begin_nothing() {
        let (mut world, mut cascades) = (world(), Cascades::default());
        world.pod(member("l1").preempted(200, "Preempted by pod group default/gang of priority 100.").terminating());
        world.pod(member("l2").terminating()).remove_pod("l3");
        world.pod(TestPod::new("p", 10).of("loose").on("n1").preempted(200, THEIRS).terminating());
        world.pod(TestPod::new("q", 10).on("n1").preempted(200, THEIRS).terminating());
        assert!(cascades.fallen(&mut world.model).is_empty());
    }

    #[test]
    fn kube_scheduler_takes_the_rest_of_its_own_groups_itself_and_what_a_plan_of_ours_began_is_finished_here() {
        let (mut world, mut cascades, now) = (World::new(), Cascades::default(), Instant::now());
        world.node("n1", 8).native_group("low", 10, "all");
        let member = |name: &str| TestPod::new(name, 10).native("low").on("n1").created(100);
        world.pod(member("l1")).pod(member("l2")).pod(member("l3").preempted(200, THEIRS).terminating());
        assert!(cascades.fallen(&mut world.model).is_empty());
        let group = world.key("scheduling.k8s.io/low");
        cascades.finish(torn(group, ["l1", "l2", "l3"]));
        assert_eq!(evictions(&mut cascades, &world, now), ["l1 force", "l2 force"]);
    }

    #[test]
    fn a_plan_that_has_asked_for_nobody_of_the_group_yet_holds_nothing_up() {
        let (mut world, mut cascades, now) = (world(), Cascades::default(), Instant::now());
        world.pod(member("l2").preempted(200, THEIRS).terminating());
        cascades.fallen(&mut world.model);
        let pods = ["l1", "l2", "l3"].map(|name| StoredVictimPod {
            name: name.into(),
            uid: format!("uid-{name}"),
            node: "n1".into(),
        });
        let (kind, namespace) = ("PodGroup".to_owned(), "default".to_owned());
        let unit = StoredVictim { kind, namespace, name: "low".into(), pods: pods.into(), ..StoredVictim::default() };
        let plan = StoredPlan { state: PlanState::Evicting, victims: vec![unit], ..StoredPlan::default() };
        let preemptor = Preemptor::Group(world.key("high"));
        let mut flight = Flight::new(preemptor.clone(), 100, plan, now);
        // It waits for room in the rates, and has asked for one of them.
        flight.victims[0].call.start();
        let flights = Flights::from([(preemptor, flight)]);
        let step = cascades.pass(&world.model, &flights, |_| true, now);
        let [Command::Evict(call)] = step.commands.as_slice() else { panic!("{:?}", step.commands) };
        assert_eq!(call.pod.name, "l3");
        assert_eq!(cascades.asked().collect::<Vec<_>>(), ["uid-l3"], "which the plan then leaves to it");
        assert_eq!(evictions(&mut cascades, &world, now), ["l1 force"], "the plan is over");
    }

    #[test]
    fn pods_that_are_created_later_or_wait_for_a_place_stay() {
        let (mut world, mut cascades, now) = (world(), Cascades::default(), Instant::now());
        world.pod(member("l4").created(201)).pod(TestPod::new("l5", 10).of("low").held().created(100));
        world.pod(member("l2").preempted(200, THEIRS).terminating());
        cascades.fallen(&mut world.model);
        // Made instead of the one that was taken, in the same second.
        world.pod(member("l6").created(200));
        assert_eq!(evictions(&mut cascades, &world, now), ["l1 force", "l3 force"]);
    }

    #[test]
    fn a_pod_that_fell_begins_once_and_not_again_when_it_is_gone() {
        let (mut world, mut cascades) = (world(), Cascades::default());
        world.pod(member("l2").preempted(200, THEIRS).terminating());
        assert_eq!(cascades.fallen(&mut world.model).len(), 1);
        world.pod(member("l2").preempted(200, THEIRS).terminating()).remove_pod("l2");
        assert!(world.model.fallen.is_empty());
    }

    #[test]
    fn a_guarded_budget_is_asked_again_and_again_and_never_forced() {
        let (mut world, mut cascades, now) = (world(), Cascades::default(), Instant::now());
        world.budget("db", "db", 1).pod(member("l1").guarded("db", 5000)).pod(member("l3").guarded("db", 5000));
        world.pod(member("l2").preempted(200, THEIRS).terminating());
        cascades.fallen(&mut world.model);
        assert_eq!(evictions(&mut cascades, &world, now), ["l1 ask"], "l2 and l1 leave one, which has to stay");
        cascades.evicted(&world.key("low"), "uid-l1", &EvictOutcome::Accepted, now);
        world.remove_pod("l1");
        let later = now + Duration::from_secs(1);
        let step = cascades.pass(&world.model, &Flights::new(), |_| true, later);
        assert!(step.commands.is_empty(), "{:?}", step.commands);
        assert_eq!(step.refused[0].3, "The disruption budget db needs 1 healthy pods and has 1 currently");
        world.pod(TestPod::new("db-0", 500).on("n1").guarded("db", 5000));
        assert_eq!(evictions(&mut cascades, &world, later + Duration::from_secs(1)), ["l3 ask"]);
        cascades.evicted(&world.key("low"), "uid-l3", &EvictOutcome::Refused("0 allowed".into()), later);
        assert_eq!(evictions(&mut cascades, &world, later + Duration::from_secs(9)), ["l3 ask"]);
    }

    #[test]
    fn one_guarded_pod_guards_the_others_also_when_it_is_gone() {
        let (mut world, mut cascades, now) = (world(), Cascades::default(), Instant::now());
        world.budget("db", "db", 1).pod(member("l2").guarded("db", 5000).preempted(200, THEIRS).terminating());
        cascades.fallen(&mut world.model);
        world.remove_pod("l2");
        assert_eq!(evictions(&mut cascades, &world, now), ["l1 ask", "l3 ask"], "none by force");
    }

    #[test]
    fn a_new_leader_finishes_what_the_group_says_was_begun() {
        let (mut world, mut cascades, now) = (world(), Cascades::default(), Instant::now());
        world.remove_pod("l2");
        assert!(cascades.resume(&world.model).is_empty());
        let status = serde_json::json!({
            "preemptedBy": "kube-scheduler",
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                "message": "Preempted by kube-scheduler.", "lastTransitionTime": "1970-01-01T00:03:20Z"}]
        });
        let status: giveway_crds::PodGroupStatus = serde_json::from_value(status).unwrap();
        world.model.groups.get_mut(&world.key("low")).unwrap().status = status;
        assert_eq!(cascades.resume(&world.model)[0].1.message.to_string(), "Preempted by kube-scheduler.");
        assert_eq!(evictions(&mut cascades, &world, now), ["l1 force", "l3 force"]);
    }

    /// Their age tells whole seconds only, by another clock.
    #[test]
    fn a_new_leader_finishes_with_members_that_were_made_a_moment_before_and_not_with_those_made_instead() {
        let (mut world, mut cascades, now) = (world(), Cascades::default(), Instant::now());
        for name in ["l1", "l2", "l3"] {
            world.pod(member(name).created(200));
        }
        world.pod(member("l2").created(200).preempted(200, THEIRS).terminating());
        let going = cascades.fallen(&mut world.model).remove(0).1.going;
        assert_eq!(going, ["uid-l1", "uid-l3"]);
        world.remove_pod("l2").pod(member("instead").created(200));
        let status = serde_json::json!({
            "preemptedBy": "kube-scheduler", "going": going,
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                "message": "Preempted by kube-scheduler.", "lastTransitionTime": "1970-01-01T00:03:20Z"}]
        });
        world.model.groups.get_mut(&world.key("low")).unwrap().status = serde_json::from_value(status).unwrap();
        let mut next = Cascades::default();
        assert_eq!(next.resume(&world.model)[0].1.going, ["uid-l1", "uid-l3"], "also for the one after it");
        assert_eq!(evictions(&mut next, &world, now), ["l1 force", "l3 force"]);
    }

    #[test]
    fn a_gang_that_is_bound_by_half_goes_with_the_members_that_were_released_and_no_budget_is_forced() {
        let (mut world, mut cascades, now) = (World::new(), Cascades::default(), Instant::now());
        world.node("n1", 8).group("g", 4, 10, "PodGroup");
        for name in ["g0", "g1"] {
            world.pod(TestPod::new(name, 10).of("g").created(100).on("n1"));
        }
        world.pod(TestPod::new("g2", 10).of("g").created(100).unschedulable());
        world.pod(TestPod::new("held", 10).of("g").created(100).held());
        let begun = cascades.take_down(&world.model, world.key("g"), 700, "Bound by half.".into());
        assert_eq!(begun.map(|(_, victimhood)| victimhood.preemptor.is_none()), Some(true));
        world.pod(TestPod::new("later", 10).of("g").created(701).on("n1"));
        assert_eq!(evictions(&mut cascades, &world, now), ["g0 ask", "g1 ask", "g2 ask"]);
        assert_eq!(cascades.to_go(&world.model, &world.key("g"), now), 0, "it may still become whole");
        // No budget let any of them go, and meanwhile the last one was bound.
        for uid in ["uid-g0", "uid-g1", "uid-g2"] {
            cascades.evicted(&world.key("g"), uid, &EvictOutcome::Refused("0 allowed".into()), now);
        }
        world.pod(TestPod::new("held", 10).of("g").created(100).on("n1"));
        let step = cascades.pass(&world.model, &Flights::new(), |_| true, now + Duration::from_secs(60));
        assert!(step.commands.is_empty(), "{:?}", step.commands);
        assert_eq!(step.through, [world.key("g")]);
    }

    #[test]
    fn a_new_leader_forces_no_budget_for_a_gang_that_is_bound_by_half() {
        let (mut world, mut cascades, now) = (World::new(), Cascades::default(), Instant::now());
        world.node("n1", 8).group("g", 3, 10, "PodGroup");
        world.pod(TestPod::new("g0", 10).of("g").created(100).on("n1"));
        world.pod(TestPod::new("g1", 10).of("g").created(100).unschedulable());
        let status = serde_json::json!({
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": Reason::HalfBound.as_str(),
                "message": "Bound by half.", "lastTransitionTime": "1970-01-01T00:03:20Z"}]
        });
        world.model.groups.get_mut(&world.key("g")).unwrap().status = serde_json::from_value(status).unwrap();
        let told = cascades.resume(&world.model);
        assert!(told[0].1.preemptor.is_none(), "nobody began it");
        assert_eq!(evictions(&mut cascades, &world, now), ["g0 ask", "g1 ask"]);
    }

    #[test]
    fn who_is_on_the_way_does_not_make_a_gang_whole() {
        let (mut world, mut cascades, now) = (World::new(), Cascades::default(), Instant::now());
        world.node("n1", 8).group("g", 2, 10, "PodGroup");
        world.pod(TestPod::new("g0", 10).of("g").created(100).on("n1"));
        world.pod(TestPod::new("g1", 10).of("g").created(100).unschedulable());
        cascades.take_down(&world.model, world.key("g"), 700, "Bound by half.".into());
        assert_eq!(evictions(&mut cascades, &world, now), ["g0 ask", "g1 ask"]);
        // It is bound before its eviction is answered, and g0's is not answered either.
        world.pod(TestPod::new("g1", 10).of("g").created(100).on("n1"));
        let step = cascades.pass(&world.model, &Flights::new(), |_| true, now);
        assert!(step.through.is_empty(), "both may be gone already");
    }

    #[test]
    fn when_kube_scheduler_takes_another_one_all_that_are_left_go() {
        let (mut world, mut cascades, now) = (world(), Cascades::default(), Instant::now());
        world.group("low", 5, 10, "PodGroup");
        let group = world.key("low");
        cascades.take_down(&world.model, group.clone(), 150, "Bound by half.".into());
        assert_eq!(evictions(&mut cascades, &world, now), ["l1 ask", "l2 ask", "l3 ask"]);
        for uid in ["uid-l1", "uid-l2", "uid-l3"] {
            cascades.evicted(&group, uid, &EvictOutcome::Refused("0 allowed".into()), now);
        }
        world.pod(member("l4").created(160));
        world.pod(member("l2").preempted(200, THEIRS).terminating());
        let begun = cascades.fallen(&mut world.model);
        assert_eq!(begun.len(), 1, "the group is told who began now");
        let later = now + Duration::from_secs(60);
        assert_eq!(evictions(&mut cascades, &world, later), ["l1 force", "l3 force", "l4 force"]);
        // What a plan leaves behind is added.
        world.pod(member("l5").created(300));
        cascades.finish(torn(group, ["l5"]));
        assert_eq!(evictions(&mut cascades, &world, later), ["l5 force"]);
    }

    #[test]
    fn nobody_is_evicted_for_what_is_made_instead_before_the_rest_is_gone() {
        let (mut world, mut cascades, now) = (world(), Cascades::default(), Instant::now());
        world.pod(member("l2").preempted(200, THEIRS).terminating());
        cascades.fallen(&mut world.model);
        let group = world.key("low");
        world.pod(TestPod::new("l4", 10).of("low").created(201).held());
        assert_eq!(cascades.to_go(&world.model, &group, now), 2);
        evictions(&mut cascades, &world, now);
        assert_eq!(cascades.to_go(&world.model, &group, now + Duration::from_secs(59)), 2);
        assert_eq!(
            cascades.to_go(&world.model, &group, now + Duration::from_secs(60)),
            0,
            "a budget may refuse for ever"
        );
        world.pod(member("l1").terminating()).pod(member("l3").terminating());
        assert_eq!(cascades.to_go(&world.model, &group, now), 0, "they are on their way");
    }

    #[test]
    fn evictions_that_wait_for_their_turn_are_taken_back_and_asked_for_again() {
        let (mut world, mut cascades, now) = (world(), Cascades::default(), Instant::now());
        world.pod(member("l2").preempted(200, THEIRS).terminating());
        cascades.fallen(&mut world.model);
        let step = cascades.pass(&world.model, &Flights::new(), |_| true, now);
        let Some(Command::Evict(call)) = step.commands.first() else { panic!("{:?}", step.commands) };
        cascades.hold();
        assert!(call.permission.is_cancelled());
        cascades.evicted(&world.key("low"), "uid-l1", &EvictOutcome::Withdrawn, now);
        let step = cascades.pass(&world.model, &Flights::new(), |_| true, now);
        let Some(Command::Evict(call)) = step.commands.first() else { panic!("{:?}", step.commands) };
        assert!(call.pod.name == "l1" && !call.permission.is_cancelled());
    }

    #[test]
    fn a_pod_whose_place_in_a_list_is_another_one_s_has_fallen() {
        let (mut world, mut cascades) = (world(), Cascades::default());
        world.pod(member("l2").preempted(200, THEIRS));
        world.pod(TestPod::new("l2", 10).of("low").held().created(201).uid("another"));
        assert_eq!(cascades.fallen(&mut world.model).len(), 1);
    }

    #[test]
    fn nobody_in_a_protected_namespace_goes_and_a_cascade_ends_when_it_becomes_one() {
        let (mut world, mut cascades, now) = (world(), Cascades::default(), Instant::now());
        world.pod(member("l2").preempted(200, THEIRS).terminating());
        world.model.cluster.protect_namespaces(["default".to_owned()].into());
        assert_eq!(cascades.spare(&mut world.model, true), [(world.key("low"), "l2".into(), 2)]);
        assert!(cascades.fallen(&mut world.model).is_empty());
        let told = cascades.take_down(&world.model, world.key("low"), 200, "Bound by half.".into());
        assert!(told.is_none());

        world.model.cluster.protect_namespaces(BTreeSet::new());
        cascades.finish(torn(world.key("low"), ["l1", "l2", "l3"]));
        let step = cascades.pass(&world.model, &Flights::new(), |_| true, now);
        let Some(Command::Evict(call)) = step.commands.first() else { panic!("{:?}", step.commands) };
        world.model.cluster.protect_namespaces(["default".to_owned()].into());
        let step = cascades.pass(&world.model, &Flights::new(), |_| true, now);
        assert!(step.commands.is_empty() && call.permission.is_cancelled());
        assert_eq!(step.through, [world.key("low")]);
    }

    #[test]
    fn what_a_plan_left_is_guarded_by_a_pod_that_went() {
        let (world, mut cascades, now) = (world(), Cascades::default(), Instant::now());
        cascades.finish(Torn { guarded: true, ..torn(world.key("low"), ["l2", "l3"]) });
        assert_eq!(evictions(&mut cascades, &world, now), ["l2 ask", "l3 ask"]);
        cascades.finish(torn(world.key("low"), ["l1"]));
        assert_eq!(evictions(&mut cascades, &world, now), ["l1 ask"]);
    }

    #[test]
    fn those_of_other_namespaces_are_left_to_the_cascade() {
        let (mut world, mut cascades) = (world(), Cascades::default());
        world.pod(member("l2").preempted(200, THEIRS).terminating());
        assert!(cascades.spare(&mut world.model, true).is_empty());
        assert_eq!(cascades.fallen(&mut world.model).len(), 1);
    }

    #[test]
    fn what_a_plan_left_behind_is_tried_again_once_a_minute_when_it_is_not_allowed() {
        let (mut world, mut cascades, mut now) = (world(), Cascades::default(), Instant::now());
        // Made instead of one that went, and bound before the plan ended.
        world.pod(member("l4"));
        cascades.finish(torn(world.key("low"), ["l1", "l2", "l3"]));
        let pass = |cascades: &mut Cascades, now| {
            let commands = cascades.pass(&world.model, &Flights::new(), |_| false, now).commands;
            commands.len()
        };
        assert_eq!(pass(&mut cascades, now), 3, "the group was told already");
        for uid in ["uid-l1", "uid-l2", "uid-l3"] {
            cascades.evicted(&world.key("low"), uid, &EvictOutcome::Forbidden("not on weekdays".into()), now);
        }
        now += Duration::from_secs(59);
        assert_eq!(pass(&mut cascades, now), 0);
        now += Duration::from_secs(8);
        assert_eq!(pass(&mut cascades, now), 3);
    }
}
