//! Which statuses have to be written, and the state of their writes.

use crate::status::Victimhood;
use crate::status::debounce::Debounced;
use giveway_crds::PodGroupStatus;
use giveway_crds::plan::PreemptionSummary;
use giveway_planner::model::ObjectKey;
use giveway_planner::{Preemptor, SmolStr};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// For this time a written status is used although the watch does not show it. After it the status in the watch is used: another client
/// wrote it, or an earlier write of ours was applied late.
pub const BELIEVED: Duration = Duration::from_secs(10);

/// The statuses of all PodGroups, and what they report that no other object shows.
#[derive(Debug, Default)]
pub struct Statuses {
    /// PodGroups whose status is computed in this pass.
    pub dirty: BTreeSet<ObjectKey>,
    /// PodGroups whose status is computed again at this time.
    pub later: BTreeMap<ObjectKey, Instant>,
    /// Writes by PodGroup.
    pub writing: BTreeMap<ObjectKey, StatusWrite>,
    /// The last plan of a PodGroup that ended, if its status does not show it yet.
    pub last_plans: BTreeMap<ObjectKey, PreemptionSummary>,
    /// PodGroups that are being disrupted.
    pub victims: BTreeMap<ObjectKey, Victimhood>,
}

impl Statuses {
    /// Marks the status of the preemptor's PodGroup to be computed in this pass. Does nothing for a single pod, which has no such status.
    pub fn touch(&mut self, preemptor: &Preemptor) {
        if let Preemptor::Group(key) = preemptor {
            self.dirty.insert(key.clone());
        }
    }

    /// Returns the number of PodGroups whose status must still be written: the write is in flight, delayed, or repeated after a failure.
    pub fn waiting(&self) -> usize {
        let waits = |writing: &&StatusWrite| writing.pending || writing.failures > 0 || writing.debounced.is_some();
        self.writing.values().filter(waits).count()
    }
}

/// The status writes of a PodGroup.
#[derive(Debug, Default)]
pub struct StatusWrite {
    /// UID of the PodGroup.
    pub uid: SmolStr,
    /// True if a write is in flight.
    pub pending: bool,
    /// The last written status, and the time of the answer: it may be newer than the status in the watch.
    pub written: Option<(PodGroupStatus, Instant)>,
    /// Number of failures in a row. After a failure it is unknown whether the status was written.
    pub failures: u32,
    /// Earliest time of the next write after a failure.
    pub not_before: Option<Instant>,
    /// True if the time until the PodGroup was scheduled is in the metrics.
    pub counted: bool,
    /// Numbers that are written later.
    pub debounced: Option<Debounced<PodGroupStatus>>,
}

impl StatusWrite {
    /// Returns the last written status, while the watch may not show it yet; `None` after it has shown it, and some seconds after the
    /// write.
    pub fn written(&self, now: Instant) -> Option<&PodGroupStatus> {
        let believed = |at: Instant| now.duration_since(at) < BELIEVED;
        self.written.as_ref().filter(|(_, at)| believed(*at)).map(|(status, _)| status)
    }

    /// Records that the watch shows `status`. If that is the written status, apart from marks of preempted pods, which the webhook may have
    /// added, [`Self::written`] returns `None` from now on.
    pub fn seen(&mut self, status: &PodGroupStatus, now: Instant) {
        let without_marks =
            |status: &PodGroupStatus| PodGroupStatus { preempted_pods: BTreeMap::new(), ..status.clone() };
        let shown = self.written(now).is_none_or(|written| without_marks(written) == without_marks(status));
        self.written.take_if(|_| shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(generation: i64) -> PodGroupStatus {
        PodGroupStatus { observed_generation: Some(generation), ..PodGroupStatus::default() }
    }

    #[test]
    fn what_was_written_counts_until_the_watch_shows_it_or_should() {
        let now = Instant::now();
        let mut writing = StatusWrite { written: Some((status(2), now)), ..StatusWrite::default() };
        writing.seen(&status(1), now);
        assert_eq!(writing.written(now), Some(&status(2)), "the watch is behind");
        writing.seen(&status(2), now);
        assert_eq!(writing.written(now), None, "whatever the watch shows from now on was written later");
        let mut lost = StatusWrite { written: Some((status(2), now)), ..StatusWrite::default() };
        let then = now + BELIEVED;
        lost.seen(&status(1), then);
        assert_eq!(
            lost.written(then),
            None,
            "it never showed it: an earlier write, or one of another client, arrived late"
        );
    }
}
