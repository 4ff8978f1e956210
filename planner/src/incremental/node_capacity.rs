//! Capacity of a node for pods of one class: how many fit now, how many after the pods that are leaving anyway have terminated, and how
//! many after the units of lower priority are evicted, priority by priority.

use super::violations::{Risk, Violations};
use crate::api::Refusal;
use crate::filters::{Nodes, Rank, about};
use crate::model::{ClassId, Cluster, EquivalenceClass, Node, PodIndex, ResourceId, Row};
use crate::problem::InFlight;
use smallvec::SmallVec;
use std::sync::Arc;

/// Upper bound on amounts, so that sums over a node fit; the general algorithm processes larger ones, without a limit.
const LARGEST: i128 = 1 << 52;
/// Upper bound on the number of resources, because a set of them is stored as bits; the general algorithm processes more.
const MOST_RESOURCES: usize = 64;

/// Amounts in the order in which they are asked for; pods seldom ask for more than four.
pub(super) type Amounts = SmallVec<[i64; 4]>;

/// Capacity of a node for members.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeCapacity {
    /// Why it is infeasible whatever runs there; `None` if it is not.
    pub(super) refusal: Option<Box<Refusal>>,
    /// Whether it is large enough for one pod when it is empty.
    pub(super) large: bool,
    /// Whether a pod there and the members exclude each other by anti-affinity.
    pub(super) blocked: bool,
    /// Whether a pod there is leaving.
    pub(super) vacating: bool,
    /// How many fit now.
    pub(super) now: u32,
    /// How many fit after the pods that are leaving anyway have terminated.
    pub(super) then: u32,
    /// The resources that limit how many fit now, as bits in the order in which they are requested.
    pub(super) lacks: u64,
    /// Additional capacity, priority by priority.
    pub(super) steps: Vec<Step>,
    /// Pods that may be evicted.
    pub(super) movable: u32,
    /// The requests of these pods, in the order of `Scale::ids`.
    pub(super) freed: Amounts,
}

/// How many fit without the units up to a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) priority: i32,
    /// Without all of these units.
    pub(super) all: u32,
    /// Without these units except those whose budgets would be violated if all of lower priority were evicted.
    pub(super) mild: u32,
    /// Without these units except those that violate a budget by themselves: no plan without budget violations lets more members fit.
    pub(super) lawful: u32,
}

impl NodeCapacity {
    /// Returns how many fit without all units of a priority up to `ceiling`.
    pub(super) fn up_to(&self, ceiling: i32) -> u32 {
        self.steps.iter().take_while(|step| step.priority <= ceiling).last().map_or(self.then, |step| step.all)
    }

    /// By priority: how many more fit after the eviction of its units that violate no budget.
    pub(super) fn mild_gains(&self) -> impl Iterator<Item = (i32, u32)> + '_ {
        let mut before = self.then;
        self.steps.iter().filter_map(move |step| {
            let gain = step.mild.saturating_sub(before);
            before = before.max(step.mild);
            (gain > 0).then_some((step.priority, gain))
        })
    }

    /// By priority: how many more fit at most after evictions up to it, all of them or only those without budget violations.
    pub(super) fn gains_at_most(&self, lawful: bool) -> impl Iterator<Item = (i32, u32)> + '_ {
        let mut before = self.then;
        self.steps.iter().filter_map(move |step| {
            let now = if lawful { step.lawful } else { step.all };
            let gain = now.saturating_sub(before);
            before = before.max(now);
            (gain > 0).then_some((step.priority, gain))
        })
    }

    /// Returns the lowest priority whose eviction lets more members fit.
    pub(super) fn first_gain(&self) -> Option<i32> {
        self.steps.first().map(|step| step.priority)
    }

    /// Returns how many fit without all units that may be evicted.
    pub(super) fn most(&self) -> u32 {
        self.steps.last().map_or(self.then, |step| step.all)
    }
}

/// The requests of pods of one class, and the amounts of the same resources that evicting pods of other classes frees.
#[derive(Debug)]
pub(super) struct Scale {
    /// In an order that does not depend on when resources were first seen.
    pub(super) ids: Vec<ResourceId>,
    pub(super) each: Vec<i64>,
    /// By class, and resource.
    amounts: Vec<i64>,
    /// Maximum number of members per node.
    pub(super) cap: u32,
}

fn clamped(amount: i128) -> i64 {
    i64::try_from(amount.clamp(-LARGEST, LARGEST)).unwrap_or(0)
}

/// Returns the request for a resource; `LARGEST` + 1, which is more than any free amount, if all nodes together offer less than a request
/// above `LARGEST`.
fn asked(cluster: &Cluster, id: ResourceId, amount: i128) -> Option<i64> {
    let nobody_has = amount > LARGEST && cluster.offered(id) < amount;
    if nobody_has { i64::try_from(LARGEST + 1).ok() } else { narrow(amount).filter(|amount| *amount > 0) }
}

fn narrow(amount: i128) -> Option<i64> {
    i64::try_from(amount).ok().filter(|_| amount.abs() <= LARGEST)
}

impl Scale {
    /// `apart`: no two of them may be on one node. `None` if the requests cannot be represented.
    pub(super) fn new(cluster: &Cluster, class: &EquivalenceClass, apart: bool) -> Option<Self> {
        let ids = cluster.in_order(class.requests.iter().map(|(id, _)| id).collect());
        if ids.len() > MOST_RESOURCES {
            return None;
        }
        let each = ids.iter().map(|id| asked(cluster, *id, class.requests.get(*id))).collect::<Option<_>>()?;
        let cap = if apart { 1 } else { u32::MAX };
        let mut scale = Self { ids, each, amounts: Vec::new(), cap };
        (0u32..).take(cluster.class_bound()).for_each(|id| scale.learn(cluster, id));
        Some(scale)
    }

    /// Stores what evicting a pod of a class frees.
    pub(super) fn learn(&mut self, cluster: &Cluster, id: ClassId) {
        let Some(class) = cluster.class(id) else { return };
        let width = self.ids.len();
        let start = id as usize * width;
        self.amounts.resize(self.amounts.len().max(start + width), 0);
        for (at, resource) in self.ids.iter().enumerate() {
            // A larger request counts as `LARGEST`: the capacity that its eviction frees may be underestimated, never overestimated.
            self.amounts[start + at] = clamped(class.requests.get(*resource));
        }
    }

    /// What a pod of a class frees.
    pub(super) fn of(&self, class: ClassId) -> &[i64] {
        let start = class as usize * self.ids.len();
        self.amounts.get(start..start + self.ids.len()).unwrap_or_default()
    }

    /// Whether a node is large enough for one of them when it is empty.
    pub(super) fn large(&self, node: &Node) -> bool {
        self.ids.iter().zip(&self.each).all(|(id, each)| node.allocatable(*id) >= i128::from(*each))
    }

    /// Returns how many fit into these free amounts.
    fn fit(&self, free: &[i64]) -> u32 {
        self.fit_each(free.iter().copied())
    }

    fn fit_each(&self, free: impl Iterator<Item = i64>) -> u32 {
        let fit = free.zip(&self.each).map(|(free, each)| free.max(0) / each).min();
        fit.map_or(0, |fit| u32::try_from(fit).unwrap_or(u32::MAX)).min(self.cap)
    }

    /// The same, if it is known that at least `known` fit.
    fn fit_from(&self, free: &[i64], known: u32) -> u32 {
        if known >= self.cap {
            return known;
        }
        let next = i64::from(known) + 1;
        let more = free.iter().zip(&self.each).all(|(free, each)| each.checked_mul(next).is_some_and(|n| n <= *free));
        if more { self.fit(free) } else { known }
    }
}

/// What is free on a node, in `scale`'s order.
pub(super) fn free_now(
    cluster: &Cluster,
    nodes: &Nodes<'_>,
    rank: Rank,
    scale: &Scale,
    in_flight: &InFlight,
) -> Amounts {
    let row = cluster.free().row(nodes.index(rank));
    let free = |id: &ResourceId| clamped(row.get(usize::from(*id)).copied().unwrap_or(0));
    let mut free: Amounts = scale.ids.iter().map(free).collect();
    let held = in_flight.reserved.on(cluster, nodes.index(rank));
    held.for_each(|pod| add(&mut free, scale.of(cluster.row(pod).class), -1));
    free
}

pub(super) fn add(free: &mut [i64], amounts: &[i64], sign: i64) {
    free.iter_mut().zip(amounts).for_each(|(free, amount)| *free += sign * amount);
}

/// Computes the capacity of nodes for preemptors of one priority.
pub(super) struct Reader<'s> {
    pub(super) cluster: &'s Cluster,
    pub(super) nodes: &'s Nodes<'s>,
    pub(super) scale: &'s Scale,
    pub(super) violations: &'s Violations,
    pub(super) in_flight: &'s InFlight,
    pub(super) class: &'s Arc<EquivalenceClass>,
    pub(super) priority: i32,
    /// Buffer that is reused for every node.
    pub(super) movable: Vec<(i32, ClassId, Risk)>,
}

impl Reader<'_> {
    /// Computes the capacity of a node.
    pub(super) fn look(&mut self, rank: Rank, large: bool, refusal: Option<Box<Refusal>>) -> NodeCapacity {
        let mut free = free_now(self.cluster, self.nodes, rank, self.scale, self.in_flight);
        let now = self.scale.fit(&free);
        let width = self.scale.ids.len();
        let mut answer = NodeCapacity {
            refusal,
            large,
            now,
            lacks: (0..width)
                .filter(|at| free[*at].max(0) / self.scale.each[*at] == i64::from(now))
                .map(|at| 1 << at)
                .sum(),
            freed: Amounts::from_elem(0, width),
            ..NodeCapacity::default()
        };
        let terms = &self.class.constraints.anti_affinity;
        let meets = |(index, row): (PodIndex, Row)| {
            self.cluster.class(row.class).is_some_and(|class| Arc::ptr_eq(class, self.class))
                || self.cluster.pod_at(index).is_some_and(|pod| terms.iter().any(|term| about(self.cluster, term, pod)))
        };
        let rows = || self.cluster.rows_at(self.nodes.index(rank));
        answer.blocked = !terms.is_empty() && rows().any(meets);
        for (index, row) in rows() {
            if self.in_flight.leaves(index, &row) {
                add(&mut free, self.scale.of(row.class), 1);
                answer.vacating = true;
            } else if row.priority < self.priority && self.in_flight.unit_of(index, &row).is_some() {
                answer.movable += 1;
                add(&mut answer.freed, self.scale.of(row.class), 1);
            }
        }
        answer.then = self.scale.fit_from(&free, answer.now);
        if answer.refusal.is_some() {
            (answer.now, answer.then) = (0, 0);
            return answer;
        }
        let risky = self.find_movable(rank, &free, &answer);
        self.movable.sort_unstable_by_key(|(priority, ..)| *priority);
        let (mut mild, mut lawful) =
            if risky { (free.clone(), free.clone()) } else { (Amounts::new(), Amounts::new()) };
        let mut step = Step { priority: 0, all: answer.then, mild: answer.then, lawful: answer.then };
        for level in self.movable.chunk_by(|a, b| a.0 == b.0) {
            let before = step;
            step.priority = level[0].0;
            for (_, class, risk) in level {
                add(&mut free, self.scale.of(*class), 1);
                if risky && *risk == Risk::Nothing {
                    add(&mut mild, self.scale.of(*class), 1);
                }
                if risky && *risk < Risk::Alone {
                    add(&mut lawful, self.scale.of(*class), 1);
                }
            }
            step.all = self.scale.fit_from(&free, step.all);
            step.mild = if risky { self.scale.fit_from(&mild, step.mild) } else { step.all };
            step.lawful = if risky { self.scale.fit_from(&lawful, step.lawful) } else { step.all };
            if (step.all, step.mild, step.lawful) != (before.all, before.mild, before.lawful) {
                answer.steps.push(step);
            }
        }
        answer
    }

    /// Finds the pods that may be evicted and free a resource that limits how many members fit after all evictions; no other eviction
    /// helps. Returns true if the budget of one of them would be violated.
    fn find_movable(&mut self, rank: Rank, free: &[i64], answer: &NodeCapacity) -> bool {
        let Self { scale, .. } = self;
        let most = scale.fit_each(free.iter().zip(&answer.freed).map(|(free, freed)| free + freed));
        let mut risky = false;
        self.movable.clear();
        if most <= answer.then {
            return risky;
        }
        let scarce = |at: usize| scale.each[at].checked_mul(i64::from(most)).is_none_or(|wanted| free[at] < wanted);
        let scarce: SmallVec<[usize; 4]> = (0..free.len()).filter(|at| scarce(*at)).collect();
        for (index, row) in self.cluster.rows_at(self.nodes.index(rank)) {
            let helps = row.priority < self.priority && scarce.iter().any(|at| scale.of(row.class)[*at] > 0);
            if helps && let Some(unit) = self.in_flight.unit_of(index, &row) {
                let risk = self.violations.risk(unit);
                risky |= risk > Risk::Nothing;
                self.movable.push((row.priority, row.class, risk));
            }
        }
        risky
    }
}
