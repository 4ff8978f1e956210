//! Differences between the cluster of one decision and the model: the preemptor's own reservations, pods that plans in flight evict,
//! and exempt units. They concern few nodes, so that cached results of all other nodes stay valid.

use crate::api::Context;
use crate::filters::{Nodes, Nomination, Rank};
use crate::model::{BudgetIndex, ClassId, Cluster, PodIndex, Role, Row, Unit, UnitRef};
use crate::problem::demand::Demand;
use crate::problem::reserved::Reserved;
use smol_str::SmolStr;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// The differences of a node between a decision's cluster and the model: pods, their classes, and how they differ.
pub(crate) type Difference = Vec<(PodIndex, ClassId, Differs)>;

/// In which way a pod differs from the model in the cluster that one decision assumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Differs {
    /// It reserves nothing, because it belongs to the preemptor.
    Own,
    /// It is expected to terminate.
    Departing,
    /// It terminates, and counts as running.
    Lingering,
    /// It cannot be evicted.
    Exempt,
    /// A pod of its unit is expected to terminate.
    OfUnit,
}

/// How the cluster that one decision assumes differs from the model: because of plans in flight, which still evict pods, of the
/// preemptor's own pods, and of pods that must not be evicted.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight {
    /// The reservations of others that count against the preemptor.
    pub(crate) reserved: Reserved,
    /// All of them by node, collected when they are first needed.
    held: OnceCell<Vec<Nomination>>,
    /// Pods that plans in flight evict.
    departing: BTreeSet<PodIndex>,
    /// By budget: how many of them are live and use up one of its disruptions that its status does not count yet.
    evicting: BTreeMap<BudgetIndex, usize>,
    /// Terminating pods that count as running, because they are overdue.
    lingering: BTreeSet<PodIndex>,
    /// Units that must not be evicted: those of `Context::exempt`, and those of the preemptor's own group.
    exempt: BTreeSet<UnitRef>,
    /// True if critical add-ons may be victims of another one that can run on no other node.
    displaces_critical: bool,
}

impl InFlight {
    /// Collects how the cluster that a decision about this preemptor assumes differs from the model: because of the preemptor's own pods,
    /// and of what the context says about plans in flight and about pods that must not be evicted.
    pub(crate) fn new(cluster: &Cluster, demand: &Demand, context: &Context) -> Self {
        // Most members have no reservation: those are not looked up.
        let own = demand.members.iter().copied().filter(|member| cluster.has_reservation(*member)).collect();
        let reserved = Reserved { priority: demand.priority, respect: context.respect, own };
        let pods = |uids: &BTreeSet<SmolStr>| -> BTreeSet<PodIndex> {
            uids.iter().filter_map(|uid| cluster.pod_with_uid(uid)).collect()
        };
        let leaves = |pod: &PodIndex| cluster.pod_at(*pod).is_some_and(|pod| pod.leaves);
        let lingering: BTreeSet<PodIndex> = pods(&context.lingering).into_iter().filter(leaves).collect();
        let departing = pods(&context.departing).difference(&lingering).copied().collect::<BTreeSet<PodIndex>>();
        let group = demand.members.first().and_then(|member| cluster.group_index_of(*member));
        let group = group.filter(|group| cluster.group_at(*group).is_some());
        let lower_members = group.map_or(&[][..], |group| cluster.members_at(group)).iter().copied();
        let lower_members = lower_members.filter(|member| cluster.row(*member).priority < demand.priority);
        let exempt = context.exempt.iter().filter_map(|uid| cluster.pod_with_uid(uid)).chain(lower_members);
        let unit = |pod: PodIndex| cluster.row(pod).role.unit(pod).filter(|_| !departing.contains(&pod));
        let (exempt, evicting) = (exempt.filter_map(unit).collect(), evicting(cluster, &departing));
        Self { reserved, held: OnceCell::new(), departing, evicting, lingering, exempt, displaces_critical: false }
    }

    /// Returns the same differences for a preemptor that is a critical add-on, for which other critical add-ons may be evicted.
    pub(crate) fn for_critical_addon(self) -> Self {
        Self { displaces_critical: true, ..self }
    }

    /// Returns true if a pod leaves its node independently of this decision: it terminates and is not overdue, or a plan in flight evicts
    /// it. `row` is the pod's summary row.
    pub(crate) fn leaves(&self, pod: PodIndex, row: &Row) -> bool {
        match row.role {
            Role::Leaves => self.lingering.is_empty() || !self.lingering.contains(&pod),
            _ => !self.departing.is_empty() && self.departing.contains(&pod),
        }
    }

    /// Returns true if no critical add-on may be evicted, because the preemptor is not one itself.
    pub(crate) fn protects_critical_addons(&self) -> bool {
        !self.displaces_critical
    }

    /// Returns the unit of eviction (a single pod or a whole group) of the pod with this summary row; `None` if this preemptor must not
    /// evict the pod, or the pod terminates or is evicted by a plan in flight. The priority of the unit is not compared with the
    /// preemptor's.
    pub(crate) fn unit_of(&self, pod: PodIndex, row: &Row) -> Option<UnitRef> {
        let unit = row.role.unit(pod).filter(|_| row.role != Role::CriticalAddon || self.displaces_critical)?;
        if row.barred_below > self.reserved.priority {
            return None;
        }
        let nothing = self.departing.is_empty() && self.exempt.is_empty();
        (nothing || (!self.departing.contains(&pod) && !self.exempt.contains(&unit))).then_some(unit)
    }

    /// Returns how many pods of a unit of eviction do not leave their nodes anyway.
    pub(crate) fn staying(&self, cluster: &Cluster, unit: &Unit<'_>) -> usize {
        let stays = |pod: &&PodIndex| self.unit_of(**pod, &cluster.row(**pod)).is_some();
        if self.any_departs() { unit.pods.iter().filter(stays).count() } else { unit.pods.len() }
    }

    /// Returns how many pods that plans in flight evict use up a disruption of this budget that its status does not count yet.
    pub(crate) fn evicting(&self, budget: BudgetIndex) -> usize {
        self.evicting.get(&budget).copied().unwrap_or(0)
    }

    /// Returns the budgets for which this decision counts otherwise than the model: those of pods that plans in flight evict, and of
    /// units that must not be evicted.
    pub(crate) fn budgets(&self, cluster: &Cluster) -> BTreeSet<BudgetIndex> {
        let exempt = self.exempt.iter().filter_map(|unit| cluster.unit(*unit));
        let exempt: Vec<PodIndex> = exempt.flat_map(|unit| unit.pods.to_vec()).collect();
        let pods = self.departing.iter().chain(&exempt);
        pods.flat_map(|pod| cluster.budgets_at(*pod)).copied().collect()
    }

    /// Returns true if plans in flight evict any pod, so that a unit of eviction may have pods that leave anyway.
    pub(crate) fn any_departs(&self) -> bool {
        !self.departing.is_empty()
    }

    /// Returns the pods that leave their nodes independently of this decision, sorted by node and key, each with the rank of its node in
    /// `nodes`.
    pub(crate) fn leaving(&self, cluster: &Cluster, nodes: &Nodes<'_>) -> Vec<(PodIndex, Rank)> {
        let leavers = cluster.leaving().map(|(index, _)| index).chain(self.departing.iter().copied());
        let ranks: BTreeSet<Rank> = leavers.filter_map(|index| nodes.rank(cluster.row(index).node?)).collect();
        let leave = |rank: Rank| {
            let here = cluster.rows_at(nodes.index(rank)).filter(|(index, row)| self.leaves(*index, row));
            here.map(move |(index, _)| (index, rank))
        };
        ranks.into_iter().flat_map(leave).collect()
    }

    /// Returns, by rank, the nodes of the list `nodes` on which the cluster that this decision assumes differs from the model; each with
    /// the pods that differ, and how.
    pub(crate) fn nodes(&self, cluster: &Cluster, nodes: &Nodes<'_>) -> BTreeMap<Rank, Difference> {
        let mut changed: BTreeMap<Rank, Difference> = BTreeMap::new();
        let mut note = |pod: PodIndex, rank: Option<Rank>, differs: Differs| {
            if let Some(rank) = rank {
                changed.entry(rank).or_default().push((pod, cluster.row(pod).class, differs));
            }
        };
        let rank = |pod: PodIndex| nodes.rank(cluster.row(pod).node?);
        let reserved = |pod: PodIndex| nodes.rank(cluster.reserved_node(pod)?);
        self.reserved.own.iter().for_each(|pod| note(*pod, reserved(*pod), Differs::Own));
        self.departing.iter().for_each(|pod| note(*pod, rank(*pod), Differs::Departing));
        self.lingering.iter().for_each(|pod| note(*pod, rank(*pod), Differs::Lingering));
        let departing = self.departing.iter().filter_map(|pod| match cluster.row(*pod).role {
            Role::Evictable(unit) => Some(unit),
            _ => None,
        });
        let departing: BTreeSet<UnitRef> = departing.collect();
        for (units, differs) in [(&self.exempt, Differs::Exempt), (&departing, Differs::OfUnit)] {
            for unit in units.iter().filter_map(|unit| cluster.unit(*unit)) {
                unit.pods.iter().for_each(|pod| note(*pod, rank(*pod), differs));
            }
        }
        changed
    }

    /// Returns all reservations of other pods that count against the preemptor, sorted by node; they are collected at the first call.
    pub(crate) fn reservations(&self, cluster: &Cluster) -> &[Nomination] {
        self.held.get_or_init(|| self.reserved.all(cluster))
    }
}

/// Returns, for each budget, how many of the pods `departing` are live and use up one of its disruptions; budgets without such pods are
/// left out. It takes one pass over these pods.
fn evicting(cluster: &Cluster, departing: &BTreeSet<PodIndex>) -> BTreeMap<BudgetIndex, usize> {
    let mut counts = BTreeMap::new();
    for index in departing {
        let Some(pod) = cluster.pod_at(*index).filter(|pod| pod.live()) else { continue };
        for budget in cluster.budgets_at(*index) {
            if cluster.budget_at(*budget).is_some_and(|(budget, _)| budget.counts(pod)) {
                *counts.entry(*budget).or_default() += 1;
            }
        }
    }
    counts
}
