//! Resumed plans: a plan that an earlier leader stored is checked before anything is done for it.
//!
//! A plan that fails the check is cancelled. A PodGroup of which a pod was evicted is still disrupted as a whole
//! (promise 2 in docs/reliability.md) if the plan's data about it is still correct; no other pod is evicted.

use super::{Flight, current};
use crate::model::Model;
use giveway_crds::plan::{PlanState, StoredVictim};
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::wording::Sentence;
use giveway_crds::wording::conditions::resumed::{self, UnsoundVictim};
use giveway_planner::model::{ObjectKey, Pod};
use giveway_planner::{Context, Preemptor};
use std::collections::{BTreeMap, BTreeSet};

impl Flight {
    /// Checks the preemptor, members, victims, whole PodGroups and budgets of a resumed plan, and that it still fits.
    /// `context` describes the other plans in flight. Cancels the plan, with the reason, if something differs from the
    /// stored plan.
    pub fn check_resumed(&mut self, model: &Model, context: &Context) {
        let units = self.plan.victims.iter().enumerate();
        let unsound: Vec<(usize, Sentence)> =
            units.filter_map(|(index, unit)| Some((index, self.why_not_to_evict(model, index, unit)?))).collect();
        let problem = (self.wrong_preemptor(model).map(Sentence::from))
            .or_else(|| self.foreign_member(model).map(Sentence::from))
            .or_else(|| self.wrong_domain(model).map(Sentence::from))
            .or_else(|| self.why_addon_must_not_evict(model))
            .or_else(|| unsound.first().map(|(_, why)| why.clone()))
            .or_else(|| self.violated_budget(model))
            .or_else(|| self.misfit(model, context).map(Sentence::from));
        let Some(problem) = problem else { return };
        let unsound: BTreeSet<usize> = unsound.into_iter().map(|(index, _)| index).collect();
        // Units that failed the check are not evicted, not even if some of their pods were.
        self.victims.retain(|victim| !unsound.contains(&victim.unit));
        self.drop_plan(PlanState::Cancelled, resumed::not_valid(problem));
    }

    /// Returns the reason if a plan that may still evict pods must not do so for its preemptor any more: it was deleted, replaced, or may
    /// not preempt with the plan's priority. A priority class can be deleted and created again with another value or policy.
    pub(super) fn changed_preemptor(&self, model: &Model) -> Option<String> {
        let may_evict = self.plan.state <= PlanState::Evicting && self.evicts();
        if may_evict { self.wrong_preemptor(model) } else { None }
    }

    /// Returns true if the preemptor is a PodGroup whose priority and policy are unknown, because its PriorityClass does not exist.
    fn lacks_class(&self, model: &Model) -> bool {
        match &self.preemptor {
            Preemptor::Group(key) => model.cluster.group(key).is_some_and(|group| group.class_problem.is_some()),
            Preemptor::Pod(_) => false,
        }
    }

    /// Returns the reason if the preemptor is not the one for which the plan was made, or may not preempt with its priority any more. A
    /// PriorityClass that does not exist for a moment is no reason.
    fn wrong_preemptor(&self, model: &Model) -> Option<String> {
        let (said, cluster) = (&self.plan.preemptor, &model.cluster);
        let found = match &self.preemptor {
            Preemptor::Group(key) => cluster.group(key).map(|group| (&group.uid, group.policy)),
            Preemptor::Pod(key) => cluster.pod(key).map(|pod| (&pod.uid, cluster.effective_policy(pod))),
        };
        let Some((uid, policy)) = found else { return Some(resumed::preemptor_deleted().to_owned()) };
        if *uid != said.uid {
            return Some(resumed::preemptor_replaced().to_owned());
        }
        if self.lacks_class(model) {
            return None;
        }
        if policy == PreemptionPolicy::Never && self.rescue.is_none() {
            return Some(resumed::preemptor_never_preempts().to_owned());
        }
        let now = model.priority_of(&self.preemptor).unwrap_or(0);
        (now != said.priority).then(|| resumed::priority_changed(now, said.priority))
    }

    /// Returns the reason if a pod that the plan places does not belong to the preemptor.
    fn foreign_member(&self, model: &Model) -> Option<String> {
        let own = |pod: &Pod| match &self.preemptor {
            Preemptor::Group(key) => pod.group_key().is_some_and(|group| group == *key),
            Preemptor::Pod(key) => pod.key == *key,
        };
        let placed = self.members.iter().filter_map(|m| current(&model.cluster, &m.pod, &m.uid));
        let foreign = placed.into_iter().find(|pod| !own(pod))?;
        Some(resumed::foreign_member(&foreign.key))
    }

    /// Returns the reason why the resumed plan must not evict `unit`, its victim at this index: one of its pods is now static, protected,
    /// critical, not of lower priority or of another unit of eviction, or the PodGroup has more pods. `None` if it may.
    fn why_not_to_evict(&self, model: &Model, index: usize, unit: &StoredVictim) -> Option<Sentence> {
        let cluster = &model.cluster;
        let key = ObjectKey::new(&unit.namespace, &unit.name);
        let planned: BTreeSet<&str> = self.victims.iter().filter(|v| v.unit == index).map(|v| v.uid.as_str()).collect();
        let listed = self.victims.iter().filter(|v| v.unit == index);
        let here: Vec<&Pod> = listed.filter_map(|v| current(cluster, &v.pod, &v.uid)).collect();
        let untouched = here.len() == planned.len() && here.iter().all(|pod| pod.live());
        // The priority of a PodGroup is the lowest of its pods that are not terminating. If some pods were evicted, the
        // lowest may be among them, so the planned priority counts, and the other pods are evicted too.
        let is_started = unit.kind == "PodGroup" && !untouched && self.plan.state >= PlanState::Evicting;
        let priority = |pod: &Pod| if is_started { unit.priority } else { cluster.effective_priority(pod) };
        for pod in here.iter().copied().filter(|pod| pod.live()) {
            let wrong = if pod.mirror {
                UnsoundVictim::Static
            } else if cluster.protection(&pod.key.namespace).is_some() {
                UnsoundVictim::Protected
            } else if self.rescue.is_none() && cluster.is_critical_addon(pod) {
                UnsoundVictim::CriticalAddon
            } else if self.rescue.is_none() && priority(pod) >= self.priority {
                UnsoundVictim::NotOfLowerPriority
            } else if !self.is_disrupted_with(cluster, pod, index) {
                UnsoundVictim::OtherUnit
            } else {
                continue;
            };
            return Some(resumed::unsound_victim(&pod.key, &pod.uid, wrong));
        }
        // If a pod was evicted, the planned pods are evicted. Otherwise the PodGroup must not have grown, because it
        // has to be disrupted as a whole.
        let grown = unit.kind == "PodGroup"
            && untouched
            && cluster.members(&key).any(|p| p.live() && p.bound() && !planned.contains(p.uid.as_str()));
        let uid = cluster.group(&key).map(|group| group.uid.clone()).unwrap_or_default();
        grown.then(|| resumed::group_has_grown(&key, &uid))
    }

    /// Returns the reason if the evictions of the remaining victims would violate a budget that is guaranteed against the preemptor.
    fn violated_budget(&self, model: &Model) -> Option<Sentence> {
        let guarded = |pod: &&Pod| model.threshold(pod).is_some_and(|threshold| threshold > self.own_priority());
        let here = self.victims.iter().filter_map(|v| current(&model.cluster, &v.pod, &v.uid));
        let breaches = model.budget_violations(here.filter(|pod| pod.live()).filter(guarded), &BTreeMap::new());
        let (uid, why) = breaches.into_iter().next()?;
        let pod = &self.victims.iter().find(|v| v.uid == uid)?.pod;
        Some(resumed::budget_guaranteed(pod, &uid, &why))
    }

    /// Returns the reason if the members do not fit any more; `None` in state `Ungating`, in which kube-scheduler may have bound members
    /// already.
    fn misfit(&self, model: &Model, context: &Context) -> Option<String> {
        if self.plan.state >= PlanState::Ungating {
            return None;
        }
        self.fits_after_terminations(&model.cluster, context).err()
    }
}
