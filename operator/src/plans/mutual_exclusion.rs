//! Members whose nominations [exclude each other](giveway_planner::mutually_exclusive), for example several on one node
//! with a topology spread constraint. Their nominations are withdrawn when all members have been ungated, and not
//! earlier: while a member is gated, kube-scheduler could bind pods of lower priority to its node; afterwards the
//! member is before them in kube-scheduler's queue. Other plans respect its placement until it is bound.

use super::{Advance, Flight, current};
use crate::clock::Clock;
use giveway_planner::model::Cluster;
use giveway_planner::{SmolStr, mutually_exclusive};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// After how long the withdrawal of a nomination that the watch still shows is repeated.
const AGAIN: Duration = Duration::from_secs(1);

/// The members of a plan whose nominations exclude each other.
#[derive(Clone, Debug)]
pub struct MutualExclusion {
    /// UIDs of the members.
    uids: BTreeSet<SmolStr>,
    /// When their nominations were last withdrawn.
    withdrawn: Option<Instant>,
}

impl MutualExclusion {
    /// Returns true if no two nominations of the plan exclude each other.
    pub(super) fn is_empty(&self) -> bool {
        self.uids.is_empty()
    }

    /// Returns true if the nomination of the member with this UID prevents that of another member.
    pub(super) fn contains(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }
}

impl Flight {
    /// Adds to `out` the withdrawal of the nominations of members that exclude each other. It is repeated after a second for a nomination
    /// that the watch still shows.
    pub(super) fn withdraw_blocking_nominations(&mut self, cluster: &Cluster, clock: Clock, out: &mut Advance) {
        if self.mutual_exclusion.is_none() {
            self.mutual_exclusion =
                Some(MutualExclusion { uids: mutually_exclusive(cluster, &self.placements()), withdrawn: None });
        }
        let Some(mutual_exclusion) = &mut self.mutual_exclusion else { return };
        if mutual_exclusion.is_empty()
            || mutual_exclusion.withdrawn.is_some_and(|at| clock.now.duration_since(at) < AGAIN)
        {
            return;
        }
        let nominated = self.members.iter().filter(|member| mutual_exclusion.contains(&member.uid)).filter(|member| {
            let pod = current(cluster, &member.pod, &member.uid);
            pod.is_some_and(|pod| pod.live() && !pod.bound() && pod.nominated_node.is_some())
        });
        let before = out.commands.len();
        out.commands
            .extend(nominated.map(|member| member.nomination((&self.preemptor, self.priority), &self.plan.id, None)));
        if out.commands.len() > before {
            mutual_exclusion.withdrawn = Some(clock.now);
        }
    }
}
