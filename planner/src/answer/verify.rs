//! The last check of every plan, before anybody can act on it. It is plain on purpose, and asks the model and not the search:
//! the members fit one after the other once those are gone who go, all of these are of lower priority, groups go whole, and no
//! guaranteed budget is violated.

use crate::filters::Occupancy;
use crate::model::{PodIndex, Role, UnitKind};
use crate::problem::Problem;
use crate::search::Found;

/// Whether what was found may be planned; `room` has nobody of it gone or placed.
///
/// # Errors
/// What is wrong with it, in a sentence.
pub(super) fn verify(problem: &Problem<'_>, room: &Occupancy<'_>, found: &Found) -> Result<(), String> {
    let cluster = problem.cluster;
    let units = || found.victims.iter().map(|unit| &problem.potential.units[*unit]);
    let mut gone = vec![false; cluster.pod_bound()];
    units().flat_map(|unit| &unit.pods).for_each(|pod| gone[*pod as usize] = true);
    let mut room = room.clone();
    for unit in units() {
        let name = unit.key;
        if unit.priority >= problem.demand.priority {
            return Err(format!("Victim {name} has priority {}.", unit.priority));
        }
        for pod in &unit.pods {
            let row = cluster.row(*pod);
            if row.priority >= problem.demand.priority || problem.in_flight.unit_of(*pod, &row).is_none() {
                return Err(format!("A pod of victim {name} may not go."));
            }
            if let (UnitKind::PodGroup, Some(group)) = (unit.kind, cluster.group_index_of(*pod)) {
                let stays =
                    |mate: &&PodIndex| matches!(cluster.row(**mate).role, Role::Goes(_)) && !gone[**mate as usize];
                let departs = |mate: &PodIndex| problem.in_flight.leaves(*mate, &cluster.row(*mate));
                if unit.pods.first() == Some(pod) && cluster.members_at(group).iter().filter(stays).any(|m| !departs(m))
                {
                    return Err(format!("Group {name} would not go whole."));
                }
            }
        }
        room.take(&unit.pods);
    }
    if !problem.budgets.may_go(&problem.budgets.tally(), units()) {
        return Err("A guaranteed budget would be violated.".to_owned());
    }
    for (member, rank) in &found.placed {
        let pod = cluster.pod_at(*member).map(|pod| pod.key.to_string()).unwrap_or_default();
        let node = problem.nodes.at(*rank);
        let unsuitable = cluster.pod_at(*member).and_then(|pod| crate::filters::unsuitable(pod, node));
        if let Some(refusal) = unsuitable.or_else(|| room.refuse(*member, *rank)) {
            let why = refusal.on_one_node(|id| cluster.resource_name(id));
            return Err(format!("Pod {pod} does not fit on node {}: {why}.", node.name));
        }
        room.add(*member, *rank);
    }
    Ok(())
}
