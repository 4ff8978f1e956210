//! Whether a plan still makes sense: looked at before every step, because the cluster goes on changing while it is
//! carried out.

use super::{Clock, Ending, Flight, current};
use crate::model::Model;
use crate::words::Sentence;
use giveway_crds::plan::PlanState;
use giveway_crds::policy::DisruptionMode;
use giveway_planner::SmolStr;
use giveway_planner::model::{Cluster, ObjectKey, Pod};
use giveway_planner::{Context, Decision, Preemptor};
use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::time::Duration;

/// How often a plan is checked while it evicts, at the most.
const RECHECK: Duration = Duration::from_millis(100);

/// When the members of a plan fit. It stays true until something changes that the plan depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Now.
    FitsNow,
    /// When the pods that are terminating, and those that will be evicted, have terminated.
    FitsThen,
}

/// What the preemptor has to know for which these pods keep room: they are as good as gone.
pub fn with_placeholders(context: &Context, placeholders: &BTreeSet<SmolStr>) -> Context {
    let departing = context.departing.union(placeholders).cloned().collect();
    Context { departing, waits: true, ..context.clone() }
}

impl Flight {
    /// The call that failed so often that the plan has no prospect, if there is one. A group that was begun is never given up.
    pub(super) fn given_up(&self) -> Option<Sentence> {
        let begun = LazyCell::new(|| self.begun_units());
        let members = self.members.iter().flat_map(|m| {
            [(m.nominate, "Nominating a node for"), (m.release, "Removing the scheduling gate of")]
                .map(|(call, what)| (call, what, m.pod.clone(), &m.uid))
        });
        let victims = self.victims.iter().flat_map(|v| {
            let dry_run = (v.rehearsal, "Trying the eviction of", v.pod.clone(), &v.uid);
            let is_without_prospect = v.call.exhausted() && !begun.contains(&v.unit);
            let eviction = is_without_prospect.then(|| (v.call, "Evicting", v.pod.clone(), &v.uid));
            iter::once(dry_run).chain(eviction)
        });
        let node = self
            .rescue
            .as_ref()
            .zip(self.members.first())
            .map(|(rescue, m)| (rescue.add, "Keeping a node by a taint for", m.pod.clone(), &m.uid));
        let mut calls = members.chain(node).chain(victims);
        let (call, what, key, uid) = calls.find(|(call, ..)| call.exhausted())?;
        Some(
            Sentence::from(format!("{what} "))
                .object("pod", &key, uid)
                .text(format!(" failed {} times; the operator's log has the answers of the API server.", call.tries())),
        )
    }

    /// Whether the plan has no sense any more: the preemptor, or a member of it, is gone or placed.
    /// Members that other decisions evict are as good as gone.
    pub(super) fn overtaken(&self, cluster: &Cluster, context: &Context) -> Option<Ending> {
        let ending = |state, message: String| Ending { state, message: message.into(), again: false };
        let cancelled = |message: String| Some(ending(PlanState::Cancelled, message));
        // Enough are left.
        let without = |message: String| Some(Ending { again: true, ..ending(PlanState::Cancelled, message) });
        if let Preemptor::Group(key) = &self.preemptor {
            let Some(group) = cluster.group(key).filter(|group| group.uid == self.plan.preemptor.uid) else {
                return cancelled("The pod group was deleted.".into());
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
                    return cancelled(format!("Only {have} of the {missing} pods needed are left with a place."));
                }
            }
        }
        let released = self.plan.state == PlanState::Releasing;
        let mut unbound = 0;
        for member in &self.members {
            match current(cluster, &member.pod, &member.uid) {
                None if !released => {
                    return without(format!("Pod {}, for which there was to be a place, was deleted.", member.pod));
                }
                Some(pod) if !pod.live() && !released => {
                    return without(format!(
                        "Pod {}, for which there was to be a place, has ended or is being deleted.",
                        member.pod
                    ));
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
            ending(PlanState::Cancelled, "The scheduler found a place meanwhile; nobody was evicted.".to_owned())
        } else {
            ending(PlanState::Completed, format!("{bound} of {} placed pods were bound.", self.members.len()))
        })
    }

    /// Whether all members fit now, with nobody evicted any more.
    pub(super) fn fits_elsewhere(&self, cluster: &Cluster, context: &Context) -> bool {
        self.places_now(cluster, context).is_some_and(|places| places >= self.members.len())
    }

    /// How many members have a place now, with nobody evicted any more; `None` when they are not enough.
    pub(super) fn places_now(&self, cluster: &Cluster, context: &Context) -> Option<usize> {
        if self.rescue.is_some() {
            return self.has_other_room(cluster, context).then_some(self.members.len());
        }
        match giveway_planner::plan(cluster, &self.preemptor, context) {
            Decision::Fits { placements, .. } => Some(placements.len()),
            _ => None,
        }
    }

    /// Whether the pods that keep room for the members have enough of it, so that nobody needs to go.
    fn room_is_kept(&self, cluster: &Cluster, context: &Context) -> bool {
        !self.placeholders.is_empty()
            && matches!(self.anew(cluster, context), Decision::Preempt(plan) if plan.victims.is_empty())
    }

    /// Whether fewer would go by a plan that is made now: room for some of the members appeared while this one was put off.
    pub(super) fn fewer_would_go(&self, cluster: &Cluster, context: &Context) -> bool {
        let there = self.victims.iter().filter(|v| current(cluster, &v.pod, &v.uid).is_some()).count();
        matches!(self.anew(cluster, context), Decision::Preempt(plan) if plan.cost.victim_pods < there)
    }

    /// What would be decided now, if there was no such plan.
    fn anew(&self, cluster: &Cluster, context: &Context) -> Decision {
        let mut context = match self.placeholders.is_empty() {
            true => context.clone(),
            false => with_placeholders(context, &self.placeholders),
        };
        // Nobody has asked its own victims to go yet.
        for victim in self.departing() {
            context.departing.remove(victim);
        }
        giveway_planner::plan(cluster, &self.preemptor, &context)
    }

    /// Whether the members fit once everybody is gone who is going.
    ///
    /// # Errors
    /// A sentence that says why not.
    pub(super) fn fits_then(&self, cluster: &Cluster, context: &Context) -> Result<(), String> {
        self.still_fits(cluster, &self.placements(), context, &self.leaving(cluster, context))
    }

    /// Delayed preemption (KEP-5710): the plan is checked against fresh state right before the first eviction.
    pub(super) fn outdated(&self, model: &Model, context: &Context) -> Option<Sentence> {
        let cluster = &model.cluster;
        // Also room for enough of them, if not for all.
        if self.places_now(cluster, context).is_some() || self.room_is_kept(cluster, context) {
            return Some("Room appeared; nobody was evicted.".into());
        }
        if let Some(why) = self.must_stay(model) {
            return Some(Sentence::from("Nobody was evicted: ").then(why));
        }
        if let Some(why) = self.another_unit(cluster) {
            return Some(Sentence::from("Nobody was evicted: ").then(why));
        }
        let fits = self.fits_then(cluster, context);
        fits.err().map(|why| format!("The plan does not fit any more; nobody was evicted: {why}").into())
    }

    /// A unit that nobody was taken of yet and that is not what it was when the plan was made: it is of too high a priority by now, or
    /// has more pods, so that it would not go whole.
    fn another_unit(&self, cluster: &Cluster) -> Option<Sentence> {
        if self.rescue.is_some() {
            return None;
        }
        let begun = self.begun_units();
        for victim in self.victims.iter().filter(|v| !v.asked() && !begun.contains(&v.unit)) {
            let Some(pod) = current(cluster, &victim.pod, &victim.uid) else { continue };
            let why = if cluster.effective_priority(pod) >= self.priority {
                " is not of lower priority any more."
            } else if cluster.is_critical_addon(pod) {
                " is a critical add-on now."
            } else if pod.live() && !self.goes_with(cluster, pod, victim.unit) {
                " gives way with another unit now."
            } else {
                continue;
            };
            return Some(Sentence::default().object("pod", &victim.pod, &victim.uid).text(why));
        }
        let (key, uid) = self.grown_units(cluster).into_iter().map(|unit| self.group_of(cluster, unit)).next()?;
        let named = Sentence::default().object("pod group", &key, &uid);
        Some(named.text(" has more pods than when the plan was made."))
    }

    /// Whether a pod gives way with the unit that the plan lists it in: with its group, where that goes whole, or else alone.
    pub(super) fn goes_with(&self, cluster: &Cluster, pod: &Pod, unit: usize) -> bool {
        let unit = &self.plan.victims[unit];
        let key = ObjectKey::new(&unit.namespace, &unit.name);
        let whole = cluster.group_of(pod).filter(|group| group.mode == DisruptionMode::PodGroup);
        match unit.kind.as_str() {
            "PodGroup" => whole.is_some_and(|group| group.key == key),
            _ => whole.is_none() && pod.key == key,
        }
    }

    fn group_of(&self, cluster: &Cluster, unit: usize) -> (ObjectKey, SmolStr) {
        let victim = &self.plan.victims[unit];
        let key = ObjectKey::new(&victim.namespace, &victim.name);
        let uid = cluster.group(&key).map(|group| group.uid.clone()).unwrap_or_default();
        (key, uid)
    }

    /// Groups that go whole, of which nobody was taken yet and which have more pods by now than the plan lists.
    pub(super) fn grown_units(&self, cluster: &Cluster) -> BTreeSet<usize> {
        let begun = self.begun_units();
        let mut listed: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
        for victim in &self.victims {
            listed.entry(victim.unit).or_default().insert(victim.uid.as_str());
        }
        let whole =
            self.plan.victims.iter().enumerate().filter(|(unit, v)| v.kind == "PodGroup" && !begun.contains(unit));
        let grown = whole.filter(|(unit, _)| {
            let (key, _) = self.group_of(cluster, *unit);
            let mut bound = cluster.members(&key).filter(|p| p.live() && p.node.is_some());
            let known = listed.get(unit);
            bound.any(|p| known.is_none_or(|known| !known.contains(p.uid.as_str())))
        });
        grown.map(|(unit, _)| unit).collect()
    }

    /// Between two evictions: a plan that does not hold any more evicts nobody else. Looked at when something changed; ten times a
    /// second at the most, but for the one victim or few of a critical add-on.
    pub(super) fn recheck(&mut self, model: &Model, context: &Context, clock: Clock) {
        let known = self.checked.is_some();
        let just_now = self.rescue.is_none() && self.rechecked.is_some_and(|at| clock.now.duration_since(at) < RECHECK);
        // With all of them on their way, other questions are asked.
        let all_asked = self.victims.iter().all(|victim| victim.accepted);
        if known || just_now || all_asked {
            return;
        }
        let misfit = || self.fits_then(&model.cluster, context).err().map(Sentence::from);
        let another = || self.another_unit(&model.cluster);
        let Some(why) = self.must_stay(model).or_else(another).or_else(misfit) else {
            self.checked = Some(Check::FitsThen);
            self.rechecked = Some(clock.now);
            return;
        };
        let what = match self.rescue {
            Some(_) => "The plan does not hold any more: ",
            None => "The plan does not fit any more; nobody else is evicted: ",
        };
        self.drop_plan(PlanState::Cancelled, Sentence::from(what).then(why));
    }

    /// Everybody who will be gone when this plan is through: its victims, those of other plans, and whoever terminates, but for
    /// those that should have been gone by now.
    pub(super) fn leaving(&self, cluster: &Cluster, context: &Context) -> BTreeSet<SmolStr> {
        let mut gone: BTreeSet<SmolStr> = self.departing().cloned().collect();
        gone.extend(context.departing.iter().chain(&self.placeholders).cloned());
        // Pods on other nodes only matter for affinity, anti-affinity and topology spread.
        if self.depends_on_other_nodes(cluster) {
            gone.extend(cluster.terminating().map(|p| p.uid.clone()));
        } else {
            let nodes: BTreeSet<&str> = self.members.iter().map(|m| m.node.as_str()).collect();
            let here = nodes.into_iter().flat_map(|node| cluster.pods_on(node));
            gone.extend(here.filter(|p| p.leaves).map(|p| p.uid.clone()));
        }
        gone.retain(|uid| !context.lingering.contains(uid));
        gone
    }
}
