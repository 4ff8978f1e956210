//! What the [rates](crate::rates) of evictions allow a plan to begin.
//!
//! A plan begins when there is room for all its evictions in this minute; one that needs more than a limit allows begins in an empty
//! minute, and its units go one after the other as there is room. A unit that was begun is finished whatever the rates say. Victims that
//! a budget may refuse have the first room, as they have the first turn.

use super::{Clock, Flight, current};
use crate::model::Model;
use crate::rates::{Full, Need, Tally};
use crate::words::{Names, Sentence};
use giveway_crds::plan::PlanState;
use giveway_planner::SmolStr;
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// By how much the time that was told may be too late before another one is told.
const TOLD: Duration = Duration::from_secs(2);

/// What holds a plan back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    full: Full,
    /// When there is room again, as it was told.
    at: Timestamp,
}

impl HeldBack {
    /// Why the plan waits, and until when.
    pub fn sentence(&self) -> Sentence {
        told_full(&self.full, self.at)
    }
}

/// Which limit leaves no room, and until when.
pub fn told_full(full: &Full, at: Timestamp) -> Sentence {
    let begin = Sentence::from("Evictions in ");
    let whose = match &full.namespace {
        Some(namespace) => begin.detail(namespace, format!("namespace {namespace}"), "a namespace of its victims"),
        None => begin.text("the cluster"),
    };
    whose.text(format!(" are limited to {} a minute; there is room again at {at}.", full.most))
}

impl Flight {
    /// Says which units may be begun in this pass, and takes room for them: first come those who are asked first. `tally` has the
    /// evictions of the last minute and all that are under way.
    pub fn ration(&mut self, model: &Model, clock: Clock, tally: &mut Tally) {
        let waiting = self.not_begun();
        if waiting.is_empty() || self.ending.is_some() || !self.is_due(&model.cluster, clock) {
            self.held_back = None;
            self.ration =
                Some(if waiting.is_empty() { (0..self.plan.victims.len()).collect() } else { BTreeSet::new() });
            return;
        }
        let (mut order, refusable): (Vec<usize>, _) = (waiting.keys().copied().collect(), self.refusable_units(model));
        order.sort_by_key(|unit| (!refusable.contains(unit), *unit));
        let need = |units: &[usize]| {
            let mut need = Need::new();
            units.iter().for_each(|unit| {
                *need.entry(self.plan.victims[*unit].namespace.as_str().into()).or_default() += waiting[unit];
            });
            need
        };
        let nobody_went = !self.victims.iter().any(|victim| victim.accepted || victim.call.pending());
        let mut full = if nobody_went { tally.full(&need(&order), clock.now) } else { None };
        let (mut may, mut rest) = (BTreeSet::new(), order.as_slice());
        while let (None, [unit, others @ ..]) = (&full, rest) {
            let one = need(&[*unit]);
            full = tally.full(&one, clock.now);
            if full.is_none() {
                tally.add(&one, clock.now);
                may.insert(*unit);
                rest = others;
            }
        }
        if let Some(full) = &full {
            tally.promise(&need(rest), full.until);
        }
        self.ration = Some(may);
        self.held_back = full.map(|full| self.told(full, clock));
    }

    /// Whether the rates allow to begin a unit.
    pub(super) fn may_begin(&self, unit: usize) -> bool {
        self.ration.as_ref().is_none_or(|units| units.contains(&unit))
    }

    /// Evictions that are under way: those that are not answered, and the rest of groups that were begun; namespace and UID.
    pub fn under_way(&self) -> impl Iterator<Item = (&SmolStr, &SmolStr)> {
        let begun = self.begun_units();
        let going = move |v: &&super::VictimPod| v.call.pending() || (begun.contains(&v.unit) && self.has_to_go(v));
        self.victims.iter().filter(going).map(|v| (&v.pod.namespace, &v.uid))
    }

    /// How many have still to go of each unit that was not begun.
    fn not_begun(&self) -> BTreeMap<usize, usize> {
        let begun = self.begun_units();
        let mut units = BTreeMap::new();
        if self.plan.state > PlanState::Evicting {
            return units;
        }
        let idle = |v: &&super::VictimPod| self.has_to_go(v) && !v.call.pending() && !begun.contains(&v.unit);
        for victim in self.victims.iter().filter(idle) {
            *units.entry(victim.unit).or_default() += 1;
        }
        units
    }

    /// The units with a pod that a budget may refuse.
    fn refusable_units(&self, model: &Model) -> BTreeSet<usize> {
        let guarded = self.guarded_units(model);
        let budgeted = |v: &super::VictimPod| {
            current(&model.cluster, &v.pod, &v.uid).is_some_and(|pod| model.cluster.is_budgeted(pod))
        };
        let refusable = |v: &&super::VictimPod| (self.rescue.is_some() || guarded.contains(&v.unit)) && budgeted(v);
        self.victims.iter().filter(refusable).map(|v| v.unit).collect()
    }

    /// The time that was told counts until it is over, unless there is room earlier: another one each moment helps nobody.
    fn told(&self, full: Full, clock: Clock) -> HeldBack {
        let known = self.held_back.as_ref().filter(|known| {
            known.full.namespace == full.namespace
                && known.full.until > clock.now
                && full.until + TOLD >= known.full.until
        });
        known.cloned().unwrap_or_else(|| HeldBack { at: clock.at(full.until), full })
    }

    /// What administrators read of the plan, as long as it is in flight.
    pub fn told_message(&self) -> String {
        match &self.held_back {
            Some(held) if self.ending.is_none() => format!("{} {}", self.plan.message, held.sentence()),
            _ => self.plan.message.clone(),
        }
    }

    /// The same for those who read the preemptor.
    pub fn told_to(&self, names: Names) -> String {
        let message = match &self.held_back {
            Some(held) if self.ending.is_none() => self.message.clone().text(" ").then(held.sentence()),
            _ => self.message.clone(),
        };
        names.told(&message, &self.preemptor.key().namespace)
    }
}
