//! The last check of every plan, before it is used. It is deliberately simple, and reads the model instead of the search:
//! as many members are placed as must fit together, they fit one after the other without the victims, all victims are of
//! lower priority, groups are disrupted together, and no guaranteed budget is violated.

use crate::filters::{Occupancy, unsuitable};
use crate::model::{PodIndex, Role, UnitKind};
use crate::problem::Problem;
use crate::search::Found;
use giveway_crds::wording::counted;

/// Checks that the result of a search may become a plan. `occupancy` contains neither the evictions nor the placements of the result.
///
/// # Errors
/// Why the result must not become a plan, as a sentence.
pub(super) fn verify(problem: &Problem<'_>, occupancy: &Occupancy<'_>, found: &Found) -> Result<(), String> {
    let cluster = problem.cluster;
    if found.placed.len() < problem.demand.need {
        return Err(format!(
            "{} a place, and {} one.",
            counted(found.placed.len(), "member has", "members have"),
            counted(problem.demand.need, "needs", "need")
        ));
    }
    let units = || found.victims.iter().map(|unit| &problem.potential.units[*unit]);
    let mut gone = vec![false; cluster.pod_bound()];
    units().flat_map(|unit| &unit.pods).for_each(|pod| gone[*pod as usize] = true);
    let mut occupancy = occupancy.clone();
    for unit in units() {
        let name = unit.key;
        if unit.priority >= problem.demand.priority {
            return Err(format!("Victim {name} has priority {}.", unit.priority));
        }
        for pod in &unit.pods {
            let row = cluster.row(*pod);
            if row.priority >= problem.demand.priority || problem.in_flight.unit_of(*pod, &row).is_none() {
                return Err(format!("A pod of victim {name} must not be evicted."));
            }
        }
        let first = unit.pods.first().filter(|_| unit.kind == UnitKind::PodGroup);
        let group = first.and_then(|pod| cluster.group_index_of(*pod));
        let members = group.map_or(&[][..], |group| cluster.members_at(group));
        let left_behind = |member: &PodIndex| {
            let row = cluster.row(*member);
            matches!(row.role, Role::Evictable(_))
                && !gone[*member as usize]
                && !problem.in_flight.leaves(*member, &row)
        };
        if members.iter().any(left_behind) {
            return Err(format!("Group {name} would be disrupted only partially."));
        }
        occupancy.take(&unit.pods);
    }
    if !problem.budgets.may_evict(&mut problem.budgets.tally(), units()) {
        return Err("A guaranteed budget would be violated.".to_owned());
    }
    for (member, rank) in &found.placed {
        let Some(pod) = cluster.pod_at(*member) else { return Err("A member does not exist.".to_owned()) };
        let node = problem.nodes.at(*rank);
        if let Some(refusal) = unsuitable(pod, node).or_else(|| occupancy.refuse(*member, *rank)) {
            let why = refusal.on_one_node(|id| cluster.resource_name(id));
            return Err(format!("Pod {} does not fit on node {}: {why}.", pod.key, node.name));
        }
        occupancy.add(*member, *rank);
    }
    Ok(())
}
