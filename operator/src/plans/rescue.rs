//! Plans for critical add-ons, as far as they differ from other plans (design, section 5, "Critical pods").
//!
//! * The node is reserved for the pod by a taint, if the pod tolerates it, and by a nomination. The nomination is
//!   needed because any pod can tolerate the taint: it keeps pods of equal or lower priority off the node.
//! * Victims are not chosen by priority. Their grace periods are shortened, and only the third step deletes pods whose
//!   eviction a budget refuses.
//! * The plan ends a minute after the pod could be bound, so that the next add-on has its turn, and after ten minutes at the latest; in each
//!   case only when the taint is removed. The pod is not tried again on that node for an hour.

use super::{Advance, Ending, Flight, current};
use crate::clock::Clock;
use crate::messages::call::Call;
use crate::messages::command::Command;
use crate::model::Model;
use giveway_crds::critical;
use giveway_crds::plan::{PlanState, StoredRescue};
use giveway_crds::wording::Sentence;
use giveway_crds::wording::conditions::addon::{self, AddonEvictions};
use giveway_crds::wording::conditions::plan_end::{self, VictimChange};
use giveway_planner::model::{Cluster, Pod};
use giveway_planner::rescue::{self, Step, Terms, taint};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum duration of such a plan.
const LONGEST: Duration = Duration::from_secs(600);

/// How long kube-scheduler may take to bind the pod after the victims have terminated. Critical pods are the first ones that it considers.
const TURN: Duration = Duration::from_secs(60);

/// The additional state of a plan for a critical add-on.
#[derive(Clone, Debug)]
pub struct AddonRescue {
    /// The step: which pods may be victims.
    pub step: Step,
    /// True if the node gets the taint.
    pub taint: bool,
    /// Which pods are critical, and which may be victims.
    pub terms: Arc<Terms>,
    /// The call that adds the taint.
    pub add: Call,
    /// The call that removes the taint.
    pub remove: Call,
    /// True if the node is reserved for the pod. It becomes false when the plan is ending and the taint is removed.
    pub keeps: bool,
    /// Since when the pod could be bound: its victims have terminated.
    pub fits_since: Option<Instant>,
}

impl AddonRescue {
    /// Returns the additional state of a plan for a critical add-on that is started or resumed, from its stored form. `terms` says which
    /// pods are critical and which may be victims.
    pub fn new(stored: StoredRescue, terms: Arc<Terms>) -> Self {
        Self {
            step: Step::of(stored.step),
            taint: stored.taint,
            terms,
            add: Call::Idle,
            remove: Call::Idle,
            keeps: true,
            fits_since: None,
        }
    }

    /// Returns true if the pod could have been bound for a minute, so that the next add-on has its turn. The first call begins this minute.
    pub(super) fn has_had_its_turn(&mut self, now: Instant) -> bool {
        now.duration_since(*self.fits_since.get_or_insert(now)) >= TURN
    }
}

impl Flight {
    /// Turns the plan into one for a critical add-on: `rescue` is its additional state, and its priority becomes that of critical pods.
    #[must_use]
    pub fn rescuing(mut self, rescue: AddonRescue) -> Self {
        self.priority = rescue::reservation_priority(self.plan.preemptor.priority);
        self.rescue = Some(rescue);
        self
    }

    /// Returns the priority of the preemptor itself, which decides whether budgets are guaranteed against it. For a critical add-on it may
    /// be lower than the priority of the plan.
    pub fn own_priority(&self) -> i32 {
        if self.rescue.is_some() { self.plan.preemptor.priority } else { self.priority }
    }

    /// Returns the node that has or gets the taint, or `None` if the plan uses no taint.
    pub fn tainted_node(&self) -> Option<&str> {
        let taints = self.rescue.as_ref().is_some_and(|rescue| rescue.taint);
        self.members.first().filter(|_| taints).map(|member| member.node.as_str())
    }

    /// Returns true if this plan reserves a node for a critical add-on.
    pub fn keeps_node(&self) -> bool {
        self.rescue.as_ref().is_some_and(|rescue| rescue.keeps)
    }

    /// Ends the reservation of the node for a critical add-on, possibly before the plan ends. Does nothing if the plan reserves no node.
    pub(super) fn release_node(&mut self, out: &mut Advance) {
        if let Some(rescue) = self.rescue.as_mut().filter(|rescue| rescue.keeps) {
            rescue.keeps = false;
            out.commands.push(Command::ReleaseNode { plan: self.plan.id.clone() });
        }
    }

    /// Returns true if the watch shows the taint of this plan on its node.
    fn shows_taint(&self, cluster: &Cluster) -> bool {
        let taint = taint(&self.plan.preemptor.uid);
        let node = self.tainted_node().and_then(|node| cluster.node(node));
        node.is_some_and(|node| node.taints.contains(&taint))
    }

    /// Returns the command that adds the taint of this plan to its node (`add`), or removes it; `None` if the plan uses no taint.
    fn taint_command(&self, add: bool) -> Option<Command> {
        let node = self.tainted_node()?.into();
        let plan = Some(self.plan.id.clone());
        Some(Command::Taint { node, uid: self.plan.preemptor.uid.as_str().into(), add, plan })
    }

    /// Adds to `out` the nominations of members that are missing, and for a critical add-on the taint of its node, which together reserve
    /// the placements.
    pub(super) fn maintain_reservations(&mut self, cluster: &Cluster, clock: Clock, out: &mut Advance) {
        let shown = self.shows_taint(cluster);
        if let Some(rescue) = self.rescue.as_mut().filter(|rescue| rescue.taint)
            && !shown
            && rescue.add.due(clock.now)
        {
            rescue.add.start();
            out.commands.extend(self.taint_command(true));
        }
        self.nominate_members(cluster, clock, out);
    }

    /// Returns true if the placements of all members are reserved by nominations, and by the taint if the plan uses one.
    pub(super) fn are_placements_reserved(&self, cluster: &Cluster) -> bool {
        let taint = self.rescue.as_ref().filter(|rescue| rescue.taint);
        let tainted = taint.is_none_or(|rescue| matches!(rescue.add, Call::Done(_)) || self.shows_taint(cluster));
        tainted && self.members.iter().all(|member| super::reserved(cluster, member))
    }

    /// Removes the taint from the node. Returns true if it is removed or the plan uses none, or if its removal failed too often and is left
    /// to the sweep of stray taints.
    pub(super) fn untaint(&mut self, cluster: &Cluster, clock: Clock, out: &mut Advance) -> bool {
        let shown = self.shows_taint(cluster);
        let exists = self.tainted_node().is_some_and(|node| cluster.node(node).is_some());
        let Some(rescue) = self.rescue.as_mut().filter(|rescue| rescue.taint) else { return true };
        if rescue.add.pending() {
            return false;
        }
        let never = rescue.add == Call::Idle && !shown;
        if never || !exists || matches!(rescue.remove, Call::Done(_)) || rescue.remove.exhausted() {
            return true;
        }
        if rescue.remove.due(clock.now) {
            rescue.remove.start();
            out.commands.extend(self.taint_command(false));
        }
        false
    }

    /// Records whether the call succeeded (`ok`) that added the taint (`add`) or removed it.
    pub fn taint_answered(&mut self, add: bool, ok: bool, now: Instant) {
        if let Some(rescue) = &mut self.rescue {
            let call = if add { &mut rescue.add } else { &mut rescue.remove };
            call.answered(ok, now);
        }
    }

    /// Returns how a plan for a critical add-on ends if nothing is left to do: the pod was deleted or is bound, or the time limit of ten
    /// minutes is reached. `None` if it continues.
    pub(super) fn addon_ending_if_obsolete(&self, cluster: &Cluster, clock: Clock) -> Option<Ending> {
        self.rescue.as_ref()?;
        let member = self.members.first()?;
        let ending = |state, message: String| Some(Ending { state, message: message.into(), again: false });
        let accepted = self.victims.iter().filter(|victim| victim.accepted).count();
        let was_requested = self.requested_evictions() > 0 || accepted > 0;
        let evictions =
            AddonEvictions { accepted: Some(accepted).filter(|_| was_requested), victims: self.victims.len() };
        let Some(pod) = current(cluster, &member.pod, &member.uid).filter(|pod| pod.live()) else {
            return ending(PlanState::Cancelled, addon::deleted(&member.pod, evictions));
        };
        match &pod.node {
            Some(node) if *node == member.node => ending(PlanState::Completed, addon::bound(node, evictions)),
            Some(node) => ending(PlanState::Cancelled, addon::bound_elsewhere(node, evictions)),
            None if self.is_late(clock) => {
                ending(PlanState::Failed, addon::not_bound(&member.node, LONGEST.as_secs() / 60))
            }
            None => None,
        }
    }

    /// Returns true if the time limit of a plan for a critical add-on, ten minutes, is reached.
    fn is_late(&self, clock: Clock) -> bool {
        let planned = self.plan.planned_at.as_ref().map_or(clock.epoch_seconds, |time| time.0.as_second());
        // Either clock may show that the limit is reached: the wall clock may have been changed, and a new leader's
        // monotonic clock starts at 0.
        clock.epoch_seconds - planned >= i64::try_from(LONGEST.as_secs()).unwrap_or(i64::MAX)
            || clock.now.duration_since(self.started) >= LONGEST
    }

    /// Returns the reason why a plan for a critical add-on must evict no pod any more: a victim has become critical, or the preemptor is
    /// not a critical add-on any more. `None` if it may, and for any other plan.
    pub(super) fn why_addon_must_not_evict(&self, model: &Model) -> Option<Sentence> {
        let rescue = self.rescue.as_ref()?;
        let key = self.preemptor.key();
        if let Some(pod) = model.cluster.pod(key).filter(|pod| !rescue.terms.evicts_for(pod)) {
            return Some(plan_end::not_critical_any_more(key, &pod.uid));
        }
        let victims = self.victims.iter().map(|victim| victim.uid.clone()).collect();
        let pod = rescue::must_stay(&model.cluster, key, &victims, &rescue.terms)?;
        Some(plan_end::victim_changed(&pod.key, &pod.uid, VictimChange::Critical))
    }
}

/// Returns the shortened grace period in seconds of a pod that is evicted for a critical add-on, or `None` if it keeps
/// its own.
pub(super) fn shortened_grace(pod: &Pod) -> Option<i64> {
    rescue::is_shortened(pod).then_some(critical::LONGEST_GRACE)
}
