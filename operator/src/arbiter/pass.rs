//! The order of a pass.

use super::{Arbiter, standby};
use crate::clock::Clock;
use crate::observability::metrics::catalogue;
use crate::plans::Flight;
use crate::preemption::queue::Candidates;
use giveway_planner::Preemptor;

impl Arbiter {
    /// Runs one pass over all applied inputs: advances plans, decides, and writes. A standby only observes.
    pub fn pass(&mut self, clock: Clock) {
        for (problem, error) in std::mem::take(&mut self.model.new_problems) {
            tracing::warn!(kind = problem.kind, object = %problem.key, %error, "object cannot be used; it is skipped");
            self.metrics.count(&catalogue::UNREADABLE, &[problem.kind]);
        }
        let broken = self.watches.broken(clock.now).is_some();
        self.metrics.set(&catalogue::WATCHES_BROKEN, &[], i64::from(broken));
        let (leads, is_synced) = (self.leadership.holds(), self.is_synced());
        self.ready.send_if_modified(|was| std::mem::replace(was, is_synced) != is_synced);
        // A process that has led and does not lead any more is about to end.
        if !is_synced || (!leads && self.resumed) {
            return;
        }
        self.model.note_time(clock.epoch_seconds);
        self.scheduler.note(&self.model, clock.now);
        let is_current = !broken && !self.model.is_listing();
        if !leads {
            if is_current {
                standby::observe(&mut self.model, &mut self.gangs.partial_gangs, &self.config, clock);
            }
            return;
        }
        self.note_outages(clock);
        if !is_current {
            // Calls that are still queued in the actuator are withdrawn. They are requested again when the watches work and the model is
            // current.
            self.plans.flights.all_mut().for_each(Flight::withdraw_unsent_evictions);
            self.departures.withdraw_unsent_evictions();
            if self.resumed {
                self.store_plans(clock);
            }
            return;
        }
        if !self.resumed {
            self.resume(clock);
            self.resumed = true;
        }
        self.model.close_outdated_marks(clock.epoch_seconds);
        // Preemptors are decided again when a ban has ended.
        self.model.version += u64::from(self.restraint.bans.expire(clock.epoch_seconds));
        self.follow_breakers(clock);
        self.forget_deleted();
        if self.departures.take_changed(&self.model, clock.now) {
            self.model.changes.everything = true;
            self.model.version += 1;
        }
        self.plans.flights.note(&std::mem::take(&mut self.model.changes), &self.model.touched);
        self.statuses.dirty.append(&mut self.model.touched);
        self.gangs.observe(&mut self.model, &self.statuses.dirty, clock);
        self.follow_switch();
        self.restrain();
        self.ration(clock);
        self.begin_departures(clock);
        self.advance(clock);
        self.decide(clock);
        self.rescue(clock);
        self.advance_departures(clock);
        self.store_plans(clock);
        let workloads = std::mem::take(&mut self.model.touched_workloads);
        let (flights, touched, unused_for) =
            (&self.plans.flights, &self.statuses.dirty, self.config.unused_group_timeout);
        let mut commands =
            self.gangs.pass(&self.model, flights, (touched, workloads), &mut self.speaker, unused_for, clock);
        self.statuses.dirty.append(&mut self.gangs.take_changed_groups());
        commands.append(&mut self.ask_for_capacity(clock));
        commands.append(&mut self.ungate_all_pods(clock));
        commands.into_iter().for_each(|c| self.actuator.dispatch(c));
        self.write_statuses(clock);
        self.publish_queued(clock.now);
        self.metrics.set(&catalogue::IN_FLIGHT, &[], self.plans.flights.len());
        if self.survey.due(clock.now) {
            let pending = self.survey.count_pending(
                &self.model,
                &self.plans.flights,
                &self.preemption.waiting,
                &self.metrics,
                clock,
            );
            self.metrics.pending_groups(pending);
            self.show_in_flight();
            self.speaker.forget(&self.model.cluster, clock.now);
        }
    }

    /// Returns true if everything that this process watches has been listed. A standby does not watch the stored plans.
    pub(super) fn is_synced(&self) -> bool {
        if self.leadership.holds() { self.model.synced() } else { self.model.knows_cluster() }
    }

    /// Removes what is remembered about deleted PodGroups whose name a new PodGroup has, because their deletion may not have been observed.
    fn forget_deleted(&mut self) {
        for key in std::mem::take(&mut self.model.namesakes) {
            self.statuses.last_plans.remove(&key);
            self.statuses.victims.remove(&key);
            self.preemption.forget(&Preemptor::Group(key));
        }
    }

    /// Begins to lead: marks all PodGroups and pending preemptors as changed, and resumes the plans, departures, bans and limits of an
    /// earlier leader.
    fn resume(&mut self, clock: Clock) {
        self.model.touch_all();
        self.preemption.candidates = Candidates::all(&self.model);
        self.resume_rates(clock);
        self.gangs.partial_gangs.resume(&self.model);
        self.resume_bans(clock);
        self.resume_plans(clock);
    }

    /// Updates the set of nodes that are not ready, but only for a short time yet. The plans on nodes that enter or leave the set are
    /// checked again.
    fn note_outages(&mut self, clock: Clock) {
        let grace = i64::try_from(self.config.node_outage_grace.as_secs()).unwrap_or(i64::MAX);
        let recovering = self.model.recovering(clock.epoch_seconds, grace);
        // Plans are checked again when a node's grace period has passed.
        for node in recovering.symmetric_difference(&self.plans.recovering) {
            self.model.changes.note_node(node);
        }
        self.model.version += u64::from(recovering != self.plans.recovering);
        self.plans.recovering = recovering;
    }
}
