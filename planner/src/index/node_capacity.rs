//! Capacity of a node for pods of one class: how many fit now, how many after the pods that are leaving anyway have terminated, and how
//! many after the units of lower priority are evicted, priority by priority.
//!
//! It is computed from the sums that the model keeps of every node. Where a decision's cluster differs from the model, or not every
//! preemptor of a higher priority may evict the same pods, the sums are those over the pods that this preemptor may evict.

use super::at_risk::{AtRisk, PodAtRisk};
use super::violations::Risk;
use crate::api::Refusal;
use crate::filters::{Nodes, Rank, affinity_term_matches};
use crate::limits::{MOST_IN_SUMS, MOST_RESOURCES};
use crate::model::{
    ClassId, Cluster, EquivalenceClass, Evictable, Node, NodeIndex, PodIndex, ResourceId, Row, clamped,
};
use crate::problem::{Difference, InFlight};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Amounts in the order in which they are asked for; pods seldom ask for more than four.
pub(crate) type NodeAmounts = SmallVec<[i64; 4]>;

/// How many members of one class fit on one node: now, after terminations, and after evictions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeCapacity {
    /// Why it is infeasible whatever runs there; `None` if it is not.
    pub(crate) refusal: Option<Box<Refusal>>,
    /// Whether it is large enough for one pod when it is empty.
    pub(crate) large: bool,
    /// Whether a pod there and the members exclude each other by anti-affinity.
    pub(crate) blocked: bool,
    /// Whether a pod there is leaving.
    pub(crate) vacating: bool,
    /// How many fit now.
    pub(crate) now: u32,
    /// How many fit after the pods that are leaving anyway have terminated.
    pub(crate) then: u32,
    /// The resources that limit how many fit now, as bits in the order in which they are requested.
    pub(crate) lacks: u64,
    /// Additional capacity, priority by priority.
    pub(crate) steps: Vec<CapacityStep>,
    /// Pods that may be evicted.
    pub(crate) movable: u32,
    /// The requests of these pods, in the order of `MemberRequests::ids`.
    pub(crate) freed: NodeAmounts,
}

/// How many members fit on a node after the eviction of units up to a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CapacityStep {
    pub(crate) priority: i32,
    /// Without all of these units.
    pub(crate) all: u32,
    /// Without these units except those whose budgets would be violated if all of lower priority were evicted.
    pub(crate) mild: u32,
    /// Without these units except those that violate a budget by themselves: no plan without budget violations lets more members fit.
    pub(crate) lawful: u32,
}

impl NodeCapacity {
    /// Returns how many members fit on the node after the eviction of all units with a priority up to `ceiling`.
    pub(crate) fn up_to(&self, ceiling: i32) -> u32 {
        self.steps.iter().take_while(|step| step.priority <= ceiling).last().map_or(self.then, |step| step.all)
    }

    /// Returns, for each priority at which evictions help, how many more members fit when units of this priority are evicted in addition to
    /// those of lower priorities. Units that violate a budget when all units below the preemptor's priority are evicted are not counted as
    /// evicted.
    pub(crate) fn mild_gains(&self) -> impl Iterator<Item = (i32, u32)> + '_ {
        let mut before = self.then;
        self.steps.iter().filter_map(move |step| {
            let gain = step.mild.saturating_sub(before);
            before = before.max(step.mild);
            (gain > 0).then_some((step.priority, gain))
        })
    }

    /// Returns, for each priority at which evictions help, how many more members fit at most when units of this priority are evicted in
    /// addition to those of lower priorities: all units or, if `lawful`, only those that violate no budget by themselves.
    pub(crate) fn gains_at_most(&self, lawful: bool) -> impl Iterator<Item = (i32, u32)> + '_ {
        let mut before = self.then;
        self.steps.iter().filter_map(move |step| {
            let now = if lawful { step.lawful } else { step.all };
            let gain = now.saturating_sub(before);
            before = before.max(now);
            (gain > 0).then_some((step.priority, gain))
        })
    }

    /// Returns the lowest priority such that more members fit after the eviction of all units with a priority up to it; `None` if evictions
    /// do not help.
    pub(crate) fn first_gain(&self) -> Option<i32> {
        self.steps.first().map(|step| step.priority)
    }

    /// Returns how many members fit on the node after the eviction of all units that may be evicted.
    pub(crate) fn most(&self) -> u32 {
        self.steps.last().map_or(self.then, |step| step.all)
    }
}

/// What one member of a class requests of each resource, and how much of the same resources the eviction of a pod of any class frees.
#[derive(Debug)]
pub(crate) struct MemberRequests {
    /// The resources that members request, in an order that does not depend on when they were first seen.
    pub(crate) ids: Vec<ResourceId>,
    /// What one member requests, in the order of `ids`.
    pub(crate) each: Vec<i64>,
    /// By class, and resource.
    amounts: Vec<i64>,
    /// Maximum number of members per node.
    pub(crate) cap: u32,
}

/// A request that is larger than any free amount.
const NOWHERE: i64 = (1 << 52) + 1;

/// Returns `amount`, which one member requests of the resource `id`, in 64 bits; [`NOWHERE`] if it is more than all nodes together offer
/// and than `MOST_IN_SUMS`. `None` if it is 0 or cannot be represented.
fn asked(cluster: &Cluster, id: ResourceId, amount: i128) -> Option<i64> {
    let exceeds_all_nodes = amount > MOST_IN_SUMS && cluster.offered(id) < amount;
    if exceeds_all_nodes { Some(NOWHERE) } else { narrow(amount).filter(|amount| *amount > 0) }
}

/// Converts an amount to 64 bits; `None` if it is larger than `MOST_IN_SUMS`.
fn narrow(amount: i128) -> Option<i64> {
    i64::try_from(amount).ok().filter(|_| amount.abs() <= MOST_IN_SUMS)
}

impl MemberRequests {
    /// Creates the requests of members of a class; `apart` says that no two of them may be on one node. `None` if the requests cannot be
    /// represented.
    pub(crate) fn new(cluster: &Cluster, class: &EquivalenceClass, apart: bool) -> Option<Self> {
        let ids = cluster.in_order(class.requests.iter().map(|(id, _)| id).collect());
        if ids.len() > MOST_RESOURCES {
            return None;
        }
        let each = ids.iter().map(|id| asked(cluster, *id, class.requests.get(*id))).collect::<Option<_>>()?;
        let cap = if apart { 1 } else { u32::MAX };
        let mut scale = Self { ids, each, amounts: Vec::new(), cap };
        (0u32..).take(cluster.class_bound()).for_each(|id| scale.add_class(cluster, id));
        Some(scale)
    }

    /// Returns true if a member requests more of a resource than all nodes together offer: this value must then be created again when a
    /// node changes.
    pub(crate) fn depends_on_nodes(&self) -> bool {
        self.each.contains(&NOWHERE)
    }

    /// Stores what the eviction of one pod of the equivalence class `id` frees: its requests, of the resources that members request.
    pub(crate) fn add_class(&mut self, cluster: &Cluster, id: ClassId) {
        let Some(class) = cluster.class(id) else { return };
        let width = self.ids.len();
        let start = id as usize * width;
        self.amounts.resize(self.amounts.len().max(start + width), 0);
        for (at, resource) in self.ids.iter().enumerate() {
            // A larger request counts as `MOST_IN_SUMS`: the capacity that its eviction frees may be underestimated, never overestimated.
            self.amounts[start + at] = clamped(class.requests.get(*resource));
        }
    }

    /// Returns what the eviction of one pod of an equivalence class frees, of each resource that members request, in the order of `ids`.
    pub(crate) fn freed_by(&self, class: ClassId) -> &[i64] {
        let start = class as usize * self.ids.len();
        self.amounts.get(start..start + self.ids.len()).unwrap_or_default()
    }

    /// Returns true if a member fits on a node on which no pod runs, as far as requests decide.
    pub(crate) fn fits_when_empty(&self, node: &Node) -> bool {
        self.ids.iter().zip(&self.each).all(|(id, each)| node.allocatable(*id) >= i128::from(*each))
    }

    /// Returns how many members fit into these free amounts, which are in the order of `ids`.
    fn fit(&self, free: &[i64]) -> u32 {
        self.fit_each(free.iter().copied())
    }

    /// Returns how many members fit into these free amounts, which are in the order of `ids`.
    fn fit_each(&self, free: impl Iterator<Item = i64>) -> u32 {
        let fit = free.zip(&self.each).map(|(free, each)| free.max(0) / each).min();
        fit.map_or(0, |fit| u32::try_from(fit).unwrap_or(u32::MAX)).min(self.cap)
    }

    /// Returns how many members fit into these free amounts, if it is known that `known` fit: this is faster than [`Self::fit`] if no
    /// further one does.
    fn fit_from(&self, free: &[i64], known: u32) -> u32 {
        if known >= self.cap {
            return known;
        }
        let next = i64::from(known) + 1;
        let more = free.iter().zip(&self.each).all(|(free, each)| each.checked_mul(next).is_some_and(|n| n <= *free));
        if more { self.fit(free) } else { known }
    }
}

/// Returns what is free on the node with this rank now, beside all bound pods and the reservations that count, of each resource in
/// `scale.ids`.
pub(crate) fn free_now(
    cluster: &Cluster,
    nodes: &Nodes<'_>,
    rank: Rank,
    scale: &MemberRequests,
    in_flight: &InFlight,
) -> NodeAmounts {
    let row = cluster.free().row(nodes.index(rank));
    let free = |id: &ResourceId| clamped(row.get(usize::from(*id)).copied().unwrap_or(0));
    let mut free: NodeAmounts = scale.ids.iter().map(free).collect();
    let held = in_flight.reserved.on(cluster, nodes.index(rank));
    held.for_each(|pod| add(&mut free, scale.freed_by(cluster.row(pod).class), -1));
    free
}

/// Adds `amounts` to the free amounts (`sign` 1), or subtracts them (-1).
pub(crate) fn add(free: &mut [i64], amounts: &[i64], sign: i64) {
    free.iter_mut().zip(amounts).for_each(|(free, amount)| *free += sign * amount);
}

/// Computes the capacity of nodes for preemptors of one priority.
pub(crate) struct CapacityReader<'s> {
    pub(crate) cluster: &'s Cluster,
    pub(crate) nodes: &'s Nodes<'s>,
    pub(crate) scale: &'s MemberRequests,
    pub(crate) in_flight: &'s InFlight,
    pub(crate) class: &'s Arc<EquivalenceClass>,
    pub(crate) priority: i32,
    /// The nodes that differ from the model in this decision.
    pub(crate) patched: &'s BTreeMap<Rank, Difference>,
    pub(crate) at_risk: AtRisk<'s>,
    /// Buffer that is reused for every node whose pods are read.
    pub(crate) own: OwnSums,
}

/// What evictions on a node free, by priority: each column has, for each of the ascending `priorities`, a sum over the pods up to this
/// priority.
struct Freed<'l> {
    priorities: &'l [i32],
    pods: &'l [i64],
    /// In the order of `MemberRequests::ids`; empty for a resource that none of the pods requests.
    requests: SmallVec<[&'l [i64]; 4]>,
}

impl Freed<'_> {
    /// Returns how many of the `priorities` are below this one.
    fn below(&self, priority: i32) -> usize {
        self.priorities.partition_point(|level| *level < priority)
    }
}

/// Sums over the pods of one node that were read one by one, where the sums of the model do not apply.
#[derive(Default)]
pub(crate) struct OwnSums {
    pods: Vec<(i32, ClassId)>,
    priorities: Vec<i32>,
    sums: Vec<i64>,
}

impl OwnSums {
    /// Returns sums over the pods that were added to `self.pods`, by priority: their number, and their requests of the resources in
    /// `scale.ids`.
    fn sum_up(&mut self, scale: &MemberRequests) -> Freed<'_> {
        let Self { pods, priorities, sums } = self;
        pods.sort_unstable();
        priorities.clear();
        priorities.extend(pods.chunk_by(|a, b| a.0 == b.0).map(|level| level[0].0));
        let (height, width) = (priorities.len(), scale.ids.len());
        sums.clear();
        sums.resize(height * (width + 1), 0);
        for (at, level) in pods.chunk_by(|a, b| a.0 == b.0).enumerate() {
            for column in 0..=width {
                let before = if at > 0 { sums[column * height + at - 1] } else { 0 };
                let amount =
                    |(_, class): &(i32, ClassId)| if column == 0 { 1 } else { scale.freed_by(*class)[column - 1] };
                sums[column * height + at] = before + level.iter().map(amount).sum::<i64>();
            }
        }
        let mut columns = (0..=width).map(|column| &sums[column * height..(column + 1) * height]);
        Freed { priorities, pods: columns.next().unwrap_or_default(), requests: columns.collect() }
    }
}

impl CapacityReader<'_> {
    /// Reads parts of the data of these nodes in advance, so that the processor waits for many memory accesses at the same time.
    pub(crate) fn prefetch<'r>(&self, ranks: impl Iterator<Item = &'r Rank>) {
        let read = |rank: &Rank| {
            let node = self.nodes.index(*rank);
            let sums = self.cluster.evictable_on(node).map_or(0, Evictable::prefetch);
            let free = self.cluster.free().row(node).first().copied().unwrap_or(0);
            sums ^ clamped(free) ^ i64::from(self.nodes.at(*rank).unschedulable)
        };
        std::hint::black_box(ranks.map(read).fold(0_i64, |seen, read| seen ^ read));
    }

    /// Computes how many members fit on the node with this rank: now, after terminations, and after evictions. `refusal` is the reason why
    /// the node is infeasible whatever runs there, if it is: then no member fits.
    pub(crate) fn capacity(&mut self, rank: Rank, refusal: Option<Box<Refusal>>) -> NodeCapacity {
        let (cluster, scale, node) = (self.cluster, self.scale, self.nodes.index(rank));
        let mut free = free_now(cluster, self.nodes, rank, scale, self.in_flight);
        let now = scale.fit(&free);
        let lacks = (0..scale.ids.len()).filter(|at| free[*at].max(0) / scale.each[*at] == i64::from(now));
        let lacks = lacks.map(|at| 1 << at).sum();
        let large = scale.fits_when_empty(self.nodes.at(rank));
        let mut answer = NodeCapacity { refusal, large, now, lacks, ..NodeCapacity::default() };
        answer.blocked = self.is_blocked(node);
        let kept = cluster.evictable_on(node).filter(|_| !self.patched.contains_key(&rank));
        let freed = match kept.filter(|kept| !kept.has_others() && self.in_flight.protects_critical_addons()) {
            Some(kept) => Freed {
                priorities: kept.priorities(),
                pods: kept.pods(),
                requests: scale.ids.iter().map(|id| kept.requests(*id)).collect(),
            },
            None => {
                answer.vacating = self.read(node, &mut free);
                self.own.sum_up(scale)
            }
        };
        let below = freed.below(self.priority);
        let up_to = |column: &[i64]| below.checked_sub(1).and_then(|at| column.get(at)).copied().unwrap_or(0);
        answer.movable = u32::try_from(up_to(freed.pods)).unwrap_or(u32::MAX);
        answer.freed = freed.requests.iter().map(|column| up_to(column)).collect();
        answer.then = scale.fit_from(&free, answer.now);
        if answer.refusal.is_some() {
            (answer.now, answer.then) = (0, 0);
            return answer;
        }
        let most = scale.fit_each(free.iter().zip(&answer.freed).map(|(free, freed)| free + freed));
        if most > answer.then {
            let at_risk = self.at_risk.on(rank, node);
            answer.steps = steps(scale, &free, &freed, below, at_risk, (answer.then, most));
        }
        answer
    }

    /// Returns true if the members have required anti-affinity, and a pod on the node is selected by one of its terms or is of the members'
    /// equivalence class.
    fn is_blocked(&self, node: NodeIndex) -> bool {
        let terms = &self.class.constraints.anti_affinity;
        let meets = |(index, row): (PodIndex, Row)| {
            self.cluster.class(row.class).is_some_and(|class| Arc::ptr_eq(class, self.class))
                || self
                    .cluster
                    .pod_at(index)
                    .is_some_and(|pod| terms.iter().any(|term| affinity_term_matches(self.cluster, term, pod)))
        };
        !terms.is_empty() && self.cluster.rows_at(node).any(meets)
    }

    /// Reads the pods of a node: adds to `free` what those free that leave anyway, and lists those that the preemptor may evict in
    /// `self.own`. Returns true if any leaves.
    fn read(&mut self, node: NodeIndex, free: &mut [i64]) -> bool {
        let mut vacating = false;
        self.own.pods.clear();
        for (index, row) in self.cluster.rows_at(node) {
            if self.in_flight.leaves(index, &row) {
                add(free, self.scale.freed_by(row.class), 1);
                vacating = true;
            } else if row.priority < self.priority && self.in_flight.unit_of(index, &row).is_some() {
                self.own.pods.push((row.priority, row.class));
            }
        }
        vacating
    }
}

/// Returns how many members fit after the evictions up to a priority: for each of the first `below` priorities in `freed` at which that
/// number changes. Without evictions `then` members fit, and after all of them `most`. `at_risk` are the pods of the node whose eviction
/// would violate a budget, by priority. Only resources of which less is free than `most` members need are compared: no other one limits how
/// many fit.
fn steps(
    scale: &MemberRequests,
    free: &[i64],
    freed: &Freed<'_>,
    below: usize,
    mut at_risk: &[PodAtRisk],
    (then, most): (u32, u32),
) -> Vec<CapacityStep> {
    let is_scarce = |at: usize| scale.each[at].checked_mul(i64::from(most)).is_none_or(|wanted| free[at] < wanted);
    let scarce: SmallVec<[usize; 4]> = (0..free.len()).filter(|at| is_scarce(*at)).collect();
    let fit_from = |known: u32, amount: &dyn Fn(usize) -> i64| {
        let next = i64::from(known) + 1;
        let fits_next = |at: &usize| scale.each[*at].checked_mul(next).is_some_and(|wanted| wanted <= amount(*at));
        if known >= most || !scarce.iter().all(fits_next) {
            return known;
        }
        let fit = scarce.iter().map(|at| amount(*at).max(0) / scale.each[*at]).min();
        fit.map_or(most, |fit| u32::try_from(fit).unwrap_or(u32::MAX).min(most))
    };
    // What the pods free that violate a budget, and those of them that do by themselves.
    let (mut together, mut alone) = (NodeAmounts::from_elem(0, free.len()), NodeAmounts::from_elem(0, free.len()));
    let mut risky = false;
    let mut steps = Vec::new();
    let mut step = CapacityStep { priority: 0, all: then, mild: then, lawful: then };
    for level in 0..below {
        let before = step;
        step.priority = freed.priorities[level];
        while let Some((pod, rest)) = at_risk.split_first().filter(|(pod, _)| pod.priority <= step.priority) {
            let amounts = scale.freed_by(pod.class);
            risky |= scarce.iter().any(|at| amounts[*at] > 0);
            add(&mut together, amounts, 1);
            if pod.risk == Risk::Alone {
                add(&mut alone, amounts, 1);
            }
            at_risk = rest;
        }
        let all = |at: usize| free[at] + freed.requests[at].get(level).copied().unwrap_or(0);
        step.all = fit_from(step.all, &all);
        step.mild = if risky { fit_from(step.mild, &|at| all(at) - together[at]) } else { step.all };
        step.lawful = if risky { fit_from(step.lawful, &|at| all(at) - alone[at]) } else { step.all };
        if (step.all, step.mild, step.lawful) != (before.all, before.mild, before.lawful) {
            steps.push(step);
        }
    }
    steps
}
