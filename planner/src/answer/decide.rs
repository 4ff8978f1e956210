//! Decides for one preemptor: by answers that are kept where they suffice, else by looking at everything.

use super::assembly::assemble;
use super::shortfall::shortfall;
use crate::api::{Context, Decision, Preemptor, Strategy};
use crate::filters::{Nodes, Occupancy};
use crate::incremental;
use crate::model::Cluster;
use crate::problem::{Demand, InFlight, Problem, placements};
use crate::search::{Found, fill, kep5710, least_cost, try_everything};
use giveway_crds::policy::PreemptionPolicy;

/// Decides for one preemptor. See the [crate] documentation for what it promises.
pub fn plan(cluster: &Cluster, preemptor: &Preemptor, context: &Context) -> Decision {
    let demand = match Demand::of(cluster, preemptor) {
        Ok(demand) => demand,
        Err(decision) => return decision,
    };
    incremental::decide(cluster, &demand, context, assemble).unwrap_or_else(|| decide(cluster, &demand, context))
}

/// The general way to decide.
fn decide(cluster: &Cluster, demand: &Demand, context: &Context) -> Decision {
    let nodes = Nodes::new(cluster);
    let in_flight = InFlight::new(cluster, &nodes, demand, context);
    let mut problem = Problem::new(
        cluster,
        &nodes,
        demand,
        context,
        &in_flight,
        Occupancy::new(cluster, &nodes, &demand.members, &in_flight.held),
    );
    let now = fill(&problem, &problem.now);
    if now.placed.len() >= problem.demand.need {
        let left = problem.demand.members.len() - now.placed.len();
        return Decision::Fits { placements: placements(cluster, &nodes, &now.placed), left };
    }
    // The placement is greedy; where there is little to try, everything is tried.
    if let Some(placed) = try_everything(&problem, &problem.now, problem.demand.need) {
        let left = problem.demand.members.len() - placed.len();
        return Decision::Fits { placements: placements(cluster, &nodes, &placed), left };
    }
    if problem.demand.policy == PreemptionPolicy::Never {
        return Decision::Unschedulable(shortfall(&problem, &now));
    }
    let room = problem.room_then();
    let then = Some(fill(&problem, &room).placed).filter(|placed| placed.len() >= problem.demand.need);
    let found = if let Some(placed) = then.or_else(|| try_everything(&problem, &room, problem.demand.need)) {
        Some(Found::by_waiting(placed))
    } else {
        problem.consider_victims(i32::MAX);
        match context.strategy {
            Strategy::LeastCost => least_cost::search(&problem, &room),
            Strategy::Kep5710 => kep5710::search(&problem, &room),
        }
    };
    match found {
        Some(found) => Decision::Preempt(Box::new(assemble(&problem, room, found))),
        None => Decision::Unschedulable(shortfall(&problem, &now)),
    }
}
