//! Writing the statuses of groups: what changed, one write at a time for each group, so that an older status never
//! lands on a newer one. News are written at once; where nothing but numbers changed, these gather for a moment.

use super::{Arbiter, measures};
use crate::command::Command;
use crate::gather::Gathering;
use crate::ledger::Clock;
use crate::report::CallError;
use crate::status::{self, Facts};
use crate::survey;
use giveway_crds::PodGroupStatus;
use giveway_crds::condition::{self, types};
use giveway_planner::Preemptor;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use std::time::{Duration, Instant};

/// How long what was written is believed although the watch does not show it. After that what the watch shows is true: somebody
/// else wrote, or an earlier write of ours landed late.
const BELIEVED: Duration = Duration::from_secs(10);
/// How long after the first failure a status is written again. Each further failure in a row doubles the time.
const AGAIN: Duration = Duration::from_millis(500);
/// How often it is doubled at the most: a status that is rejected for ever is written about once a minute.
const MOST_DOUBLED: u32 = 7;

/// The status writes of a group.
#[derive(Debug, Default)]
pub(super) struct Writing {
    /// UID of the group these belong to.
    uid: SmolStr,
    /// A write is under way.
    pending: bool,
    /// What was written last, and when that was answered: newer than what the watch may show.
    written: Option<(PodGroupStatus, Instant)>,
    /// Failures in a row. After one it is not known whether the status was written.
    failures: u32,
    /// After a failure, not before.
    not_before: Option<Instant>,
    /// Whether the time until it was scheduled was counted.
    counted: bool,
    /// Numbers that wait to be written.
    gathering: Option<Gathering<PodGroupStatus>>,
}

impl Writing {
    /// What was written last, unless the watch shows it by now, or should.
    pub(super) fn written(&self, now: Instant) -> Option<&PodGroupStatus> {
        let believed = |at: Instant| now.duration_since(at) < BELIEVED;
        self.written.as_ref().filter(|(_, at)| believed(*at)).map(|(status, _)| status)
    }

    /// Takes in what the watch shows.
    fn seen(&mut self, status: &PodGroupStatus, now: Instant) {
        let shown = self.written(now).is_none_or(|written| written == status);
        self.written.take_if(|_| shown);
    }
}

/// How long after so many earlier failures in a row a status is written again.
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
            // It is looked at again with the answer.
            if writing.pending {
                continue;
            }
            if let Some(not_before) = writing.not_before.filter(|time| *time > clock.now) {
                self.later.insert(key, not_before);
                continue;
            }
            let mut record = record.clone();
            writing.seen(&record.status, clock.now);
            if let Some(written) = writing.written(clock.now) {
                record.status = written.clone();
            }
            let preemptor = Preemptor::Group(key.clone());
            let facts = Facts {
                model: &self.model,
                group,
                record: &record,
                flight: self.flights.get(&preemptor),
                last_plan: self.last_plans.get(&key),
                last_word: self.waiting.get(&preemptor).and_then(|w| w.last_word.as_ref()),
                victim_of: self.victims.get(&key),
                capacity: self.provisioning.word(&key),
                problem: group.class_problem.as_deref(),
                spare: self.gangs.spare(&key, &record),
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
                writing.gathering = None;
                // Told, and written: it is over once nothing takes anything from the group any more.
                let taken = || self.flights.take_from(&self.model.cluster, &key);
                if self.victims.contains_key(&key) && !self.departures.holds(&key) && !taken() {
                    self.victims.remove(&key);
                    // What it was told may be over already, and nothing else may happen to it.
                    self.later.insert(key, clock.now);
                }
                continue;
            }
            // News do not wait: that a group was scheduled is for good, also when it loses a pod a moment later.
            if !status::is_news(&record.status, &to) && writing.failures == 0 {
                let gathering = writing.gathering.get_or_insert_with(|| Gathering::new(to.clone(), clock.now));
                gathering.note(to.clone(), clock.now);
                let due = gathering.due();
                if due > clock.now {
                    self.later.insert(key, due);
                    continue;
                }
            }
            // A user of the PodGroup waits for it; a victim is only told.
            let awaited = facts.flight.is_some() || facts.victim_of.is_none();
            writing.pending = true;
            writing.gathering = None;
            self.later.remove(&key);
            self.actuator.dispatch(Command::WriteGroupStatus {
                background: !awaited,
                group: key.clone(),
                uid: record.uid.clone(),
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
