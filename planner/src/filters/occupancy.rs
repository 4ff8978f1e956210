//! Free capacity of every node under an assumption: some pods removed, others placed. It is cheap to copy and to restore, and is never
//! shared between assumptions.

use super::neighbours::{CounterState, InterPodCounters, NodeDomains, Objection, RejectingCounter, Slack};
use super::nodes::{Nodes, Nomination, Rank};
use super::{exclusive, resources};
use crate::api::Refusal;
use crate::model::{AssumedFree, Cluster, NodeIndex, Pod, PodIndex, ResourceId};
use std::collections::{BTreeMap, BTreeSet};

/// The state of the nodes that is assumed during a search: free amounts, and which pods are present. Pods can be placed and removed.
#[derive(Clone)]
pub(crate) struct Occupancy<'a> {
    cluster: &'a Cluster,
    nodes: &'a Nodes<'a>,
    free: AssumedFree<'a>,
    /// Pods with host ports or claims for one pod, if a member has one.
    with_exclusive: Option<BTreeMap<NodeIndex, Vec<PodIndex>>>,
    /// Counts for inter-pod constraints, if there are any.
    neighbours: Option<InterPodCounters<'a>>,
    /// Nominated pods, which are not bound but occupy capacity of their nominated nodes.
    nominated: BTreeSet<PodIndex>,
}

impl<'a> Occupancy<'a> {
    /// Returns the occupancy with every bound pod and these nominations, for members without host ports and inter-pod constraints: neither
    /// is checked.
    pub(crate) fn of_amounts(cluster: &'a Cluster, nodes: &'a Nodes<'a>, nominated: &[Nomination]) -> Self {
        let free = AssumedFree::new(cluster.free());
        let mut occupancy =
            Self { cluster, nodes, free, with_exclusive: None, neighbours: None, nominated: BTreeSet::new() };
        occupancy.reserve(nominated);
        occupancy
    }

    /// Returns the occupancy with every bound pod and these nominations, for `members` with any constraints. Nodes are referred to by their
    /// rank in `nodes`.
    pub(crate) fn new(
        cluster: &'a Cluster,
        nodes: &'a Nodes<'a>,
        members: &[PodIndex],
        nominated: &[Nomination],
    ) -> Self {
        let is_exclusive =
            |member: &PodIndex| cluster.pod_at(*member).is_some_and(|pod| !pod.constraints.exclusive.is_empty());
        let with_exclusive = members.iter().any(is_exclusive).then(|| {
            let mut list: BTreeMap<NodeIndex, Vec<PodIndex>> = BTreeMap::new();
            for (index, _) in cluster.with_exclusive() {
                if let Some(node) = cluster.row(index).node {
                    list.entry(node).or_default().push(index);
                }
            }
            list
        });
        let waiting: Vec<PodIndex> = nominated.iter().map(|(pod, _)| *pod).collect();
        let neighbours = InterPodCounters::new(cluster, nodes, members, &waiting);
        let free = AssumedFree::new(cluster.free());
        let mut occupancy = Self { cluster, nodes, free, with_exclusive, neighbours, nominated: BTreeSet::new() };
        occupancy.reserve(nominated);
        occupancy
    }

    /// Returns a copy of this occupancy in which nodes are referred to by their rank in `nodes`, another list of nodes of the same cluster.
    pub(crate) fn on(&self, nodes: &'a Nodes<'a>) -> Self {
        Self { nodes, ..self.clone() }
    }

    /// Returns the occupancy for members that will get a node selector that restricts them to one topology domain: that of the topology key
    /// `key` and of the node at the position `of` among all nodes. Must be called before any pod is removed or placed; `nominated` are the
    /// nominations with which the occupancy was created.
    pub(crate) fn within(mut self, key: &str, of: Rank, nominated: &[Nomination]) -> Self {
        if let Some(neighbours) = &self.neighbours {
            let value = self.nodes.at_place(of).labels.get(key);
            let inside = |place: Rank| self.nodes.at_place(place).labels.get(key) == value;
            self.neighbours = neighbours.within(self.cluster, self.nodes, inside, nominated).or(self.neighbours);
        }
        self
    }

    /// Places nominated pods, which are not bound, on their nominated nodes (KEP-4832).
    fn reserve(&mut self, nominated: &[Nomination]) {
        for (index, place) in nominated {
            self.nominated.insert(*index);
            self.change(*index, self.nodes.index_at_place(*place), true);
        }
    }

    /// Adds a pod to a node (`comes`), or removes it: updates the free amounts, the counts for inter-pod constraints, and the pods with
    /// host ports. `node` is the index of the node in the model.
    fn change(&mut self, index: PodIndex, node: NodeIndex, comes: bool) {
        let cluster = self.cluster;
        let Some(class) = cluster.class(cluster.row(index).class) else { return };
        let (row, sign) = (self.free.row_mut(node), if comes { -1 } else { 1 });
        for (id, amount) in class.requests.iter() {
            row[usize::from(id)] += sign * amount;
        }
        if let Some(list) = &mut self.with_exclusive
            && !class.constraints.exclusive.is_empty()
        {
            let pods = list.entry(node).or_default();
            pods.retain(|other| *other != index);
            pods.extend(comes.then_some(index));
        }
        if let Some(neighbours) = &mut self.neighbours
            && let Some(place) = cluster.rank_of(node)
        {
            neighbours.count(cluster, index, place, comes, self.nominated.contains(&index));
        }
    }

    /// Returns true if topology spread, pod affinity or anti-affinity, of the members or of other pods against the members, can decide
    /// where members fit.
    pub(crate) fn has_inter_pod_constraints(&self) -> bool {
        self.neighbours.is_some()
    }

    /// Returns which upper bound the inter-pod constraints of the members exceed, in words; `None` if all constraints are evaluated.
    /// Members whose constraints are not evaluated fit nowhere.
    pub(crate) fn excess(&self) -> Option<&str> {
        self.neighbours.as_ref()?.excess()
    }

    /// Returns the number of the class of a member: members of one class are equal for all inter-pod constraints. 0 if there are no such
    /// constraints.
    pub(crate) fn constraint_class(&self, member: PodIndex) -> usize {
        self.neighbours.as_ref().map_or(0, |neighbours| neighbours.constraint_class(member))
    }

    /// Returns the counted pods for inter-pod constraints, by constraint and topology domain; `None` if no member is under such a
    /// constraint.
    pub(crate) fn inter_pod_counters(&self) -> Option<&InterPodCounters<'a>> {
        self.neighbours.as_ref()
    }

    /// Returns the number of cells. A cell is a set of nodes that are in the same topology domains, so that inter-pod constraints make
    /// either all of its nodes or none infeasible for a member.
    pub(crate) fn cells(&self) -> usize {
        self.neighbours.as_ref().map_or(1, InterPodCounters::cells)
    }

    /// Returns the number of the cell (nodes in the same topology domains), from 0, that contains the node with this rank (its index in the
    /// list of nodes); see [`Self::cells`].
    pub(crate) fn cell(&self, rank: Rank) -> usize {
        self.neighbours.as_ref().map_or(0, |neighbours| neighbours.cell(self.nodes.place(rank)))
    }

    /// Returns for each of the nodes with these ranks (indexes in the list of nodes), in their order: true if the required pod affinity of
    /// all `members` excludes it, and the numbers of its topology domains, one for each topology key of an inter-pod constraint. Topology
    /// keys with more than half as many domains as `ranks` has nodes are left out.
    pub(crate) fn affinity_and_domains(&self, members: &[PodIndex], ranks: &[Rank]) -> Vec<(bool, NodeDomains)> {
        let Some(neighbours) = &self.neighbours else { return vec![(false, NodeDomains::new()); ranks.len()] };
        let places: Vec<Rank> = ranks.iter().map(|rank| self.nodes.place(*rank)).collect();
        neighbours.affinity_and_domains(members, &places)
    }

    /// Returns the kind of inter-pod constraint that makes the node with this rank (its index in the list of nodes), and all nodes of its
    /// [cell](Self::cells) (the nodes in the same topology domains), infeasible for a member; `None` if no such constraint does.
    pub(crate) fn violated_constraint(&self, member: PodIndex, rank: Rank) -> Option<Refusal> {
        let objection = self.neighbours.as_ref()?.violated_constraint(member, self.nodes.place(rank))?;
        Some(match objection {
            Objection::Spread => Refusal::Spread,
            Objection::AntiAffinity => Refusal::AntiAffinity,
            Objection::Affinity => Refusal::Affinity,
        })
    }

    /// Returns the inter-pod counter (the counted pods of one spread or affinity rule) that makes the node with this rank (its index in the
    /// list of nodes), and all nodes of its [cell](Self::cells) (the nodes in the same topology domains), infeasible for a member; `None`
    /// if none does. As long as the [state](Self::counter_state) of the counter is unchanged, placing further members does not make them
    /// feasible.
    pub(crate) fn rejecting_counter(&self, member: PodIndex, rank: Rank) -> Option<RejectingCounter> {
        self.neighbours.as_ref()?.rejecting_counter(member, self.nodes.place(rank))
    }

    /// Returns the state of an inter-pod counter (the counted pods of one spread or affinity rule), to be compared with a later one: if it
    /// changed, the members that the counter rejected may fit. `None` if `counter` is `None`, or without inter-pod constraints.
    pub(crate) fn counter_state(&self, counter: RejectingCounter) -> Option<CounterState> {
        self.neighbours.as_ref()?.counter_state(counter)
    }

    /// Returns true if an inter-pod constraint of the members, or one of the pod itself against members, counts this pod, so that its
    /// removal can make a node feasible or infeasible.
    pub(crate) fn is_counted(&self, index: PodIndex) -> bool {
        self.neighbours.as_ref().is_some_and(|neighbours| neighbours.is_counted(self.cluster, index))
    }

    /// Returns true if inter-pod constraints let a pod decide whether members fit on other nodes than the pod's own.
    pub(crate) fn matters_on_other_nodes(&self, index: PodIndex) -> bool {
        self.neighbours.as_ref().is_some_and(|neighbours| neighbours.matters_on_other_nodes(self.cluster, index))
    }

    /// Returns, for the placed members, which anti-affinity rules apply to them in which topology domain: the number of the rule's counter
    /// (the pods that it counts), and the domain of the member's node. One more pod counted there would make that member infeasible.
    /// `placed` has the members with the ranks (indexes in the list of nodes) of their nodes. The result is for [`Self::leave_in_place`].
    pub(crate) fn anti_affinity_counters(&self, placed: &[(PodIndex, Rank)]) -> BTreeSet<(usize, u32)> {
        let places = placed.iter().map(|(member, rank)| (*member, self.nodes.place(*rank)));
        self.neighbours.as_ref().map_or_else(BTreeSet::new, |neighbours| neighbours.anti_affinity_counters(places))
    }

    /// Returns true if inter-pod constraints still admit all placed members when these pods are put back on their nodes, and false if they
    /// do not. `watched` is the result of [`Self::anti_affinity_counters`] for the members. `None` if the members must be placed again to
    /// find that out.
    pub(crate) fn leave_in_place(&self, pods: &[PodIndex], watched: &BTreeSet<(usize, u32)>) -> Option<bool> {
        let Some(neighbours) = &self.neighbours else { return Some(true) };
        let mut sure = true;
        for pod in pods {
            let place = self.cluster.row(*pod).node.and_then(|node| self.cluster.rank_of(node));
            let Some(place) = place else { continue };
            match neighbours.leaves_in_place(self.cluster, *pod, place, watched) {
                Some(false) => return Some(false),
                Some(true) => {}
                None => sure = false,
            }
        }
        sure.then_some(true)
    }

    /// Returns true if a member has no host port and no claim that only one pod may use: on a node that inter-pod constraints admit, only
    /// free amounts decide how many members like it fit.
    pub(crate) fn needs_no_port_or_claim(&self, member: PodIndex) -> bool {
        self.cluster.pod_at(member).is_some_and(|pod| pod.constraints.exclusive.is_empty())
    }

    /// Returns true if, on a suitable node, only free amounts decide whether a member fits: it has no host port, no claim that only one pod
    /// may use, and no inter-pod constraint concerns it.
    pub(crate) fn needs_only_amounts(&self, member: PodIndex) -> bool {
        self.needs_no_port_or_claim(member)
            && !self.neighbours.as_ref().is_some_and(|neighbours| neighbours.is_constrained(member))
    }

    /// Returns how many pods like this one fit, by free amounts alone, on the node with this rank (its index in the list of nodes) if the
    /// pods there for which `gone` returns true are removed; at most `limit`. Correct only for a pod for which [`Self::needs_only_amounts`]
    /// is true.
    pub(crate) fn capacity_without(
        &self,
        pod: &Pod,
        rank: Rank,
        limit: usize,
        gone: impl Fn(PodIndex) -> bool,
    ) -> usize {
        let node = self.nodes.index(rank);
        let mut free: Option<Vec<i128>> = None;
        for index in self.cluster.rows_at(node).map(|(index, _)| index).filter(|index| gone(*index)) {
            let Some(other) = self.cluster.pod_at(index) else { continue };
            let free = free.get_or_insert_with(|| self.free.row(node).to_vec());
            other.requests.iter().for_each(|(id, amount)| free[usize::from(id)] += amount);
        }
        resources::how_many(&pod.requests, free.as_deref().unwrap_or(self.free.row(node)), limit)
    }

    /// Returns the free amounts of the node with this rank (its index in the list of nodes), indexed by [`ResourceId`]; below 0 if more is
    /// used than the node has.
    pub(crate) fn free(&self, rank: Rank) -> &[i128] {
        self.free.row(self.nodes.index(rank))
    }

    /// Puts a pod on the node with this rank (its index in the list of nodes), without a check whether it fits there.
    pub(crate) fn add(&mut self, index: PodIndex, rank: Rank) {
        self.change(index, self.nodes.index(rank), true);
    }

    /// Removes a pod from the node with this rank (its index in the list of nodes), to which it is bound or on which it was placed.
    pub(crate) fn remove(&mut self, index: PodIndex, rank: Rank) {
        self.change(index, self.nodes.index(rank), false);
    }

    /// Returns the rank (index in the list of nodes) of the node that a pod is bound to; `None` if it has no node, or that node is not in
    /// the list.
    pub(crate) fn rank_of(&self, index: PodIndex) -> Option<Rank> {
        self.nodes.rank(self.cluster.row(index).node?)
    }

    /// Removes these bound pods from their nodes, as if they had terminated.
    pub(crate) fn take(&mut self, pods: &[PodIndex]) {
        self.change_all(pods, false);
    }

    /// Puts these bound pods back on their nodes: reverts [`Self::take`].
    pub(crate) fn put(&mut self, pods: &[PodIndex]) {
        self.change_all(pods, true);
    }

    /// Puts bound pods on their nodes (`come`), or removes them. Pods without a node are ignored.
    fn change_all(&mut self, pods: &[PodIndex], come: bool) {
        for pod in pods {
            if let Some(node) = self.cluster.row(*pod).node {
                self.change(*pod, node, come);
            }
        }
    }

    /// Returns why a member does not fit on the node with this rank (its index in the list of nodes) beside the pods that are present;
    /// `None` if it fits. Runs only the filters that depend on other pods: resources, host ports, claims for one pod, and inter-pod
    /// constraints.
    pub(crate) fn refuse(&self, member: PodIndex, rank: Rank) -> Option<Refusal> {
        self.refuse_here(member, rank).or_else(|| self.violated_constraint(member, rank))
    }

    /// Returns why a member does not fit on the node with this rank (its index in the list of nodes) beside the pods on that node; `None`
    /// if it fits. Runs only the filters for resources, host ports and claims for one pod, without inter-pod constraints.
    pub(crate) fn refuse_here(&self, member: PodIndex, rank: Rank) -> Option<Refusal> {
        let pod = self.cluster.pod_at(member)?;
        if let Some(id) = resources::lacking(&pod.requests, self.free(rank)) {
            return Some(Refusal::Insufficient(id));
        }
        self.conflict(None, pod, rank)
    }

    /// Returns why a pod that is present on the node with this rank (its index in the list of nodes), other than `itself`, excludes `pod`:
    /// by a host port, or by a claim that only one pod may use. `None` if none does.
    fn conflict(&self, itself: Option<PodIndex>, pod: &Pod, rank: Rank) -> Option<Refusal> {
        if pod.constraints.exclusive.is_empty() {
            return None;
        }
        let there = self.with_exclusive.as_ref().and_then(|list| list.get(&self.nodes.index(rank)));
        let mut others = there.into_iter().flatten().filter(|other| Some(**other) != itself);
        others.find_map(|other| exclusive::conflict(pod, self.cluster.pod_at(*other)?))
    }

    /// Returns the requested resources of which the node with this rank (its index in the list of nodes) has too little free for a pod.
    pub(crate) fn lacks(&self, pod: &Pod, rank: Rank) -> Vec<ResourceId> {
        let free = self.free(rank);
        pod.requests.iter().filter(|(id, amount)| free[usize::from(*id)] < *amount).map(|(id, _)| id).collect()
    }

    /// Returns how many members like this one fit on the node with this rank (its index in the list of nodes), at most `limit`, without
    /// inter-pod constraints. A member with a host port, a claim for one pod, or anti-affinity counts at most once.
    pub(crate) fn capacity_here(&self, member: PodIndex, rank: Rank, limit: usize) -> usize {
        let Some(pod) = self.cluster.pod_at(member) else { return 0 };
        if !pod.constraints.exclusive.is_empty() || !pod.constraints.anti_affinity.is_empty() {
            return usize::from(limit > 0 && self.refuse_here(member, rank).is_none());
        }
        resources::how_many(&pod.requests, self.free(rank), limit)
    }

    /// Returns true if placed members, which are in this occupancy, still fit by all filters that depend on other pods. Resources and host
    /// ports are checked only on the nodes for whose rank `touched` returns true, because pods changed there.
    pub(crate) fn holds(&mut self, placed: &[(PodIndex, Rank)], touched: impl Fn(Rank) -> bool) -> bool {
        self.holds_here(placed, touched) && self.holds_around(placed)
    }

    /// Returns true if placed members, which are in this occupancy, still fit by resources, host ports and claims for one pod, on the nodes
    /// for whose rank `touched` returns true; other nodes are not checked.
    pub(crate) fn holds_here(&self, placed: &[(PodIndex, Rank)], touched: impl Fn(Rank) -> bool) -> bool {
        placed.iter().filter(|(_, rank)| touched(*rank)).all(|(index, rank)| {
            let Some(pod) = self.cluster.pod_at(*index) else { return false };
            let free = self.free(*rank);
            pod.requests.iter().all(|(id, _)| free[usize::from(id)] >= 0)
                && self.conflict(Some(*index), pod, *rank).is_none()
        })
    }

    /// Returns true if inter-pod constraints admit the placed members, which are in this occupancy: all members are removed and placed
    /// again one by one, in the order of `placed`, as kube-scheduler would. The occupancy is unchanged afterwards.
    pub(crate) fn holds_around(&mut self, placed: &[(PodIndex, Rank)]) -> bool {
        self.check_in_order(placed, |_, _, _| {})
    }

    /// Returns the slack of the placed members' spread constraints: how many more pods a topology domain may get before one is violated.
    /// `None` if inter-pod constraints do not admit the members, as [`Self::holds_around`] checks, or if there are no such constraints.
    pub(crate) fn slack_around(&mut self, placed: &[(PodIndex, Rank)]) -> Option<Slack> {
        let mut slack = self.neighbours.as_ref()?.slack();
        let holds =
            self.check_in_order(placed, |neighbours, member, place| neighbours.note_slack(&mut slack, member, place));
        holds.then_some(slack)
    }

    /// Updates the slack of the placed members' spread constraints (how many more pods a topology domain may get) after these bound pods
    /// were put back on their nodes (`come`), or removed again. Returns whether all of these constraints still hold; `None` if the members
    /// must be placed again to find that out.
    pub(crate) fn shift_slack(&self, slack: &mut Slack, pods: &[PodIndex], come: bool) -> Option<bool> {
        let (cluster, neighbours) = (self.cluster, self.neighbours.as_ref()?);
        let mut sure = true;
        for pod in pods {
            let place = cluster.row(*pod).node.and_then(|node| cluster.rank_of(node));
            if let Some(place) = place {
                sure &= neighbours.shift_slack(slack, cluster, (*pod, place), come);
            }
        }
        let holds = slack.holds();
        sure.then_some(holds)
    }

    /// Removes the placed members from the inter-pod counters (each has the counted pods of one spread or affinity rule) and adds them
    /// again one by one, in the order of `placed`. Returns true if the inter-pod constraints admit each of them at its turn; up to the
    /// first one that is not admitted, `each` is called with the counters before the member is added, the member, and the position of its
    /// node among all nodes.
    fn check_in_order(
        &mut self,
        placed: &[(PodIndex, Rank)],
        mut each: impl FnMut(&InterPodCounters<'a>, PodIndex, Rank),
    ) -> bool {
        let (cluster, nodes, nominated) = (self.cluster, self.nodes, &self.nominated);
        let Some(neighbours) = &mut self.neighbours else { return true };
        let count = |neighbours: &mut InterPodCounters<'a>, (index, rank): &(PodIndex, Rank), comes| {
            neighbours.count(cluster, *index, nodes.place(*rank), comes, nominated.contains(index));
        };
        placed.iter().for_each(|place| count(neighbours, place, false));
        let mut holds = true;
        for place in placed {
            holds = holds && neighbours.violated_constraint(place.0, nodes.place(place.1)).is_none();
            if holds {
                each(neighbours, place.0, nodes.place(place.1));
            }
            count(neighbours, place, true);
        }
        holds
    }
}
