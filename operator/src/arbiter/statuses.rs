//! Writes the statuses of PodGroups. Each PodGroup has at most one write in flight, so that an older status never overwrites a newer one.
//! Important changes are written at once; changes that only concern numbers are collected for a moment.

use super::{Arbiter, measures};
use crate::messages::command::Command;
use crate::messages::report::CallError;
use crate::plans::Clock;
use crate::preemption::survey;
use crate::status::debounce::Debounced;
use crate::status::{self, Facts};
use giveway_crds::PodGroupStatus;
use giveway_crds::condition::{self, types};
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// For this time a written status is used although the watch does not show it. After it the status in the watch is used: another client
/// wrote it, or an earlier write of ours was applied late.
const BELIEVED: Duration = Duration::from_secs(10);
/// Delay of the first retry of a failed write. Each further failure in a row doubles it.
const AGAIN: Duration = Duration::from_millis(500);
/// Maximum number of doublings: a status that is always rejected is written about once a minute.
const MOST_DOUBLED: u32 = 7;

/// The status writes of a PodGroup.
#[derive(Debug, Default)]
pub(super) struct Writing {
    /// UID of the PodGroup.
    uid: SmolStr,
    /// True if a write is in flight.
    pending: bool,
    /// The last written status, and the time of the answer: it may be newer than the status in the watch.
    written: Option<(PodGroupStatus, Instant)>,
    /// Number of failures in a row. After a failure it is unknown whether the status was written.
    failures: u32,
    /// Earliest time of the next write after a failure.
    not_before: Option<Instant>,
    /// True if the time until the PodGroup was scheduled is in the metrics.
    counted: bool,
    /// Numbers that are written later.
    debounced: Option<Debounced<PodGroupStatus>>,
}

impl Writing {
    /// Returns the last written status, unless the watch shows it already, or should.
    pub(super) fn written(&self, now: Instant) -> Option<&PodGroupStatus> {
        let believed = |at: Instant| now.duration_since(at) < BELIEVED;
        self.written.as_ref().filter(|(_, at)| believed(*at)).map(|(status, _)| status)
    }

    /// Compares the status in the watch with the written one. The webhook may have added marks of preempted pods.
    fn seen(&mut self, status: &PodGroupStatus, now: Instant) {
        let without_marks =
            |status: &PodGroupStatus| PodGroupStatus { preempted_pods: BTreeMap::new(), ..status.clone() };
        let shown = self.written(now).is_none_or(|written| without_marks(written) == without_marks(status));
        self.written.take_if(|_| shown);
    }
}

/// Returns the delay before a retry after this number of earlier failures in a row.
fn again(failures: u32) -> Duration {
    AGAIN * (1 << failures.min(MOST_DOUBLED))
}

impl Arbiter {
    pub(super) fn status_written(
        &mut self,
        group: &ObjectKey,
        status: PodGroupStatus,
        result: Result<(), CallError>,
        now: Instant,
    ) {
        let writing = self.writing.entry(group.clone()).or_default();
        writing.pending = false;
        self.dirty.insert(group.clone());
        match result {
            Ok(()) => {
                writing.written = Some((status, now));
                self.later.insert(group.clone(), now + BELIEVED);
                writing.failures = 0;
            }
            Err(error) => {
                tracing::warn!(%group, %error, "status not written");
                writing.not_before = Some(now + again(writing.failures));
                writing.failures += 1;
            }
        }
    }

    pub(super) fn write_statuses(&mut self, clock: Clock) {
        let due = self.later.iter().filter(|(_, due)| **due <= clock.now).map(|(key, _)| key.clone());
        self.dirty.extend(due);
        self.later.retain(|_, due| *due > clock.now);
        for key in std::mem::take(&mut self.dirty) {
            let (Some(record), Some(group)) = (self.model.groups.get(&key), self.model.cluster.group(&key)) else {
                self.writing.remove(&key);
                self.later.remove(&key);
                self.last_plans.remove(&key);
                self.victims.remove(&key);
                continue;
            };
            let writing = self.writing.entry(key.clone()).or_default();
            if writing.uid != record.uid {
                *writing = Writing { uid: record.uid.clone(), ..Writing::default() };
            }
            // The status is computed again when the write is answered.
            if writing.pending {
                continue;
            }
            if let Some(not_before) = writing.not_before.filter(|time| *time > clock.now) {
                self.later.insert(key, not_before);
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
            let facts = Facts {
                model: &self.model,
                group,
                record: &record,
                flight: self.flights.get(&preemptor),
                last_plan: self.last_plans.get(&key),
                wait_reason: self.waiting.get(&preemptor).and_then(|w| w.wait_reason.as_ref()),
                victim_of: self.victims.get(&key),
                capacity: self.provisioning.word(&key),
                problem: group.class_problem.as_deref(),
                spare: self.gangs.spare(&key, &record),
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
                    self.metrics.group_bound_after(&class, Duration::from_secs(took));
                }
            }
            if to == record.status && writing.failures == 0 {
                writing.debounced = None;
                // The status shows the preemption and is written. It is removed from memory when no plan or departure takes pods of the
                // PodGroup.
                let taken = || self.flights.take_from(&self.model.cluster, &key);
                if self.victims.contains_key(&key) && !self.departures.holds(&key) && !taken() {
                    self.victims.remove(&key);
                    // The reported state may already be past, and no other event may follow.
                    self.later.insert(key, clock.now);
                }
                continue;
            }
            // Important changes are not delayed: the condition `Scheduled` stays true, even if a pod is lost a moment later.
            if !status::is_news(&record.status, &to) && writing.failures == 0 {
                let debounced = writing.debounced.get_or_insert_with(|| Debounced::new(to.clone(), clock.now));
                debounced.note(to.clone(), clock.now);
                let due = debounced.due();
                if due > clock.now {
                    self.later.insert(key, due);
                    continue;
                }
            }
            // Users wait for the status of a preemptor. The status of a victim may be written in the background.
            let awaited = facts.flight.is_some() || facts.victim_of.is_none();
            writing.pending = true;
            writing.debounced = None;
            self.later.remove(&key);
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

    fn status(scheduled: &str) -> PodGroupStatus {
        PodGroupStatus { scheduled: Some(scheduled.to_owned()), ..PodGroupStatus::default() }
    }

    #[test]
    fn a_status_that_is_rejected_is_written_about_once_a_minute_in_the_end() {
        let times: Vec<f32> = (0..9).map(|failures| again(failures).as_secs_f32()).collect();
        assert_eq!(times, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 64.0]);
    }

    #[test]
    fn what_was_written_counts_until_the_watch_shows_it_or_should() {
        let now = Instant::now();
        let mut writing = Writing { written: Some((status("2/4"), now)), ..Writing::default() };
        writing.seen(&status("1/4"), now);
        assert_eq!(writing.written(now), Some(&status("2/4")), "the watch is behind");
        writing.seen(&status("2/4"), now);
        assert_eq!(writing.written(now), None, "whatever the watch shows from now on was written later");
        let mut lost = Writing { written: Some((status("2/4"), now)), ..Writing::default() };
        let then = now + BELIEVED;
        lost.seen(&status("1/4"), then);
        assert_eq!(lost.written(then), None, "it never showed it: an earlier write landed late, or somebody else's");
    }
}
