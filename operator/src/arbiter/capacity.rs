//! Who waits for room, for those who ask a cluster autoscaler for it.

use super::Arbiter;
use crate::command::Command;
use crate::ledger::Clock;
use crate::provisioning::Wait;
use crate::queue::Waiting;
use giveway_crds::condition::Reason;
use giveway_crds::plan::PlanState;
use giveway_planner::Preemptor;
use giveway_planner::model::ObjectKey;
use std::collections::BTreeMap;

impl Arbiter {
    /// What is to be made and removed so that an autoscaler sees who waits.
    pub(super) fn ask_for_capacity(&mut self, clock: Clock) -> Vec<Command> {
        let Self { provisioning, model, waiting, flights, .. } = self;
        let waits = || {
            let mut found: BTreeMap<ObjectKey, Wait> = BTreeMap::new();
            for (preemptor, waiting) in waiting.iter() {
                let Preemptor::Group(key) = preemptor else { continue };
                let gang = model.cluster.group(key).is_some_and(|group| group.min_count.is_some());
                if let Some(wait) = waits_for(waiting).filter(|_| gang) {
                    found.insert(key.clone(), wait);
                }
            }
            for (preemptor, flight) in flights.iter() {
                let Preemptor::Group(key) = preemptor else { continue };
                let wait = match flight.plan.state {
                    PlanState::Planned if flight.evicts() => Wait::PutOff,
                    PlanState::Planned => Wait::Placed,
                    _ => {
                        found.remove(key);
                        continue;
                    }
                };
                found.insert(key.clone(), wait);
            }
            found
        };
        let commands = provisioning.pass(model, waits, clock);
        self.dirty.append(&mut self.provisioning.take_news());
        commands
    }
}

/// For what a gang waits that has no plan.
fn waits_for(waiting: &Waiting) -> Option<Wait> {
    match waiting.last_word.as_ref().map(|word| word.reason) {
        Some(Reason::Unschedulable | Reason::UnschedulableGuaranteedBudget | Reason::Cancelled | Reason::Failed) => {
            Some(Wait::Room)
        }
        // Nobody has decided about it yet, as after a change of leaders: what an earlier one asked for stays.
        None if waiting.seen.is_none() => Some(Wait::Placed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::LastWord;

    #[test]
    fn what_an_earlier_leader_asked_for_stays_until_somebody_has_decided() {
        let mut waiting = Waiting::default();
        assert_eq!(waits_for(&waiting), Some(Wait::Placed));
        waiting.seen = Some(1);
        assert_eq!(waits_for(&waiting), None, "it fits");
        waiting.last_word = Some(LastWord { reason: Reason::Unschedulable, message: String::new() });
        assert_eq!(waits_for(&waiting), Some(Wait::Room));
        waiting.seen = None;
        assert_eq!(waits_for(&waiting), Some(Wait::Room), "it is looked at anew");
        waiting.last_word = Some(LastWord { reason: Reason::WaitingForPods, message: String::new() });
        assert_eq!(waits_for(&waiting), None);
    }
}
