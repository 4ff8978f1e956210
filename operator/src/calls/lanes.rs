//! Limits on the number of API calls in flight, in lanes that do not wait for each other.
//!
//! * Evictions. Most of their time is waiting: the API server lists the PodDisruptionBudgets for each eviction, and
//!   answers a list only when it has confirmed with etcd that its cache is current, which takes up to 0.1 s. So more of
//!   them are allowed in flight.
//! * Plans. There are few: one call at a time for each plan, and every other call for the plan waits for it.
//! * PodGroups that are created for pods or get another `minCount` or owner, and reads of their owners: any tenant can
//!   cause thousands of them.
//! * All other calls, among them the nominations of a large gang.
//!
//! In each lane, calls are ordered by priority, then by age.

use super::lane::{CallPermit, Lane};
use crate::messages::command::Command;
use crate::observability::metrics::QueueName;

/// Number of evictions allowed in flight for each other call.
const EVICTIONS: usize = 3;
/// Maximum number of calls in flight that create PodGroups, set their `minCount` or owner, or read owners.
const GROUPS: usize = 4;

/// All lanes of the operator. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    evictions: Lane,
    plans: Lane,
    groups: Lane,
    others: Lane,
}

impl Lanes {
    /// Returns the lanes for at most `calls` calls in flight; evictions and calls that create PodGroups have their own limits on top of it.
    pub(super) fn new(calls: usize) -> Self {
        let plans = (calls / 4).max(1);
        Self {
            evictions: Lane::new(calls.saturating_mul(EVICTIONS)),
            plans: Lane::new(plans),
            groups: Lane::new(GROUPS),
            others: Lane::new(calls.saturating_sub(plans).max(1)),
        }
    }

    /// Waits until the lane of this command permits its calls. They count as in flight until the returned permit is dropped.
    pub(super) async fn turn(&self, command: &Command) -> CallPermit {
        let lane = match command.queue() {
            QueueName::Evictions => &self.evictions,
            QueueName::Plans => &self.plans,
            QueueName::Groups => &self.groups,
            QueueName::Others | QueueName::Background | QueueName::Events | QueueName::Inputs => &self.others,
        };
        lane.take(command.priority()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::command::{EvictCall, EvictionCause};
    use futures::FutureExt;
    use giveway_planner::Preemptor;
    use giveway_planner::model::ObjectKey;
    use tokio_util::sync::CancellationToken;

    fn other() -> Command {
        Command::ReadSchedulerLease(ObjectKey::new("kube-system", "kube-scheduler"))
    }

    fn preemptor() -> Preemptor {
        Preemptor::Pod(ObjectKey::new("default", "p"))
    }

    fn nominate(priority: i32) -> Command {
        let (plan, pod, uid) = ("p-1".to_owned(), ObjectKey::new("default", "p"), "uid-p".into());
        Command::Nominate {
            preemptor: preemptor(),
            priority,
            plan,
            pod,
            uid,
            node: Some("n1".into()),
            rehearsal: false,
        }
    }

    fn evict(priority: i32) -> Command {
        Command::Evict(Box::new(EvictCall {
            priority,
            cause: EvictionCause::Plan { preemptor: preemptor(), id: "p-1".to_owned() },
            pod: ObjectKey::new("default", "v"),
            uid: "uid-v".into(),
            budgeted: false,
            may_force: false,
            grace: None,
            rehearsal: false,
            again: false,
            message: "Preempted.".into(),
            permission: CancellationToken::new(),
        }))
    }

    fn write_plan(priority: i32) -> Command {
        Command::WritePlan { plan: "p-1".to_owned(), priority, status: Box::default() }
    }

    fn write_status(priority: i32) -> Command {
        let (group, uid) = (ObjectKey::new("default", "g"), "uid-g".into());
        Command::WriteGroupStatus { group, uid, from: Box::default(), to: Box::default(), priority, background: false }
    }

    #[test]
    fn when_a_lane_is_full_the_call_of_the_highest_priority_is_next() {
        for make in [nominate, evict, write_plan, write_status] {
            let lanes = Lanes::new(2);
            let (low, urgent) = (make(10), make(1000));
            let full = || lanes.turn(&low).now_or_never();
            let mut taken: Vec<_> = std::iter::from_fn(full).take(100).collect();
            assert!((1..100).contains(&taken.len()), "{low:?}: {}", taken.len());
            let (mut waits, mut comes_later) = (Box::pin(lanes.turn(&low)), Box::pin(lanes.turn(&urgent)));
            assert!((&mut waits).now_or_never().is_none() && (&mut comes_later).now_or_never().is_none());
            taken.pop();
            assert!((&mut waits).now_or_never().is_none(), "{low:?}");
            assert!((&mut comes_later).now_or_never().is_some(), "{urgent:?}");
        }
    }

    #[test]
    fn calls_wait_in_the_queue_of_their_lane_and_those_in_the_background_in_one_of_their_own() {
        let (group, uid) = (ObjectKey::new("default", "g"), "uid-g".into());
        let victim_status = Command::WriteGroupStatus {
            group,
            uid,
            from: Box::default(),
            to: Box::default(),
            priority: 0,
            background: true,
        };
        let queues = [evict(0), write_plan(0), write_status(0), victim_status].map(|command| command.queue());
        assert_eq!(queues, [QueueName::Evictions, QueueName::Plans, QueueName::Others, QueueName::Background]);
    }

    #[test]
    fn a_plan_is_written_although_all_other_slots_are_used() {
        let lanes = Lanes::new(4);
        let turn = |command: &Command| lanes.turn(command).now_or_never();
        let taken: Vec<_> = std::iter::from_fn(|| turn(&other())).take(10).collect();
        assert_eq!(taken.len(), 3, "one of four is kept for plans");
        let plan = turn(&write_plan(0));
        assert!(plan.is_some());
        drop(taken);
        assert!(turn(&other()).is_some());
    }
}
