//! Groups that go whole beside the plans: begun when the model shows that kube-scheduler took a pod, or left a gang bound by half
//! for too long, told in the group's status and by an event, and carried out once the status is written.

use super::Arbiter;
use super::notices::Repeated;
use crate::cascade::is_told;
use crate::command::Command;
use crate::ledger::{Clock, told_full};
use crate::rates::Full;
use crate::status::Victimhood;
use crate::words::Sentence;
use giveway_crds::condition::Reason;
use giveway_crds::plan::PlanState;
use giveway_planner::Preemptor;
use giveway_planner::model::ObjectKey;

impl Arbiter {
    /// Begins cascades: before plans for the group go on, and anything is decided for what is made instead of those who go.
    pub(super) fn begin_cascades(&mut self) {
        self.spare_the_rest();
        for (group, victimhood) in self.cascades.fallen(&mut self.model) {
            self.metrics.outcome(Reason::PreemptionByScheduler);
            // It is planned anew for all of them; who was released has a place already.
            let own = self.flights.get_mut(&Preemptor::Group(group.clone()));
            if let Some(flight) = own.filter(|flight| flight.plan.state != PlanState::Releasing) {
                flight.drop_plan(
                    PlanState::Cancelled,
                    "kube-scheduler took a pod of the group itself, which goes whole.",
                );
            }
            self.tell_cascade(group, victimhood, Reason::Preempted, "Cascading");
        }
    }

    /// Goes on with cascades and ends them.
    pub(super) fn cascade(&mut self, clock: Clock) {
        self.take_down(clock);
        let Self { cascades, model, flights, writing, .. } = self;
        let written = |group: &ObjectKey| {
            let ours = writing.get(group).and_then(|w| w.written(clock.now));
            ours.or_else(|| model.groups.get(group).map(|record| &record.status)).is_some_and(is_told)
        };
        let step = cascades.pass(model, flights, written, clock.now);
        for command in step.commands {
            self.count_asked(&command, clock);
            self.actuator.dispatch(command);
        }
        for (group, pod, uid, why) in step.refused {
            self.tell_refusal(&pod, &uid, &rest_of(&group), &why, clock.now);
        }
        self.dirty.extend(step.through);
    }

    /// Takes down the gangs that have been bound by half for too long.
    fn take_down(&mut self, clock: Clock) {
        let after = self.config.half_bound_timeout;
        if after.is_zero() {
            return;
        }
        self.half_starts.note(&self.model, &self.dirty, clock.now);
        for (group, half) in self.half_starts.due(&self.model, after, clock.now) {
            // Where nobody waits for each other there is no half.
            if !self.model.cluster.serves_groups_in(&group.namespace) {
                self.half_starts.start_anew(&group, clock.now);
                continue;
            }
            let preemptor = Preemptor::Group(group.clone());
            // Room that is being made may yet help, and so may room that was made just now.
            if self.flights.get(&preemptor).is_some_and(|flight| !flight.stands_still(after, clock.now)) {
                continue;
            }
            let room = match self.restraint() {
                None => self.no_room_for(&group, half.pods, clock),
                Some(_) => None,
            };
            if let Some(full) = room {
                self.tell_rate(&group, &full, clock);
                continue;
            }
            self.half_starts.start_anew(&group, clock.now);
            let said = self.model.scheduler_message(&half.waits);
            if let Some(reason) = self.restraint() {
                let why = format!("Its pods are not evicted: {}.", self.restraint_in_words());
                let message = half.sentence(after, &why, said);
                self.tell_group(&group, reason, "LeavingAlone", message.into());
                continue;
            }
            if let Some(why) = self.model.cluster.protection(&group.namespace) {
                let message = half.sentence(after, &format!("Its pods are not evicted: {why}."), said);
                self.tell_group(&group, Reason::Protected, "LeavingAlone", message.into());
                continue;
            }
            let message = half.sentence(after, &half.remedy(), said);
            if half.ownerless.is_some() {
                self.tell_group(&group, Reason::HalfBound, "LeavingAlone", message.into());
                continue;
            }
            let Some((group, victimhood)) =
                self.cascades.take_down(&self.model, group, clock.epoch_seconds, message.into())
            else {
                continue;
            };
            for uid in self.cascades.members(&group) {
                self.rates.note(&group.namespace, uid, clock.now);
            }
            self.metrics.outcome(Reason::HalfBound);
            self.tell_cascade(group, victimhood, Reason::HalfBound, "TakingDown");
            self.waiting.entry(preemptor).or_default().stand_back(clock.now);
        }
    }

    /// Tells a gang that it is bound by half and taken down when the rates of evictions leave room.
    fn tell_rate(&mut self, group: &ObjectKey, full: &Full, clock: Clock) {
        let uid = self.model.cluster.group(group).map(|group| group.uid.clone()).unwrap_or_default();
        if self.repeated.is_news(&uid, Repeated::RATES, clock.now) {
            let why = told_full(full, clock.at(full.until));
            let note = Sentence::from("The gang is partially scheduled, and its pods are evicted later: ").then(why);
            self.tell_group(group, Reason::EvictionsLimited, "HoldingBack", note);
        }
    }

    /// Tells a group that it goes, in its status and by an event.
    fn tell_cascade(&mut self, group: ObjectKey, victimhood: Victimhood, reason: Reason, action: &str) {
        self.tell_group(&group, reason, action, victimhood.message.clone());
        self.dirty.insert(group.clone());
        self.victims.insert(group, victimhood);
    }

    /// Warns a group by an event.
    pub(super) fn tell_group(&self, group: &ObjectKey, reason: Reason, action: &str, note: Sentence) {
        let group = Preemptor::Group(group.clone());
        if let Some(notice) = self.notice(&group, true, reason, action.to_owned(), note) {
            self.actuator.dispatch(Command::Publish(notice));
        }
    }
}

/// For what the rest of a group is evicted, in the action of events.
pub(super) fn rest_of(group: &ObjectKey) -> String {
    format!("the rest of podgroup/{group}")
}
