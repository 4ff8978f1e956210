//! Checks whether a plan is still valid. It is checked before every step, because the cluster changes while the plan is
//! carried out.

use super::{Ending, Flight, LONGEST_WAIT, Now, current};
use crate::clock::Clock;
use crate::model::Model;
use giveway_crds::plan::PlanState;
use giveway_crds::policy::DisruptionMode;
use giveway_crds::wording::Sentence;
use giveway_crds::wording::conditions::addon;
use giveway_crds::wording::conditions::plan_end::{self, VictimChange};
use giveway_planner::SmolStr;
use giveway_planner::model::{Cluster, ObjectKey, Pod};
use giveway_planner::{Context, Decision, Preemptor, rescue};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Minimum interval between two checks of a plan in state `Evicting`.
const RECHECK: Duration = Duration::from_millis(100);

/// When the members of a plan fit. The result holds until an object changes on which the plan depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// They fit now.
    FitsNow,
    /// They fit when the terminating pods and the pods that will be evicted have terminated.
    FitsThen,
}

/// Returns the context of a preemptor for which the placeholder pods with these UIDs reserve capacity: they count as terminating, and the
/// preemptor waits for their capacity even if its preemption policy is `Never`.
pub fn with_placeholders(context: &Context, placeholders: &BTreeSet<SmolStr>) -> Context {
    let departing = context.departing.union(placeholders).cloned().collect();
    Context { departing, waits: true, ..context.clone() }
}

impl Flight {
    /// Returns the sentence with which a plan for a critical add-on fails because the taint of its node could not be added; `None` if the
    /// call has not failed too often, and for any other plan.
    pub(super) fn taint_failure(&self) -> Option<Sentence> {
        let (rescue, member) = self.rescue.as_ref().zip(self.members.first())?;
        rescue.add.exhausted().then(|| addon::taint_failed(&member.pod, &member.uid, rescue.add.tries()))
    }

    /// Returns how the plan ends if it has become obsolete: the preemptor or a member was deleted, fewer members than needed are left, or
    /// all members are bound. `None` if it continues. Members that other plans evict do not count as left.
    pub(super) fn ending_if_obsolete(&self, cluster: &Cluster, context: &Context) -> Option<Ending> {
        let ending = |state, message: String| Ending { state, message: message.into(), again: false };
        let cancelled = |message: String| Some(ending(PlanState::Cancelled, message));
        // A member was lost and enough members are left, so a new plan is made for them.
        let without = |message: String| Some(Ending { again: true, ..ending(PlanState::Cancelled, message) });
        if let Preemptor::Group(key) = &self.preemptor {
            let Some(group) = cluster.group(key).filter(|group| group.uid == self.plan.preemptor.uid) else {
                return cancelled(plan_end::group_deleted().into());
            };
            if let Some(min) = group.min_count {
                let placed: BTreeSet<&str> = self.members.iter().map(|m| m.uid.as_str()).collect();
                let have = cluster
                    .members(key)
                    .filter(|p| p.live() && !context.departing.contains(&p.uid))
                    .filter(|p| p.node.is_some() || placed.contains(p.uid.as_str()))
                    .count();
                let missing = min.saturating_sub(cluster.finished(group));
                if have < missing {
                    return cancelled(plan_end::too_few_members(have, missing));
                }
            }
        }
        let ungated = self.plan.state == PlanState::Ungating;
        let mut unbound = 0;
        for member in &self.members {
            match current(cluster, &member.pod, &member.uid) {
                None if !ungated => {
                    return without(plan_end::member_deleted(&member.pod));
                }
                Some(pod) if !pod.live() && !ungated => {
                    return without(plan_end::member_ended(&member.pod));
                }
                Some(pod) if pod.live() && pod.node.is_none() => unbound += 1,
                _ => {}
            }
        }
        if unbound > 0 {
            return None;
        }
        let bound = self.bound(cluster);
        Some(if self.plan.state == PlanState::Planned && self.evicts() {
            ending(PlanState::Cancelled, plan_end::bound_without_evictions().to_owned())
        } else {
            ending(PlanState::Completed, plan_end::completed(bound, self.members.len()))
        })
    }

    /// Returns how many members the planner can place now without any further eviction, or `None` if fewer fit than must be scheduled
    /// together. `context` describes the other plans in flight.
    pub(super) fn fitting_members(&self, cluster: &Cluster, context: &Context) -> Option<usize> {
        if self.rescue.is_some() {
            return rescue::feasible_node(cluster, self.preemptor.key(), context).map(|_| self.members.len());
        }
        match giveway_planner::plan(cluster, &self.preemptor, context) {
            Decision::Fits { placements, .. } => Some(placements.len()),
            _ => None,
        }
    }

    /// Returns true if the placeholder pods reserve enough capacity for the members, so that a new plan would evict no pod.
    fn placeholders_suffice(&self, cluster: &Cluster, context: &Context) -> bool {
        !self.placeholders.is_empty()
            && matches!(self.decide_again(cluster, context), Decision::Preempt(plan) if plan.victims.is_empty())
    }

    /// Returns true if a new plan would evict fewer pods than this plan has victims that still exist, because capacity became available
    /// while this plan was postponed.
    pub(super) fn new_plan_evicts_fewer(&self, cluster: &Cluster, context: &Context) -> bool {
        let there = self.victims.iter().filter(|v| current(cluster, &v.pod, &v.uid).is_some()).count();
        matches!(self.decide_again(cluster, context), Decision::Preempt(plan) if plan.cost.victim_pods < there)
    }

    /// Returns what the planner decides now for the preemptor, as if this plan did not exist.
    fn decide_again(&self, cluster: &Cluster, context: &Context) -> Decision {
        let mut context = match self.placeholders.is_empty() {
            true => context.clone(),
            false => with_placeholders(context, &self.placeholders),
        };
        // The victims of this plan do not count as terminating, because their evictions have not been requested yet.
        for victim in self.departing() {
            context.departing.remove(victim);
        }
        giveway_planner::plan(cluster, &self.preemptor, &context)
    }

    /// Checks that the members fit when all pods have terminated that terminate now or will be evicted, by this plan or by those in
    /// `context`.
    ///
    /// # Errors
    /// A sentence with the reason why they do not fit.
    pub(super) fn fits_after_terminations(&self, cluster: &Cluster, context: &Context) -> Result<(), String> {
        self.still_fits(cluster, &self.placements(), context, &self.leaving(cluster, context))
    }

    /// Checks the plan against the current state right before the first eviction (KEP-5710, delayed preemption). Returns the reason if it
    /// must be cancelled: no eviction is needed any more, a victim has changed, or the members do not fit. `None` if it is still valid.
    pub(super) fn outdated(&self, model: &Model, context: &Context) -> Option<Sentence> {
        let cluster = &model.cluster;
        // Capacity for the minimum number of members is enough, even if not all members fit.
        if self.fitting_members(cluster, context).is_some() || self.placeholders_suffice(cluster, context) {
            return Some(plan_end::capacity_became_free().into());
        }
        if let Some(why) = self.why_addon_must_not_evict(model).or_else(|| self.changed_unit(cluster)) {
            return Some(plan_end::no_pod_evicted(why));
        }
        let fits = self.fits_after_terminations(cluster, context);
        fits.err().map(|why| plan_end::outdated(&why).into())
    }

    /// Returns the reason if a unit of eviction (a single pod or a whole PodGroup) of which no pod was evicted yet is not the same as in
    /// the plan: its priority is not lower any more, it has become a critical add-on, it has more pods, or a pod belongs to another unit,
    /// so that the plan would disrupt the unit only partially. `None` if no unit has changed, and for a critical add-on.
    fn changed_unit(&self, cluster: &Cluster) -> Option<Sentence> {
        if self.rescue.is_some() {
            return None;
        }
        let started = self.units_with_evictions();
        for victim in self.victims.iter().filter(|v| !v.needs_no_request() && !started.contains(&v.unit)) {
            let Some(pod) = current(cluster, &victim.pod, &victim.uid) else { continue };
            let change = if cluster.effective_priority(pod) >= self.priority {
                VictimChange::NotOfLowerPriority
            } else if cluster.is_critical_addon(pod) {
                VictimChange::CriticalAddon
            } else if pod.live() && !self.is_disrupted_with(cluster, pod, victim.unit) {
                VictimChange::OtherUnit
            } else {
                continue;
            };
            return Some(plan_end::victim_changed(&victim.pod, &victim.uid, change));
        }
        let (key, uid) = self.grown_units(cluster).into_iter().map(|unit| self.group_of(cluster, unit)).next()?;
        Some(plan_end::victim_group_has_grown(&key, &uid))
    }

    /// Returns true if a pod is disrupted together with the victim at index `unit` of the plan, which lists it: as a member of this
    /// PodGroup in disruption mode `PodGroup`, or alone if the victim is the pod itself.
    pub(super) fn is_disrupted_with(&self, cluster: &Cluster, pod: &Pod, unit: usize) -> bool {
        let unit = &self.plan.victims[unit];
        let key = ObjectKey::new(&unit.namespace, &unit.name);
        let whole = cluster.group_of(pod).filter(|group| group.mode == DisruptionMode::PodGroup);
        match unit.kind.as_str() {
            "PodGroup" => whole.is_some_and(|group| group.key == key),
            _ => whole.is_none() && pod.key == key,
        }
    }

    /// Returns key and UID of the PodGroup that is the victim at index `unit` of the plan. The UID is empty if it does not exist.
    fn group_of(&self, cluster: &Cluster, unit: usize) -> (ObjectKey, SmolStr) {
        let victim = &self.plan.victims[unit];
        let key = ObjectKey::new(&victim.namespace, &victim.name);
        let uid = cluster.group(&key).map(|group| group.uid.clone()).unwrap_or_default();
        (key, uid)
    }

    /// Returns the indexes of those victims of the plan that are PodGroups in disruption mode `PodGroup` of which no pod was evicted yet,
    /// and which have more bound pods than the plan lists.
    pub(super) fn grown_units(&self, cluster: &Cluster) -> BTreeSet<usize> {
        let started = self.units_with_evictions();
        let mut listed: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
        for victim in &self.victims {
            listed.entry(victim.unit).or_default().insert(victim.uid.as_str());
        }
        let whole =
            self.plan.victims.iter().enumerate().filter(|(unit, v)| v.kind == "PodGroup" && !started.contains(unit));
        let grown = whole.filter(|(unit, _)| {
            let (key, _) = self.group_of(cluster, *unit);
            let mut bound = cluster.members(&key).filter(|p| p.live() && p.node.is_some());
            let known = listed.get(unit);
            bound.any(|p| known.is_none_or(|known| !known.contains(p.uid.as_str())))
        });
        grown.map(|(unit, _)| unit).collect()
    }

    /// Cancels a plan in state `Evicting` if it is not valid any more: its members do not fit, or a victim has changed. It is checked when
    /// an object changed on which it depends, at most ten times per second; a plan for a critical add-on, which has few victims, is checked
    /// after every change. Once all evictions have been accepted, this does nothing.
    pub(super) fn cancel_if_invalid(&mut self, model: &Model, context: &Context, clock: Clock) {
        let known = self.checked.is_some();
        let just_now = self.rescue.is_none() && self.rechecked.is_some_and(|at| clock.now.duration_since(at) < RECHECK);
        // Once all evictions have been accepted, [`Flight::await_victims`] checks the plan.
        let all_asked = self.victims.iter().all(|victim| victim.accepted);
        if known || just_now || all_asked {
            return;
        }
        let misfit = || self.fits_after_terminations(&model.cluster, context).err().map(Sentence::from);
        let another = || self.changed_unit(&model.cluster);
        let Some(why) = self.why_addon_must_not_evict(model).or_else(another).or_else(misfit) else {
            self.checked = Some(Check::FitsThen);
            self.rechecked = Some(clock.now);
            return;
        };
        let message = match self.rescue {
            Some(_) => plan_end::not_valid(why),
            None => plan_end::does_not_fit(why),
        };
        self.drop_plan(PlanState::Cancelled, message);
    }

    /// Returns true if the first eviction must wait: the members fit only after evictions of other plans that may still be rejected.
    /// Cancels the plan if that lasts for a minute. After the first eviction it returns false.
    pub(super) fn depends_on_other_plans(&mut self, now: Now<'_>) -> bool {
        let Now { model, context, clock, limits } = now;
        if self.may_have_evicted() {
            return false;
        }
        let own: BTreeSet<&SmolStr> = self.departing().collect();
        let nodes: BTreeSet<&SmolStr> = self.members.iter().map(|member| &member.node).collect();
        let there = nodes.into_iter().flat_map(|node| model.cluster.pods_on(node)).map(|pod| &pod.uid);
        let planned = there.filter(|uid| context.departing.contains(*uid) && !limits.certain.contains(*uid));
        let planned: BTreeSet<SmolStr> = planned.filter(|uid| !own.contains(uid)).cloned().collect();
        let depends = !planned.is_empty() && {
            let mut removed = self.leaving(&model.cluster, context);
            removed.retain(|uid| !planned.contains(uid));
            self.still_fits(&model.cluster, &self.placements(), context, &removed).is_err()
        };
        if !depends {
            self.depends_since = None;
            return false;
        }
        let since = *self.depends_since.get_or_insert(clock.now);
        if clock.now.duration_since(since) >= LONGEST_WAIT {
            self.drop_plan(PlanState::Cancelled, plan_end::depends_for_too_long());
        }
        true
    }

    /// Returns the UIDs of all pods that will have terminated when this plan ends: its victims, the pods that other plans and departures
    /// evict, its placeholders, and the pods that terminate on the nodes of its members (on all nodes if pods on other nodes can make a
    /// node infeasible). Pods whose termination is overdue are not included.
    pub(super) fn leaving(&self, cluster: &Cluster, context: &Context) -> BTreeSet<SmolStr> {
        let mut removed: BTreeSet<SmolStr> = self.departing().cloned().collect();
        removed.extend(context.departing.iter().chain(&self.placeholders).cloned());
        // Terminating pods on other nodes only matter for affinity, anti-affinity and topology spread constraints.
        if self.depends_on_other_nodes(cluster) {
            removed.extend(cluster.terminating().map(|p| p.uid.clone()));
        } else {
            let nodes: BTreeSet<&str> = self.members.iter().map(|m| m.node.as_str()).collect();
            let here = nodes.into_iter().flat_map(|node| cluster.pods_on(node));
            removed.extend(here.filter(|p| p.leaves).map(|p| p.uid.clone()));
        }
        removed.retain(|uid| !context.lingering.contains(uid));
        removed
    }
}
