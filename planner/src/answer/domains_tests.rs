//! No bound that excludes a domain is above the cost of a plan there.

use super::domains::{bound, permitted_domains};
use super::request::{ALL_UNITS, PreemptionRequest};
use crate::api::{Context, Cost};
use crate::filters::Nodes;
use crate::index::{Prospects, When};
use crate::problem::{Demand, Elsewhere, InFlight};
use giveway_planner::worlds::cluster;
use giveway_planner::worlds::world::{Around, MANY_NODES, RACKS, World, for_all, worlds_of_racks};
use proptest::prelude::{Strategy as _, prop_assert};

#[test]
fn no_bound_of_a_domain_is_above_the_cost_of_a_plan_there() {
    let large = worlds_of_racks(RACKS, Around::Domain).prop_map(|world| World { cordoned: MANY_NODES, ..world });
    let meant = for_all(4000, 61, large, |world| {
        let (cluster, context) = (cluster(&world.objects()), Context::default());
        let Ok(demand) = Demand::of(&cluster, &world.preemptor(), &context) else { return Ok(false) };
        let (nodes, in_flight) = (Nodes::new(&cluster), InFlight::new(&cluster, &demand, &context));
        let prospects = Prospects::new(&cluster, &demand, &nodes, &in_flight);
        let elsewhere =
            Elsewhere::new(&cluster, &nodes, in_flight.reservations(&cluster), in_flight.leaving(&cluster, &nodes));
        let request =
            PreemptionRequest::new(&cluster, &demand, &context, &nodes, &in_flight, prospects.as_ref(), &elsewhere);
        let (choices, mut plans) = (world.choices(), 0);
        for part in permitted_domains(&request).unwrap_or_default() {
            let zone = part.name.strip_prefix("zone=z").and_then(|zone| zone.parse::<usize>().ok());
            let Some(truth) = world.least_cost_in(&choices, zone) else { continue };
            let could = request.could_fit(&part.ranks, When::Without(ALL_UNITS));
            prop_assert!(could, "{}: {truth:?}, and it is excluded", part.name);
            let bound = bound(&request, &part);
            let said =
                |cost: &Cost| (cost.budget_violations, cost.highest_priority, cost.priority_sum, cost.victim_pods);
            prop_assert!(
                bound.as_ref().is_some_and(|bound| said(bound) <= truth),
                "{}: {truth:?} {bound:?}",
                part.name
            );
            plans += 1;
        }
        Ok(plans > 0)
    });
    assert!(meant > 1500, "{meant}");
}
