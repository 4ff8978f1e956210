//! PodGroups and their pods beside plans: groups that are created from a label or a template, gangs that are partially scheduled,
//! successors, members that could not be created, annotations that admission did not add, finalizers, and gates that no plan removes.

pub mod absent_members;
pub mod backfill;
pub mod finished;
pub mod housekeeping;
pub mod labelled;
pub mod partial;
pub mod succession;
pub mod ungate_all;

use crate::clock::Clock;
use crate::messages::call::Calls;
use crate::messages::call_key::CallKey;
use crate::messages::command::Command;
use crate::messages::report::CallError;
use crate::model::Model;
use crate::plans::Flights;
use crate::speaker::Speaker;
use absent_members::AbsentMembers;
use backfill::BackFill;
use finished::FinishedCounts;
use giveway_crds::wording::events;
use giveway_planner::model::ObjectKey;
use housekeeping::Housekeeping;
use labelled::LabelledGangs;
use partial::PartialGangs;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use succession::Succession;
use ungate_all::UngateAll;

/// What is known about PodGroups beside plans, one field for each task.
#[derive(Debug, Default)]
pub struct Gangs {
    /// PodGroups that are created because of the gang label.
    pub labelled: LabelledGangs,
    /// Other writes that do not depend on a decision.
    pub housekeeping: Housekeeping,
    /// Annotations that admission did not add.
    pub backfill: BackFill,
    /// Gangs that are partially scheduled.
    pub partial_gangs: PartialGangs,
    /// Capacity that is reserved for successors.
    pub succession: Succession,
    /// Gates that no plan removes.
    pub ungate_all: UngateAll,
    /// Members that have finished.
    pub finished: FinishedCounts,
    /// Members that do not exist.
    pub absent: AbsentMembers,
}

impl Gangs {
    /// Records the PodGroups in `touched`, which have changed, and the deleted pods of gangs, before a pass decides anything.
    pub fn observe(&mut self, model: &mut Model, touched: &BTreeSet<ObjectKey>, clock: Clock) {
        // The controllers of a deleted PodGroup are still needed for its deleted pods.
        let deletions = std::mem::take(&mut model.pod_deletions);
        let ended = self.succession.observe(deletions, self.labelled.controllers(), model, clock.epoch_seconds);
        model.version += u64::from(ended);
        self.labelled.note_changes(model, touched, clock.now);
        self.absent.observe(model, touched, clock);
    }

    /// Records the answer to a call, if [`LabelledGangs`] or [`Housekeeping`] has made it; other calls are ignored. If a PodGroup could not
    /// be created, its pods get an event.
    pub fn answered(&mut self, call: &CallKey, result: &Result<(), CallError>, speaker: &mut Speaker, now: Instant) {
        answered(&mut self.labelled.calls, call, result, speaker, now);
        answered(&mut self.housekeeping.calls, call, result, speaker, now);
    }

    /// Returns the calls to make now about PodGroups, Workloads and annotations of pods. `touched` are the PodGroups and the Workloads that
    /// have changed. PodGroups that Giveway created are deleted when no pod has referred to them for `unused_for`.
    pub fn pass(
        &mut self,
        model: &Model,
        flights: &Flights,
        touched: (&BTreeSet<ObjectKey>, BTreeSet<ObjectKey>),
        speaker: &mut Speaker,
        unused_for: Duration,
        clock: Clock,
    ) -> Vec<Command> {
        let mut commands = self.housekeeping.pass(model, touched, speaker, clock);
        commands.append(&mut self.labelled.pass(model, speaker, clock));
        commands.append(&mut self.housekeeping.delete_unused(model, unused_for, clock.now));
        commands.append(&mut self.housekeeping.stray_nominations(model, flights, clock));
        commands.append(&mut self.backfill.pass(model, clock.now));
        commands.extend(self.absent.pass(model, clock.now));
        commands
    }
    /// Returns the PodGroups whose status may change because their owner was read, or because it is known why members do not exist, since
    /// the last call of this function.
    pub fn take_changed_groups(&mut self) -> BTreeSet<ObjectKey> {
        let mut changed_groups = self.labelled.take_changed_groups();
        changed_groups.append(&mut self.absent.take_changed_groups());
        changed_groups
    }
}

/// Records the answer to a call in `calls`, if it was started there. If a PodGroup could not be created, its pods get an event.
fn answered(calls: &mut Calls, call: &CallKey, result: &Result<(), CallError>, speaker: &mut Speaker, now: Instant) {
    if let Some((group, why)) = calls.rejected_group(call, result, now) {
        speaker.group_missing(group, events::group_not_created(&group.name, why), now);
    }
}
