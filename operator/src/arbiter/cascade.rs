//! Cascades in the arbiter: begun when the model shows that kube-scheduler took a pod, told in the group's status and by
//! an event, and carried out once the status is written.

use super::Arbiter;
use crate::cascade::told;
use crate::command::{Command, Notice};
use crate::ledger::Clock;
use giveway_crds::condition::Reason;
use giveway_planner::model::ObjectKey;

impl Arbiter {
    /// Begins, goes on with and ends cascades.
    pub(super) fn cascade(&mut self, clock: Clock) {
        for (group, victimhood) in self.cascades.fallen(&mut self.model) {
            self.metrics.outcome(Reason::PreemptionByScheduler);
            if let Some(record) = self.model.groups.get(&group) {
                self.actuator.dispatch(Command::Publish(Notice {
                    kind: "PodGroup",
                    key: group.clone(),
                    uid: record.uid.clone(),
                    warning: true,
                    reason: Reason::Preempted,
                    action: "Cascading".to_owned(),
                    note: victimhood.message.clone(),
                }));
            }
            self.dirty.insert(group.clone());
            self.victims.insert(group, victimhood);
        }
        let Self { cascades, model, flights, writing, .. } = self;
        let written = |group: &ObjectKey| {
            let ours = writing.get(group).and_then(|w| w.written(clock.now));
            ours.or_else(|| model.groups.get(group).map(|record| &record.status)).is_some_and(told)
        };
        let step = cascades.pass(model, flights, written, clock.now);
        step.commands.into_iter().for_each(|command| self.actuator.dispatch(command));
        for (group, pod, uid, why) in step.refused {
            self.tell_refusal(&pod, &uid, &rest_of(&group), &why, clock.now);
        }
        self.dirty.extend(step.through);
    }
}

/// For what the rest of a group is evicted, in the action of events.
pub(super) fn rest_of(group: &ObjectKey) -> String {
    format!("the rest of podgroup/{group}")
}
