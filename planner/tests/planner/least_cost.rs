//! Strategy `least-cost`, held to the cheapest of all plans on tiny inputs.

use crate::common::world::*;
use crate::common::*;
use giveway_planner::Decision;
use proptest::strategy::{Strategy, ValueTree};

const ROUNDS: usize = 10_000;

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
        let reach = world.members.len();
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
