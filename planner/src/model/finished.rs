//! Members of a gang that have done their work. Nobody makes them anew, so what is missing to `minCount` is less by them:
//! else a gang of which most had finished, and one had crashed, would wait for ever. A Job with more completions than pods at a time
//! does make others instead, until only as many completions are left as start together: the first ones to finish, as many as its
//! status says are to spare, do not count.
//!
//! A pod that was deleted since is remembered by its UID, in the group's status, which the operator alone writes. It counts for
//! as long as the run goes on that it was of: until all members that live are of controllers that were not seen before. So a
//! Job that is created anew under the same group starts together again.

use super::pod::{Phase, Pod};
use giveway_crds::finished::FinishedMembers;
use std::collections::BTreeSet;

/// How many members, and controllers, are remembered at most. Members beyond count until their pods are deleted.
const MOST: usize = 1000;

/// Which members of a group have finished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// How many of them count for the barrier.
    pub count: usize,
    /// Those to remember, with the controllers of this run.
    pub remember: FinishedMembers,
}

impl Finished {
    /// From what is remembered, and the members that exist.
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

/// Whether a pod has done its work. One that was told to end may say so and be made anew all the same; only a Job is known
/// to take its word.
fn done(pod: &Pod) -> bool {
    let of_job =
        || pod.owner.as_ref().is_some_and(|owner| owner.kind == "Job" && owner.api_version.starts_with("batch/"));
    pod.phase == Phase::Succeeded && (!pod.terminating || of_job())
}

fn controller(pod: &Pod) -> Option<&str> {
    pod.owner.as_ref().map(|owner| owner.uid.as_str())
}
