//! Writes that do not depend on a placement decision, one file for each task: [creation of PodGroups from
//! templates](template) and events for pods whose PodGroup does not exist, [deletion of unused PodGroups](unused), the
//! [finalizer](finalizer) of PodGroups, the [status of Workloads](workloads), and withdrawal of
//! [nominations](nominations) that belong to no plan.

mod finalizer;
mod nominations;
mod template;
mod unused;
mod workloads;

use crate::clock::Clock;
use crate::messages::call::Calls;
use crate::messages::command::Command;
use crate::model::Model;
use crate::speaker::Speaker;
use giveway_crds::native;
use giveway_planner::model::ObjectKey;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use unused::Unused;

/// What was done already, so that nothing is done twice.
#[derive(Debug, Default)]
pub struct Housekeeping {
    /// Calls in flight, by what they write.
    pub(super) calls: Calls,
    /// PodGroups to examine again in the next pass, because the effect of a call for them has not been observed yet.
    again: BTreeSet<ObjectKey>,
    /// Workloads to summarize again, because the write has not been observed yet, or because the last summary was less
    /// than [`workloads::EVERY`] ago.
    again_workloads: BTreeSet<ObjectKey>,
    /// When Workloads were summarized, for those summarized within the last second.
    summarized: BTreeMap<ObjectKey, Instant>,
    unused: Unused,
    /// When stray nominations were last searched for.
    looked_for_nominations: Option<Instant>,
}

impl Housekeeping {
    /// Returns the calls to make for the PodGroups in `touched` and for `workloads`, which have changed, and for those whose last call must
    /// be repeated. Queues events about PodGroups that do not exist.
    pub fn pass(
        &mut self,
        model: &Model,
        (touched, mut workloads): (&BTreeSet<ObjectKey>, BTreeSet<ObjectKey>),
        speaker: &mut Speaker,
        clock: Clock,
    ) -> Vec<Command> {
        let now = clock.now;
        self.calls.forget(now);
        let mut commands = Vec::new();
        workloads.append(&mut self.again_workloads);
        let keys: BTreeSet<ObjectKey> =
            std::mem::take(&mut self.again).into_iter().chain(touched.iter().cloned()).collect();
        for key in &keys {
            match model.groups.get(key) {
                Some(record) => {
                    if let Some((workload, _)) = &record.template {
                        workloads.insert(ObjectKey::new(&key.namespace, workload));
                    }
                    commands.extend(self.protect(model, key, record, now));
                    self.note_use(model, key, record, now);
                }
                None if native::is_native(&key.name) || !model.cluster.serves_groups_in(&key.namespace) => {}
                None => self.handle_missing_group(model, key, now, speaker, &mut commands),
            }
        }
        self.summarized.retain(|_, at| now.duration_since(*at) < workloads::EVERY);
        for workload in workloads {
            commands.extend(self.summarize(model, workload, clock));
        }
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::call_key::CallKey;
    use crate::messages::input::{Input, Update};
    use crate::messages::report::CallError;
    use crate::plans::Flights;
    use crate::testing::{TestPod, World};
    use serde_json::json;
    use std::time::Duration;

    pub(super) fn pass(housekeeping: &mut Housekeeping, world: &mut World, now: Instant) -> Vec<Command> {
        pass_with(housekeeping, &mut Speaker::default(), world, now)
    }

    /// Answers a call with a failure.
    pub(super) fn fail(housekeeping: &mut Housekeeping, call: &CallKey, now: Instant) {
        let failure = Err(CallError::NotLeader);
        crate::gangs::answered(&mut housekeeping.calls, call, &failure, &mut Speaker::default(), now);
    }

    /// Runs a pass, and returns the calls and the events.
    pub(super) fn pass_with(
        housekeeping: &mut Housekeeping,
        speaker: &mut Speaker,
        world: &mut World,
        now: Instant,
    ) -> Vec<Command> {
        let touched = std::mem::take(&mut world.model.touched);
        let clock = Clock { now, epoch_seconds: 0 };
        let mut commands = housekeeping.pass(&world.model, (&touched, BTreeSet::new()), speaker, clock);
        commands.extend(speaker.pass(&world.model.cluster, |_| None, now).into_iter().map(Command::Publish));
        commands
    }

    #[test]
    fn a_native_group_gets_no_status_no_finalizer_and_no_withdrawn_nomination() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.node("n1", 1).native_group("a", 10, "all");
        for group in ["a", "missing"] {
            let pod = TestPod::new(&format!("of-{group}"), 0).native(group);
            world.pod(pod.managed().unschedulable().nominated("n1").spec("preemptionPolicy", json!("Never")));
        }
        let commands = pass(&mut housekeeping, &mut world, now);
        assert!(commands.is_empty(), "{commands:?}");
        // The arbiter examines the PodGroups of all victims, also native ones.
        world.model.touched = BTreeSet::from([world.key(&native::key_name("a"))]);
        let commands = pass(&mut housekeeping, &mut world, now);
        assert!(commands.is_empty(), "{commands:?}");
        let clock = Clock { now, epoch_seconds: 0 };
        let commands = housekeeping.stray_nominations(&world.model, &Flights::default(), clock);
        assert!(commands.is_empty(), "{commands:?}");
    }

    #[test]
    fn the_call_of_a_deleted_group_is_forgotten() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.node("n1", 1).group("g", 1, 10, "Pod").pod(TestPod::new("p", 0).of("g").on("n1"));
        pass(&mut housekeeping, &mut world, now);
        let call = CallKey::Finalizer(world.key("g"), true);
        fail(&mut housekeeping, &call, now);
        world.model.apply(Input::Group(Update::Deleted(world.key("g"))));
        world.remove_pod("p");
        pass(&mut housekeeping, &mut world, now + Duration::from_secs(1));
        assert_eq!(housekeeping.calls.len(), 1);
        pass(&mut housekeeping, &mut world, now + Duration::from_secs(61));
        assert!(housekeeping.calls.len() == 0 && housekeeping.again.is_empty(), "{housekeeping:?}");
    }
}
