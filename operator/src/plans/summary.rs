//! What is asked about all plans in flight at once: which victims count as terminating, which plans may still evict pods, which keep a
//! node, and how many have victims.
//!
//! The answers are indexes over a summary of each plan. A question updates the summaries of the plans that have changed since the last
//! question, and examines no other plan. A plan can be changed only through [`Summarized`], which records that, and not while a question is
//! answered. So no answer is outdated.

use super::{Flight, Flights};
use giveway_crds::plan::PlanState;
use giveway_planner::{Preemptor, SmolStr};
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

#[cfg(test)]
thread_local! {
    /// Number of plans that this thread has looked up or summarized.
    pub(crate) static VISITS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts, only in tests, that a plan was looked up or summarized.
pub(super) fn count_visit() {
    #[cfg(test)]
    VISITS.set(VISITS.get() + 1);
}

/// The answers to the questions about one plan.
#[derive(Debug, Default)]
struct Summary {
    /// The victims that count as terminating although the cluster does not show it: UID, and the highest priority of a preemptor for which
    /// they count.
    departing: Vec<(SmolStr, i32)>,
    /// True if its rehearsal has succeeded.
    rehearsed: bool,
    /// True if evictions may still begin, or are in flight.
    starting: bool,
    /// True if it reserves a node for a critical add-on.
    keeps_node: bool,
    /// The priority of the preemptor, if the plan has victims.
    evicts_for: Option<i32>,
}

impl From<&Flight> for Summary {
    /// Summarizes a plan.
    fn from(flight: &Flight) -> Self {
        count_visit();
        let some_left = flight.victims.iter().any(|victim| !victim.leaves);
        let departing = flight.seen_as_terminating().filter(|_| some_left);
        Self {
            departing: departing.map(|(uid, most)| (uid.clone(), most)).collect(),
            rehearsed: flight.plan.state >= PlanState::Evicting,
            starting: flight.plan.state <= PlanState::Evicting || flight.evictions_under_way().next().is_some(),
            keeps_node: flight.keeps_node(),
            evicts_for: flight.evicts().then_some(flight.priority),
        }
    }
}

/// The summaries of all plans, and for each question the plans to which it applies.
#[derive(Debug, Default)]
struct Indexes {
    summaries: BTreeMap<Preemptor, Summary>,
    /// Plans that were added, changed or removed since the last question.
    changed: BTreeSet<Preemptor>,
    departing: BTreeSet<Preemptor>,
    starting: BTreeSet<Preemptor>,
    keeping_node: BTreeSet<Preemptor>,
    /// Number of plans with victims, by priority.
    with_victims: BTreeMap<i32, usize>,
}

impl Indexes {
    /// Updates the indexes for the plan of this preemptor, which has changed: with its new summary, or `None` if the plan was removed.
    fn update(&mut self, preemptor: Preemptor, summary: Option<Summary>) {
        let before = self.summaries.remove(&preemptor).and_then(|before| before.evicts_for);
        if let Some(priority) = before
            && let Some(count) = self.with_victims.get_mut(&priority)
        {
            *count -= 1;
            if *count == 0 {
                self.with_victims.remove(&priority);
            }
        }
        if let Some(priority) = summary.as_ref().and_then(|summary| summary.evicts_for) {
            *self.with_victims.entry(priority).or_default() += 1;
        }
        let is = |question: fn(&Summary) -> bool| summary.as_ref().is_some_and(question);
        for (plans, is_one) in [
            (&mut self.departing, is(|summary| !summary.departing.is_empty())),
            (&mut self.starting, is(|summary| summary.starting)),
            (&mut self.keeping_node, is(|summary| summary.keeps_node)),
        ] {
            match is_one {
                true => plans.insert(preemptor.clone()),
                false => plans.remove(&preemptor),
            };
        }
        if let Some(summary) = summary {
            self.summaries.insert(preemptor, summary);
        }
    }
}

/// The plans in flight by preemptor, with their summaries. They can be read like a map, and changed only through the functions of this
/// type.
#[derive(Debug, Default)]
pub(super) struct Summarized {
    all: BTreeMap<Preemptor, Flight>,
    indexes: RefCell<Indexes>,
}

impl Deref for Summarized {
    type Target = BTreeMap<Preemptor, Flight>;

    /// Returns the plans by preemptor, for reading.
    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl Summarized {
    /// Adds a plan in flight, or replaces that of its preemptor.
    pub(super) fn insert(&mut self, flight: Flight) {
        self.indexes.get_mut().changed.insert(flight.preemptor.clone());
        self.all.insert(flight.preemptor.clone(), flight);
    }

    /// Removes and returns the plan of a preemptor, if it has one.
    pub(super) fn remove(&mut self, preemptor: &Preemptor) -> Option<Flight> {
        self.indexes.get_mut().changed.insert(preemptor.clone());
        self.all.remove(preemptor)
    }

    /// Returns the plan of a preemptor for a change, after which its summary is computed again.
    pub(super) fn get_mut(&mut self, preemptor: &Preemptor) -> Option<&mut Flight> {
        let flight = self.all.get_mut(preemptor)?;
        self.indexes.get_mut().changed.insert(preemptor.clone());
        Some(flight)
    }

    /// Returns all plans for a change, after which their summaries are computed again.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Flight> {
        self.indexes.get_mut().changed.extend(self.all.keys().cloned());
        self.all.values_mut()
    }

    /// Returns the indexes of the plans in flight (which victims count as terminating, which plans may still evict or keep a node), after
    /// updating them for the plans that have changed since the last call.
    fn indexes(&self) -> RefMut<'_, Indexes> {
        let mut indexes = self.indexes.borrow_mut();
        for preemptor in std::mem::take(&mut indexes.changed) {
            let summary = self.all.get(&preemptor).map(Summary::from);
            indexes.update(preemptor, summary);
        }
        indexes
    }
}

impl Flights {
    /// Returns the UIDs of the victims that a preemptor of this priority sees as terminating although the cluster does not show it.
    pub fn departing(&self, priority: i32) -> BTreeSet<SmolStr> {
        self.departing_if(|_, most| priority <= most)
    }

    /// Returns the UIDs of the victims of all plans that are evicted for certain: all victims of plans whose rehearsal (the dry runs before
    /// the first eviction) has succeeded, and those that are evicted in any case.
    pub fn departing_for_certain(&self) -> BTreeSet<SmolStr> {
        self.departing_if(|plan, most| plan.rehearsed || most == i32::MAX)
    }

    /// Returns the UIDs of the victims that count as terminating and for which `counts` returns true. Its arguments are the summary of the
    /// plan and the highest priority of a preemptor for which the victim counts.
    fn departing_if(&self, counts: impl Fn(&Summary, i32) -> bool) -> BTreeSet<SmolStr> {
        let indexes = self.all.indexes();
        let plans = indexes.departing.iter().filter_map(|preemptor| indexes.summaries.get(preemptor));
        let counts = &counts;
        let victims = plans.flat_map(|plan| plan.departing.iter().filter(move |(_, most)| counts(plan, *most)));
        victims.map(|(uid, _)| uid.clone()).collect()
    }

    /// Returns the plans whose evictions may still begin or are in flight, and those that the next pass advances because something changed.
    pub fn starting(&self) -> impl Iterator<Item = &Flight> {
        let mut plans = self.all.indexes().starting.clone();
        plans.extend(self.awake().cloned());
        plans.into_iter().filter_map(move |preemptor| self.get(&preemptor))
    }

    /// Returns true if any plan in flight reserves a node for a critical add-on.
    pub fn any_keeps_node(&self) -> bool {
        !self.all.indexes().keeping_node.is_empty()
    }

    /// Returns the number of plans with victims for preemptors of this priority or a higher one.
    pub fn count_with_victims(&self, priority: i32) -> usize {
        self.all.indexes().with_victims.range(priority..).map(|(_, count)| count).sum()
    }
}
