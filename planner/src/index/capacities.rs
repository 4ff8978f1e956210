//! Capacity of every node for preemptors of one class and priority, and the sums over all nodes. It is cached between decisions and updated
//! from the changes of the model, so that a decision after a small change takes little time.
//!
//! The differences between the model and a decision's cluster ([`InFlight`]) are applied for that decision, and reverted by the next one.

use super::at_risk::AtRisk;
use super::best_node::BestNode;
use super::node_capacity::{CapacityReader, MemberRequests, NodeCapacity, OwnSums};
use super::violations::Violations;
use crate::api::{Refusal, Respect};
use crate::filters::{Nodes, Rank, unsuitable};
use crate::limits::NODES_READ_AHEAD;
use crate::model::{BudgetIndex, Change, Cluster, EquivalenceClass, NodeIndex, Pod, UnitRef};
use crate::problem::{Difference, InFlight};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How many pods of one equivalence class and priority fit on each node, now and after evictions; cached from one decision to the next.
#[derive(Debug)]
pub(crate) struct Capacities {
    pub(crate) class: Arc<EquivalenceClass>,
    pub(crate) priority: i32,
    /// True if no two pods of the class may be on one node. The class alone does not determine that, because it does not contain labels.
    pub(crate) apart: bool,
    /// Which reservations count.
    pub(crate) respect: Respect,
    pub(crate) scale: MemberRequests,
    pub(crate) violations: Violations,
    /// By rank.
    pub(crate) nodes: Vec<NodeCapacity>,
    /// By rank: the model's index of the node.
    order: Vec<NodeIndex>,
    pub(crate) totals: Totals,
    /// Nodes on which a member fits now: those without leaving pods first, then by how many members fit, then by name.
    pub(crate) open: BTreeSet<(bool, u32, Rank)>,
    /// For single pods: the best node, by strategy.
    pub(crate) best_nodes: [Option<BestNode>; 2],
    /// Whether every topology domain that matters is a single node.
    pub(crate) domains_are_nodes: bool,
    /// Number of changes of the model that are applied.
    seen: Option<u64>,
    /// Nodes that differed from the model in the last decision, and these differences.
    patched: BTreeMap<Rank, Difference>,
    /// Budgets that differed from the model in the last decision.
    patched_budgets: BTreeSet<BudgetIndex>,
}

/// Sums of the capacities of all nodes.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// How many members fit now.
    pub(crate) now: u64,
    /// How many fit after the pods that are leaving anyway have terminated.
    pub(crate) then: u64,
    /// How many fit after the eviction of all units that may be evicted.
    pub(crate) most: u64,
    /// Nodes with a pod that excludes the members by anti-affinity.
    pub(crate) blocked: usize,
    /// Number of nodes where at least one member fits after these evictions.
    pub(crate) candidates: usize,
    /// By priority: how many more fit after the eviction of its units whose budgets are not violated.
    pub(crate) gains: BTreeMap<i32, u64>,
    /// By priority: how many more fit at most after evictions without budget violations.
    pub(crate) lawful_gains: BTreeMap<i32, u64>,
    /// Pods that may be evicted.
    pub(crate) movable: u64,
    /// Number of infeasible nodes, by reason.
    pub(crate) refusals: BTreeMap<Refusal, usize>,
    /// Number of the other nodes, and of those of them that are large enough for one pod.
    pub(crate) usable: usize,
    pub(crate) large: usize,
    /// Requests of the pods there that may be evicted; and, as bits, the resources that limit how many members fit now.
    pub(crate) freed: Vec<i128>,
    pub(crate) lacks: BTreeMap<u64, usize>,
}

impl Totals {
    /// Returns the lowest priority P at which `wanted` members fit: as many as fit after all terminations, plus the `gains` of all
    /// priorities up to P. `gains` has the number of members that fit in addition, by priority of the evicted units. `None` if no priority
    /// is enough.
    pub(crate) fn ceiling(&self, gains: &BTreeMap<i32, u64>, wanted: u64) -> Option<i32> {
        let mut fit = self.then;
        let enough = |(priority, gain): (&i32, &u64)| {
            fit += gain;
            (fit >= wanted).then_some(*priority)
        };
        gains.iter().find_map(enough)
    }

    /// Adds the capacity of a node to the totals if `more`, otherwise subtracts it.
    fn count(&mut self, answer: &NodeCapacity, more: bool) {
        let add = |sum: &mut u64, amount: u32| {
            *sum = if more { *sum + u64::from(amount) } else { sum.saturating_sub(u64::from(amount)) };
        };
        let one = |sum: &mut usize, yes: bool| {
            *sum = if more { *sum + usize::from(yes) } else { sum.saturating_sub(usize::from(yes)) };
        };
        add(&mut self.movable, answer.movable);
        one(&mut self.blocked, answer.blocked);
        if let Some(refusal) = &answer.refusal {
            let nodes = self.refusals.entry(refusal.as_ref().clone()).or_default();
            one(nodes, true);
            if *nodes == 0 {
                self.refusals.remove(refusal);
            }
            return;
        }
        add(&mut self.now, answer.now);
        add(&mut self.then, answer.then);
        add(&mut self.most, answer.most());
        one(&mut self.candidates, answer.most() > 0);
        one(&mut self.usable, true);
        let sum = |gains: &mut BTreeMap<i32, u64>, (priority, more): (i32, u32)| {
            let gain = gains.entry(priority).or_default();
            add(gain, more);
            if *gain == 0 {
                gains.remove(&priority);
            }
        };
        answer.mild_gains().for_each(|gain| sum(&mut self.gains, gain));
        answer.gains_at_most(true).for_each(|gain| sum(&mut self.lawful_gains, gain));
        if answer.large {
            one(&mut self.large, true);
            self.freed.resize(answer.freed.len(), 0);
            let sign = if more { 1 } else { -1 };
            self.freed.iter_mut().zip(&answer.freed).for_each(|(sum, freed)| *sum += sign * i128::from(*freed));
            let nodes = self.lacks.entry(answer.lacks).or_default();
            one(nodes, true);
            if *nodes == 0 {
                self.lacks.remove(&answer.lacks);
            }
        }
    }
}

impl Capacities {
    /// Creates capacities for pods of this class and priority, none of which is computed yet. `apart` says that no two of the pods may be
    /// on one node, and `respect` which reservations count. `None` if the requests are too large to be represented.
    pub(crate) fn new(
        cluster: &Cluster,
        class: &Arc<EquivalenceClass>,
        priority: i32,
        apart: bool,
        respect: Respect,
    ) -> Option<Self> {
        Some(Self {
            class: Arc::clone(class),
            priority,
            apart,
            respect,
            scale: MemberRequests::new(cluster, class, apart)?,
            violations: Violations::default(),
            nodes: Vec::new(),
            order: Vec::new(),
            totals: Totals::default(),
            open: BTreeSet::new(),
            best_nodes: [None, None],
            domains_are_nodes: true,
            seen: None,
            patched: BTreeMap::new(),
            patched_budgets: BTreeSet::new(),
        })
    }

    /// Brings the cached capacities up to date: with the changes of the model since the last call, and with the cluster that this decision
    /// assumes (`in_flight`). `example` is a pod of the class. `None` if the requests of the class are too large to be represented.
    pub(crate) fn catch_up(
        &mut self,
        cluster: &Cluster,
        nodes: &Nodes<'_>,
        example: &Pod,
        in_flight: &InFlight,
    ) -> Option<()> {
        let changes: Option<Vec<Change>> =
            self.seen.and_then(|seen| cluster.changes_since(seen)).map(|changes| changes.collect());
        let outdates = |change: &Change| match change {
            Change::Node(_) => self.scale.depends_on_nodes(),
            Change::Namespaces => !self.class.constraints.anti_affinity.is_empty(),
            _ => false,
        };
        let known = changes.filter(|changes| !changes.iter().any(outdates));
        // A class may have a number that another class had before.
        let renumbered = known.iter().flatten().any(|change| matches!(change, Change::Class(_)));
        let fresh = known.is_none();
        let mut stale = Stale::default();
        match known {
            Some(changes) => self.apply_changes(cluster, nodes, in_flight, &changes, &mut stale),
            None => {
                *self = Self::new(cluster, &self.class, self.priority, self.apart, self.respect)?;
                for budget in (0u32..).take(cluster.budget_bound()) {
                    self.violations.renew(cluster, in_flight, self.priority, budget);
                }
                let all: BTreeSet<NodeIndex> = (0..nodes.len()).map(|rank| nodes.index(rank)).collect();
                self.apply_node_changes(nodes, &all, &mut stale);
            }
        }
        self.seen = Some(cluster.mark_changes_read());
        self.patched_budgets = in_flight.budgets(cluster);
        let before = std::mem::replace(&mut self.patched, in_flight.nodes(cluster, nodes));
        let differs = |(rank, how): &(&Rank, &Difference), than: &BTreeMap<Rank, Difference>| {
            renumbered || than.get(rank) != Some(*how)
        };
        stale.nodes.extend(before.iter().filter(|node| differs(node, &self.patched)).map(|(rank, _)| *rank));
        stale.nodes.extend(self.patched.iter().filter(|node| differs(node, &before)).map(|(rank, _)| *rank));
        stale.nodes.extend(&stale.new);
        stale.nodes.sort_unstable();
        stale.nodes.dedup();
        let at_risk = AtRisk::new(cluster, in_flight, &self.violations, self.priority);
        let mut reader = CapacityReader {
            cluster,
            nodes,
            scale: &self.scale,
            in_flight,
            class: &self.class,
            priority: self.priority,
            patched: &self.patched,
            at_risk: if fresh { at_risk.list(nodes) } else { at_risk },
            own: OwnSums::default(),
        };
        for (number, rank) in stale.nodes.iter().enumerate() {
            if fresh && number % NODES_READ_AHEAD == 0 {
                reader.prefetch(stale.nodes[number..].iter().take(NODES_READ_AHEAD));
            }
            let is_new = fresh || stale.new.binary_search(rank).is_ok();
            let refusal = if is_new {
                unsuitable(example, nodes.at(*rank)).map(Box::new)
            } else {
                self.nodes[*rank].refusal.take()
            };
            let answer = reader.capacity(*rank, refusal);
            let old = std::mem::replace(&mut self.nodes[*rank], answer);
            let new = &self.nodes[*rank];
            if !is_new {
                // The refusal was moved from the old capacity to the new one.
                let old = NodeCapacity { refusal: new.refusal.clone(), ..old };
                if old == *new {
                    continue;
                }
                self.totals.count(&old, false);
                self.open.remove(&(old.vacating, old.now, *rank));
            }
            self.totals.count(new, true);
            if new.now > 0 {
                self.open.insert((new.vacating, new.now, *rank));
            }
        }
        for best_nodes in self.best_nodes.iter_mut().flatten() {
            stale.nodes.iter().chain(&stale.cost_only).for_each(|rank| best_nodes.forget(*rank));
        }
        Some(())
    }

    /// Applies these changes of the model, and updates which units violate budgets. Adds to `stale` the nodes whose cached capacity, or
    /// cost of evictions, may be outdated thereby, also because this decision counts some budgets otherwise than the model. Nodes get new
    /// ranks if any were added or removed.
    fn apply_changes(
        &mut self,
        cluster: &Cluster,
        nodes: &Nodes<'_>,
        in_flight: &InFlight,
        changes: &[Change],
        stale: &mut Stale,
    ) {
        let changed = changes.iter().filter_map(|change| match change {
            Change::Node(node) => Some(*node),
            _ => None,
        });
        self.apply_node_changes(nodes, &changed.collect(), stale);
        let mut budgets = self.patched_budgets.clone();
        budgets.extend(in_flight.budgets(cluster));
        let mut units = Vec::new();
        for change in changes {
            match change {
                Change::Node(_) | Change::Namespaces => {}
                Change::Pods(node) => stale.nodes.extend(nodes.rank(*node)),
                Change::Unit(group) => {
                    let unit = UnitRef::Group(*group);
                    let pods = cluster.unit(unit).map(|unit| unit.pods);
                    let budgeted = pods.iter().flatten().filter(|pod| cluster.row(**pod).budgeted);
                    budgets.extend(budgeted.flat_map(|pod| cluster.budgets_at(*pod)));
                    units.push(unit);
                }
                Change::Budget(budget) => drop(budgets.insert(*budget)),
                Change::Class(class) => self.scale.add_class(cluster, *class),
            }
        }
        for budget in budgets {
            let moved = self.violations.renew(cluster, in_flight, self.priority, budget);
            stale.of_units(cluster, nodes, moved, |stale| &mut stale.nodes);
            if self.best_nodes.iter().any(Option::is_some) {
                // The violations of the units with pods under it may have changed.
                let pods = cluster.budget_at(budget).into_iter().flat_map(|(_, pods)| pods);
                units.extend(pods.filter_map(|pod| cluster.row(*pod).role.unit(*pod)));
            }
        }
        units.sort_unstable();
        units.dedup();
        stale.of_units(cluster, nodes, units, |stale| &mut stale.cost_only);
    }
}

impl Capacities {
    /// Updates the cache after the nodes `changed` were added, removed or changed: what is cached of these nodes is discarded, and those
    /// that exist are added to `stale`. All other nodes move to their new ranks, whose order is the same as before.
    fn apply_node_changes(&mut self, nodes: &Nodes<'_>, changed: &BTreeSet<NodeIndex>, stale: &mut Stale) {
        if changed.is_empty() {
            return;
        }
        let order = (0..nodes.len()).map(|rank| nodes.index(rank)).collect();
        let before = std::mem::replace(&mut self.order, order);
        let stays = |node: &NodeIndex| nodes.rank(*node).filter(|_| !changed.contains(node));
        let moves: Vec<Option<Rank>> = before.iter().map(stays).collect();
        for (rank, old) in self.nodes.iter().enumerate().filter(|(rank, _)| moves[*rank].is_none()) {
            self.totals.count(old, false);
            self.open.remove(&(old.vacating, old.now, rank));
            self.patched.remove(&rank);
        }
        if before != self.order {
            let to = |rank: Rank| moves.get(rank).copied().flatten();
            let known = std::mem::replace(&mut self.nodes, vec![NodeCapacity::default(); nodes.len()]);
            for (old, to) in known.into_iter().zip(&moves) {
                if let Some(to) = to {
                    self.nodes[*to] = old;
                }
            }
            let open = std::mem::take(&mut self.open).into_iter();
            self.open = open.filter_map(|(vacating, now, rank)| Some((vacating, now, to(rank)?))).collect();
            let patched = std::mem::take(&mut self.patched).into_iter();
            self.patched = patched.filter_map(|(rank, difference)| Some((to(rank)?, difference))).collect();
            self.best_nodes.iter_mut().flatten().for_each(|best| best.renumber(to, nodes.len()));
        }
        stale.new = changed.iter().filter_map(|node| nodes.rank(*node)).collect();
        stale.new.sort_unstable();
        let terms = &self.class.constraints.anti_affinity;
        self.domains_are_nodes = terms.iter().all(|term| is_unique_label(nodes, &term.topology_key));
    }
}

/// The nodes of which something cached must be computed again.
#[derive(Default)]
struct Stale {
    /// Nodes whose capacity must be computed again.
    nodes: Vec<Rank>,
    /// Those of them that were added, or changed themselves, ascending: nothing of them is counted.
    new: Vec<Rank>,
    /// Nodes of which only the cost of evictions changed.
    cost_only: Vec<Rank>,
}

impl Stale {
    /// Adds the nodes on which these units of eviction have pods to one list of `self`: to the one that `list` returns (`nodes` or
    /// `cost_only`).
    fn of_units(
        &mut self,
        cluster: &Cluster,
        nodes: &Nodes<'_>,
        units: impl IntoIterator<Item = UnitRef>,
        list: impl Fn(&mut Self) -> &mut Vec<Rank>,
    ) {
        for unit in units.into_iter().filter_map(|unit| cluster.unit(unit)) {
            let ranks = unit.pods.iter().filter_map(|pod| nodes.rank(cluster.row(*pod).node?));
            list(self).extend(ranks);
        }
    }
}

/// Returns true if each node has a value of the label `key` that no other node has: every node is a topology domain of its own.
fn is_unique_label(nodes: &Nodes<'_>, key: &str) -> bool {
    let values: Option<BTreeSet<&String>> = (0..nodes.len()).map(|rank| nodes.at(rank).labels.get(key)).collect();
    values.is_some_and(|values| values.len() == nodes.len())
}
