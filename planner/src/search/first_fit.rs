//! A plain greedy placement on free capacity, for members of many equivalence classes: those that can use few nodes first, then the
//! largest, each on the first node where it fits. It takes little time for a node, so that it is made where the [careful
//! one](super::greedy) would need too much effort.

use crate::filters::{Nodes, NodesByLabel, Occupancy, Rank, unsuitable};
use crate::model::{Cluster, Constraints, Pod, PodIndex};
use crate::problem::{Demand, Effort};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// An equivalence class of members: they are equal for every filter.
struct Kind<'a> {
    example: &'a Pod,
    members: Vec<PodIndex>,
    /// Ranks of the nodes to which labels restrict them; `None` if these restrict them to no list of nodes.
    on: Option<Vec<Rank>>,
    /// The number of their constraints in [`FirstFit::suits`].
    constraints: usize,
}

/// Whether a node passes the filters that do not depend on other pods, for members with some constraints.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suitability {
    Unknown,
    Yes,
    No,
}

/// A placement that is being made: each member on the first node by name where it fits.
struct FirstFit<'e, 'a> {
    nodes: &'a Nodes<'a>,
    occupancy: Occupancy<'a>,
    suits: Vec<Vec<Suitability>>,
    effort: &'e Effort,
    placed: Vec<(PodIndex, Rank)>,
}

/// Places the members of a demand, one class after the other, each member on the first node by name where it fits in `occupancy`. Returns
/// the placed members with the ranks (indexes in the list of nodes) of their nodes; `None` if fewer than the needed number fit. From
/// `effort` it takes one look (a check of a node) for each node that a class can use, and another one for each further evaluation of
/// inter-pod constraints; if the effort does not suffice, that is [recorded](Effort::exhaust).
pub(crate) fn first_fit<'a>(
    cluster: &'a Cluster,
    nodes: &'a Nodes<'a>,
    demand: &Demand,
    occupancy: Occupancy<'a>,
    effort: &Effort,
) -> Option<Vec<(PodIndex, Rank)>> {
    let (kinds, constraints) = classes_in_order(cluster, nodes, demand, &occupancy);
    let looks = kinds.iter().map(|kind| kind.on.as_ref().map_or(nodes.len(), Vec::len)).sum();
    if !effort.take(looks) {
        effort.record_cut_search();
        return None;
    }
    let suits = vec![Vec::new(); constraints];
    let mut search = FirstFit { nodes, occupancy, suits, effort, placed: Vec::new() };
    kinds.iter().for_each(|kind| search.place(kind));
    (search.placed.len() >= demand.need).then_some(search.placed)
}

/// Returns how many equivalence classes the members of a demand have.
pub(crate) fn count_classes(cluster: &Cluster, demand: &Demand) -> usize {
    let mut classes: Vec<_> = demand.members.iter().map(|member| cluster.row(*member).class).collect();
    classes.sort_unstable();
    classes.dedup();
    classes.len()
}

/// Returns the equivalence classes of the members in the order in which they are placed: those that labels restrict to the fewest nodes
/// first, then those with the largest requests. The second value is the number of different constraints that they have.
fn classes_in_order<'a>(
    cluster: &'a Cluster,
    nodes: &'a Nodes<'a>,
    demand: &Demand,
    occupancy: &Occupancy<'a>,
) -> (Vec<Kind<'a>>, usize) {
    let mut pins = NodesByLabel::new(cluster, nodes);
    let mut numbers: BTreeMap<_, usize> = BTreeMap::new();
    let mut constraints: BTreeMap<&Constraints, (usize, Option<Vec<Rank>>)> = BTreeMap::new();
    let mut kinds: Vec<Kind<'a>> = Vec::new();
    for member in &demand.members {
        let number =
            *numbers.entry((cluster.row(*member).class, occupancy.constraint_class(*member))).or_insert(kinds.len());
        if number == kinds.len() {
            let Some(example) = cluster.pod_at(*member) else { continue };
            let next = constraints.len();
            let (known, on) = constraints
                .entry(&example.constraints)
                .or_insert_with(|| (next, pins.allowed_by(&example.constraints)));
            kinds.push(Kind { example, members: Vec::new(), on: on.clone(), constraints: *known });
        }
        kinds[number].members.push(*member);
    }
    // Stable: the members are in the order of their names.
    kinds.sort_by_cached_key(|kind| {
        (kind.on.as_ref().map_or(usize::MAX, Vec::len), Reverse(cluster.share_of(&kind.example.requests)))
    });
    (kinds, constraints.len())
}

impl FirstFit<'_, '_> {
    /// Places the members of a class in order, each on the first node by name where it fits, until one does not fit or the effort is used
    /// up.
    fn place(&mut self, kind: &Kind<'_>) {
        let many = kind.on.as_ref().map_or(self.nodes.len(), Vec::len);
        let at = |place: usize| kind.on.as_ref().map_or(place, |on| on[place]);
        let mut start = 0;
        for member in &kind.members {
            // A node that is full for one member stays full. What pods around it admit can change with every member.
            let around = self.occupancy.has_inter_pod_constraints() && !self.occupancy.needs_only_amounts(*member);
            let mut first = None;
            let found = (start..many).find(|place| {
                let rank = at(*place);
                if self.occupancy.refuse_here(*member, rank).is_some() || !self.is_suitable(kind, rank) {
                    return false;
                }
                first.get_or_insert(*place);
                !around || (self.effort.take(1) && self.occupancy.violated_constraint(*member, rank).is_none())
            });
            start = first.unwrap_or(many);
            let Some(place) = found else {
                if around && self.effort.spent() {
                    self.effort.record_cut_search();
                }
                return;
            };
            self.occupancy.add(*member, at(place));
            self.placed.push((*member, at(place)));
        }
    }

    /// Returns true if the node with this rank (its index in the list of nodes) passes the filters that do not depend on other pods, for
    /// members of this class. The result is kept for all classes with the same constraints.
    fn is_suitable(&mut self, kind: &Kind<'_>, rank: Rank) -> bool {
        let known = &mut self.suits[kind.constraints];
        if known.is_empty() {
            known.resize(self.nodes.len(), Suitability::Unknown);
        }
        if known[rank] == Suitability::Unknown {
            let suits = unsuitable(kind.example, self.nodes.at(rank)).is_none();
            known[rank] = if suits { Suitability::Yes } else { Suitability::No };
        }
        known[rank] == Suitability::Yes
    }
}
