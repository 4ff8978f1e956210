//! Members of a gang that have finished. Their owners do not recreate them, so they reduce the number of pods missing to `minCount`:
//! otherwise a gang would stay gated forever if most members had finished and one had crashed. A Job with more completions than
//! parallelism does create replacement pods until the remaining completions equal the number that start together: as many of the first
//! finished pods as the group's status has in `replaced` do not count.
//!
//! Finished pods that were deleted are part of the number in the group's status, which only the operator writes. The number counts for the
//! run to which it belongs: until all live members have controllers that were not seen before. So a Job that is recreated under the same
//! group starts as a whole again.

use super::pod::{Pod, PodPhase};
use giveway_crds::finished::{FinishedMembers, LONGEST_UID, MOST_OWNERS};
use std::collections::BTreeSet;

/// How many members of a group have finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// How many of them count for `minCount`.
    pub count: usize,
    /// What the group's status should record: the number, with the controllers of this run.
    pub remember: FinishedMembers,
}

impl Finished {
    /// Determines the finished members of a gang from `known`, which is what the group's status records, and from the members that exist.
    /// The status also counts pods that were deleted, and may not yet count a pod that has just finished.
    pub fn of<'a>(known: &'a FinishedMembers, members: impl Iterator<Item = &'a Pod> + Clone) -> Self {
        let none = FinishedMembers { replaced: known.replaced, ..FinishedMembers::default() };
        if known.count <= 0 && !members.clone().any(done) {
            return Self { count: 0, remember: none };
        }
        let live: BTreeSet<&str> = members.clone().filter(|pod| pod.live()).filter_map(controller).collect();
        let mut owners: BTreeSet<&str> = known.owners.iter().map(String::as_str).collect();
        let mut total = 0;
        if live.is_empty() || !live.is_disjoint(&owners) {
            total = known.count;
        } else {
            owners.clear();
        }
        owners.extend(live);
        if owners.is_empty() {
            owners.extend(members.clone().filter(|pod| done(pod)).filter_map(controller));
        }
        let (mut existing, mut without_controller) = (0, 0);
        for pod in members.filter(|pod| done(pod)) {
            match controller(pod) {
                Some(owner) if owners.contains(owner) => existing += 1,
                Some(_) => {}
                None => without_controller += 1,
            }
        }
        total = total.max(existing);
        let remember = match total {
            0 => none,
            count => FinishedMembers {
                owners: owners.iter().take(MOST_OWNERS).map(|uid| (*uid).to_owned()).collect(),
                count,
                replaced: known.replaced,
            },
        };
        let counted = total.saturating_add(without_controller).saturating_sub(known.replaced);
        Self { count: usize::try_from(counted).unwrap_or(0), remember }
    }

    /// Returns true if this pod has finished its work and its controller is one of those that belong to the present run of the gang.
    pub fn counts(&self, pod: &Pod) -> bool {
        let is_owner = |uid: &str| self.remember.owners.binary_search_by(|owner| owner.as_str().cmp(uid)).is_ok();
        done(pod) && controller(pod).is_some_and(is_owner)
    }
}

/// Returns true if a pod has finished its work. A terminating pod may report `Succeeded` and be recreated nevertheless; only the Job
/// controller is known to count it.
fn done(pod: &Pod) -> bool {
    let of_job =
        || pod.owner.as_ref().is_some_and(|owner| owner.kind == "Job" && owner.api_version.starts_with("batch/"));
    pod.phase == PodPhase::Succeeded && (!pod.terminating || of_job())
}

/// Returns the UID of a pod's controller; `None` without one. Any user can write an owner reference: a UID that is too long for a status
/// counts as none.
fn controller(pod: &Pod) -> Option<&str> {
    pod.owner.as_ref().map(|owner| owner.uid.as_str()).filter(|uid| uid.len() <= LONGEST_UID)
}
