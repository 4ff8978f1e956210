//! Decisions for members that are alike and look at no other pod (or keep away from each other at most), from what is kept of every node ([`outlook`]): most
//! answers are sums that are known already. What is searched is searched on the few nodes that matter, by the same
//! strategies as everywhere; what cannot be answered so is left to the general way.

mod gang;
mod outlook;
mod risk;
mod shortfall;
mod singles;
mod survey;

use crate::demand::Demand;
use crate::domain::UnitIndex;
use crate::feasibility::{Nodes, Rank, Room, about, repelled};
use crate::kep5710::{self, Found};
use crate::least_cost::{self, Lot};
use crate::model::{Cluster, Pod, PodIndex};
use crate::overlay::Overlay;
use crate::plan::{Context, Decision, Strategy, assemble, placements};
use crate::problem::Problem;
use giveway_crds::policy::PreemptionPolicy;
use outlook::Outlook;
use singles::{Choice, Singles, bound};
use std::sync::{Arc, Mutex, PoisonError};

/// For so many kinds and priorities answers are kept.
const KEPT: usize = 8;

/// The answers that are kept; the last one that was used is the last.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Vec<Outlook>>);

/// A copy of a model finds out everything by itself.
impl Clone for Kept {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Decides; `None` when this is not the way to answer.
pub(crate) fn decide(cluster: &Cluster, demand: &Demand, context: &Context) -> Option<Decision> {
    let first = *demand.members.first()?;
    let (id, example) = (cluster.row(first).kind, cluster.pod_at(first)?);
    let kind = cluster.kind(id)?;
    let constraints = &kind.constraints;
    if demand.members.iter().any(|member| cluster.row(*member).kind != id)
        || !constraints.ports.is_empty()
        || !constraints.affinity.is_empty()
        || !constraints.spread.is_empty()
        || repelled(cluster, &demand.members, id)
    {
        return None;
    }
    // Members that keep away from each other, and from nobody else, are counted too: at most one on every node.
    let apart = !constraints.anti_affinity.is_empty();
    let mutual = |member: &Pod| constraints.anti_affinity.iter().all(|term| about(cluster, term, member));
    if apart && !demand.members.iter().filter_map(|member| cluster.pod_at(*member)).all(mutual) {
        return None;
    }
    let nodes = Nodes::new(cluster);
    let overlay = Overlay::new(cluster, &nodes, demand, context);
    if apart && !overlay.held.is_empty() {
        return None;
    }
    let mut kept = cluster.kept().0.lock().unwrap_or_else(PoisonError::into_inner);
    let known = kept.iter().position(|known| known.priority == demand.priority && Arc::ptr_eq(&known.kind, kind));
    let mut outlook = match known {
        Some(at) => kept.remove(at),
        None => Outlook::new(cluster, kind, demand.priority)?,
    };
    outlook.catch_up(cluster, &nodes, example, &overlay)?;
    let counts = !apart || (outlook.domains_are_nodes && outlook.totals.blocked == 0);
    let decision = if counts {
        Lean { cluster, demand, context, nodes: &nodes, overlay: &overlay, outlook: &mut outlook }.decide()
    } else {
        None
    };
    if kept.len() == KEPT {
        kept.remove(0);
    }
    kept.push(outlook);
    decision
}

/// A decision, and what is known for it.
struct Lean<'d> {
    cluster: &'d Cluster,
    demand: &'d Demand,
    context: &'d Context,
    nodes: &'d Nodes<'d>,
    overlay: &'d Overlay,
    outlook: &'d mut Outlook,
}

impl Lean<'_> {
    fn decide(&mut self) -> Option<Decision> {
        let need = self.demand.need as u64;
        let (now, then) = (self.outlook.totals.now, self.outlook.totals.then);
        if now >= need {
            let open = self.outlook.open.iter().map(|(_, fit, rank)| (*rank, *fit));
            let placed = self.fill(open);
            let left = self.demand.members.len() - placed.len();
            return Some(Decision::Fits {
                placements: placements(self.cluster, self.nodes, &placed),
                left,
                domain: None,
            });
        }
        if self.demand.policy == PreemptionPolicy::Never {
            return self.shortfall();
        }
        if then >= need {
            return Some(self.wait());
        }
        if self.outlook.totals.most < need {
            return self.shortfall();
        }
        if self.demand.single { self.single() } else { self.gang() }
    }

    /// The members on nodes with room for so many.
    fn fill(&self, open: impl Iterator<Item = (Rank, u32)>) -> Vec<(PodIndex, Rank)> {
        let places = open.flat_map(|(rank, fit)| std::iter::repeat_n(rank, fit as usize));
        self.demand.members.iter().copied().zip(places).collect()
    }

    /// The question as it is on some of the nodes.
    fn problem<'p>(&'p self, nodes: &'p Nodes<'p>) -> Problem<'p> {
        let room = Room::of_amounts(self.cluster, nodes);
        Problem::new(self.cluster, nodes, self.demand, self.context, self.overlay, room)
    }

    /// Those who leave anyway make room enough.
    fn wait(&self) -> Decision {
        let answers = self.outlook.nodes.iter().enumerate();
        let mut open: Vec<(bool, u32, Rank)> = answers
            .filter(|(_, answer)| answer.then > 0)
            .map(|(r, answer)| (answer.vacating, answer.then, r))
            .collect();
        open.sort_unstable();
        let placed = self.fill(open.into_iter().map(|(_, fit, rank)| (rank, fit)));
        let mut places: Vec<Rank> = placed.iter().map(|(_, rank)| *rank).collect();
        places.sort_unstable();
        places.dedup();
        let nodes = Nodes::some(self.cluster, places);
        let problem = self.problem(&nodes);
        let placed = placed.into_iter().filter_map(|(pod, rank)| Some((pod, nodes.local(rank)?))).collect();
        let room = problem.room_then();
        Decision::Preempt(Box::new(assemble(&problem, room, Found::by_waiting(placed))))
    }

    /// Looks for victims on the nodes where the units up to the lowest sufficient priority make room (step 7). When some
    /// units at risk have to go it is left to the general way.
    fn gang(&mut self) -> Option<Decision> {
        let totals = &self.outlook.totals;
        let members = self.demand.members.len();
        let most = usize::try_from(totals.most).unwrap_or(usize::MAX).min(members);
        let (mut fit, mut ceiling) = (totals.then, None);
        for (priority, gain) in &totals.gains {
            fit += gain;
            if fit >= most as u64 {
                ceiling = Some(*priority);
                break;
            }
        }
        let ceiling = ceiling?;
        let answers = self.outlook.nodes.iter().enumerate();
        let places = answers.filter(|(_, answer)| answer.up_to(ceiling) > 0).map(|(rank, _)| rank).collect();
        let nodes = Nodes::some(self.cluster, places);
        let mut problem = self.problem(&nodes);
        problem.consider_victims(ceiling);
        let room = problem.room_then();
        let mut trace =
            vec![kep5710::reach_in_words(self.demand, most, self.cluster.units_below(self.demand.priority))];
        if self.outlook.risk.units() > 0 {
            trace.push(kep5710::spared_in_words(self.outlook.risk.units()));
        }
        trace.push(kep5710::ceiling_in_words(ceiling));
        let available: Vec<bool> =
            problem.potential.refs.iter().map(|unit| !self.outlook.risk.concerns(*unit)).collect();
        let units: Vec<UnitIndex> = (0..available.len()).collect();
        let mut lot = Lot::new(&problem, &room, &units, most, self.outlook.scale.cap as usize)?;
        let first = gang::find(&problem, &mut lot, &available, trace);
        let found = match self.context.strategy {
            Strategy::LeastCost => least_cost::improve(&problem, &room, first, Some(lot)),
            Strategy::Kep5710 => first,
        };
        Some(Decision::Preempt(Box::new(assemble(&problem, room, found))))
    }

    /// Looks for the best node.
    fn single(&mut self) -> Option<Decision> {
        let (cluster, nodes, overlay, demand, context) =
            (self.cluster, self.nodes, self.overlay, self.demand, self.context);
        let at = usize::from(context.strategy == Strategy::Kep5710);
        let Outlook { nodes: answers, scale, singles, .. } = &mut *self.outlook;
        let singles = singles[at].get_or_insert_with(|| Singles::new(nodes.len()));
        let best = singles.best(
            |rank| bound(cluster, nodes, scale, overlay, &answers[rank], rank),
            |rank| on_one_node(cluster, demand, context, overlay, rank, |_, _, choice, _| choice),
        );
        let best = best?;
        let candidates = self.outlook.totals.candidates;
        on_one_node(cluster, demand, context, overlay, best.rank, |problem, found, choice, room| {
            let trace = kep5710::nodes_in_words(candidates, nodes.len(), &nodes.at(best.rank).name, &choice.cost);
            let mut found = Found { trace, ..found };
            if context.strategy == Strategy::LeastCost {
                found.trace.push(least_cost::outcome_in_words(best.proven));
            }
            Decision::Preempt(Box::new(assemble(problem, room, found)))
        })
    }
}

/// What a strategy chooses on one node; `None` when there is no choice.
fn on_one_node<T>(
    cluster: &Cluster,
    demand: &Demand,
    context: &Context,
    overlay: &Overlay,
    rank: Rank,
    then: impl FnOnce(&Problem<'_>, Found, Choice, Room<'_>) -> T,
) -> Option<T> {
    let nodes = Nodes::some(cluster, vec![rank]);
    let mut problem = Problem::new(cluster, &nodes, demand, context, overlay, Room::of_amounts(cluster, &nodes));
    problem.consider_victims(i32::MAX);
    let room = problem.room_then();
    let first = kep5710::search(&problem, &room);
    let (found, proven) = match context.strategy {
        Strategy::LeastCost => least_cost::single(&problem, &room, first)?,
        Strategy::Kep5710 => (first?, true),
    };
    let choice = Choice { cost: found.cost, proven };
    Some(then(&problem, found, choice, room))
}
