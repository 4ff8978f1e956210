//! Writes the statuses of PodGroups. Each PodGroup has at most one write in flight, so that an older status never overwrites a newer one.
//! Important changes are written at once; changes that only concern numbers are collected for a moment.

use super::{Arbiter, measures};
use crate::clock::Clock;
use crate::messages::command::Command;
use crate::messages::report::CallError;
use crate::observability::metrics::catalogue;
use crate::preemption::survey;
use crate::status::debounce::Debounced;
use crate::status::writing::{BELIEVED, StatusWrite};
use crate::status::{self, GroupFacts};
use giveway_crds::PodGroupStatus;
use giveway_crds::condition::{self, types};
use giveway_planner::Preemptor;
use giveway_planner::model::ObjectKey;
use std::time::{Duration, Instant};

/// Delay of the first retry of a failed write. Each further failure in a row doubles it.
const AGAIN: Duration = Duration::from_millis(500);
/// Maximum number of doublings: a status that is always rejected is written about once a minute.
const MOST_DOUBLED: u32 = 7;

/// Returns the delay before a retry after this number of earlier failures in a row.
fn again(failures: u32) -> Duration {
    AGAIN * (1 << failures.min(MOST_DOUBLED))
}

impl Arbiter {
    /// Records the answer to a write of a PodGroup's status. A failed write is retried after a delay.
    pub(super) fn status_written(
        &mut self,
        group: &ObjectKey,
        status: PodGroupStatus,
        result: Result<(), CallError>,
        now: Instant,
    ) {
        let writing = self.statuses.writing.entry(group.clone()).or_default();
        writing.pending = false;
        self.statuses.dirty.insert(group.clone());
        match result {
            Ok(()) => {
                writing.written = Some((status, now));
                self.statuses.later.insert(group.clone(), now + BELIEVED);
                writing.failures = 0;
            }
            Err(error) => {
                tracing::warn!(%group, %error, "status not written");
                writing.not_before = Some(now + again(writing.failures));
                writing.failures += 1;
            }
        }
    }

    /// Computes the status of each PodGroup that may have changed, and requests the writes.
    pub(super) fn write_statuses(&mut self, clock: Clock) {
        let due = self.statuses.later.iter().filter(|(_, due)| **due <= clock.now).map(|(key, _)| key.clone());
        self.statuses.dirty.extend(due);
        self.statuses.later.retain(|_, due| *due > clock.now);
        for key in std::mem::take(&mut self.statuses.dirty) {
            let (Some(record), Some(group)) = (self.model.groups.get(&key), self.model.cluster.group(&key)) else {
                self.statuses.writing.remove(&key);
                self.gangs.finished.forget(&key);
                self.statuses.later.remove(&key);
                self.statuses.last_plans.remove(&key);
                self.statuses.victims.remove(&key);
                continue;
            };
            let writing = self.statuses.writing.entry(key.clone()).or_default();
            if writing.uid != record.uid {
                *writing = StatusWrite { uid: record.uid.clone(), ..StatusWrite::default() };
            }
            // The status is computed again when the write is answered.
            if writing.pending {
                continue;
            }
            if let Some(not_before) = writing.not_before.filter(|time| *time > clock.now) {
                self.statuses.later.insert(key, not_before);
                continue;
            }
            let mut record = record.clone();
            writing.seen(&record.status, clock.now);
            // A mark is removed only when the departure that follows from it is stored.
            let marks = match self.departures.all_stored(&key) {
                true => self.model.open_marks(&key),
                false => record.status.preempted_pods.clone(),
            };
            if let Some(written) = writing.written(clock.now) {
                // The watch may still show marks that were removed.
                record.status = PodGroupStatus { preempted_pods: marks.clone(), ..written.clone() };
            }
            let preemptor = Preemptor::Group(key.clone());
            let counters = self.gangs.labelled.counters(&key, &record);
            let finished = self.gangs.finished.update(&self.model.cluster, &key, &record, counters);
            let facts = GroupFacts {
                model: &self.model,
                group,
                record: &record,
                flight: self.plans.flights.get(&preemptor),
                last_plan: self.statuses.last_plans.get(&key),
                wait_reason: self.preemption.waiting.get(&preemptor).and_then(|w| w.wait_reason.as_ref()),
                victim_of: self.statuses.victims.get(&key),
                unwritten: self.departures.unwritten(&key),
                capacity: self.provisioning.reason(&key),
                problem: group.class_problem.as_deref(),
                absent: self.gangs.absent.reason(&key),
                finished: &finished,
                marks,
                names: self.config.names(),
                now: clock.time(),
            };
            let to = status::group_status(&facts);
            let scheduled =
                |status: &PodGroupStatus| condition::is_true(&status.conditions, types::INITIALLY_SCHEDULED);
            if !writing.counted && scheduled(&to) && !scheduled(&record.status) {
                writing.counted = true;
                if let Some(submitted) = survey::submitted(&self.model.cluster, &key) {
                    let took = u64::try_from(clock.epoch_seconds - submitted).unwrap_or(0);
                    let class = measures::class_of_group(&self.metrics, &self.model.cluster, group);
                    self.metrics.observe(&catalogue::SUBMITTED_TO_BOUND, &[class.as_str()], Duration::from_secs(took));
                }
            }
            if to == record.status && writing.failures == 0 {
                writing.debounced = None;
                // The status shows the preemption and is written. It is removed from memory when no plan or departure takes pods of the
                // PodGroup.
                let taken = || self.plans.flights.any_evicts_from(&self.model.cluster, &key);
                if self.statuses.victims.contains_key(&key) && !self.departures.has_departure_of(&key) && !taken() {
                    self.statuses.victims.remove(&key);
                    // The reported state may already be past, and no other event may follow.
                    self.statuses.later.insert(key, clock.now);
                }
                continue;
            }
            // Important changes are not delayed: the condition `Scheduled` stays true, even if a pod is lost a moment later.
            if !status::has_changed(&record.status, &to) && writing.failures == 0 {
                let debounced = writing.debounced.get_or_insert_with(|| Debounced::new(to.clone(), clock.now));
                debounced.note(to.clone(), clock.now);
                let due = debounced.due();
                if due > clock.now {
                    self.statuses.later.insert(key, due);
                    continue;
                }
            }
            // Users wait for the status of a preemptor. The status of a victim may be written in the background.
            let awaited = facts.flight.is_some() || facts.victim_of.is_none();
            writing.pending = true;
            writing.debounced = None;
            self.statuses.later.remove(&key);
            self.actuator.dispatch(Command::WriteGroupStatus {
                background: !awaited,
                group: key.clone(),
                uid: record.uid.clone(),
                from: Box::new(record.status),
                to: Box::new(to),
                priority: group.priority,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_status_write_is_retried_about_once_a_minute_in_the_end() {
        let times: Vec<f32> = (0..9).map(|failures| again(failures).as_secs_f32()).collect();
        assert_eq!(times, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 64.0]);
    }
}
