//! Decides for one preemptor: by answers that are kept where they suffice, else by looking at everything.

use super::assembly::assemble;
use super::shortfall::shortfall;
use crate::api::{Context, Decision, Preemptor, Strategy, Unknown};
use crate::filters::{Nodes, Occupancy};
use crate::incremental;
use crate::model::Cluster;
use crate::problem::{Demand, InFlight, Problem, placements};
use crate::search::{Found, fill, kep5710, least_cost, try_everything};
use giveway_crds::policy::PreemptionPolicy;
use std::collections::BTreeSet;

/// A sentence lists no more of what is not known.
const MOST_UNKNOWN: usize = 8;

/// Decides for one preemptor. See the [crate] documentation for what it promises.
pub fn plan(cluster: &Cluster, preemptor: &Preemptor, context: &Context) -> Decision {
    let demand = match Demand::of(cluster, preemptor) {
        Ok(demand) => demand,
        Err(decision) => return decision,
    };
    match unknown(cluster, &demand) {
        Some(unknown) => without_eviction(cluster, demand, context, unknown),
        None => by_what_is_known(cluster, &demand, context),
    }
}

fn by_what_is_known(cluster: &Cluster, demand: &Demand, context: &Context) -> Decision {
    incremental::decide(cluster, demand, context, assemble).unwrap_or_else(|| decide(cluster, demand, context))
}

/// What the place of a member depends on and is not known; `None` when all of it is.
fn unknown(cluster: &Cluster, demand: &Demand) -> Option<Unknown> {
    let pods = || demand.members.iter().filter_map(|member| cluster.pod_at(*member));
    let why: BTreeSet<&String> = pods().flat_map(|pod| &pod.unknown).take(MOST_UNKNOWN).collect();
    let members = || pods().map(|pod| pod.key.clone()).collect();
    (!why.is_empty()).then(|| Unknown { members: members(), why: why.into_iter().cloned().collect() })
}

/// Members of which not all is known are placed where there is room by what is known; eviction may not help them.
fn without_eviction(cluster: &Cluster, demand: Demand, context: &Context, unknown: Unknown) -> Decision {
    let demand = Demand { policy: PreemptionPolicy::Never, ..demand };
    match by_what_is_known(cluster, &demand, context) {
        Decision::Unschedulable(_) | Decision::Preempt(_) => Decision::Unknown(unknown),
        decision => decision,
    }
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
