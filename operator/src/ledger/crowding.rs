//! When all members have started, the nominations go of those that would [keep each other out](giveway_planner::crowding): several of
//! them on one node that are spread evenly. Not before: while a member waits for its gate, pods of lower priority would take its place; once it
//! is in kube-scheduler's queue they come after it. Other plans know of the places until the members are bound.

use super::{Advance, Clock, Flight, current};
use giveway_planner::model::Cluster;
use giveway_planner::{SmolStr, crowding};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// After how long a nomination is withdrawn again that is still shown.
const AGAIN: Duration = Duration::from_secs(1);

/// The members that keep each other out.
#[derive(Clone, Debug)]
pub struct Crowding {
    uids: BTreeSet<SmolStr>,
    /// When their nominations were withdrawn last.
    withdrawn: Option<Instant>,
}

impl Crowding {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.uids.is_empty()
    }

    /// Whether a member is one of them.
    pub(super) fn holds(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }
}

impl Flight {
    /// Withdraws the nominations of members that keep each other out.
    pub(super) fn make_way_for_mates(&mut self, cluster: &Cluster, clock: Clock, out: &mut Advance) {
        if self.crowding.is_none() {
            self.crowding = Some(Crowding { uids: crowding(cluster, &self.placements()), withdrawn: None });
        }
        let Some(crowding) = &mut self.crowding else { return };
        if crowding.is_empty() || crowding.withdrawn.is_some_and(|at| clock.now.duration_since(at) < AGAIN) {
            return;
        }
        let nominated = self.members.iter().filter(|member| crowding.holds(&member.uid)).filter(|member| {
            let pod = current(cluster, &member.pod, &member.uid);
            pod.is_some_and(|pod| pod.live() && !pod.bound() && pod.nominated_node.is_some())
        });
        let before = out.commands.len();
        out.commands
            .extend(nominated.map(|member| member.nomination((&self.preemptor, self.priority), &self.plan.id, None)));
        if out.commands.len() > before {
            crowding.withdrawn = Some(clock.now);
        }
    }
}
