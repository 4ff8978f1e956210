//! No bound that ends the search for a placement is above the cost of a plan.

use super::lower_bound::Bound;
use super::{CandidatePlan, search};
use crate::api::{Context, Strategy};
use crate::filters::{Nodes, Occupancy};
use crate::problem::{Demand, Effort, InFlight, Problem, UnitIndex};
use crate::search::Matrix;
use giveway_planner::worlds::cluster;
use giveway_planner::worlds::world::{Around, RACKS, World, for_all, worlds_of_racks};
use proptest::prelude::{Strategy as _, prop_assert};

#[test]
fn no_bound_of_a_placement_is_above_the_cost_of_a_plan() {
    let alike = worlds_of_racks(RACKS, Around::Nothing).prop_map(|world| {
        let members = vec![world.members[0]; world.members.len()];
        World { single: false, apart: false, members, cordoned: 0, ..world }
    });
    let meant = for_all(4000, 63, alike, |world| {
        let cluster = cluster(&world.objects());
        let mut tight = false;
        for strategy in Strategy::ALL {
            let context = Context { strategy, ..Context::default() };
            let Ok(demand) = Demand::of(&cluster, &world.preemptor(), &context) else { return Ok(false) };
            let (nodes, in_flight) = (Nodes::new(&cluster), InFlight::new(&cluster, &demand, &context));
            let now = Occupancy::new(&cluster, &nodes, &demand.members, in_flight.reservations(&cluster));
            let mut problem =
                Problem::new(&cluster, &nodes, &demand, &context, &in_flight, now, &Effort::of_decision());
            problem.consider_victims(i32::MAX);
            let occupancy = problem.occupancy_after_terminations();
            let Some(found) = search(&problem, &occupancy) else { continue };
            let units: Vec<UnitIndex> = (0..problem.potential.units.len()).collect();
            let goal = found.placed.len();
            let mut matrix = Matrix::new(&problem, &occupancy, &units, goal, usize::MAX).unwrap();
            let plan = CandidatePlan { placed: found.placed, victims: found.victims, cost: found.cost };
            let bound = Bound::new(&mut matrix, &plan);
            for victims in world.choices().iter().filter(|victims| world.fits(victims, goal)) {
                let (violations, highest, sum, ..) = world.cost(&victims.iter().collect::<Vec<_>>());
                prop_assert!(bound.weight() <= sum, "{victims:?}: {sum} {}", bound.weight());
                let lower = bound.ceiling_is_tight() && highest < plan.cost.highest_priority;
                prop_assert!(!lower, "{victims:?}: {highest:?} {:?}", plan.cost);
                let cheaper = (violations, highest, sum)
                    < (plan.cost.budget_violations, plan.cost.highest_priority, plan.cost.priority_sum);
                prop_assert!(!(bound.reached(&plan.cost) && cheaper), "{victims:?} {:?}", plan.cost);
            }
            tight |= bound.ceiling_is_tight();
        }
        Ok(tight)
    });
    assert!(meant > 800, "{meant}");
}
