//! The history of `Preemption` objects. Finished ones are kept within limits on age, number and size. A `Preemption` in flight without a
//! plan or departure in memory is ended, and parts without their first part are deleted. Pure; all objects are checked every ten seconds.
//!
//! Everything above the limits is deleted, the oldest first: each pass continues the deletions of the last check, as far as the limit on
//! deletions in flight permits.

use super::plan_store::PlanStore;
use crate::clock::Clock;
use crate::messages::call::Calls;
use crate::messages::call_key::CallKey;
use crate::messages::command::Command;
use crate::model::plans::{PlanRecord, Plans, dropped};
use giveway_crds::preemption::{PreemptionStatus, plan_of_part};
use giveway_crds::wording::conditions::resumed;
use giveway_planner::SmolStr;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// Interval of the checks.
const EVERY: Duration = Duration::from_secs(10);
/// Maximum number of deletions in flight.
const IN_FLIGHT: usize = 100;
/// Maximum number of plans that are kept before later ones because bans in them have not ended, or because circuit breakers depend on them.
const MOST_REMEMBERED: usize = 200;
/// Approximate limit on the size of the history in etcd, in bytes: plans of thousands of pods are deleted earlier.
const MOST_BYTES: usize = 256 * 1024 * 1024;
/// How long a `Preemption` must be without a plan in memory before it is ended: longer than a watch may lag without being considered
/// broken.
const UNKNOWN: Duration = Duration::from_secs(60);
/// Age in seconds below which an object is not judged, because the watch or the answer to a call may still be missing.
const GRACE: i64 = 60;

/// Limits of the history.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    /// Maximum time since the end of a plan.
    pub age: Duration,
    /// Maximum number of plans.
    pub count: usize,
    /// Time for which a plan that evicted pods is kept even if it exceeds the other limits.
    pub least: Duration,
}

/// Deletes the objects of ended plans that exceed the limits of the history.
#[derive(Debug, Default)]
pub struct HistoryKeeper {
    next: Option<Instant>,
    /// Plans in flight without a plan in memory, and when each was first found. The watch may show their end later.
    suspects: BTreeMap<SmolStr, Instant>,
    /// The objects that the last check found and whose deletion has not been requested, in order: name and UID.
    excess: VecDeque<(SmolStr, SmolStr)>,
    /// The requested deletions.
    deletions: Calls,
}

/// The result of a pass.
#[derive(Debug, Default)]
pub struct HistoryStep {
    /// Deletions of objects.
    pub commands: Vec<Command>,
    /// Plans whose status is in flight although they have ended, with their last status.
    pub ended: Vec<(SmolStr, PreemptionStatus)>,
}

/// The objects of a plan, with their names.
type Parts<'p> = Vec<(&'p SmolStr, &'p PlanRecord)>;

/// A plan that has ended.
struct EndedPlan<'p> {
    /// Its end, and what orders plans that ended in the same second.
    age: (i64, i64, usize, &'p str),
    /// Number of accepted evictions.
    evicted: i32,
    parts: Parts<'p>,
}

impl HistoryKeeper {
    /// Checks the history of `Preemption` objects if ten seconds have passed since the last check. Returns the plans to end, and the
    /// deletions to request now. `keep` has the limits of the history. `tainted` returns the UIDs of the critical add-ons for which a node
    /// has a taint: their plans are kept, because only the plan shows that the taint is Giveway's.
    pub fn pass<'m>(
        &mut self,
        plans: &Plans,
        store: &PlanStore,
        keep: HistoryLimits,
        tainted: impl FnOnce() -> BTreeSet<&'m str>,
        clock: Clock,
    ) -> HistoryStep {
        let mut step = HistoryStep::default();
        if self.next.is_none_or(|next| next <= clock.now) {
            self.next = Some(clock.now + EVERY);
            self.deletions.forget(clock.now);
            self.excess.clear();
            step.ended = self.check(plans, store, keep, &tainted(), clock);
        }
        step.commands = self.delete(clock.now);
        step
    }

    /// Records whether a deletion that the history requested has succeeded (`ok`); other calls are ignored.
    pub fn answered(&mut self, call: &CallKey, ok: bool, now: Instant) {
        self.deletions.answered(call, ok, now);
    }

    /// Returns true if the deletion of the `Preemption` with this name, because it exceeded the limits of the history, was requested a
    /// short while ago.
    pub fn has_deleted(&self, name: &SmolStr) -> bool {
        self.deletions.holds(&CallKey::ForgetPlan(name.clone()))
    }

    /// Finds the `Preemption` objects to delete, and stores their names in `excess`: those of plans that have ended and exceed the limits
    /// `keep`, and those of plans whose first object does not exist. Returns the plans whose status is in flight although they have ended,
    /// with the status to write.
    fn check(
        &mut self,
        plans: &Plans,
        store: &PlanStore,
        keep: HistoryLimits,
        tainted: &BTreeSet<&str>,
        clock: Clock,
    ) -> Vec<(SmolStr, PreemptionStatus)> {
        let mut objects: BTreeMap<&str, Parts<'_>> = BTreeMap::new();
        for (name, record) in plans.iter() {
            objects.entry(plan_of_part(name)).or_default().push((name, record));
        }
        let (mut over, mut ended) = (Vec::new(), Vec::new());
        let suspected = std::mem::take(&mut self.suspects);
        for (plan, parts) in objects {
            if store.contains(plan) {
                continue;
            }
            let old = |record: &PlanRecord| clock.epoch_seconds - record.created > GRACE;
            match parts.iter().find(|(name, _)| name.as_str() == plan).map(|(_, record)| *record) {
                Some(first) if first.has_ended() => {
                    // Of two plans of one leader that ended in the same second, the later one has the higher number in its name.
                    let age = (first.finished(), first.created, plan.len(), plan);
                    over.push(EndedPlan { age, evicted: first.status.evicted, parts });
                }
                Some(first) if old(first) => {
                    let since = suspected.get(plan).copied().unwrap_or(clock.now);
                    self.suspects.insert(plan.into(), since);
                    if clock.now.duration_since(since) >= UNKNOWN {
                        let message = resumed::unknown_plan().to_owned();
                        ended.push((plan.into(), dropped(&first.status, message, clock.time())));
                    }
                }
                None if parts.iter().all(|(_, record)| old(record)) => self.forget(&parts, tainted),
                _ => {}
            }
        }
        for parts in excess(over, keep, clock.epoch_seconds).iter().rev() {
            self.forget(parts, tainted);
        }
        ended
    }

    /// Marks the `Preemption` objects of a plan for deletion, except those that are needed to recognize a taint on a node. `tainted` has
    /// the UIDs of the pods for which a node has a taint.
    fn forget(&mut self, parts: &[(&SmolStr, &PlanRecord)], tainted: &BTreeSet<&str>) {
        let is_needed = |record: &PlanRecord| record.critical && tainted.contains(record.preemptor.uid.as_str());
        let unneeded = parts.iter().filter(|(_, record)| !is_needed(record));
        self.excess.extend(unneeded.map(|(name, record)| ((*name).clone(), record.uid.clone())));
    }

    /// Returns the next marked deletions, as many as may be in flight. One that failed a moment ago is left to the next check.
    fn delete(&mut self, now: Instant) -> Vec<Command> {
        if self.excess.is_empty() {
            return Vec::new();
        }
        let mut commands = Vec::new();
        let free = IN_FLIGHT.saturating_sub(self.deletions.in_flight());
        while commands.len() < free
            && let Some((name, uid)) = self.excess.pop_front()
        {
            commands.extend(self.deletions.start(Command::ForgetPlan { name, uid }, now));
        }
        commands
    }
}

/// Returns the `Preemption` objects of those ended plans that exceed the limits `keep` of the history. Plans from which a new leader learns
/// bans or circuit breakers are kept before others. `second` is the current time, in seconds since the epoch.
fn excess(mut over: Vec<EndedPlan<'_>>, keep: HistoryLimits, second: i64) -> Vec<Parts<'_>> {
    over.sort_by_key(|plan| Reverse(plan.age));
    let before = |age: Duration| second.saturating_sub(i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
    let (oldest, needed) = (before(keep.age), before(keep.least));
    // Within the limits, the latest plans come first of which a new leader learns bans that have not ended, or circuit breakers: the plans
    // that evicted pods without effect, and the last one of each namespace that completed.
    let (mut remembered, mut completed) = (0, BTreeSet::new());
    let (mut first, rest): (Vec<_>, Vec<_>) = over.into_iter().partition(|plan| {
        let records = || plan.parts.iter().map(|(_, record)| record);
        let bans = records().flat_map(|record| &record.status.bans).any(|ban| ban.until.0.as_second() > second);
        let mut outcomes = records().filter_map(|record| record.outcome.as_ref());
        let counts = outcomes.any(|outcome| {
            outcome.counts_at(second) && (!outcome.is_bound || completed.insert(outcome.preemptor.namespace.clone()))
        });
        let is_first = remembered < MOST_REMEMBERED && (bans || counts);
        remembered += usize::from(is_first);
        is_first
    });
    first.extend(rest);
    let (mut bytes, mut excess) = (0, Vec::new());
    for (index, EndedPlan { age: (finished, ..), evicted, parts }) in first.into_iter().enumerate() {
        bytes += parts.iter().map(|(_, record)| record.bytes).sum::<usize>();
        let too_much = index >= keep.count || finished <= oldest || bytes > MOST_BYTES;
        // Only evictions count for a limit on evictions.
        if too_much && (evicted == 0 || finished <= needed) {
            excess.push(parts);
        }
    }
    excess
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::input::{Input, Update};
    use crate::model::Model;
    use k8s_openapi::jiff::Timestamp;
    use serde_json::{Value, json};

    const KEEP: HistoryLimits = HistoryLimits { age: Duration::from_secs(3_600), count: 2, least: Duration::ZERO };

    fn world(objects: &[(&str, i64, Option<&str>, i64)]) -> Model {
        let mut model = Model::default();
        for (name, created, state, finished) in objects {
            let status = state.map(|state| json!({"state": state, "term": "t", "finishedAt": time(*finished)}));
            store(&mut model, name, *created, &json!(status));
        }
        model
    }

    fn time(second: i64) -> String {
        Timestamp::from_second(second).unwrap().to_string()
    }

    fn store(model: &mut Model, name: &str, created: i64, status: &Value) {
        let mut preemption = preemption(name, created, None, 0);
        preemption["status"] = status.clone();
        let preemption = Box::new(serde_json::from_value(preemption).unwrap());
        model.apply(Input::Preemption(Update::Applied(preemption)));
    }

    fn preemption(name: &str, created: i64, state: Option<&str>, finished: i64) -> Value {
        let status = state.map(|state| json!({"state": state, "term": "t", "finishedAt": time(finished)}));
        json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": time(created)},
            "spec": {"preemptor": {"kind": "Pod", "namespace": "d", "name": "p", "uid": "u", "priority": 1},
                     "strategy": "least-cost"},
            "status": status
        })
    }

    fn forgotten(step: &HistoryStep) -> Vec<&str> {
        let name = |command: &Command| match command {
            Command::ForgetPlan { name, .. } => Some(name.clone()),
            _ => None,
        };
        assert!(step.commands.iter().all(|command| name(command).is_some()), "{:?}", step.commands);
        step.commands
            .iter()
            .filter_map(|c| if let Command::ForgetPlan { name, .. } = c { Some(name.as_str()) } else { None })
            .collect()
    }

    fn step(
        keeper: &mut HistoryKeeper,
        model: &Model,
        keep: HistoryLimits,
        (now, epoch_seconds): (Instant, i64),
    ) -> HistoryStep {
        let clock = Clock { now, epoch_seconds };
        keeper.pass(&model.plans, &PlanStore::default(), keep, BTreeSet::new, clock)
    }

    fn pass(model: &Model, keep: HistoryLimits, second: i64) -> HistoryStep {
        step(&mut HistoryKeeper::default(), model, keep, (Instant::now(), second))
    }

    #[test]
    fn ended_plans_are_kept_up_to_an_age_and_a_number_with_all_their_parts() {
        let model = world(&[
            ("a", 1, Some("Completed"), 100),
            ("a.2", 1, None, 0),
            ("b", 2, Some("Failed"), 200),
            ("c", 3, Some("Cancelled"), 300),
        ]);
        assert_eq!(forgotten(&pass(&model, KEEP, 400)), ["a", "a.2"], "two are kept, the latest");
        assert_eq!(forgotten(&pass(&model, HistoryLimits { count: 9, ..KEEP }, 3_800)), ["a", "a.2", "b"], "an hour");
        assert!(forgotten(&pass(&model, HistoryLimits { count: 9, ..KEEP }, 400)).is_empty());
        assert_eq!(forgotten(&pass(&model, HistoryLimits { count: 0, ..KEEP }, 400)), ["a", "a.2", "b", "c"]);
    }

    #[test]
    fn plans_that_count_for_rates_are_kept_whatever_the_limits_of_the_history() {
        let mut model = world(&[("b", 1, Some("Completed"), 100)]);
        let status = json!({"state": "Completed", "term": "t", "evicted": 1, "finishedAt": "1970-01-01T00:01:40Z"});
        store(&mut model, "a", 1, &status);
        let keep = HistoryLimits { age: Duration::ZERO, count: 0, least: Duration::from_secs(120) };
        assert_eq!(forgotten(&pass(&model, keep, 219)), ["b"], "it evicted no pod");
        assert_eq!(forgotten(&pass(&model, keep, 220)), ["b", "a"]);
    }

    #[test]
    fn everything_above_the_limit_is_deleted_the_oldest_first_and_a_bounded_number_at_once() {
        let names: Vec<String> = (0..1_500).map(|number| format!("p-{number:04}")).collect();
        let objects: Vec<_> = (1..).zip(&names).map(|(end, name)| (name.as_str(), 1, Some("Observed"), end)).collect();
        let (model, mut keeper, now) = (world(&objects), HistoryKeeper::default(), Instant::now());
        let keep = HistoryLimits { count: 50, ..KEEP };
        let mut deleted: Vec<String> = Vec::new();
        let mut requested = |keeper: &mut HistoryKeeper, seconds: u64| {
            let commands = step(keeper, &model, keep, (now + Duration::from_secs(seconds), 2_000)).commands;
            let keys: Vec<CallKey> = commands.iter().filter_map(Command::key).collect();
            let first = deleted.len();
            deleted.extend(commands.into_iter().filter_map(|command| match command {
                Command::ForgetPlan { name, .. } => Some(name.to_string()),
                _ => None,
            }));
            assert_eq!(deleted[first..], names[first..deleted.len()], "the oldest first, and each once");
            keys
        };
        let answer = |keeper: &mut HistoryKeeper, keys: &[CallKey]| {
            keys.iter().for_each(|key| keeper.answered(key, true, now));
        };
        let mut keys = requested(&mut keeper, 0);
        assert_eq!(keys.len(), IN_FLIGHT);
        assert!(requested(&mut keeper, 1).is_empty(), "so many are in flight");
        answer(&mut keeper, &keys[..30]);
        keys.drain(..30);
        let more = requested(&mut keeper, 1);
        assert_eq!(more.len(), 30, "as many as were answered, without another check");
        keys.extend(more);
        let mut passes = 0;
        while !keys.is_empty() {
            answer(&mut keeper, &keys);
            keys = requested(&mut keeper, 1);
            passes += 1;
        }
        assert_eq!((deleted.len(), passes), (1_450, 15));
    }

    #[test]
    fn a_deletion_that_failed_is_repeated() {
        let (model, mut keeper, now) =
            (world(&[("a", 1, Some("Completed"), 1)]), HistoryKeeper::default(), Instant::now());
        let mut later = |seconds: u64, failed: bool| {
            let now = now + Duration::from_secs(seconds);
            let keys: Vec<CallKey> =
                step(&mut keeper, &model, KEEP, (now, 10_000)).commands.iter().filter_map(Command::key).collect();
            keys.iter().for_each(|key| keeper.answered(key, !failed, now));
            keys.len()
        };
        assert_eq!((later(0, true), later(1, true), later(10, true), later(20, false)), (1, 0, 1, 1));
    }

    #[test]
    fn the_plan_of_a_node_that_has_a_taint_is_kept() {
        let preemption = json!({
            "metadata": {"name": "a", "uid": "uid-a", "creationTimestamp": "1970-01-01T00:00:01Z"},
            "spec": {"preemptor": {"kind": "Pod", "namespace": "d", "name": "p", "uid": "u", "priority": 1},
                     "strategy": giveway_crds::critical::STRATEGY, "criticalAddon": {"step": 1, "taint": true},
                     "placements": [{"pod": "p", "uid": "u", "node": "n"}]},
            "status": {"state": "Completed", "term": "t", "finishedAt": "1970-01-01T00:00:01Z"}
        });
        let mut model = Model::default();
        let preemption = Box::new(serde_json::from_value(preemption).unwrap());
        model.apply(Input::Preemption(Update::Applied(preemption)));
        let clock = Clock { now: Instant::now(), epoch_seconds: 10_000 };
        let pass = |tainted: &'static str| {
            let mut keeper = HistoryKeeper::default();
            keeper.pass(&model.plans, &PlanStore::default(), KEEP, || BTreeSet::from([tainted]), clock).commands.len()
        };
        assert_eq!((pass("u"), pass("another")), (0, 1));
    }

    #[test]
    fn within_the_limits_plans_with_bans_that_have_not_ended_are_kept_before_later_ones() {
        let over = |name, finished| (name, 1, Some("Failed"), finished);
        let mut model = world(&[over("a", 100), over("b", 200), over("c", 300), over("d", 400)]);
        let ban = json!({"type": "Placement", "namespace": "d", "podUID": "u", "until": "1970-01-01T00:10:00Z"});
        let mut object = preemption("a", 1, Some("Failed"), 100);
        object["status"]["bans"] = json!([ban]);
        model.apply(Input::Preemption(Update::Applied(Box::new(serde_json::from_value(object).unwrap()))));
        assert_eq!(forgotten(&pass(&model, KEEP, 599)), ["b", "c"], "the ban ends at second 600");
        assert_eq!(forgotten(&pass(&model, KEEP, 600)), ["a", "b"]);
    }

    #[test]
    fn within_the_limits_plans_that_count_for_circuit_breakers_are_kept_before_later_ones() {
        let over = |name, state, finished| (name, 1, Some(state), finished);
        let mut model = world(&[over("e", "Cancelled", 500), over("f", "Observed", 600)]);
        for (name, state, finished) in
            [("a", "Failed", 100), ("b", "Completed", 200), ("c", "Cancelled", 300), ("d", "Completed", 400)]
        {
            let status = json!({"state": state, "term": "t", "evicted": 1, "finishedAt": time(finished)});
            store(&mut model, name, 1, &status);
        }
        let keep = HistoryLimits { age: Duration::from_secs(86_400), count: 3, least: Duration::ZERO };
        assert_eq!(
            forgotten(&pass(&model, keep, 700)),
            ["b", "e", "f"],
            "the failed ones and the last completed one stay"
        );
        assert_eq!(forgotten(&pass(&model, keep, 30_000)), ["a", "b", "c"], "no breaker depends on them any more");
    }

    #[test]
    fn of_plans_that_ended_in_the_same_second_the_latest_are_kept() {
        let over = |name| (name, 1, Some("Completed"), 100);
        let model = world(&[over("a-9"), over("a-10"), over("a-8")]);
        assert_eq!(forgotten(&pass(&model, KEEP, 400)), ["a-8"]);
    }

    #[test]
    fn plans_without_a_decision_are_cancelled_or_deleted_after_a_while() {
        let model = world(&[("ghost", 100, Some("Evicting"), 0), ("lost.2", 100, None, 0)]);
        let just_now = pass(&model, KEEP, 160);
        assert!(just_now.ended.is_empty() && just_now.commands.is_empty(), "a moment ago");
        let (mut keeper, begin) = (HistoryKeeper::default(), Instant::now());
        let mut later = |seconds: i64| {
            let now = begin + Duration::from_secs(seconds.unsigned_abs());
            step(&mut keeper, &model, KEEP, (now, 161 + seconds))
        };
        let step = later(0);
        assert_eq!(forgotten(&step), ["lost.2"]);
        assert!(step.ended.is_empty(), "the watch may show late what became of it");
        assert!(later(50).ended.is_empty());
        let step = later(60);
        let (name, last) = &step.ended[0];
        assert_eq!((name.as_str(), last.state.as_str()), ("ghost", "Cancelled"));
        assert_eq!(last.message, "The operator did not make or resume this plan; no pod is evicted for it.");
    }

    #[test]
    fn the_history_is_trimmed_every_ten_seconds() {
        let (model, mut keeper, now) =
            (world(&[("a", 1, Some("Completed"), 1)]), HistoryKeeper::default(), Instant::now());
        let mut pass = |now| {
            let step = step(&mut keeper, &model, KEEP, (now, 10_000));
            step.commands.iter().filter_map(Command::key).for_each(|key| keeper.answered(&key, true, now));
            step.commands.len()
        };
        assert_eq!((pass(now), pass(now), pass(now + EVERY)), (1, 0, 1));
    }
}
