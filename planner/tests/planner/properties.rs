//! What holds for every plan, asked of random clusters (proptest: what fails is shrunk to a small cluster).

use crate::common::world::*;
use crate::common::*;
use giveway_planner::{Cluster, Context, Decision, Preemptor, Strategy};
use proptest::prelude::{Just, Strategy as Values, TestCaseError, prop_assert, prop_assert_eq};

fn by(strategy: Strategy, cluster: &Cluster, preemptor: &Preemptor) -> Decision {
    plan(cluster, preemptor, &Context { strategy, ..Context::default() })
}

fn feasible(decision: &Decision) -> bool {
    matches!(decision, Decision::Preempt(_) | Decision::Fits { .. })
}

fn both(mut property: impl FnMut(Strategy) -> Result<bool, TestCaseError>) -> Result<bool, TestCaseError> {
    Ok(property(Strategy::LeastCost)? & property(Strategy::Kep5710)?)
}

/// The members fit, every victim has a lower priority and is needed, groups are disrupted together ([`check_plan`]), and no
/// guaranteed budget is violated.
#[test]
fn every_plan_is_valid() {
    let valid = |world: World| {
        let cluster = cluster(&world.objects());
        both(|strategy| {
            let Decision::Preempt(plan) = by(strategy, &cluster, &world.preemptor()) else { return Ok(false) };
            prop_assert_eq!(check_plan(&cluster, &world.preemptor(), &plan), Ok(()));
            let victims = world.chosen(&victim_uids(&plan));
            prop_assert!(world.guarantees_hold(&victims.iter().collect::<Vec<_>>()));
            Ok(true)
        })
    };
    let plans = for_all(3000, 1, worlds(TINY), valid) + for_all(400, 2, worlds(LARGER), valid);
    assert!(plans > 500, "{plans}");
}

#[test]
fn a_preemptor_that_fits_evicts_no_pod() {
    let fits = for_all(2000, 3, worlds(TINY), |world| {
        let need = if world.single { 1 } else { world.need };
        // Only in worlds without leaving pods, which still use capacity.
        let fits = world.pods.iter().all(|pod| !pod.leaving) && world.fits(&[], need);
        if fits {
            let cluster = cluster(&world.objects());
            both(|strategy| {
                let decision = by(strategy, &cluster, &world.preemptor());
                prop_assert!(matches!(decision, Decision::Fits { .. }), "{:?}", decision);
                Ok(true)
            })?;
        }
        Ok(fits)
    });
    assert!(fits > 200, "{fits}");
}

#[test]
fn the_order_of_arrival_and_asking_again_change_nothing() {
    let shuffled = worlds(LARGER).prop_flat_map(|world| {
        let objects = world.objects();
        (Just(world), Just(objects.clone()), Just(objects).prop_shuffle())
    });
    let plans = for_all(400, 4, shuffled, |(world, objects, other_order)| {
        let (first, second) = (cluster(&objects), cluster(&other_order));
        both(|strategy| {
            let decision = by(strategy, &first, &world.preemptor());
            prop_assert_eq!(&by(strategy, &first, &world.preemptor()), &decision, "asked again");
            prop_assert_eq!(&by(strategy, &second, &world.preemptor()), &decision, "in another order");
            Ok(matches!(decision, Decision::Preempt(_)))
        })
    });
    assert!(plans > 100, "{plans}");
}

#[test]
fn no_plan_is_worse_than_that_of_kep5710() {
    let plans = for_all(800, 5, worlds(LARGER), |world| {
        let cluster = cluster(&world.objects());
        let decision = by(Strategy::LeastCost, &cluster, &world.preemptor());
        let step_by_step = by(Strategy::Kep5710, &cluster, &world.preemptor());
        let Decision::Preempt(reference) = step_by_step else {
            prop_assert!(feasible(&decision) || !feasible(&step_by_step), "{:?}", decision);
            return Ok(false);
        };
        let Decision::Preempt(plan) = decision else { panic!("{decision:?}") };
        // A plan that evicts for fewer members is compared with none.
        let as_many = plan.placements.len() >= reference.placements.len();
        prop_assert!(as_many || !world.for_all);
        prop_assert!(!as_many || plan.cost <= reference.cost, "{} instead of {}", plan.cost, reference.cost);
        Ok(plan.cost < reference.cost)
    });
    assert!(plans > 20, "{plans} were cheaper");
}

#[test]
fn after_the_evictions_the_members_fit_and_no_other_unit_is_disrupted() {
    let plans = for_all(2000, 6, worlds(TINY), |world| {
        let mut cluster = cluster(&world.objects());
        let Decision::Preempt(plan) = by(Strategy::LeastCost, &cluster, &world.preemptor()) else { return Ok(false) };
        let leaving: Vec<_> = cluster.pods().filter(|pod| pod.terminating).map(|pod| pod.key.clone()).collect();
        let victims = plan.victims.iter().flat_map(|victim| &victim.pods).map(|pod| pod.key.clone());
        for key in victims.chain(leaving).collect::<Vec<_>>() {
            cluster.remove_pod(&key);
        }
        match by(Strategy::LeastCost, &cluster, &world.preemptor()) {
            Decision::Fits { placements, .. } => {
                prop_assert!(placements.len() >= world.need.min(plan.placements.len()));
            }
            other => panic!("{other:?}"),
        }
        Ok(true)
    });
    assert!(plans > 300, "{plans}");
}

#[test]
fn a_node_more_or_a_pod_less_never_makes_it_infeasible() {
    let tried = for_all(3000, 7, (worlds(TINY), 1..=3usize, 0..100usize), |(world, cpus, pod)| {
        let preemptor = world.preemptor();
        if !feasible(&by(Strategy::LeastCost, &cluster(&world.objects()), &preemptor)) {
            return Ok(false);
        }
        let mut more = world.clone();
        more.nodes.push(cpus);
        let decision = by(Strategy::LeastCost, &cluster(&more.objects()), &preemptor);
        prop_assert!(feasible(&decision), "with a node more {:?}", decision);
        if !world.pods.is_empty() {
            let mut fewer = world.clone();
            fewer.pods.remove(pod % world.pods.len());
            let decision = by(Strategy::LeastCost, &cluster(&fewer.objects()), &preemptor);
            prop_assert!(feasible(&decision), "with a pod less {:?}", decision);
        }
        Ok(true)
    });
    assert!(tried > 1000, "{tried}");
}
