//! No bound that excludes a node is above the cost of a choice of victims there.

use super::best_node::{bound, outline};
use super::capacities::Capacities;
use crate::api::{Context, Cost};
use crate::filters::Nodes;
use crate::problem::{Demand, InFlight};
use giveway_planner::worlds::cluster;
use giveway_planner::worlds::world::{Around, TINY, World, for_all, worlds_of_racks};
use proptest::prelude::{Strategy as _, prop_assert};

#[test]
fn no_bound_of_a_node_is_above_the_cost_of_a_choice_there() {
    let single = worlds_of_racks(TINY, Around::Nothing).prop_map(|world| {
        let members = world.members[..1].to_vec();
        World { single: true, apart: false, members, need: 1, cordoned: 0, ..world }
    });
    let meant = for_all(4000, 62, single, |world| {
        let (cluster, context) = (cluster(&world.objects()), Context::default());
        let Ok(demand) = Demand::of(&cluster, &world.preemptor(), &context) else { return Ok(false) };
        let (nodes, in_flight) = (Nodes::new(&cluster), InFlight::new(&cluster, &demand, &context));
        let (member, priority) = (demand.members[0], demand.priority);
        let class = cluster.class(cluster.row(member).class).unwrap();
        let mut known = Capacities::new(&cluster, class, priority, false, in_flight.reserved.respect).unwrap();
        known.catch_up(&cluster, &nodes, cluster.pod_at(member).unwrap(), &in_flight).unwrap();
        let mut plans = 0;
        for rank in 0..nodes.len() {
            if known.nodes[rank].then > 0 {
                continue;
            }
            let outline = outline(&known.nodes[rank]);
            let bound = bound(&cluster, &nodes, &known.scale, &in_flight, &known.nodes[rank], rank);
            prop_assert!(bound.is_none() || (outline.is_some() && outline <= bound), "{rank}: {outline:?} {bound:?}");
            for ((violations, highest, sum, pods), start, groups) in world.costs_on(rank) {
                let cost = Cost {
                    budget_violations: violations,
                    highest_priority: highest,
                    priority_sum: sum,
                    victim_pods: pods,
                    earliest_start: start,
                    victim_groups: groups,
                    ..Cost::default()
                };
                prop_assert!(bound.is_some_and(|bound| bound <= cost), "node {rank}: {cost:?} {bound:?}");
                plans += 1;
            }
        }
        Ok(plans > 0)
    });
    assert!(meant > 1000, "{meant}");
}
