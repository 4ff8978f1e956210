//! Before the members start, the nominations go of those that would [keep each other out](giveway_planner::crowding): several of them on
//! one node that are spread evenly. Until then these keep their places like all others; from then on other plans know of the places, and
//! kube-scheduler takes the members in the order of their priority.

use super::{Advance, Clock, Flight, current};
use crate::command::Command;
use giveway_planner::model::Cluster;
use giveway_planner::{SmolStr, crowding};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long the members wait until their nominations are gone. Who starts with one waits for kube-scheduler in vain, and is planned anew.
const PATIENCE: Duration = Duration::from_secs(5);
/// After how long a nomination is withdrawn again that is still shown.
const AGAIN: Duration = Duration::from_secs(1);

/// The members that keep each other out.
#[derive(Clone, Debug)]
pub struct Crowding {
    uids: BTreeSet<SmolStr>,
    since: Instant,
    withdrawn: Option<Instant>,
}

impl Crowding {
    /// Whether a member is one of them.
    pub(super) fn holds(&self, uid: &str) -> bool {
        self.uids.contains(uid)
    }
}

impl Flight {
    /// Withdraws the nominations of members that would keep each other out. Returns whether the others have to wait for that.
    pub(super) fn make_way_for_mates(&mut self, cluster: &Cluster, clock: Clock, out: &mut Advance) -> bool {
        let placements = self.placements();
        let found = || Crowding { uids: crowding(cluster, &placements), since: clock.now, withdrawn: None };
        let crowding = self.crowding.get_or_insert_with(found);
        if crowding.uids.is_empty() {
            return false;
        }
        let nominated = self.members.iter().filter(|member| crowding.holds(&member.uid)).filter(|member| {
            let pod = current(cluster, &member.pod, &member.uid);
            pod.is_some_and(|pod| pod.live() && !pod.bound() && pod.nominated_node.is_some())
        });
        let nominated: Vec<_> = nominated.map(|member| (member.pod.clone(), member.uid.clone())).collect();
        if nominated.is_empty() {
            return false;
        }
        if crowding.withdrawn.is_none_or(|at| clock.now.duration_since(at) >= AGAIN) {
            crowding.withdrawn = Some(clock.now);
            let (preemptor, plan) = (self.preemptor.clone(), self.plan.id.clone());
            out.commands.extend(nominated.into_iter().map(|(pod, uid)| Command::Nominate {
                preemptor: preemptor.clone(),
                plan: plan.clone(),
                pod,
                uid,
                node: None,
            }));
        }
        clock.now.duration_since(crowding.since) < PATIENCE
    }
}
