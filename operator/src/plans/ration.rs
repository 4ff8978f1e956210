//! Which evictions of a plan may start under the [limits on evictions per minute](crate::limits::rates).
//!
//! A plan starts when the limits allow all of its evictions within the current minute. If it has more evictions than a
//! limit allows, it starts when no eviction was made for a minute, and its units are evicted one after the other as the
//! limits allow. A unit of which a pod was evicted is always completed. Units with victims that a budget can refuse
//! come first, because they are evicted first.

use super::{Flight, current};
use crate::clock::Clock;
use crate::limits::rates::{ExceededLimit, NamespaceCounts, RateTally};
use crate::model::Model;
use giveway_crds::plan::PlanState;
use giveway_crds::wording::conditions::progress;
use giveway_crds::wording::{Names, Sentence};
use giveway_planner::SmolStr;
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The announced time is kept unless the limits allow evictions earlier than it by more than this.
const TOLERANCE: Duration = Duration::from_secs(2);

/// The limit that delays a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachedLimit {
    /// The limit.
    full: ExceededLimit,
    /// When the limit allows evictions again, as announced.
    at: Timestamp,
}

impl ReachedLimit {
    /// Returns a sentence about the limit that is reached and the announced time at which evictions continue.
    pub fn sentence(&self) -> Sentence {
        limit_sentence(&self.full, self.at)
    }
}

/// Returns a sentence about the limit on evictions per minute that is reached and the time `at` which it allows evictions again.
pub fn limit_sentence(full: &ExceededLimit, at: Timestamp) -> Sentence {
    progress::limit_reached(full.namespace.as_deref(), full.most, at)
}

impl Flight {
    /// Decides which of the plan's victims (pods or whole PodGroups) the limits on evictions per minute allow to evict in this pass, and
    /// counts their pods in `tally`. It holds the evictions of the last minute and those in flight. Plans are served in the order of the
    /// calls of this function.
    pub fn ration(&mut self, model: &Model, clock: Clock, tally: &mut RateTally) {
        // A request that failed was counted when it was made, and is repeated.
        let worked = self.victims.iter().filter(|victim| self.may_have_worked(victim));
        let requested: BTreeSet<usize> = worked.map(|victim| victim.unit).collect();
        let waiting = self.units_without_evictions(&requested);
        if waiting.is_empty() || self.ending.is_some() || !self.is_due(&model.cluster, clock) {
            self.reached_limit = None;
            self.ration =
                Some(if waiting.is_empty() { (0..self.plan.victims.len()).collect() } else { BTreeSet::new() });
            return;
        }
        let (mut order, refusable): (Vec<usize>, _) = (waiting.keys().copied().collect(), self.refusable_units(model));
        order.sort_by_key(|unit| (!refusable.contains(unit), *unit));
        let need = |units: &[usize]| {
            let mut need = NamespaceCounts::new();
            units.iter().for_each(|unit| {
                *need.entry(self.plan.victims[*unit].namespace.as_str().into()).or_default() += waiting[unit];
            });
            need
        };
        let no_eviction_requested = !self.victims.iter().any(|victim| victim.accepted || victim.call.pending());
        let mut full = if no_eviction_requested { tally.exceeded(&need(&order), clock.now) } else { None };
        let (mut may, mut rest) = (requested, order.as_slice());
        while let (None, [unit, others @ ..]) = (&full, rest) {
            let one = need(&[*unit]);
            full = tally.exceeded(&one, clock.now);
            if full.is_none() {
                tally.add(&one, clock.now);
                may.insert(*unit);
                rest = others;
            }
        }
        if let Some(full) = &full {
            tally.reserve(&need(rest), full.until);
        }
        self.ration = Some(may);
        self.reached_limit = full.map(|full| self.with_announced_time(full, clock));
    }

    /// Returns true if the limits on evictions per minute allow to start the eviction of the plan's victim at index `unit`.
    pub(super) fn may_start(&self, unit: usize) -> bool {
        self.ration.as_ref().is_none_or(|units| units.contains(&unit))
    }

    /// Returns the namespace and UID of the victims whose eviction was requested and has no response yet, and of those that must still be
    /// evicted because a pod of their PodGroup was evicted.
    pub fn evictions_under_way(&self) -> impl Iterator<Item = (&SmolStr, &SmolStr)> {
        let started = self.units_with_evictions();
        let going =
            move |v: &&super::VictimPod| v.call.pending() || (started.contains(&v.unit) && self.must_be_evicted(v));
        self.victims.iter().filter(going).map(|v| (&v.pod.namespace, &v.uid))
    }

    /// Returns the indexes of the plan's victims (pods or whole PodGroups) whose eviction has not started and that are not among the
    /// indexes `requested`, with the number of their pods that have to be evicted.
    fn units_without_evictions(&self, requested: &BTreeSet<usize>) -> BTreeMap<usize, usize> {
        let started = self.units_with_evictions();
        let mut units = BTreeMap::new();
        if self.plan.state > PlanState::Evicting {
            return units;
        }
        let idle = |v: &&super::VictimPod| {
            self.must_be_evicted(v) && !v.call.pending() && !started.contains(&v.unit) && !requested.contains(&v.unit)
        };
        for victim in self.victims.iter().filter(idle) {
            *units.entry(victim.unit).or_default() += 1;
        }
        units
    }

    /// Returns the indexes of the plan's victims (pods or whole PodGroups) with a pod whose eviction a budget can refuse: the budget is
    /// guaranteed against the preemptor, or the preemptor is a critical add-on.
    pub(super) fn refusable_units(&self, model: &Model) -> BTreeSet<usize> {
        let guarded = self.guarded_units(model);
        let budgeted = |v: &super::VictimPod| {
            current(&model.cluster, &v.pod, &v.uid).is_some_and(|pod| model.cluster.is_budgeted(pod))
        };
        let refusable = |v: &&super::VictimPod| (self.rescue.is_some() || guarded.contains(&v.unit)) && budgeted(v);
        self.victims.iter().filter(refusable).map(|v| v.unit).collect()
    }

    /// Returns the reached limit with the time to announce. A time that was announced before is kept until it has passed, unless the limit
    /// allows evictions earlier, so that the message does not change all the time.
    fn with_announced_time(&self, full: ExceededLimit, clock: Clock) -> ReachedLimit {
        let known = self.reached_limit.as_ref().filter(|known| {
            known.full.namespace == full.namespace
                && known.full.until > clock.now
                && full.until + TOLERANCE >= known.full.until
        });
        known.cloned().unwrap_or_else(|| ReachedLimit { at: clock.at(full.until), full })
    }

    /// Returns the message of the stored plan, which administrators read, with the limit that delays its evictions while the plan is in
    /// flight.
    pub fn message_with_limit(&self) -> String {
        match &self.reached_limit {
            Some(held) if self.ending.is_none() => format!("{} {}", self.plan.message, held.sentence()),
            _ => self.plan.message.clone(),
        }
    }

    /// Returns the plan's message for the preemptor's status and events, with the limit that delays its evictions. It has only names that
    /// readers of the preemptor's namespace may see.
    pub fn message_for_preemptor(&self, names: Names) -> String {
        let message = match &self.reached_limit {
            Some(held) if self.ending.is_none() => self.message.clone().text(" ").then(held.sentence()),
            _ => self.message.clone(),
        };
        names.render(&message, &self.preemptor.key().namespace)
    }
}
