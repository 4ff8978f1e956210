//! Strategy `least-cost`, held to the cheapest of all plans on tiny inputs.

use crate::common::world::*;
use crate::common::*;
use giveway_planner::{Criterion, Decision};
use proptest::strategy::{Strategy, ValueTree};

const ROUNDS: usize = 10_000;
const RACK_ROUNDS: usize = 2_000;

#[test]
fn on_tiny_inputs_the_plan_is_the_cheapest_there_is() {
    let found = compare(ROUNDS, 11, &worlds(TINY));
    // 99 % are promised; as measured it is all of them.
    assert!(found.optimal * 1000 >= found.plans * 999 && found.fewer * 100 <= found.plans, "{found:?}");
    assert_eq!(found.missed, 0, "{found:?}");
}

/// Of members with a spread, with affinity to each other, or in one domain of topology, too.
#[test]
fn where_members_look_around_it_is_the_cheapest_as_well() {
    let found = compare(ROUNDS / 4, 12, &worlds_around(TINY));
    // Measured: 99.7 % are the cheapest, 1.4 % place fewer members than possible, and 0.8 % of the shortfalls are wrong: members of several
    // sizes with affinity to each other are placed greedily.
    assert!(found.optimal * 100 >= found.plans * 99 && found.fewer * 100 <= found.plans * 2, "{found:?}");
    assert!(found.missed * 100 <= found.refused, "{found:?}");
}

/// What a domain costs includes victims in others; of the plans in each, the cheapest is taken.
#[test]
fn a_gang_in_one_domain_costs_hardly_more_than_the_least() {
    let domains = worlds_around(TINY).prop_filter("one zone", |world| world.around == Around::Domain);
    let found = compare(ROUNDS / 4, 13, &domains);
    assert!(found.victims * 100 <= found.least_victims * 105, "{found:?}");
    assert_eq!(found.missed, 0, "{found:?}");
}

/// Budgets over several racks and priorities, whole groups, few nodes and many: 99.5 % of the plans cost least, and what is said to be
/// proven is true.
#[test]
fn within_racks_and_budgets_the_plan_is_the_cheapest_and_no_claim_is_false() {
    let found = against_the_optimum(RACK_ROUNDS, 14, &worlds_of_racks(RACKS, Around::Domain));
    assert!(found.optimal * 1000 >= found.plans * 995, "{found:?}");
    assert!(found.claims * 2 >= found.plans && found.false_claims == 0, "{found:?}");
    assert_eq!(found.false_bounds, 0, "{found:?}");
}

#[test]
fn within_budgets_the_plan_is_the_cheapest_and_no_claim_is_false() {
    let found = against_the_optimum(RACK_ROUNDS, 15, &worlds_of_racks(RACKS, Around::Nothing));
    assert!(found.optimal * 1000 >= found.plans * 995, "{found:?}");
    assert!(found.claims * 2 >= found.plans && found.false_claims == 0, "{found:?}");
    assert_eq!(found.false_bounds, 0, "{found:?}");
}

/// What is said of constraints among the members is true as well.
#[test]
fn where_members_look_around_no_claim_is_false() {
    let around = [Around::Spread(1), Around::Together, Around::Volumes];
    for (seed, around) in (16..).zip(around) {
        let found = against_the_optimum(RACK_ROUNDS / 4, seed, &worlds_of_racks(TINY, around));
        assert_eq!((found.false_claims, found.false_bounds), (0, 0), "{around:?}: {found:?}");
    }
}

/// How plans compare with the optimum.
#[derive(Debug, Default)]
struct Compared {
    plans: usize,
    optimal: usize,
    claims: usize,
    false_claims: usize,
    /// Lower bounds above the optimum.
    false_bounds: usize,
    missed: usize,
}

fn against_the_optimum(rounds: usize, seed: u64, worlds: &impl Strategy<Value = World>) -> Compared {
    let mut runner = runner(1, seed);
    let (mut found, mut examples) = (Compared::default(), Vec::new());
    while found.plans < rounds {
        let world = worlds.new_tree(&mut runner).unwrap().current();
        if world.fits(&[], if world.single { 1 } else { world.need }) {
            continue;
        }
        let cluster = cluster(&world.objects());
        let decision = decide(&cluster, &world.preemptor());
        let least = if world.single { world.least_cost_of_one() } else { world.least_cost() };
        let Decision::Preempt(plan) = &decision else {
            assert!(matches!(decision, Decision::Unschedulable(_)), "{decision:?}");
            found.missed += usize::from(least.is_some());
            continue;
        };
        found.plans += 1;
        assert_eq!(check_plan(&cluster, &world.preemptor(), plan), Ok(()), "{world:?}");
        let victims = world.chosen(&victim_uids(plan));
        assert!(world.guarantees_hold(&victims.iter().collect::<Vec<_>>()), "{world:?}");
        let said = &plan.cost;
        let cost = (said.budget_violations, said.highest_priority, said.priority_sum, said.victim_pods);
        let least = least.unwrap_or_else(|| panic!("no plan is possible: {world:?} {plan:?}"));
        let claim = plan.trace.last().is_some_and(|last| last == "Nothing cheaper exists.");
        let bound = (plan.least.budget_violations, plan.least.highest_priority, plan.least.priority_sum);
        let no_dearer = (least.0, least.1) <= (cost.0, cost.1);
        let false_bound = bound > (least.0, least.1, least.2) || (no_dearer && plan.least.pods(said) > least.3);
        found.false_bounds += usize::from(cost >= least && false_bound);
        assert_eq!(claim, plan.least.proves(said) == Some(Criterion::PrioritySum), "{plan:?}");
        found.optimal += usize::from(cost <= least);
        found.claims += usize::from(claim);
        found.false_claims += usize::from(claim && cost > least);
        if cost > least && examples.len() < 6 {
            examples.push(format!("{cost:?} instead of {least:?}, claimed: {claim}: {world:?}\n{:?}", plan.trace));
        }
    }
    println!("{found:?}\n{}", examples.join("\n"));
    found
}

/// How plans compare with the cheapest of all.
#[derive(Debug)]
struct Found {
    plans: usize,
    optimal: usize,
    /// Place fewer members than can be.
    fewer: usize,
    /// Pods that the plans evict, and pods that the cheapest plans would evict instead.
    victims: usize,
    least_victims: usize,
    refused: usize,
    /// Refusals although there is a plan.
    missed: usize,
}

fn compare(rounds: usize, seed: u64, worlds: &impl Strategy<Value = World>) -> Found {
    let mut runner = runner(1, seed);
    let (mut plans, mut optimal, mut ties, mut fewer, mut missed, mut refused) = (0, 0, 0, 0, 0, 0);
    let (mut all_victims, mut least_victims) = (0, 0);
    let mut examples = Vec::new();
    while plans < rounds {
        let world = worlds.new_tree(&mut runner).unwrap().current();
        let need = if world.single { 1 } else { world.need };
        if world.fits(&[], need) {
            continue;
        }
        let cluster = cluster(&world.objects());
        let decision = decide(&cluster, &world.preemptor());
        let choices = world.choices();
        let Decision::Preempt(plan) = &decision else {
            assert!(matches!(decision, Decision::Unschedulable(_)), "{decision:?}");
            refused += 1;
            missed += usize::from(choices.iter().any(|victims| world.fits(victims, need)));
            continue;
        };
        plans += 1;
        assert_eq!(check_plan(&cluster, &world.preemptor(), plan), Ok(()), "{world:?}");
        let victims = world.chosen(&victim_uids(plan));
        let cost = world.cost(&victims.iter().collect::<Vec<_>>());
        let said = &plan.cost;
        assert_eq!(
            (said.budget_violations, said.highest_priority, said.priority_sum, said.victim_pods),
            (cost.0, cost.1, cost.2, cost.3),
            "the plan says what it costs"
        );
        assert!(world.guarantees_hold(&victims.iter().collect::<Vec<_>>()), "{world:?}");
        let count = plan.placements.len();
        assert!(count >= need && world.fits(&victims, count), "{world:?}");
        let count = count.min(world.wanted());
        let reach = world.wanted();
        let most = (count + 1..=reach).rev().find(|more| choices.iter().any(|victims| world.fits(victims, *more)));
        // Of domains the cheaper one is chosen, and not the one where more members fit.
        fewer += usize::from(most.is_some() && world.around != Around::Domain);
        let best = choices.iter().find(|victims| world.fits(victims, count)).unwrap();
        let best = world.cost(&best.iter().collect::<Vec<_>>());
        all_victims += cost.3;
        least_victims += best.3;
        if (cost.0, cost.1, cost.2, cost.3) == (best.0, best.1, best.2, best.3) {
            optimal += 1;
            ties += usize::from(cost.4 == best.4);
        } else if (cost.0, cost.1) == (best.0, best.1) && world.around != Around::Domain {
            // A domain where more members fit is not asked what fewer of them would cost.
            assert!(cost.3 * 100 <= best.3 * 105, "{cost:?} instead of {best:?}: {world:?}");
        }
        if cost != best && examples.len() < 5 {
            examples.push(format!("{cost:?} instead of {best:?}: {world:?}"));
        }
    }
    println!(
        "{plans} plans: {optimal} of least cost, {ties} of them with the best tie-break, {fewer} place fewer than can be"
    );
    println!("{refused} refusals, {missed} of them wrong");
    println!("{}", examples.join("\n"));
    Found { plans, optimal, fewer, victims: all_victims, least_victims, refused, missed }
}
