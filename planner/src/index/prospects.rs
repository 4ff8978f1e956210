//! Upper bounds on the members that fit on every node, class by class, without inter-pod constraints. They exclude nodes from the search,
//! and determine the ceiling with which the search for victims begins. They come from the cached capacities of all nodes.

use super::capacities::Capacities;
use super::kept::CapacityCache;
use crate::filters::{NodeDomains, Nodes, NodesByLabel, Rank, affinity_term_matches};
use crate::limits::{MORE_NODES, MOST_CLASSES_COUNTED, MOST_NODES_SEARCHED, MOST_PINNED_NODES, SMALL_CLUSTER};
use crate::model::{ClassId, Cluster};
use crate::problem::{Demand, InFlight};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The state of the cluster in which members are to fit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// Now.
    Now,
    /// After the pods that are leaving anyway have terminated.
    Then,
    /// After all units of a priority up to this one are evicted as well.
    Without(i32),
}

/// Upper bounds on how many members of a preemptor fit on nodes: the cached capacities of every node for the classes of the members.
pub(crate) struct Prospects {
    /// Each with the number of members of the class.
    classes: Vec<(Capacities, u64)>,
    /// How many of them have to fit: as many as are needed less the members of other classes.
    need: u64,
    /// Number of members of other classes, whose capacities are not computed: any node may be the one that they need.
    others: u64,
    /// The nodes of members of other classes that can use few nodes.
    pinned: BTreeSet<Rank>,
}

impl Prospects {
    /// Returns the upper bounds for the members of a preemptor. `None` if there are so few nodes that all of them are searched, or if
    /// requests are too large to be represented.
    pub(crate) fn new(cluster: &Cluster, demand: &Demand, nodes: &Nodes<'_>, in_flight: &InFlight) -> Option<Self> {
        if nodes.len() <= SMALL_CLUSTER {
            return None;
        }
        let mut members: BTreeMap<ClassId, (u32, u64)> = BTreeMap::new();
        for member in &demand.members {
            members.entry(cluster.row(*member).class).or_insert((*member, 0)).1 += 1;
        }
        let mut sized: Vec<_> = members.into_iter().collect();
        sized.sort_by_cached_key(|(id, (example, _))| {
            let asks = cluster.class(*id).map(|class| cluster.share_of(&class.requests));
            (asks, cluster.pod_at(*example).map(|pod| pod.key.clone()))
        });
        let (fewest, most) = (MOST_CLASSES_COUNTED / 2, sized.len().saturating_sub(MOST_CLASSES_COUNTED / 2));
        let (known, others): (Vec<_>, Vec<_>) =
            sized.into_iter().enumerate().partition(|(number, _)| *number < fewest || *number >= most);
        let pinned = pinned(cluster, nodes, others.iter().map(|(_, (id, _))| *id));
        let others: u64 = others.iter().map(|(_, (_, (_, count)))| *count).sum();
        let mut classes = Vec::new();
        for (_, (id, (example, count))) in known {
            let (class, example) = (cluster.class(id)?, cluster.pod_at(example)?);
            let apart = need_separate_nodes(cluster, demand, nodes, id);
            let respect = in_flight.reserved.respect;
            let take = |kept: &mut CapacityCache| kept.take(cluster, class, demand.priority, apart, respect);
            let mut capacities = cluster.memory().with(take)?;
            capacities.catch_up(cluster, nodes, example, in_flight)?;
            classes.push((capacities, count));
        }
        Some(Self { classes, need: (demand.need as u64).saturating_sub(others), others, pinned })
    }

    /// Puts the capacities back into the cache, for the next decision.
    pub(crate) fn return_to_cache(self, cluster: &Cluster) {
        cluster
            .memory()
            .with(|kept: &mut CapacityCache| self.classes.into_iter().for_each(|(known, _)| kept.put(known)));
    }

    /// Returns how many members of one class fit on a node at most, in the state `when` of the cluster; `known` are the capacities for the
    /// class.
    fn fit(known: &Capacities, rank: Rank, when: When) -> u64 {
        let node = &known.nodes[rank];
        u64::from(match when {
            When::Now => node.now,
            When::Then => node.then,
            When::Without(ceiling) => node.up_to(ceiling),
        })
    }

    /// Returns, for each class of members, how many members fit at most on these nodes in the state `when` of the cluster, and how many
    /// members the class has.
    fn fits(&self, ranks: &[Rank], when: When) -> impl Iterator<Item = (u64, u64)> {
        self.classes.iter().map(move |(known, members)| {
            (ranks.iter().map(|rank| Self::fit(known, *rank, when)).sum::<u64>(), *members)
        })
    }

    /// Returns how many members fit on these nodes at most, in the state `when` of the cluster: for each class no more than it has, as if
    /// the nodes were for this class alone. Members of classes whose capacities are not computed are left out.
    pub(crate) fn at_most(&self, ranks: &[Rank], when: When) -> u64 {
        self.fits(ranks, when).map(|(fit, members)| fit.min(members)).sum()
    }

    /// Returns false if it is certain that fewer members than needed fit on these nodes, in the state `when` of the cluster.
    pub(crate) fn could_fit(&self, ranks: &[Rank], when: When) -> bool {
        self.at_most(ranks, when) >= self.need
    }

    /// Returns how many pods like the members fit on these nodes at most, in the state `when` of the cluster: summed over the classes, as
    /// if the nodes were for each class alone, and not limited by the number of members.
    pub(crate) fn capacity(&self, ranks: &[Rank], when: When) -> u64 {
        self.fits(ranks, when).map(|(fit, _)| fit).sum()
    }

    /// Returns lower bounds on the number of budget violations and on the highest priority of a victim, for all plans that place as many
    /// members as needed on these nodes. The priority is `None` if no victim is needed, or no priority is enough. A plan with more
    /// violations than the bound may have victims of lower priority.
    pub(crate) fn lower_bounds(&self, ranks: &[Rank]) -> (usize, Option<i32>) {
        if self.could_fit(ranks, When::Then) {
            return (0, None);
        }
        match self.ceilings_of(ranks, self.need, &[1], true).first() {
            Some(ceiling) => (0, Some(*ceiling)),
            None => (1, self.ceilings_of(ranks, self.need, &[1], false).first().copied()),
        }
    }

    /// For each factor in `times`, which are ascending, returns the lowest priority P such that after evictions up to P `wanted` members
    /// fit on these nodes although each of them takes the capacity of as many as the factor says. Units that violate a budget by themselves
    /// are not evicted. Factors for which no priority is enough are left out.
    pub(crate) fn ceilings(&self, ranks: &[Rank], wanted: u64, times: &[u64]) -> Vec<i32> {
        self.ceilings_of(ranks, wanted, times, true)
    }

    /// Computes [`Self::ceilings`]; if `lawful` is false, units that violate a budget by themselves are evicted as well.
    fn ceilings_of(&self, ranks: &[Rank], wanted: u64, times: &[u64], lawful: bool) -> Vec<i32> {
        let mut gains: BTreeMap<i32, Vec<u64>> = BTreeMap::new();
        let mut fit: Vec<u64> = vec![0; self.classes.len()];
        for (number, (known, _)) in self.classes.iter().enumerate() {
            for node in ranks.iter().map(|rank| &known.nodes[*rank]) {
                fit[number] += u64::from(node.then);
                for (priority, gain) in node.gains_at_most(lawful) {
                    gains.entry(priority).or_insert_with(|| vec![0; fit.len()])[number] += u64::from(gain);
                }
            }
        }
        let enough = |fit: &[u64], times: u64| {
            let fits = fit.iter().zip(&self.classes).map(|(fit, (_, members))| (fit / times.max(1)).min(*members));
            fits.sum::<u64>() >= wanted
        };
        let mut ceilings = Vec::with_capacity(times.len());
        for (priority, gain) in gains {
            fit.iter_mut().zip(gain).for_each(|(fit, gain)| *fit += gain);
            while times.get(ceilings.len()).is_some_and(|times| enough(&fit, *times)) {
                ceilings.push(priority);
            }
        }
        ceilings
    }

    /// Returns those of these nodes where a member may fit in the state `when` of the cluster, and true if these are all of them. If there
    /// are very many, it returns those that are most promising by their capacity, and false. `around` is called with nodes, and returns for
    /// each of them true if inter-pod constraints exclude all members there, and the topology domains of the node; the domains of each
    /// topology key take turns.
    pub(crate) fn promising_nodes(
        &self,
        ranks: &[Rank],
        when: When,
        around: impl Fn(&[Rank]) -> Vec<(bool, NodeDomains)>,
    ) -> (Vec<Rank>, bool) {
        let fits =
            |rank: &Rank| self.others > 0 || self.classes.iter().any(|(known, _)| Self::fit(known, *rank, when) > 0);
        let mut useful: Vec<Rank> = ranks.iter().copied().filter(fits).collect();
        let members: u64 = self.classes.iter().map(|(_, members)| *members).sum::<u64>() + self.others;
        let many = if self.others > 0 { MOST_NODES_SEARCHED * MORE_NODES } else { MOST_NODES_SEARCHED };
        let most = many.max(usize::try_from(2 * members).unwrap_or(usize::MAX));
        if useful.len() <= most {
            return (useful, true);
        }
        useful.sort_by_cached_key(|rank| {
            let mut first = self.classes.iter().filter_map(|(known, _)| known.nodes[*rank].first_gain());
            (first.next(), Reverse(self.capacity(&[*rank], when)), *rank)
        });
        let mut turns: BTreeMap<(usize, u32), usize> = BTreeMap::new();
        let mut order = Vec::with_capacity(useful.len());
        for (rank, (kept_away, domains)) in useful.iter().zip(around(&useful)) {
            let (mut first, mut last) = (usize::MAX, 0);
            for key in domains.into_iter().enumerate() {
                let turn = turns.entry(key).or_default();
                (first, last) = (first.min(*turn), last.max(*turn));
                *turn += usize::from(!kept_away);
            }
            order.push((kept_away, first, last, *rank));
        }
        // Stable: within a turn the most promising nodes come first. The first node of any domain is among the first nodes.
        order.sort_by_key(|(kept_away, first, last, _)| (*kept_away, *first, *last));
        let order: Vec<Rank> = order.into_iter().map(|(.., rank)| rank).collect();
        (self.first_with_shares(&order, when, most).into_iter().collect(), false)
    }

    /// Returns the first `most` nodes of `order`, but with a share of them for every class of members, among the nodes where the class
    /// fits: the nodes of a small pool, which only one class can use, are not left out for those of a large one.
    fn first_with_shares(&self, order: &[Rank], when: When, most: usize) -> BTreeSet<Rank> {
        let share = most / (self.classes.len() + 1 + usize::from(!self.pinned.is_empty()));
        let mut taken: BTreeSet<Rank> =
            order.iter().copied().filter(|rank| self.pinned.contains(rank)).take(share).collect();
        for (known, _) in &self.classes {
            let fits = order.iter().filter(|rank| Self::fit(known, **rank, when) > 0);
            taken.extend(fits.take(share));
        }
        for rank in order {
            if taken.len() >= most {
                break;
            }
            taken.insert(*rank);
        }
        taken
    }
}

/// Returns the nodes on which the members of these classes can run, for those classes that node labels restrict to at most
/// [`MOST_PINNED_NODES`] nodes.
fn pinned(cluster: &Cluster, nodes: &Nodes<'_>, classes: impl Iterator<Item = ClassId>) -> BTreeSet<Rank> {
    let mut pins = NodesByLabel::new(cluster, nodes);
    let of = |class| pins.allowed_by(&cluster.class(class)?.constraints).filter(|on| on.len() <= MOST_PINNED_NODES);
    classes.filter_map(of).flatten().collect()
}

/// Returns true if no two members of a class may be on one node, because an anti-affinity term of the class selects all of its members and
/// every node has the label of its topology.
fn need_separate_nodes(cluster: &Cluster, demand: &Demand, nodes: &Nodes<'_>, id: ClassId) -> bool {
    let Some(class) = cluster.class(id) else { return false };
    let members = || demand.members.iter().filter(|member| cluster.row(**member).class == id);
    class.constraints.anti_affinity.iter().any(|term| {
        members()
            .filter_map(|member| cluster.pod_at(*member))
            .all(|member| affinity_term_matches(cluster, term, member))
            && (0..nodes.len()).all(|rank| nodes.at(rank).labels.contains_key(&term.topology_key))
    })
}
