//! Checks whether evicted pods fit on another node: those that do not wait, or evict further pods.

use super::effort::Effort;
use crate::filters::{Nodes, Nomination, Occupancy, Rank, excluded_by_anti_affinity, unsuitable_if_unbound};
use crate::model::{CandidatePages, ClassId, Cluster, Pod, PodIndex};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Checks whether pods that a plan evicts fit on another node than their own, without further evictions.
pub(crate) struct Elsewhere<'a> {
    cluster: &'a Cluster,
    /// All nodes.
    nodes: &'a Nodes<'a>,
    /// Reservations of nominated pods.
    held: &'a [Nomination],
    /// Pods that have terminated, by node.
    terminated: Vec<Nomination>,
    /// True if a bound or nominated pod has required anti-affinity.
    any_repels: bool,
    /// The nodes with every other bound pod.
    unchanged: AfterPlan<'a>,
    effort: Effort,
    /// By class, if only amounts decide: the feasible nodes found so far.
    scans: RefCell<BTreeMap<ClassId, Scan>>,
}

/// Feasible nodes of a class, found in the order of their names.
struct Scan {
    /// The nodes that have enough capacity for the class, unless a pod there has terminated.
    candidates: CandidatePages,
    found: Vec<Rank>,
    /// The nodes before this one were looked at.
    next: Rank,
}

/// The nodes as they are after a plan: its victims removed, and its members placed.
pub(crate) struct AfterPlan<'a> {
    victims: Vec<PodIndex>,
    /// The members, with ranks among all nodes.
    placed: Vec<Nomination>,
    /// The occupancy without inter-pod constraints.
    amounts: Occupancy<'a>,
    /// The nodes of victims and members.
    touched: BTreeSet<Rank>,
    /// By class: the first two of these nodes that are feasible.
    open: RefCell<BTreeMap<ClassId, [Option<Rank>; 2]>>,
}

impl<'a> Elsewhere<'a> {
    /// Prepares the check whether evicted pods fit on other nodes. `held` are the reservations of other pods; `terminated` are pods that
    /// are leaving their nodes anyway and count as removed, sorted by node.
    pub(crate) fn new(
        cluster: &'a Cluster,
        nodes: &'a Nodes<'a>,
        held: &'a [Nomination],
        terminated: Vec<Nomination>,
    ) -> Self {
        let mut amounts = Occupancy::of_amounts(cluster, nodes, held);
        terminated.iter().for_each(|(pod, rank)| amounts.remove(*pod, *rank));
        let unchanged = AfterPlan {
            victims: Vec::new(),
            placed: Vec::new(),
            amounts,
            touched: BTreeSet::new(),
            open: RefCell::default(),
        };
        let repels = |(pod, _): &Nomination| {
            cluster.class(cluster.row(*pod).class).is_some_and(|class| !class.constraints.anti_affinity.is_empty())
        };
        let any_repels = cluster.repelling().next().is_some() || held.iter().any(repels);
        let (effort, scans) = (Effort::of_check_elsewhere(), RefCell::default());
        Self { cluster, nodes, held, terminated, any_repels, unchanged, effort, scans }
    }

    /// Returns the nodes after the eviction of these pods and the placement of these members; the ranks are positions among all nodes.
    pub(crate) fn after(&self, victims: Vec<PodIndex>, placed: Vec<Nomination>) -> AfterPlan<'a> {
        let mut amounts = self.unchanged.amounts.clone();
        amounts.take(&victims);
        placed.iter().for_each(|(pod, rank)| amounts.add(*pod, *rank));
        let own = victims.iter().filter_map(|pod| amounts.rank_of(*pod));
        let touched = own.chain(placed.iter().map(|(_, rank)| *rank)).collect();
        AfterPlan { victims, placed, amounts, touched, open: RefCell::default() }
    }

    /// Returns how many victims of a plan fit on no other node than their own after the plan, each checked alone. Victims for which no
    /// effort is left are included.
    pub(crate) fn stranded(&self, after: &AfterPlan<'a>) -> usize {
        after.victims.iter().filter(|pod| !self.fits_elsewhere(**pod, after)).count()
    }

    /// Returns true if a pod fits on another node than its own after a plan. False also if no effort is left for the check.
    pub(crate) fn fits_elsewhere(&self, index: PodIndex, after: &AfterPlan<'a>) -> bool {
        self.fits_on_another_node(index, after.amounts.rank_of(index), after)
    }

    /// Returns true if a pod fits on another node than `without` as the nodes are before any plan of this decision. False also if no effort
    /// is left for the check.
    pub(crate) fn fits_elsewhere_now(&self, index: PodIndex, without: Rank) -> bool {
        self.fits_on_another_node(index, Some(without), &self.unchanged)
    }

    /// Returns true if a pod fits after a plan on a node other than `without`; on any node if that is `None`. False also if no effort is
    /// left for the check.
    fn fits_on_another_node(&self, index: PodIndex, without: Option<Rank>, after: &AfterPlan<'a>) -> bool {
        let Some(pod) = self.cluster.pod_at(index) else { return false };
        let class = self.cluster.row(index).class;
        let other = |rank: Rank| Some(rank) != without;
        let alone = pod.constraints.exclusive.is_empty()
            && !pod.constraints.looks_at_other_nodes()
            && !(self.any_repels
                && excluded_by_anti_affinity(self.cluster, &[index], class, self.held.iter().map(|(pod, _)| *pod)));
        if !alone {
            return self.fits_with_its_constraints(index, pod, other, after);
        }
        self.fits_on_unchanged_node(index, pod, class, |rank| other(rank) && !after.touched.contains(&rank))
            || self.feasible_changed_nodes(index, pod, class, after).into_iter().flatten().any(other)
    }

    /// Returns true if a pod, for which only amounts decide, fits on one of the nodes for which `counts` returns true. The caller makes
    /// sure that `counts` excludes the nodes that a plan changes. `class` is the pod's equivalence class.
    fn fits_on_unchanged_node(
        &self,
        index: PodIndex,
        pod: &Pod,
        class: ClassId,
        counts: impl Fn(Rank) -> bool,
    ) -> bool {
        let mut scans = self.scans.borrow_mut();
        let scan = scans.entry(class).or_insert_with(|| {
            let candidates = self.cluster.candidates(&pod.requests);
            Scan { candidates, found: Vec::new(), next: 0 }
        });
        if scan.found.iter().any(|rank| counts(*rank)) {
            return true;
        }
        // Nodes without enough capacity count as looked at, so that the result does not depend on how the model groups nodes into pages.
        if !scan.candidates.any() && self.terminated.is_empty() {
            self.effort.take(self.nodes.len() - scan.next);
            scan.next = self.nodes.len();
        }
        while scan.next < self.nodes.len() && self.effort.take(1) {
            let rank = scan.next;
            scan.next += 1;
            let vacated = || self.terminated.binary_search_by_key(&rank, |(_, rank)| *rank).is_ok();
            if (scan.candidates.contains(self.nodes.index(rank)) || vacated())
                && self.fits(index, pod, rank, &self.unchanged.amounts)
            {
                scan.found.push(rank);
                if counts(rank) {
                    return true;
                }
            }
        }
        false
    }

    /// Returns the first two nodes, by rank, that a plan changes and where a pod fits after the plan; `None` for those that do not exist.
    /// `class` is the pod's equivalence class.
    fn feasible_changed_nodes(
        &self,
        index: PodIndex,
        pod: &Pod,
        class: ClassId,
        after: &AfterPlan<'a>,
    ) -> [Option<Rank>; 2] {
        *after.open.borrow_mut().entry(class).or_insert_with(|| {
            let fits = |rank: &Rank| self.effort.take(1) && self.fits(index, pod, *rank, &after.amounts);
            let mut open = after.touched.iter().copied().filter(fits);
            [open.next(), open.next()]
        })
    }

    /// Returns true if a pod with host ports, exclusive claims or inter-pod constraints fits after a plan on a node for which `other`
    /// returns true. False also if no effort is left for the check.
    fn fits_with_its_constraints(
        &self,
        index: PodIndex,
        pod: &Pod,
        other: impl Fn(Rank) -> bool,
        after: &AfterPlan<'a>,
    ) -> bool {
        if !self.effort.take(self.nodes.len() + self.cluster.pod_bound()) {
            return false;
        }
        let mut room = self.room(&[index]);
        self.terminated.iter().for_each(|(pod, rank)| room.remove(*pod, *rank));
        room.take(&after.victims);
        if !after.victims.contains(&index) {
            room.take(&[index]);
        }
        after.placed.iter().for_each(|(pod, rank)| room.add(*pod, *rank));
        (0..self.nodes.len()).any(|rank| other(rank) && self.fits(index, pod, rank, &room))
    }

    /// Returns true if a pod fits on the node with this rank when `room` is what is in use on all nodes.
    fn fits(&self, index: PodIndex, pod: &Pod, rank: Rank, room: &Occupancy<'_>) -> bool {
        room.refuse(index, rank).is_none() && unsuitable_if_unbound(pod, self.nodes.at(rank)).is_none()
    }

    /// Returns what is in use on all nodes now, with the counts of other pods that the inter-pod constraints of these pods need.
    fn room(&self, pods: &[PodIndex]) -> Occupancy<'a> {
        Occupancy::new(self.cluster, self.nodes, pods, self.held)
    }

    /// Returns true if all these pods fit at the same time on other nodes than the add-on's, after the pods `gone` are removed and the
    /// critical add-on `addon` is placed on the node with its rank. The largest pod is placed first, each on the first node where it fits.
    /// False also if no effort is left for the check.
    pub(crate) fn fit_elsewhere_together(&self, pods: &[PodIndex], gone: &[PodIndex], addon: (PodIndex, Rank)) -> bool {
        if !self.effort.take(pods.len() * self.nodes.len() + self.cluster.pod_bound()) {
            return false;
        }
        let mut room = self.room(pods);
        room.take(gone);
        room.add(addon.0, addon.1);
        let mut order: Vec<(PodIndex, &Pod)> =
            pods.iter().filter_map(|p| Some((*p, self.cluster.pod_at(*p)?))).collect();
        order.sort_by_key(|(_, pod)| (Reverse(self.cluster.share_of(&pod.requests)), &pod.key));
        order.into_iter().all(|(index, pod)| {
            let mut others = (0..self.nodes.len()).filter(|rank| *rank != addon.1);
            let place = others.find(|rank| self.fits(index, pod, *rank, &room));
            place.inspect(|rank| room.add(index, *rank)).is_some()
        })
    }
}
