//! What the plans reserve in the model (KEP-4832): the placements of plans in flight, and for some seconds those of plans that have ended.

use super::{Ending, Flight, Flights, PlannedMember, reserved};
use giveway_crds::plan::PlanState;
use giveway_planner::model::Cluster;
use giveway_planner::{Preemptor, Reservation, SmolStr};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// For this time a reservation outlasts its plan although the model shows no nomination: within it, the watch should show the nomination,
/// or that it was withdrawn.
const SHOWN: Duration = Duration::from_secs(2);
/// For this time a nomination that an ended plan left does not cancel a plan with evictions. A nomination that is not used by a next plan
/// is withdrawn within some seconds.
const KEPT: Duration = Duration::from_secs(10);

/// The reservations of plans that have ended and still last for some seconds, by UID of the member, with the time of the plan's end.
#[derive(Debug, Default)]
pub struct EndedReservations(BTreeMap<SmolStr, Instant>);

impl Flight {
    /// Returns true if the plan reserves its placements: it is neither ending nor postponed.
    fn reserves(&self) -> bool {
        self.ending.is_none() && !self.is_postponed()
    }

    /// Returns true if the plan is ending without success and its members stay nominated, because a next plan is made for them.
    fn stays_nominated(&self) -> bool {
        let for_next = |ending: &Ending| ending.again || !self.refused.is_empty();
        self.ending.as_ref().is_some_and(|ending| ending.state != PlanState::Completed && for_next(ending))
    }

    /// Returns the reservation that the plan has in the model for a member; `None` if it has none, so that only the member's nomination
    /// counts. A postponed plan reserves nothing, because it may be postponed for a day. For a cancelled plan it is `Withdrawn`: the
    /// capacity is available before the watch shows that the nomination was withdrawn.
    pub(super) fn reservation(&self, cluster: &Cluster, member: &PlannedMember) -> Option<Reservation> {
        let has_evicted_none = self.plan.state == PlanState::Planned || !self.evicts();
        match &self.ending {
            None if self.is_postponed() => None,
            None if has_evicted_none && self.plan.state < PlanState::Ungating => {
                Some(Reservation::Planned(self.priority))
            }
            None => Some(Reservation::Started(self.priority)),
            Some(ending) if ending.state == PlanState::Completed => None,
            Some(_) if self.stays_nominated() => {
                reserved(cluster, member).then_some(Reservation::Planned(self.priority))
            }
            Some(_) => Some(Reservation::Withdrawn),
        }
    }
}

impl Flights {
    /// Writes what the plan of this preemptor reserves into the model. If anything changed, the plan is advanced again in the next pass,
    /// and the checks of the other plans on its nodes are repeated.
    pub fn reserve(&mut self, preemptor: &Preemptor, cluster: &mut Cluster) {
        let Some(flight) = self.get(preemptor) else { return };
        let mut changed = false;
        for member in &flight.members {
            let reservation = flight.reservation(cluster, member);
            let ends = matches!(reservation, None | Some(Reservation::Withdrawn));
            if ends && self.another_reserves(preemptor, &member.uid) {
                continue;
            }
            changed |= match reservation {
                Some(reservation) => cluster.reserve(&member.uid, &member.node, reservation),
                None => cluster.unreserve(&member.uid),
            };
        }
        if changed {
            self.reservation_changed(preemptor);
        }
    }

    /// Returns true if the plan of another preemptor reserves capacity for the pod with this UID.
    fn another_reserves(&self, preemptor: &Preemptor, uid: &str) -> bool {
        let mut others = self.with_pod(uid).filter(|other| other.preemptor != *preemptor);
        others.any(|other| other.reserves() && other.has_member(uid))
    }
}

impl EndedReservations {
    /// Records that this plan has ended at `now`, while its reservations are still in the model.
    pub fn note(&mut self, flight: &Flight, now: Instant) {
        self.0.extend(flight.members.iter().map(|member| (member.uid.clone(), now)));
    }

    /// Removes the reservations of ended plans from the model whose time has passed, unless the pod has another plan. Returns the names of
    /// their nodes.
    pub fn expire(&mut self, flights: &Flights, cluster: &mut Cluster, now: Instant) -> Vec<SmolStr> {
        let mut nodes = Vec::new();
        self.0.retain(|uid, since| {
            if flights.with_pod(uid).any(|flight| flight.has_member(uid)) {
                return false;
            }
            let age = now.saturating_duration_since(*since);
            let Some((node, reservation)) = cluster.reserved_for(uid) else { return false };
            let node = SmolStr::new(node);
            let lasts = match reservation {
                Reservation::Withdrawn => SHOWN,
                _ if cluster.is_nominated(uid, &node) => KEPT,
                _ => SHOWN,
            };
            if age < lasts {
                return true;
            }
            nodes.push(node);
            cluster.unreserve(uid);
            false
        });
        nodes
    }
}
