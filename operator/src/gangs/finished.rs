//! Counts the members of a PodGroup that have finished, for its status. [`Finished`] counts the pods that exist, or the number in the
//! status if it is higher. Here the number of the Job that controls the pods is used, or, if no Job counts them, pods are added that finish after
//! others were deleted. A number that is too high would let a gang start with too few members.

use crate::gangs::labelled::OwnerCounters;
use crate::model::GroupRecord;
use giveway_crds::finished::FinishedMembers;
use giveway_planner::SmolStr;
use giveway_planner::model::{Cluster, Finished, ObjectKey};
use std::collections::{BTreeMap, BTreeSet};

/// The finished members of a PodGroup.
#[derive(Debug, Default)]
struct KnownFinished {
    /// UID of the PodGroup.
    group: SmolStr,
    /// What its status records, or will.
    members: FinishedMembers,
    /// UIDs of the pods that exist and are counted.
    pods: BTreeSet<SmolStr>,
    /// True if the number is that of a Job.
    by_job: bool,
}

/// Converts a number of pods to the type in a status; a too large one becomes the highest.
fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// The PodGroups of which members have finished. At most one entry for each PodGroup, and one UID for each pod.
#[derive(Debug, Default)]
pub struct FinishedCounts(BTreeMap<ObjectKey, KnownFinished>);

impl FinishedCounts {
    /// Returns how many members of a PodGroup have finished, from the existing pods, its status and `counters`, what its owner specifies
    /// and counts (`None` if it was not read). Remembers the number for the next call, because finished pods may be deleted.
    pub fn update(
        &mut self,
        cluster: &Cluster,
        key: &ObjectKey,
        record: &GroupRecord,
        counters: Option<&OwnerCounters>,
    ) -> Finished {
        let known = self.0.remove(key).filter(|known| known.group == record.uid);
        let was_by_job = known.as_ref().is_some_and(|known| known.by_job);
        let mut base = known.as_ref().map_or_else(|| record.status.finished.clone(), |known| known.members.clone());
        if let Some(counters) = counters {
            base.replaced = counters.replaced;
        }
        let members = || cluster.members(key);
        let mut finished = Finished::of(&base, members());
        let pods: BTreeSet<SmolStr> = members().filter(|pod| finished.counts(pod)).map(|pod| pod.uid.clone()).collect();
        let mut owners = finished.remember.owners.clone();
        let counted = counters.and_then(|counters| counters.counted.as_ref());
        let counted = counted.filter(|(job, _)| owners.is_empty() || owners.contains(job));
        let is_same_run = owners.iter().any(|owner| base.owners.contains(owner));
        let count = match (counted, known) {
            // The Job's number is read, and may already count a pod that the watch will show later: only one of the two is used.
            (Some((job, counted)), _) => {
                if owners.is_empty() {
                    owners.push(job.clone());
                }
                number(pods.len()).max(*counted)
            }
            (None, Some(known)) if is_same_run && !known.by_job => {
                let new = pods.difference(&known.pods).count();
                finished.remember.count.max(base.count.saturating_add(number(new)))
            }
            (None, _) => finished.remember.count,
        };
        if count != finished.remember.count {
            finished = Finished::of(&FinishedMembers { owners, count, replaced: base.replaced }, members());
        }
        if finished.remember.count > 0 {
            let by_job = counted.is_some() || (is_same_run && was_by_job);
            let (group, members) = (record.uid.clone(), finished.remember.clone());
            self.0.insert(key.clone(), KnownFinished { group, members, pods, by_job });
        }
        finished
    }

    /// Removes what is known of a PodGroup that does not exist any more.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestPod, World};

    struct Case {
        world: World,
        counts: FinishedCounts,
    }

    impl Case {
        fn new() -> Self {
            let mut world = World::new();
            world.node("n1", 9).group("g", 4, 10, "Pod");
            Self { world, counts: FinishedCounts::default() }
        }

        fn done(&mut self, name: &str) -> &mut Self {
            self.world.pod(TestPod::new(name, 10).of("g").finished("j1"));
            self
        }

        /// Returns the number that the status records, and the number that counts for `minCount`.
        fn count(&mut self, counters: Option<OwnerCounters>) -> (i32, usize) {
            let key = self.world.key("g");
            let record = &self.world.model.groups[&key];
            let finished = self.counts.update(&self.world.model.cluster, &key, record, counters.as_ref());
            (finished.remember.count, finished.count)
        }
    }

    fn job(uid: &str, counted: i32, replaced: i32) -> Option<OwnerCounters> {
        Some(OwnerCounters { replaced, counted: Some((uid.to_owned(), counted)) })
    }

    #[test]
    fn pods_that_finish_after_others_were_deleted_are_added() {
        let mut case = Case::new();
        assert_eq!(case.done("a").done("b").count(None), (2, 2));
        case.world.remove_pod("a").remove_pod("b");
        assert_eq!(case.count(None), (2, 2), "the deleted pods stay counted");
        assert_eq!(case.done("c").count(None), (3, 3));
        assert_eq!(case.count(None), (3, 3), "once");
        case.world.remove_pod("c");
        case.world.pod(TestPod::new("d", 10).of("g").gated().of_job("j2"));
        assert_eq!(case.count(None), (0, 0), "another Job is another run");
        case.world.remove_pod("d");
        case.world.pod(TestPod::new("d", 10).of("g").finished("j2"));
        assert_eq!(case.count(None), (1, 1));
        assert_eq!(case.counts.0.len(), 1);
        case.counts.forget(&case.world.key("g"));
        assert!(case.counts.0.is_empty());
    }

    #[test]
    fn what_the_job_has_counted_is_added_if_it_is_the_job_of_this_run() {
        let mut case = Case::new();
        case.world.pod(TestPod::new("last", 10).of("g").gated().of_job("j1"));
        assert_eq!(case.count(job("j0", 7, 0)), (0, 0), "another Job, which this PodGroup had before");
        assert_eq!(case.count(job("j1", 4999, 4996)), (4999, 3), "no pod of those exists");
        assert_eq!(case.count(None), (4999, 3), "it stays known");
        let mut case = Case::new();
        assert_eq!(case.done("a").count(job("j1", 1, 0)), (1, 1), "not twice");
        assert_eq!(case.count(job("j1", 0, 0)), (1, 1), "the Job counts later than the pod finishes");
    }

    #[test]
    fn a_pod_that_the_job_counts_before_the_watch_shows_it_is_counted_once() {
        let mut case = Case::new();
        case.world.pod(TestPod::new("last", 10).of("g").gated().of_job("j1"));
        assert_eq!(case.count(job("j1", 1, 0)), (1, 1));
        assert_eq!(case.done("a").count(job("j1", 1, 0)), (1, 1));
        assert_eq!(case.done("b").count(None), (2, 2), "both exist");
        case.world.remove_pod("a").remove_pod("b");
        assert_eq!(case.count(None), (2, 2));
        assert_eq!(case.done("c").count(None), (2, 2), "the Job may have counted it already");
        assert_eq!(case.count(job("j1", 3, 0)), (3, 3));
        case.world.remove_pod("c");
        assert_eq!(case.count(job("j1", 0, 0)), (0, 0), "an elastic Job that was resized counts fewer");
    }
}
