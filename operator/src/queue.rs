//! Who waits for a decision, and in which order: priority, then age, then name. A preemptor that cannot be helped now
//! is looked at again when something changed, and never stands in the way of others.

use crate::ledger::Flights;
use crate::model::Model;
use crate::status::LastWord;
use giveway_crds::policy::PreemptionPolicy;
use giveway_planner::model::Pod;
use giveway_planner::plan::Preemptor;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A preemptor that waits.
#[derive(Clone, Debug, Default)]
pub struct Waiting {
    /// [`Model::version`] when it was last looked at.
    pub seen: Option<u64>,
    /// Not before this time, after a plan that failed.
    pub not_before: Option<Instant>,
    /// Plans in a row that failed.
    pub failures: u32,
    /// What was decided last.
    pub last_word: Option<LastWord>,
    /// Victims that the API server refused, and until when they are spared.
    pub spared: BTreeMap<String, Instant>,
}

impl Waiting {
    /// Notes that a plan failed: the next one is made after a while, at most a minute later.
    pub fn back_off(&mut self, now: Instant) {
        self.not_before = Some(now + Duration::from_millis(500) * (1 << self.failures.min(7)));
        self.failures += 1;
        self.seen = None;
    }

    /// Victims to spare now.
    pub fn spared(&mut self, now: Instant) -> BTreeSet<String> {
        self.spared.retain(|_, until| *until > now);
        self.spared.keys().cloned().collect()
    }
}

/// Every preemptor without a decision in flight, most urgent first.
pub fn preemptors(model: &Model, flights: &Flights, scheduler_names: &[String]) -> Vec<Preemptor> {
    let cluster = &model.cluster;
    let mut found: BTreeMap<Preemptor, (Reverse<i32>, i64)> = BTreeMap::new();
    for pod in cluster.pods().filter(|p| p.live() && p.node.is_none() && !p.gated_by_others) {
        let group = cluster.group_of(pod);
        let preemptor = match group {
            Some(group) if group.min_count.is_some() || pod.unschedulable => Preemptor::Group(group.key.clone()),
            Some(_) => continue,
            None if preempts_alone(model, pod, scheduler_names) => Preemptor::Pod(pod.key.clone()),
            None => continue,
        };
        if flights.contains_key(&preemptor) {
            continue;
        }
        let created = group.map_or(pod.created, |g| g.created).unwrap_or(i64::MAX);
        found.insert(preemptor, (Reverse(cluster.effective_priority(pod)), created));
    }
    let mut order: Vec<_> = found.into_iter().collect();
    order.sort_by(|(a, x), (b, y)| x.cmp(y).then_with(|| a.cmp(b)));
    order.into_iter().map(|(preemptor, _)| preemptor).collect()
}

/// Whether Giveway preempts for this pod on its own: a pod of a managed class that the scheduler could not place.
fn preempts_alone(model: &Model, pod: &Pod, scheduler_names: &[String]) -> bool {
    pod.unschedulable
        && !pod.held
        && pod.group.is_none()
        && scheduler_names.contains(&pod.scheduler_name)
        && model.cluster.effective_policy(pod) == PreemptionPolicy::PreemptLowerPriority
}
