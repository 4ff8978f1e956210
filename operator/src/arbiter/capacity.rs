//! Reports pending gangs to [`capacity_requests`](crate::capacity_requests), which requests capacity for them from a cluster
//! autoscaler.

use super::Arbiter;
use crate::capacity_requests::CapacityNeed;
use crate::clock::Clock;
use crate::messages::command::Command;
use crate::preemption::queue::PendingPreemptor;
use giveway_crds::condition::Reason;
use giveway_crds::plan::PlanState;
use giveway_planner::Preemptor;
use giveway_planner::model::ObjectKey;
use std::collections::BTreeMap;

impl Arbiter {
    /// Returns the calls that create and remove capacity requests, so that a cluster autoscaler adds nodes for pending
    /// gangs.
    pub(super) fn ask_for_capacity(&mut self, clock: Clock) -> Vec<Command> {
        let Self { provisioning, model, preemption, plans, config, .. } = self;
        let waits = || {
            let mut found: BTreeMap<ObjectKey, CapacityNeed> = BTreeMap::new();
            for (preemptor, waiting) in &preemption.waiting {
                let Preemptor::Group(key) = preemptor else { continue };
                let gang = model.cluster.group(key).is_some_and(|group| group.min_count.is_some());
                let gang = gang && !plans.flights.contains(preemptor);
                if let Some(wait) = capacity_need(waiting).filter(|_| gang) {
                    found.insert(key.clone(), wait);
                }
            }
            for flight in plans.flights.starting().filter(|flight| flight.plan.state == PlanState::Planned) {
                let Preemptor::Group(key) = &flight.preemptor else { continue };
                found.insert(key.clone(), if flight.evicts() { CapacityNeed::Postponed } else { CapacityNeed::Placed });
            }
            found
        };
        let commands = provisioning.pass(model, waits, config, clock);
        self.statuses.dirty.append(&mut self.provisioning.take_changed_groups());
        commands
    }
}

/// Returns what a gang without a plan in flight is pending for, as far as its capacity request depends on it; `None` if the gang needs no
/// capacity request.
fn capacity_need(waiting: &PendingPreemptor) -> Option<CapacityNeed> {
    match waiting.wait_reason.as_ref().map(|wait_reason| wait_reason.reason) {
        Some(Reason::Unschedulable | Reason::UnschedulableGuaranteedBudget | Reason::Cancelled | Reason::Failed) => {
            Some(CapacityNeed::Capacity)
        }
        // No decision has been made for the gang yet, for example after a change of leaders: existing capacity requests
        // stay.
        None if waiting.seen.is_none() => Some(CapacityNeed::Placed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::WaitReason;

    #[test]
    fn requests_of_an_earlier_leader_are_kept_until_the_first_decision() {
        let mut waiting = PendingPreemptor::default();
        assert_eq!(capacity_need(&waiting), Some(CapacityNeed::Placed));
        waiting.seen = Some(1);
        assert_eq!(capacity_need(&waiting), None, "it fits");
        waiting.wait_reason = Some(WaitReason { reason: Reason::Unschedulable, message: String::new() });
        assert_eq!(capacity_need(&waiting), Some(CapacityNeed::Capacity));
        waiting.seen = None;
        assert_eq!(capacity_need(&waiting), Some(CapacityNeed::Capacity), "the next decision is awaited");
        waiting.wait_reason = Some(WaitReason { reason: Reason::WaitingForPods, message: String::new() });
        assert_eq!(capacity_need(&waiting), None);
    }
}
