//! The best node for a single pod: each node is a domain of its own, and its best choice of victims is searched only if a lower bound
//! permits that it is the best of all (step 9).
//!
//! Bounds and choices are cached until something changes on their node. A choice depends on its node alone, and what it took to search it
//! is counted whether it is cached or not, so that the result does not depend on earlier decisions.

use super::node_capacity::{MemberRequests, NodeCapacity, add, free_now};
use crate::api::{Cost, CostBound, offset_priority};
use crate::filters::{Nodes, Rank};
use crate::limits::MOST_NODES_TIED;
use crate::model::{Cluster, UnitKind, UnitRef};
use crate::problem::InFlight;
use crate::search::domains::least_weight_to_free;
use std::collections::BTreeSet;
use std::ops::Bound;

/// The best nodes for a single pod.
#[derive(Debug, Default)]
pub(crate) struct BestNode {
    order: BTreeSet<(Cost, Rank)>,
    entries: Vec<Entry>,
    forgotten: BTreeSet<Rank>,
}

/// What is cached of a node.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The lower bound; `None` if the pod does not fit there whatever is evicted.
    least: Option<Cost>,
    /// Whether this is the bound that the pods of the node give, and not only the one that its capacity gives.
    close: bool,
    /// What a search found; `None` if there was no search.
    searched: Option<Searched>,
}

/// The result of a search for the best choice of victims on one node; `choice` is `None` if there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Searched {
    pub(crate) choice: Option<NodeChoice>,
    /// How many looks it took.
    pub(crate) looks: usize,
}

/// The best choice of victims on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeChoice {
    pub(crate) cost: Cost,
    /// Whether nothing cheaper exists there.
    pub(crate) proven: bool,
}

/// The best nodes of all.
pub(crate) struct Best {
    /// The best node, and the next ones whose choices have the same [bound](Cost::bound).
    pub(crate) ranks: Vec<Rank>,
    /// What every choice on any node costs at least.
    pub(crate) least: CostBound,
}

impl BestNode {
    /// Creates a cache for this number of nodes, without any result.
    pub(crate) fn new(nodes: usize) -> Self {
        Self { forgotten: (0..nodes).collect(), entries: vec![Entry::default(); nodes], ..Self::default() }
    }

    /// Discards what is cached of the node with this rank; it is computed again when it is needed.
    pub(crate) fn forget(&mut self, rank: Rank) {
        self.forgotten.insert(rank);
    }

    /// Moves what is cached of each node to the rank that `to` returns for the node's old rank, or discards it if `to` returns `None`.
    /// Afterwards there are `nodes` ranks.
    pub(crate) fn renumber(&mut self, to: impl Fn(Rank) -> Option<Rank>, nodes: usize) {
        let known = std::mem::take(self);
        self.order = known.order.into_iter().filter_map(|(cost, rank)| Some((cost, to(rank)?))).collect();
        self.forgotten = known.forgotten.into_iter().filter_map(&to).collect();
        self.entries.resize(nodes, Entry::default());
        for (rank, entry) in known.entries.into_iter().enumerate() {
            if let Some(to) = to(rank) {
                self.entries[to] = entry;
            }
        }
    }

    /// Returns the nodes on which the evictions for the pod cost least; `None` if no searched node has a choice of victims. `outline` and
    /// `bound` return lower bounds on that cost for a node (`None`: no eviction helps there); the first takes less time, and is not above
    /// the second. `search` finds the best victims on a node. Nodes are searched in the order of the second bound, until no other node can
    /// be better, or `looks` checks of a node or pod are used up: the result is then the best of the searched nodes.
    pub(crate) fn best(
        &mut self,
        mut outline: impl FnMut(Rank) -> Option<Cost>,
        mut bound: impl FnMut(Rank) -> Option<Cost>,
        mut search: impl FnMut(Rank) -> Searched,
        mut looks: usize,
    ) -> Option<Best> {
        let Self { order, entries, forgotten } = self;
        for rank in std::mem::take(forgotten) {
            let least = outline(rank);
            let old = std::mem::replace(&mut entries[rank], Entry { least, ..Entry::default() });
            old.least.map(|cost| order.remove(&(cost, rank)));
            least.map(|cost| order.insert((cost, rank)));
        }
        let mut best: Option<(Cost, Rank)> = None;
        let (mut choices, mut more) = (Vec::new(), MOST_NODES_TIED - 1);
        // The lowest bound of a node where a cheaper choice than the one found may exist.
        let mut unsure: Option<Cost> = None;
        let mut after = Bound::Unbounded;
        while let Some((least, rank)) = order.range((after, Bound::Unbounded)).next().copied() {
            let is_tied = match best.filter(|best| *best <= (least, rank)) {
                Some((cost, _)) if least.bound() != cost.bound() || looks == 0 || more == 0 => break,
                tied => tied.is_some(),
            };
            let entry = &mut entries[rank];
            if !std::mem::replace(&mut entry.close, true) {
                entry.least = bound(rank);
                order.remove(&(least, rank));
                entry.least.map(|cost| order.insert((cost, rank)));
                continue;
            }
            if looks == 0 {
                unsure.get_or_insert(least);
                break;
            }
            after = Bound::Excluded((least, rank));
            let searched = *entry.searched.get_or_insert_with(|| search(rank));
            looks = looks.saturating_sub(searched.looks);
            if searched.choice.is_none_or(|choice| !choice.proven) {
                unsure.get_or_insert(least);
            }
            more -= usize::from(is_tied);
            let found = searched.choice.map(|choice| (choice.cost, rank));
            choices.extend(found);
            best = [best, found].into_iter().flatten().min();
        }
        let (cost, _) = best?;
        choices.retain(|(other, _): &(Cost, Rank)| other.bound() == cost.bound());
        choices.sort_unstable();
        choices.truncate(MOST_NODES_TIED);
        let ranks = choices.into_iter().map(|(_, rank)| rank).collect();
        Some(Best { ranks, least: unsure.map_or(cost, |least| least.min(cost)).bound() })
    }
}

/// A unit of eviction (a single pod or a whole group) with pods on the node, and what its eviction frees there, in the order of
/// [`MemberRequests::ids`].
struct UnitOnNode {
    unit: UnitRef,
    freed: Vec<i64>,
}

/// Returns a lower bound on the cost of evictions for one pod on the node with this capacity: a victim of the lowest priority that is
/// sufficient. `None` if the pod does not fit whatever is evicted.
pub(crate) fn outline(answer: &NodeCapacity) -> Option<Cost> {
    let sufficient = answer.steps.iter().find(|step| step.all > 0)?;
    Some(Cost { highest_priority: Some(sufficient.priority), ..Cost::default() })
}

/// Returns a lower bound on the cost of evictions for one pod on the node with this rank, closer than [`outline`]: with the lowest
/// sufficient priority, the units of eviction without which the pod cannot fit, and at least one unit. `None` if the pod does not fit
/// whatever is evicted. `answer` is the capacity of the node.
pub(crate) fn bound(
    cluster: &Cluster,
    nodes: &Nodes<'_>,
    scale: &MemberRequests,
    in_flight: &InFlight,
    answer: &NodeCapacity,
    rank: Rank,
) -> Option<Cost> {
    let ceiling = answer.steps.iter().find(|step| step.all > 0)?.priority;
    let mut free = free_now(cluster, nodes, rank, scale, in_flight);
    let mut here: Vec<UnitOnNode> = Vec::new();
    for (index, row) in cluster.rows_at(nodes.index(rank)) {
        if in_flight.leaves(index, &row) {
            add(&mut free, scale.freed_by(row.class), 1);
        } else if row.priority <= ceiling
            && let Some(unit) = in_flight.unit_of(index, &row)
        {
            match here.iter_mut().find(|other| matches!(unit, UnitRef::Group(_)) && other.unit == unit) {
                Some(known) => add(&mut known.freed, scale.freed_by(row.class), 1),
                None => here.push(UnitOnNode { unit, freed: scale.freed_by(row.class).to_vec() }),
            }
        }
    }
    let mut gone = free.clone();
    here.iter().for_each(|unit| add(&mut gone, &unit.freed, 1));
    let short = |at: usize| free[at] < scale.each[at];
    let mut needed = EvictionBound::default();
    let mut one = None;
    let mut helping: Vec<(EvictionBound, &[i64])> = Vec::with_capacity(here.len());
    for unit in &here {
        if !(0..free.len()).any(|at| short(at) && unit.freed[at] > 0) {
            continue;
        }
        let needs = (0..free.len()).any(|at| gone[at] - unit.freed[at] < scale.each[at]);
        let least = EvictionBound::of(cluster, in_flight, unit.unit, ceiling)?;
        if needs {
            needed.add(&least);
        }
        helping.push((least, &unit.freed));
        one = Some(match one {
            Some(so_far) => least.best_of_either(so_far),
            None => least,
        });
    }
    let mut least = needed.with_one_of(one?);
    least.sum = least.sum.max(fractional_bound(&helping, &free, scale, |least| least.sum));
    let pods = fractional_bound(&helping, &free, scale, |least| least.pods as u64);
    least.pods = least.pods.max(usize::try_from(pods).unwrap_or(usize::MAX));
    if let Some(start) = latest_start(cluster, &here, ceiling, least.pods) {
        least.start = Some(start);
    }
    Some(Cost {
        budget_violations: 0,
        highest_priority: Some(ceiling),
        priority_sum: least.sum,
        victim_pods: least.pods,
        earliest_start: least.start.filter(|start| *start < i64::MAX),
        victim_groups: least.groups,
        // What victims lose depends on other nodes and on the time.
        ..Cost::default()
    })
}

/// Returns a lower bound on the sum of `weight` over units whose eviction frees enough for one pod. For each resource it is the least sum
/// if fractions of the units in `helping` could be evicted; the highest of these is returned. Each unit comes with what its eviction frees;
/// `free` is what is free without evictions.
fn fractional_bound(
    helping: &[(EvictionBound, &[i64])],
    free: &[i64],
    scale: &MemberRequests,
    weight: impl Fn(&EvictionBound) -> u64,
) -> u64 {
    let of = |at: usize| {
        let offers = helping.iter().map(|(least, freed)| (weight(least), i128::from(freed[at])));
        least_weight_to_free(i128::from(scale.each[at]) - i128::from(free[at]), offers)
    };
    (0..free.len()).map(of).max().unwrap_or(0)
}

/// Returns the earliest start, in ns since the epoch, among those `pods` units of `here` that started last. `None` if `here` has fewer
/// units, or not all are single pods of the priority `ceiling`.
fn latest_start(cluster: &Cluster, here: &[UnitOnNode], ceiling: i32, pods: usize) -> Option<i64> {
    let starts = here.iter().map(|unit| match (unit.unit, cluster.unit(unit.unit)) {
        (UnitRef::Pod(_), Some(found)) if found.priority == ceiling => Some(found.started.unwrap_or(i64::MAX)),
        _ => None,
    });
    let mut starts: Vec<i64> = starts.collect::<Option<_>>()?;
    starts.sort_unstable();
    starts.len().checked_sub(pods).and_then(|at| starts.get(at).copied())
}

/// A lower bound on the cost of evictions, by criterion: sum of offset priorities, number of pods, number of whole groups, and earliest
/// start among units of the highest priority (in ns since the epoch), of which a later one is better.
#[derive(Clone, Copy, Default)]
struct EvictionBound {
    sum: u64,
    pods: usize,
    groups: usize,
    start: Option<i64>,
}

impl EvictionBound {
    /// Returns the cost of the eviction of one unit (a single pod or a whole group); its start only if it has the priority `ceiling`.
    /// `None` if the unit does not exist.
    fn of(cluster: &Cluster, in_flight: &InFlight, unit: UnitRef, ceiling: i32) -> Option<Self> {
        let found = cluster.unit(unit)?;
        let all = !in_flight.any_departs() || found.pods.len() == 1;
        let pods = if all { found.pods.len() } else { in_flight.staying(cluster, &found) };
        // A pod that is leaving anyway may have started first.
        let start = if all { found.started.unwrap_or(i64::MAX) } else { i64::MAX };
        Some(Self {
            sum: offset_priority(found.priority) * pods as u64,
            pods,
            groups: usize::from(found.kind == UnitKind::PodGroup),
            start: (found.priority == ceiling).then_some(start),
        })
    }

    /// Adds to this lower bound the cost of other evictions that are needed as well.
    fn add(&mut self, other: &Self) {
        self.sum = self.sum.saturating_add(other.sum);
        self.pods += other.pods;
        self.groups += other.groups;
        self.start = [self.start, other.start].into_iter().flatten().min();
    }

    /// Returns a lower bound on the cost of evictions if only those of `self` or those of `other` are needed: the lower cost by each
    /// criterion.
    fn best_of_either(self, other: Self) -> Self {
        Self {
            sum: self.sum.min(other.sum),
            pods: self.pods.min(other.pods),
            groups: self.groups.min(other.groups),
            start: self.start.max(other.start),
        }
    }

    /// Returns the bound if these evictions are needed, and at least one of some others as well, each of which costs at least
    /// `alternatives` and which may be among these: the higher cost by each criterion.
    fn with_one_of(self, alternatives: Self) -> Self {
        Self {
            sum: self.sum.max(alternatives.sum),
            pods: self.pods.max(alternatives.pods),
            groups: self.groups.max(alternatives.groups),
            start: [self.start, alternatives.start].into_iter().flatten().min(),
        }
    }
}
