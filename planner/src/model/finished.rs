//! Members of a gang that have finished. Their owners do not recreate them, so they reduce the number of pods missing to `minCount`:
//! otherwise a gang would stay gated forever if most members had finished and one had crashed. A Job with more completions than
//! parallelism does create replacement pods until the remaining completions equal the number that start together: as many of the first
//! finished pods as the group's status has in `spare` do not count.
//!
//! A finished pod that was deleted is remembered by its UID in the group's status, which only the operator writes. It counts for the run
//! to which it belonged: until all live members have controllers that were not seen before. So a Job that is recreated under the same
//! group starts as a whole again.

use super::pod::{Phase, Pod};
use giveway_crds::finished::FinishedMembers;
use std::collections::BTreeSet;

/// Upper bound on the recorded members, and on the recorded controllers. Further members count until their pods are deleted.
const MOST: usize = 1000;

/// Which members of a group have finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// How many of them count for `minCount`.
    pub count: usize,
    /// The members to record in the group's status, with the controllers of this run.
    pub remember: FinishedMembers,
}

impl Finished {
    /// Determines the finished members from those that the group's status records, and from the members that exist.
    pub fn of<'a>(known: &'a FinishedMembers, members: impl Iterator<Item = &'a Pod> + Clone) -> Self {
        let none = FinishedMembers { spare: known.spare, ..FinishedMembers::default() };
        if known.pods.is_empty() && !members.clone().any(done) {
            return Self { count: 0, remember: none };
        }
        let live: BTreeSet<&str> = members.clone().filter(|pod| pod.live()).filter_map(controller).collect();
        let mut owners: BTreeSet<&str> = known.owners.iter().map(String::as_str).collect();
        let mut pods: BTreeSet<&str> = BTreeSet::new();
        if live.is_empty() || !live.is_disjoint(&owners) {
            pods.extend(known.pods.iter().map(String::as_str));
        } else {
            owners.clear();
        }
        owners.extend(live);
        if owners.is_empty() {
            owners.extend(members.clone().filter(|pod| done(pod)).filter_map(controller));
        }
        let mut without_controller = 0;
        for pod in members.filter(|pod| done(pod)) {
            match controller(pod) {
                Some(owner) if owners.contains(owner) => drop(pods.insert(&pod.uid)),
                Some(_) => {}
                None => without_controller += 1,
            }
        }
        let listed = |uids: &BTreeSet<&str>| uids.iter().take(MOST).map(|uid| (*uid).to_owned()).collect();
        let remember = match pods.is_empty() {
            true => none,
            false => FinishedMembers { owners: listed(&owners), pods: listed(&pods), spare: known.spare },
        };
        let spare = usize::try_from(known.spare).unwrap_or(0);
        Self { count: (pods.len() + without_controller).saturating_sub(spare), remember }
    }
}

/// Returns true if a pod has finished its work. A terminating pod may report `Succeeded` and be recreated nevertheless; only the Job
/// controller is known to count it.
fn done(pod: &Pod) -> bool {
    let of_job =
        || pod.owner.as_ref().is_some_and(|owner| owner.kind == "Job" && owner.api_version.starts_with("batch/"));
    pod.phase == Phase::Succeeded && (!pod.terminating || of_job())
}

fn controller(pod: &Pod) -> Option<&str> {
    pod.owner.as_ref().map(|owner| owner.uid.as_str())
}
