//! The history of `Preemption` objects. Finished ones are kept within limits on age, number and size. A `Preemption` in flight without a
//! plan or departure in memory is ended, and parts without their first part are deleted. Pure; all objects are checked every ten seconds.

use super::plan_store::PlanStore;
use crate::clock::Clock;
use crate::messages::command::Command;
use crate::model::plans::{PlanRecord, Plans, dropped};
use giveway_crds::preemption::{PreemptionStatus, plan_of_part};
use giveway_planner::SmolStr;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Interval of the checks.
const EVERY: Duration = Duration::from_secs(10);
/// Maximum number of objects that one check deletes.
const MOST: usize = 100;
/// Maximum number of plans that are kept before later ones because bans in them have not ended.
const MOST_WITH_BANS: usize = 200;
/// Approximate limit on the size of the history in etcd, in bytes: plans of thousands of pods are deleted earlier.
const MOST_BYTES: usize = 256 * 1024 * 1024;
/// How long a `Preemption` must be without a plan in memory before it is ended: longer than a watch may lag without being considered
/// broken.
const UNKNOWN: Duration = Duration::from_secs(60);
/// Age in seconds below which an object is not judged, because the watch or the answer to a call may still be missing.
const GRACE: i64 = 60;

/// Limits of the history.
#[derive(Clone, Copy, Debug)]
pub struct Keep {
    /// Maximum time since the end of a plan.
    pub age: Duration,
    /// Maximum number of plans.
    pub count: usize,
    /// Time for which a plan is kept even if it exceeds the other limits.
    pub least: Duration,
}

/// Checks the history at intervals.
#[derive(Debug, Default)]
pub struct Keeper {
    next: Option<Instant>,
    /// Plans in flight without a plan in memory, and when each was first found. The watch may show their end later.
    suspects: BTreeMap<SmolStr, Instant>,
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct Step {
    /// Deletions of objects.
    pub commands: Vec<Command>,
    /// Plans whose status is in flight although they have ended, with their last status.
    pub struck: Vec<(SmolStr, PreemptionStatus)>,
}

impl Keeper {
    /// Checks the history if it is time. Returns the deletions and the plans to end.
    pub fn pass(&mut self, plans: &Plans, store: &PlanStore, keep: Keep, clock: Clock) -> Step {
        let mut step = Step::default();
        if self.next.is_some_and(|next| next > clock.now) {
            return step;
        }
        self.next = Some(clock.now + EVERY);
        let mut objects: BTreeMap<&str, Vec<(&SmolStr, &PlanRecord)>> = BTreeMap::new();
        for (name, record) in plans.iter() {
            objects.entry(plan_of_part(name)).or_default().push((name, record));
        }
        let mut over = Vec::new();
        let suspected = std::mem::take(&mut self.suspects);
        for (plan, parts) in objects {
            if store.holds(plan) {
                continue;
            }
            let old = |record: &PlanRecord| clock.epoch_seconds - record.created > GRACE;
            match parts.iter().find(|(name, _)| name.as_str() == plan).map(|(_, record)| *record) {
                Some(first) if first.over() => {
                    // Of two plans of one leader that ended in the same second, the later one has the higher number in its name.
                    over.push(((first.finished(), first.created, plan.len(), plan), parts));
                }
                Some(first) if old(first) => {
                    let since = suspected.get(plan).copied().unwrap_or(clock.now);
                    self.suspects.insert(plan.into(), since);
                    if clock.now.duration_since(since) < UNKNOWN {
                        continue;
                    }
                    let end = Some(clock.time());
                    let message = "No decision stands behind this plan; nobody is evicted for it.".to_owned();
                    let last = PreemptionStatus { finished_at: end, ..dropped(&first.status, message) };
                    step.struck.push((plan.into(), last));
                }
                None if parts.iter().all(|(_, record)| old(record)) => step.commands.extend(forget(&parts)),
                _ => {}
            }
        }
        over.sort_by_key(|(age, _)| Reverse(*age));
        // Within the limits, the latest plans with bans that have not ended come first.
        let has_bans = |parts: &[(&SmolStr, &PlanRecord)]| {
            let mut bans = parts.iter().flat_map(|(_, record)| &record.status.bans);
            bans.any(|ban| ban.until.0.as_second() > clock.epoch_seconds)
        };
        let mut with_bans = 0;
        let (mut first, rest): (Vec<_>, Vec<_>) = over.into_iter().partition(|(_, parts)| {
            let is_first = with_bans < MOST_WITH_BANS && has_bans(parts);
            with_bans += usize::from(is_first);
            is_first
        });
        first.extend(rest);
        let before =
            |age: Duration| clock.epoch_seconds.saturating_sub(i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
        let (oldest, needed) = (before(keep.age), before(keep.least));
        let mut bytes = 0;
        for (index, ((finished, ..), parts)) in first.into_iter().enumerate() {
            bytes += parts.iter().map(|(_, record)| record.bytes).sum::<usize>();
            let too_much = index >= keep.count || finished <= oldest || bytes > MOST_BYTES;
            if too_much && finished <= needed {
                step.commands.extend(forget(&parts));
            }
        }
        step.commands.truncate(MOST);
        step
    }
}

fn forget(parts: &[(&SmolStr, &PlanRecord)]) -> Vec<Command> {
    let one = |(name, record): &(&SmolStr, &PlanRecord)| Command::ForgetPlan {
        name: (*name).clone(),
        uid: record.uid.clone(),
    };
    parts.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::input::{Input, Update};
    use crate::model::Model;
    use k8s_openapi::jiff::Timestamp;
    use serde_json::{Value, json};

    const KEEP: Keep = Keep { age: Duration::from_secs(3_600), count: 2, least: Duration::ZERO };

    fn world(objects: &[(&str, i64, Option<&str>, i64)]) -> Model {
        let mut model = Model::default();
        for (name, created, state, finished) in objects {
            let preemption = Box::new(serde_json::from_value(preemption(name, *created, *state, *finished)).unwrap());
            model.apply(Input::Preemption(Update::Applied(preemption)));
        }
        model
    }

    fn preemption(name: &str, created: i64, state: Option<&str>, finished: i64) -> Value {
        let time = |second: i64| Timestamp::from_second(second).unwrap().to_string();
        let status = state.map(|state| json!({"state": state, "term": "t", "finishedAt": time(finished)}));
        json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"), "creationTimestamp": time(created)},
            "spec": {"preemptor": {"kind": "Pod", "namespace": "d", "name": "p", "uid": "u", "priority": 1},
                     "strategy": "least-cost"},
            "status": status
        })
    }

    fn forgotten(step: &Step) -> Vec<&str> {
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

    fn pass(model: &Model, keep: Keep, second: i64) -> Step {
        let clock = Clock { now: Instant::now(), epoch_seconds: second };
        Keeper::default().pass(&model.plans, &PlanStore::default(), keep, clock)
    }

    #[test]
    fn plans_that_are_over_are_kept_for_a_time_and_a_number_with_all_their_parts() {
        let model = world(&[
            ("a", 1, Some("Completed"), 100),
            ("a.2", 1, None, 0),
            ("b", 2, Some("Failed"), 200),
            ("c", 3, Some("Cancelled"), 300),
        ]);
        assert_eq!(forgotten(&pass(&model, KEEP, 400)), ["a", "a.2"], "two are kept, the latest");
        assert_eq!(forgotten(&pass(&model, Keep { count: 9, ..KEEP }, 3_800)), ["b", "a", "a.2"], "an hour");
        assert!(forgotten(&pass(&model, Keep { count: 9, ..KEEP }, 400)).is_empty());
        assert_eq!(forgotten(&pass(&model, Keep { count: 0, ..KEEP }, 400)), ["c", "b", "a", "a.2"]);
    }

    #[test]
    fn what_a_rate_counts_is_kept_whatever_the_history_is() {
        let model = world(&[("a", 1, Some("Completed"), 100)]);
        let keep = Keep { age: Duration::ZERO, count: 0, least: Duration::from_secs(120) };
        assert!(forgotten(&pass(&model, keep, 219)).is_empty());
        assert_eq!(forgotten(&pass(&model, keep, 220)), ["a"]);
    }

    #[test]
    fn within_the_limits_plans_with_bans_that_have_not_ended_are_kept_before_later_ones() {
        let over = |name, finished| (name, 1, Some("Failed"), finished);
        let mut model = world(&[over("a", 100), over("b", 200), over("c", 300), over("d", 400)]);
        let ban = json!({"type": "Placement", "namespace": "d", "podUID": "u", "until": "1970-01-01T00:10:00Z"});
        let mut object = preemption("a", 1, Some("Failed"), 100);
        object["status"]["bans"] = json!([ban]);
        model.apply(Input::Preemption(Update::Applied(Box::new(serde_json::from_value(object).unwrap()))));
        assert_eq!(forgotten(&pass(&model, KEEP, 599)), ["c", "b"], "the ban ends at second 600");
        assert_eq!(forgotten(&pass(&model, KEEP, 600)), ["b", "a"]);
    }

    #[test]
    fn of_plans_that_ended_in_the_same_second_the_latest_are_kept() {
        let over = |name| (name, 1, Some("Completed"), 100);
        let model = world(&[over("a-9"), over("a-10"), over("a-8")]);
        assert_eq!(forgotten(&pass(&model, KEEP, 400)), ["a-8"]);
    }

    #[test]
    fn what_no_decision_stands_behind_is_struck_out_or_removed_after_a_while() {
        let model = world(&[("ghost", 100, Some("Evicting"), 0), ("lost.2", 100, None, 0)]);
        let step = pass(&model, KEEP, 160);
        assert!(step.struck.is_empty() && step.commands.is_empty(), "a moment ago");
        let (mut keeper, begin) = (Keeper::default(), Instant::now());
        let mut later = |seconds: i64| {
            let now = begin + Duration::from_secs(seconds.unsigned_abs());
            let clock = Clock { now, epoch_seconds: 161 + seconds };
            keeper.pass(&model.plans, &PlanStore::default(), KEEP, clock)
        };
        let step = later(0);
        assert_eq!(forgotten(&step), ["lost.2"]);
        assert!(step.struck.is_empty(), "the watch may show late what became of it");
        assert!(later(50).struck.is_empty());
        let step = later(60);
        let (name, last) = &step.struck[0];
        assert_eq!((name.as_str(), last.state.as_str()), ("ghost", "Cancelled"));
        assert_eq!(last.message, "No decision stands behind this plan; nobody is evicted for it.");
    }

    #[test]
    fn the_history_is_looked_at_every_ten_seconds() {
        let (model, mut keeper, now) = (world(&[("a", 1, Some("Completed"), 1)]), Keeper::default(), Instant::now());
        let mut pass = |now| {
            let clock = Clock { now, epoch_seconds: 10_000 };
            keeper.pass(&model.plans, &PlanStore::default(), KEEP, clock).commands.len()
        };
        assert_eq!((pass(now), pass(now), pass(now + EVERY)), (1, 0, 1));
    }
}
