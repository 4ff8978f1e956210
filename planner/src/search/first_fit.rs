//! A plain greedy placement on free capacity, for members of many equivalence classes: those that can use few nodes first, then the largest,
//! each on the first node where it fits. It takes little time for a node, so that it is made where the [careful one](super::greedy) would need
//! too much effort.

use crate::filters::{Nodes, Occupancy, Pins, Rank, unsuitable};
use crate::model::{Cluster, Constraints, Pod, PodIndex};
use crate::problem::{Demand, Effort};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Members that are equal for every filter.
struct Kind<'a> {
    example: &'a Pod,
    members: Vec<PodIndex>,
    /// The nodes that they can use at most; `None` for all.
    on: Option<Vec<Rank>>,
    /// The number of their constraints in [`FirstFit::suits`].
    constraints: usize,
}

/// What is known of nodes and constraints, by constraints and rank.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suits {
    Unknown,
    Yes,
    No,
}

/// A placement that is being made: each member on the first node by name where it fits.
struct FirstFit<'e, 'a> {
    nodes: &'a Nodes<'a>,
    room: Occupancy<'a>,
    suits: Vec<Vec<Suits>>,
    effort: &'e Effort,
    placed: Vec<(PodIndex, Rank)>,
}

/// Places members of a demand in `room`; `None` if fewer than needed were placed. Each node that a class can use takes one look, and each
/// further look at inter-pod constraints another one; if the effort does not suffice, it [ends](Effort::exhaust).
pub(crate) fn first_fit<'a>(
    cluster: &'a Cluster,
    nodes: &'a Nodes<'a>,
    demand: &Demand,
    room: Occupancy<'a>,
    effort: &Effort,
) -> Option<Vec<(PodIndex, Rank)>> {
    let (kinds, constraints) = kinds(cluster, nodes, demand, &room);
    let looks = kinds.iter().map(|kind| kind.on.as_ref().map_or(nodes.len(), Vec::len)).sum();
    if !effort.take(looks) {
        effort.record_cut_search();
        return None;
    }
    let suits = vec![Vec::new(); constraints];
    let mut search = FirstFit { nodes, room, suits, effort, placed: Vec::new() };
    kinds.iter().for_each(|kind| search.place(kind));
    (search.placed.len() >= demand.need).then_some(search.placed)
}

/// Returns how many classes the members of a demand have.
pub(crate) fn count_kinds(cluster: &Cluster, demand: &Demand) -> usize {
    let mut classes: Vec<_> = demand.members.iter().map(|member| cluster.row(*member).class).collect();
    classes.sort_unstable();
    classes.dedup();
    classes.len()
}

/// Returns the classes of members in the order in which they are placed, and how many different constraints they have.
fn kinds<'a>(
    cluster: &'a Cluster,
    nodes: &'a Nodes<'a>,
    demand: &Demand,
    room: &Occupancy<'a>,
) -> (Vec<Kind<'a>>, usize) {
    let mut pins = Pins::new(cluster, nodes);
    let mut numbers: BTreeMap<_, usize> = BTreeMap::new();
    let mut constraints: BTreeMap<&Constraints, (usize, Option<Vec<Rank>>)> = BTreeMap::new();
    let mut kinds: Vec<Kind<'a>> = Vec::new();
    for member in &demand.members {
        let number = *numbers.entry((cluster.row(*member).class, room.kind(*member))).or_insert(kinds.len());
        if number == kinds.len() {
            let Some(example) = cluster.pod_at(*member) else { continue };
            let next = constraints.len();
            let (known, on) =
                constraints.entry(&example.constraints).or_insert_with(|| (next, pins.of(&example.constraints)));
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
    /// Places as many members of a class as fit.
    fn place(&mut self, kind: &Kind<'_>) {
        let many = kind.on.as_ref().map_or(self.nodes.len(), Vec::len);
        let at = |place: usize| kind.on.as_ref().map_or(place, |on| on[place]);
        let mut start = 0;
        for member in &kind.members {
            // A node that is full for one member stays full. What pods around it admit can change with every member.
            let around = self.room.looks_around() && !self.room.counts_only(*member);
            let mut first = None;
            let found = (start..many).find(|place| {
                let rank = at(*place);
                if self.room.refuse_here(*member, rank).is_some() || !self.is_suitable(kind, rank) {
                    return false;
                }
                first.get_or_insert(*place);
                !around || (self.effort.take(1) && self.room.object(*member, rank).is_none())
            });
            start = first.unwrap_or(many);
            let Some(place) = found else {
                if around && self.effort.spent() {
                    self.effort.record_cut_search();
                }
                return;
            };
            self.room.add(*member, at(place));
            self.placed.push((*member, at(place)));
        }
    }

    /// Returns true if a node passes the filters that do not depend on other pods.
    fn is_suitable(&mut self, kind: &Kind<'_>, rank: Rank) -> bool {
        let known = &mut self.suits[kind.constraints];
        if known.is_empty() {
            known.resize(self.nodes.len(), Suits::Unknown);
        }
        if known[rank] == Suits::Unknown {
            let suits = unsuitable(kind.example, self.nodes.at(rank)).is_none();
            known[rank] = if suits { Suits::Yes } else { Suits::No };
        }
        known[rank] == Suits::Yes
    }
}
