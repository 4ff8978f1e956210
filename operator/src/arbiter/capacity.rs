//! Who waits for room, for those who ask a cluster autoscaler for it.

use super::Arbiter;
use crate::command::Command;
use crate::ledger::Clock;
use crate::provisioning::Wait;
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
                let word = waiting.last_word.as_ref().map(|word| word.reason);
                let for_room = matches!(
                    word,
                    Some(
                        Reason::Unschedulable
                            | Reason::UnschedulableGuaranteedBudget
                            | Reason::Cancelled
                            | Reason::Failed
                    )
                );
                if gang && for_room {
                    found.insert(key.clone(), Wait::Room);
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
