//! Decisions for members of one class without inter-pod constraints (other than anti-affinity to each other), from cached capacities of
//! every node ([`crate::index`]): most decisions need only sums that are known already. A search covers the few relevant nodes, with the
//! same strategies as elsewhere; what cannot be decided this way is left to the general algorithm.

mod shortfall;

use super::assembly;
use crate::api::{Context, Decision, Strategy};
use crate::filters::{Nodes, Occupancy, Rank, affinity_term_matches, excluded_by_anti_affinity};
use crate::index::{BestNode, Capacities, CapacityCache, NodeChoice, Risk, Searched, bound, outline};
use crate::limits::LOOKS_AT_A_NODE;
use crate::model::{Cluster, EquivalenceClass, Pod, PodIndex, UnitRef};
use crate::problem::{Demand, Effort, Elsewhere, InFlight, Problem, UnitIndex, placements};
use crate::search::{Found, Matrix, fill_rest, greedy_matrix, kep5710, least_cost};
use giveway_crds::policy::PreemptionPolicy;
use std::sync::Arc;

/// Decides from cached capacities of all nodes for a preemptor whose members are all of one equivalence class, without host ports, claims
/// for one pod, pod affinity or topology spread. `None` for other preemptors, or if the cached capacities do not suffice: then the general
/// algorithm must decide.
pub(super) fn decide(cluster: &Cluster, demand: &Demand, context: &Context) -> Option<Decision> {
    let first = *demand.members.first()?;
    let (id, example) = (cluster.row(first).class, cluster.pod_at(first)?);
    let class = cluster.class(id)?;
    let constraints = &class.constraints;
    if demand.members.iter().any(|member| cluster.row(*member).class != id)
        || !constraints.exclusive.is_empty()
        || !constraints.affinity.is_empty()
        || !constraints.spread.is_empty()
    {
        return None;
    }
    // Members that exclude each other by anti-affinity, and no other pods, are counted too: at most one fits on every node.
    let apart = !constraints.anti_affinity.is_empty();
    let mutual =
        |member: &Pod| constraints.anti_affinity.iter().all(|term| affinity_term_matches(cluster, term, member));
    if apart && !demand.members.iter().filter_map(|member| cluster.pod_at(*member)).all(mutual) {
        return None;
    }
    let nodes = Nodes::new(cluster);
    let in_flight = InFlight::new(cluster, demand, context);
    if excluded_by_anti_affinity(cluster, &demand.members, id, in_flight.reserved.repelling(cluster))
        || (apart && !in_flight.reservations(cluster).is_empty())
    {
        return None;
    }
    let leaving = in_flight.leaving(cluster, &nodes);
    let elsewhere = &Elsewhere::new(cluster, &nodes, in_flight.reservations(cluster), leaving);
    let (nodes, in_flight) = (&nodes, &in_flight);
    let alike = UniformRequest { cluster, demand, context, nodes, in_flight, elsewhere, example, class };
    cluster.memory().with(|kept: &mut CapacityCache| decide_from_cache(kept, &alike))
}

/// A preemption request whose members are all of one equivalence class, which cached capacities can answer.
struct UniformRequest<'d> {
    cluster: &'d Cluster,
    demand: &'d Demand,
    context: &'d Context,
    nodes: &'d Nodes<'d>,
    in_flight: &'d InFlight,
    elsewhere: &'d Elsewhere<'d>,
    /// One of the members.
    example: &'d Pod,
    class: &'d Arc<EquivalenceClass>,
}

/// Decides with the capacities in the cache `kept`, which are brought up to date before; capacities that are not cached are computed.
/// `None` if they do not suffice: then the general algorithm must decide.
fn decide_from_cache(kept: &mut CapacityCache, alike: &UniformRequest<'_>) -> Option<Decision> {
    let &UniformRequest { cluster, demand, nodes, in_flight, example, class, .. } = alike;
    let apart = !class.constraints.anti_affinity.is_empty();
    let respect = in_flight.reserved.respect;
    let mut capacities = kept.take(cluster, class, demand.priority, apart, respect)?;
    capacities.catch_up(cluster, nodes, example, in_flight)?;
    let counts = !apart || (capacities.domains_are_nodes && capacities.totals.blocked == 0);
    let decision = if counts {
        CachedDecision { alike, capacities: &mut capacities, effort: Effort::of_decision() }.decide()
    } else {
        None
    };
    kept.put(capacities);
    decision
}

/// A decision in progress, and the cached capacities of the members' class.
struct CachedDecision<'d> {
    alike: &'d UniformRequest<'d>,
    capacities: &'d mut Capacities,
    effort: Effort,
}

impl CachedDecision<'_> {
    /// Decides by sums over all nodes if enough members fit now, fit after the pods that are leaving anyway have terminated, or cannot fit;
    /// otherwise searches victims on the relevant nodes. `None` if the general algorithm must decide.
    fn decide(&mut self) -> Option<Decision> {
        let need = self.alike.demand.need as u64;
        let (now, then) = (self.capacities.totals.now, self.capacities.totals.then);
        if now >= need {
            let open = self.capacities.open.iter().map(|(_, fit, rank)| (*rank, *fit));
            let placed = self.assign(open);
            let left = self.alike.demand.members.len() - placed.len();
            return Some(Decision::Fits {
                placements: placements(self.alike.cluster, self.alike.nodes, &placed),
                left,
                domain: None,
            });
        }
        let preempts = self.alike.demand.policy != PreemptionPolicy::Never;
        if then >= need && (preempts || self.alike.context.waits) {
            return Some(self.wait_for_leaving());
        }
        if !preempts || self.capacities.totals.most < need {
            return self.shortfall();
        }
        if self.alike.demand.single { self.decide_single() } else { self.decide_gang() }
    }

    /// Assigns the members, in their order, to nodes: `open` has the ranks (indexes in the list of nodes) of nodes, each with the number of
    /// members that fit there. Members for which no capacity is left are not in the result.
    fn assign(&self, open: impl Iterator<Item = (Rank, u32)>) -> Vec<(PodIndex, Rank)> {
        let places = open.flat_map(|(rank, fit)| std::iter::repeat_n(rank, fit as usize));
        self.alike.demand.members.iter().copied().zip(places).collect()
    }

    /// Returns the preemption problem on `nodes`, before potential victims are collected.
    fn problem<'p>(&'p self, nodes: &'p Nodes<'p>) -> Problem<'p> {
        let occupancy = occupancy_by_amounts(self.alike.cluster, nodes, self.alike.in_flight);
        let problem = Problem::new(
            self.alike.cluster,
            nodes,
            self.alike.demand,
            self.alike.context,
            self.alike.in_flight,
            occupancy,
            &self.effort,
        );
        Problem { elsewhere: Some(self.alike.elsewhere), ..problem }
    }

    /// Returns the decision for members that fit after the pods that are leaving anyway have terminated: a plan without victims.
    fn wait_for_leaving(&self) -> Decision {
        let answers = self.capacities.nodes.iter().enumerate();
        let mut open: Vec<(bool, u32, Rank)> = answers
            .filter(|(_, answer)| answer.then > 0)
            .map(|(r, answer)| (answer.vacating, answer.then, r))
            .collect();
        open.sort_unstable();
        let placed = self.assign(open.into_iter().map(|(_, fit, rank)| (rank, fit)));
        let mut places: Vec<Rank> = placed.iter().map(|(_, rank)| *rank).collect();
        places.sort_unstable();
        places.dedup();
        let nodes = Nodes::suitable(self.alike.cluster, places);
        let problem = self.problem(&nodes);
        let placed = placed.into_iter().filter_map(|(pod, rank)| Some((pod, nodes.rank_of_place(rank)?))).collect();
        let occupancy = problem.occupancy_after_terminations();
        assembly::decision(&problem, occupancy, Found::by_waiting(placed))
    }

    /// Decides for a group with victims on the nodes where members fit after the eviction of all units (single pods or whole groups) up to
    /// the lowest sufficient priority (step 7). `None` if units have to be evicted whose budgets would be violated: then the general
    /// algorithm must decide.
    fn decide_gang(&mut self) -> Option<Decision> {
        let totals = &self.capacities.totals;
        let members = self.alike.demand.wanted;
        let most = usize::try_from(totals.most).unwrap_or(usize::MAX).min(members);
        let ceiling = totals.ceiling(&totals.gains, most as u64);
        let least = totals.ceiling(&totals.lawful_gains, most as u64);
        if self.alike.context.strategy == Strategy::LeastCost
            && let Some(least) = least.filter(|least| ceiling.is_none_or(|ceiling| *least < ceiling))
        {
            // Anti-affinity among the members is counted here, and the search must not put several of them on a node.
            if self.capacities.apart {
                return None;
            }
            if let Some(decision) = self.within_budgets(least, most) {
                return Some(decision);
            }
        }
        self.without_units_at_risk(ceiling?, most)
    }

    /// Searches a plan for `most` members whose victims violate no budget and have at most the priority `ceiling`, below which there is no
    /// such plan. `None` if the search finds none.
    fn within_budgets(&self, ceiling: i32, most: usize) -> Option<Decision> {
        let nodes = self.useful_nodes(ceiling);
        let mut problem = self.problem(&nodes);
        problem.consider_victims(ceiling);
        let occupancy = problem.occupancy_after_terminations();
        let mut found = least_cost::search(&problem, &occupancy)?;
        if found.cost.budget_violations > 0 || found.placed.len() < most {
            return None;
        }
        found.append_outcome(Strategy::LeastCost);
        Some(self.decision_with_rest(&problem, occupancy, found))
    }

    /// Searches a plan for `most` members whose victims have at most the priority `ceiling`. Step 6: units (single pods or whole groups)
    /// that would violate a budget if all units of lower priority than the preemptor's were evicted are no victims. `None` if amounts are
    /// too large for a matrix.
    fn without_units_at_risk(&self, ceiling: i32, most: usize) -> Option<Decision> {
        let nodes = self.useful_nodes(ceiling);
        let mut problem = self.problem(&nodes);
        problem.consider_victims(ceiling);
        let occupancy = problem.occupancy_after_terminations();
        let mut trace = vec![kep5710::most_placeable_sentence(
            self.alike.demand,
            most,
            self.alike.cluster.units_below(self.alike.demand.priority),
        )];
        if self.capacities.violations.units() > 0 {
            trace.push(kep5710::excluded_units_sentence(self.capacities.violations.units()));
        }
        trace.push(kep5710::ceiling_sentence(ceiling));
        let at_risk = |unit: &UnitRef| self.capacities.violations.risk(*unit) > Risk::Nothing;
        let available: Vec<bool> = problem.potential.refs.iter().map(|unit| !at_risk(unit)).collect();
        let units: Vec<UnitIndex> = (0..available.len()).collect();
        let mut matrix = Matrix::new(&problem, &occupancy, &units, most, self.capacities.scale.cap as usize)?;
        let first = greedy_matrix::find(&problem, &mut matrix, &available, trace);
        let mut found = match self.alike.context.strategy {
            Strategy::LeastCost => least_cost::improve(&problem, &occupancy, first, Some(matrix)),
            Strategy::Kep5710 => first,
        };
        found.append_outcome(self.alike.context.strategy);
        Some(self.decision_with_rest(&problem, occupancy, found))
    }

    /// Returns the decision for a search result, after placing further members on free capacity. If the members exclude each other by
    /// anti-affinity, which is not evaluated here, no further ones are placed: they are planned for when the others are bound.
    fn decision_with_rest(&self, problem: &Problem<'_>, occupancy: Occupancy<'_>, mut found: Found) -> Decision {
        if !self.capacities.apart {
            found.placed = fill_rest(problem, &occupancy, found.placed, &found.victims);
        }
        assembly::decision(problem, occupancy, found)
    }

    /// Returns the nodes on which at least one member fits after the eviction of all units (single pods or whole groups) up to the priority
    /// `ceiling`.
    fn useful_nodes(&self, ceiling: i32) -> Nodes<'_> {
        let answers = self.capacities.nodes.iter().enumerate();
        let places = answers.filter(|(_, answer)| answer.up_to(ceiling) > 0).map(|(rank, _)| rank).collect();
        Nodes::suitable(self.alike.cluster, places)
    }

    /// Decides for a single pod with the cheapest victims on any node; `None` if the general algorithm must decide. What the victims lose
    /// depends on other nodes and is not cached: it is computed only for nodes that are equal by all earlier criteria.
    fn decide_single(&mut self) -> Option<Decision> {
        let alike = self.alike;
        let &UniformRequest { cluster, context, nodes, in_flight, .. } = alike;
        let at = usize::from(context.strategy == Strategy::Kep5710);
        let Capacities { nodes: answers, scale, best_nodes, .. } = &mut *self.capacities;
        let best_nodes = best_nodes[at].get_or_insert_with(|| BestNode::new(nodes.len()));
        let search = |rank| {
            let effort = Effort::of_node();
            let before = effort.left();
            let choice = on_one_node(alike, None, &effort, rank, None, |_, _, choice, _| choice);
            Searched { choice, looks: LOOKS_AT_A_NODE + before - effort.left() }
        };
        let best = best_nodes.best(
            |rank| outline(&answers[rank]),
            |rank| bound(cluster, nodes, scale, in_flight, &answers[rank], rank),
            search,
            self.effort.left(),
        );
        let best = best?;
        let candidates = self.capacities.totals.candidates;
        let elsewhere = Some(alike.elsewhere);
        let on = |rank: &Rank| {
            on_one_node(alike, elsewhere, &Effort::of_node(), *rank, None, |_, found, _, _| (*rank, found))
        };
        let (rank, known) = match best.ranks.as_slice() {
            [only] => (*only, None),
            several => {
                let found = several.iter().filter_map(on);
                let (rank, found) = found.min_by(|a, b| (a.1.cost, a.0).cmp(&(b.1.cost, b.0)))?;
                (rank, Some(found))
            }
        };
        on_one_node(alike, elsewhere, &Effort::of_node(), rank, known, |problem, found, choice, occupancy| {
            let trace = kep5710::best_node_sentences(candidates, nodes.len(), &nodes.at(rank).name, &choice.cost);
            let mut found = Found { trace, least: best.least, ..found };
            found.append_outcome(context.strategy);
            assembly::decision(problem, occupancy, found)
        })
    }
}

/// Returns the occupancy of `nodes` for members without host ports and inter-pod constraints, with the reservations of others on these
/// nodes.
fn occupancy_by_amounts<'n>(cluster: &'n Cluster, nodes: &'n Nodes<'n>, in_flight: &InFlight) -> Occupancy<'n> {
    let ranks = (0..nodes.len()).map(|rank| nodes.place(rank));
    Occupancy::of_amounts(cluster, nodes, &in_flight.reserved.among(cluster, ranks))
}

/// Searches victims for a single pod on the node `rank` (an index in the list of nodes) alone, or uses the earlier result `known` of that
/// search. Returns what `then` returns for the problem on that node, the result, its cost, and the occupancy without the leaving pods;
/// `None` if no victims suffice. Without `elsewhere`, costs do not include what the victims lose.
fn on_one_node<T>(
    alike: &UniformRequest<'_>,
    elsewhere: Option<&Elsewhere<'_>>,
    effort: &Effort,
    rank: Rank,
    known: Option<Found>,
    then: impl FnOnce(&Problem<'_>, Found, NodeChoice, Occupancy<'_>) -> T,
) -> Option<T> {
    let &UniformRequest { cluster, demand, context, in_flight, .. } = alike;
    let nodes = Nodes::suitable(cluster, vec![rank]);
    let occupancy = occupancy_by_amounts(cluster, &nodes, in_flight);
    let mut problem = Problem::new(cluster, &nodes, demand, context, in_flight, occupancy, effort);
    problem.elsewhere = elsewhere;
    problem.consider_victims(i32::MAX);
    let occupancy = problem.occupancy_after_terminations();
    let search = || {
        let first = kep5710::search(&problem, &occupancy);
        match context.strategy {
            Strategy::LeastCost => least_cost::one_pod(&problem, &occupancy, first),
            Strategy::Kep5710 => first,
        }
    };
    let found = known.or_else(search)?;
    let choice = NodeChoice { cost: found.cost, proven: found.is_proven() };
    Some(then(&problem, found, choice, occupancy))
}
