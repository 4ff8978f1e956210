//! Free capacity of every node under an assumption: some pods removed, others placed. It is cheap to copy and to restore, and is never
//! shared between assumptions.

use super::neighbours::{CounterState, Neighbours, NodeDomains, Objection, RejectingCounter, Slack};
use super::nodes::{Held, Nodes, Rank};
use super::{exclusive, resources};
use crate::api::Refusal;
use crate::model::{AssumedFree, Cluster, NodeIndex, Pod, PodIndex, ResourceId};
use std::collections::{BTreeMap, BTreeSet};

/// Occupancy of the nodes: free capacity, and the pods that are present.
#[derive(Clone)]
pub(crate) struct Occupancy<'a> {
    cluster: &'a Cluster,
    nodes: &'a Nodes<'a>,
    free: AssumedFree<'a>,
    /// Pods with host ports or claims for one pod, if a member has one.
    with_exclusive: Option<BTreeMap<NodeIndex, Vec<PodIndex>>>,
    /// Counts for inter-pod constraints, if there are any.
    neighbours: Option<Neighbours<'a>>,
    /// Nominated pods, which are not bound but occupy capacity of their nominated nodes.
    held: BTreeSet<PodIndex>,
}

impl<'a> Occupancy<'a> {
    /// Returns the occupancy with every bound pod and these nominations, for members without inter-pod constraints.
    pub(crate) fn of_amounts(cluster: &'a Cluster, nodes: &'a Nodes<'a>, held: &[Held]) -> Self {
        let free = AssumedFree::new(cluster.free());
        let mut occupancy =
            Self { cluster, nodes, free, with_exclusive: None, neighbours: None, held: BTreeSet::new() };
        occupancy.hold(held);
        occupancy
    }

    /// Returns the occupancy with every bound pod and these nominations, for `members` with any constraints.
    pub(crate) fn new(cluster: &'a Cluster, nodes: &'a Nodes<'a>, members: &[PodIndex], held: &[Held]) -> Self {
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
        let waiting: Vec<PodIndex> = held.iter().map(|(pod, _)| *pod).collect();
        let neighbours = Neighbours::new(cluster, nodes, members, &waiting);
        let free = AssumedFree::new(cluster.free());
        let mut occupancy = Self { cluster, nodes, free, with_exclusive, neighbours, held: BTreeSet::new() };
        occupancy.hold(held);
        occupancy
    }

    /// Returns a copy of this occupancy that refers to the list `nodes`.
    pub(crate) fn on(&self, nodes: &'a Nodes<'a>) -> Self {
        Self { nodes, ..self.clone() }
    }

    /// Returns the occupancy for members that will get a node selector that restricts them to the topology domain of the node `of`, for the
    /// topology key `key`. Must be called before any pod is removed or placed; `held` are the nominations from the beginning.
    pub(crate) fn within(mut self, key: &str, of: Rank, held: &[Held]) -> Self {
        if let Some(neighbours) = &self.neighbours {
            let value = self.nodes.in_place(of).labels.get(key);
            let inside = |place: Rank| self.nodes.in_place(place).labels.get(key) == value;
            self.neighbours = neighbours.within(self.cluster, self.nodes, inside, held).or(self.neighbours);
        }
        self
    }

    /// Reserves capacity for nominated pods that are not bound (KEP-4832).
    fn hold(&mut self, held: &[Held]) {
        for (index, place) in held {
            self.held.insert(*index);
            self.change(*index, self.nodes.index_in_place(*place), true);
        }
    }

    /// Adds a pod to the node with this index of the model (`comes`), or removes it: updates free amounts, counts and host ports.
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
            neighbours.count(cluster, index, place, comes, self.held.contains(&index));
        }
    }

    /// Returns true if a placement can depend on pods of other nodes.
    pub(crate) fn looks_around(&self) -> bool {
        self.neighbours.is_some()
    }

    /// Returns which upper bound the inter-pod constraints of the members exceed, in words; `None` if all of them are evaluated. Members
    /// whose constraints are not evaluated fit nowhere.
    pub(crate) fn excess(&self) -> Option<&str> {
        self.neighbours.as_ref()?.excess()
    }

    /// Returns the class of a member: members of one class are equal for all inter-pod constraints.
    pub(crate) fn kind(&self, member: PodIndex) -> usize {
        self.neighbours.as_ref().map_or(0, |neighbours| neighbours.kind(member))
    }

    /// Returns the counts for inter-pod constraints; `None` if no pod has such a constraint.
    pub(crate) fn neighbours(&self) -> Option<&Neighbours<'a>> {
        self.neighbours.as_ref()
    }

    /// Returns the number of cells: sets of nodes which inter-pod constraints make either all or none infeasible for a member.
    pub(crate) fn cells(&self) -> usize {
        self.neighbours.as_ref().map_or(1, Neighbours::cells)
    }

    /// Returns the number of the cell that contains the node; see [`Self::cells`].
    pub(crate) fn cell(&self, rank: Rank) -> usize {
        self.neighbours.as_ref().map_or(0, |neighbours| neighbours.cell(self.nodes.place(rank)))
    }

    /// Returns for each of these nodes, in order: whether the affinity of all `members` excludes it, and its domains,
    /// for every counted topology key with at most half as many domains as these nodes.
    pub(crate) fn around(&self, members: &[PodIndex], ranks: &[Rank]) -> Vec<(bool, NodeDomains)> {
        let Some(neighbours) = &self.neighbours else { return vec![(false, NodeDomains::new()); ranks.len()] };
        let places: Vec<Rank> = ranks.iter().map(|rank| self.nodes.place(*rank)).collect();
        neighbours.around(members, &places)
    }

    /// Returns the inter-pod constraint that makes a node, and all nodes of its cell, infeasible for a member; `None` if no such constraint
    /// does.
    pub(crate) fn object(&self, member: PodIndex, rank: Rank) -> Option<Refusal> {
        let objection = self.neighbours.as_ref()?.object(member, self.nodes.place(rank))?;
        Some(match objection {
            Objection::Spread => Refusal::Spread,
            Objection::AntiAffinity => Refusal::AntiAffinity,
            Objection::Affinity => Refusal::Affinity,
        })
    }

    /// Returns the counter that makes a node, and all nodes of its cell, infeasible for a member; `None` if none does. As long as its
    /// [state](Occupancy::counter_state) is unchanged, placing members does not make them feasible.
    pub(crate) fn rejecting_counter(&self, member: PodIndex, rank: Rank) -> Option<RejectingCounter> {
        self.neighbours.as_ref()?.rejecting_counter(member, self.nodes.place(rank))
    }

    /// Returns the state of a counter, to find out later whether the members that it rejected may fit; `None` without inter-pod
    /// constraints.
    pub(crate) fn counter_state(&self, counter: RejectingCounter) -> Option<CounterState> {
        self.neighbours.as_ref()?.counter_state(counter)
    }

    /// Returns true if the inter-pod constraints of a member, or the pod's own against a member, count this pod.
    pub(crate) fn is_looked_at(&self, index: PodIndex) -> bool {
        self.neighbours.as_ref().is_some_and(|neighbours| neighbours.knows(self.cluster, index))
    }

    /// Returns true if a pod matters for members on other nodes than its own.
    pub(crate) fn is_looked_at_from_afar(&self, index: PodIndex) -> bool {
        self.neighbours.as_ref().is_some_and(|neighbours| neighbours.knows_from_afar(self.cluster, index))
    }

    /// Returns the counters of anti-affinity, each with a domain, that would reject these placed members if a pod that they count were
    /// added to the domain.
    pub(crate) fn watched(&self, placed: &[(PodIndex, Rank)]) -> BTreeSet<(usize, u32)> {
        let places = placed.iter().map(|(member, rank)| (*member, self.nodes.place(*rank)));
        self.neighbours.as_ref().map_or_else(BTreeSet::new, |neighbours| neighbours.watched(places))
    }

    /// Returns whether inter-pod constraints still admit the placed members when these pods are put back; `None` if the members must be
    /// placed again to find that out.
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

    /// Returns true if only amounts decide how many members like this one fit on a node that inter-pod constraints admit: none has a host
    /// port.
    pub(crate) fn counts_amounts(&self, member: PodIndex) -> bool {
        self.cluster.pod_at(member).is_some_and(|pod| pod.constraints.exclusive.is_empty())
    }

    /// Returns true if only amounts decide where a member fits: it has no host port, and no inter-pod constraint concerns it.
    pub(crate) fn counts_only(&self, member: PodIndex) -> bool {
        self.counts_amounts(member) && !self.neighbours.as_ref().is_some_and(|neighbours| neighbours.concern(member))
    }

    /// Returns how many pods like this one fit on a node without the pods there for which `gone` returns true, at most `limit`. Requires
    /// [`Occupancy::counts_only`].
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

    /// Returns the free amounts of a node, by number of the resource.
    pub(crate) fn free(&self, rank: Rank) -> &[i128] {
        self.free.row(self.nodes.index(rank))
    }

    /// Puts a pod on a node, without checking whether it fits there.
    pub(crate) fn add(&mut self, index: PodIndex, rank: Rank) {
        self.change(index, self.nodes.index(rank), true);
    }

    /// Removes a pod from the node that it is bound to or was placed on.
    pub(crate) fn remove(&mut self, index: PodIndex, rank: Rank) {
        self.change(index, self.nodes.index(rank), false);
    }

    /// Returns the rank of the node that a pod is bound to; `None` if it has no node, or that node is not in the list.
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

    /// Returns why a member does not fit beside the pods that are present; `None` if it fits. Runs only filters that depend on other pods.
    pub(crate) fn refuse(&self, member: PodIndex, rank: Rank) -> Option<Refusal> {
        self.refuse_here(member, rank).or_else(|| self.object(member, rank))
    }

    /// Returns why a member does not fit beside the pods on the node; `None` if it fits. Runs only the filters for
    /// resources and host ports, without inter-pod constraints.
    pub(crate) fn refuse_here(&self, member: PodIndex, rank: Rank) -> Option<Refusal> {
        let pod = self.cluster.pod_at(member)?;
        if let Some(id) = resources::lacking(&pod.requests, self.free(rank)) {
            return Some(Refusal::Insufficient(id));
        }
        self.conflict(None, pod, rank)
    }

    /// Returns why a pod that is present on a node, other than `itself`, excludes this pod: by a host port, or by a claim that only one pod
    /// may use. `None` if none does.
    fn conflict(&self, itself: Option<PodIndex>, pod: &Pod, rank: Rank) -> Option<Refusal> {
        if pod.constraints.exclusive.is_empty() {
            return None;
        }
        let there = self.with_exclusive.as_ref().and_then(|list| list.get(&self.nodes.index(rank)));
        let mut others = there.into_iter().flatten().filter(|other| Some(**other) != itself);
        others.find_map(|other| exclusive::conflict(pod, self.cluster.pod_at(*other)?))
    }

    /// Returns the resources of which a node has too little free capacity for a pod.
    pub(crate) fn lacks(&self, pod: &Pod, rank: Rank) -> Vec<ResourceId> {
        let free = self.free(rank);
        pod.requests.iter().filter(|(id, amount)| free[usize::from(*id)] < *amount).map(|(id, _)| id).collect()
    }

    /// Returns how many members like this one fit on a node, at most `limit`, without regard to pods on other nodes. A member with host
    /// ports or anti-affinity counts at most once.
    pub(crate) fn capacity_here(&self, member: PodIndex, rank: Rank, limit: usize) -> usize {
        let Some(pod) = self.cluster.pod_at(member) else { return 0 };
        if !pod.constraints.exclusive.is_empty() || !pod.constraints.anti_affinity.is_empty() {
            return usize::from(limit > 0 && self.refuse_here(member, rank).is_none());
        }
        resources::how_many(&pod.requests, self.free(rank), limit)
    }

    /// Returns true if members that were placed before (and are in this occupancy) still fit, after changes on the nodes for which
    /// `touched` returns true.
    pub(crate) fn holds(&mut self, placed: &[(PodIndex, Rank)], touched: impl Fn(Rank) -> bool) -> bool {
        self.holds_here(placed, touched) && self.holds_around(placed)
    }

    /// Returns true if placed members still fit on the nodes for which `touched` returns true, by resources and host
    /// ports only, without inter-pod constraints.
    pub(crate) fn holds_here(&self, placed: &[(PodIndex, Rank)], touched: impl Fn(Rank) -> bool) -> bool {
        placed.iter().filter(|(_, rank)| touched(*rank)).all(|(index, rank)| {
            let Some(pod) = self.cluster.pod_at(*index) else { return false };
            let free = self.free(*rank);
            pod.requests.iter().all(|(id, _)| free[usize::from(id)] >= 0)
                && self.conflict(Some(*index), pod, *rank).is_none()
        })
    }

    /// Returns true if inter-pod constraints admit the placed members: all of them are removed and placed again one by one, in the order of
    /// their placement, as kube-scheduler would.
    pub(crate) fn holds_around(&mut self, placed: &[(PodIndex, Rank)]) -> bool {
        self.check_in_order(placed, |_, _, _| {})
    }

    /// Returns the slack of the members' spread constraints if inter-pod constraints admit the placed members, as
    /// [`Self::holds_around`] checks; `None` otherwise.
    pub(crate) fn slack_around(&mut self, placed: &[(PodIndex, Rank)]) -> Option<Slack> {
        let mut slack = self.neighbours.as_ref()?.slack();
        let holds =
            self.check_in_order(placed, |neighbours, member, place| neighbours.note_slack(&mut slack, member, place));
        holds.then_some(slack)
    }

    /// Updates the slack after these bound pods were put back on their nodes (`come`), or removed again. Returns whether the spread
    /// constraints of all members still hold; `None` if the members have to be placed again to find that out.
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

    /// Removes the placed members and adds them again one by one. Returns true if the inter-pod constraints admit
    /// each of them at its turn; `each` is called for each one that is admitted.
    fn check_in_order(
        &mut self,
        placed: &[(PodIndex, Rank)],
        mut each: impl FnMut(&Neighbours<'a>, PodIndex, Rank),
    ) -> bool {
        let (cluster, nodes, held) = (self.cluster, self.nodes, &self.held);
        let Some(neighbours) = &mut self.neighbours else { return true };
        let count = |neighbours: &mut Neighbours<'a>, (index, rank): &(PodIndex, Rank), comes| {
            neighbours.count(cluster, *index, nodes.place(*rank), comes, held.contains(index));
        };
        placed.iter().for_each(|place| count(neighbours, place, false));
        let mut holds = true;
        for place in placed {
            holds = holds && neighbours.object(place.0, nodes.place(place.1)).is_none();
            if holds {
                each(neighbours, place.0, nodes.place(place.1));
            }
            count(neighbours, place, true);
        }
        holds
    }
}
