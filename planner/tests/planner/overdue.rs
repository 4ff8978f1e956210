//! Overdue terminating pods: they count as running, and no preemptor waits for their capacity.

use crate::common::*;
use giveway_planner::{Context, Decision, Preemptor, SmolStr, Strategy, still_fits};
use std::collections::BTreeSet;

fn overdue(strategy: Strategy, uids: &[&str]) -> Context {
    let lingering = uids.iter().map(|uid| SmolStr::new(format!("uid-{uid}"))).collect();
    Context { lingering, strategy, ..Context::default() }
}

#[test]
fn an_overdue_pod_is_neither_awaited_nor_evicted_again() {
    let objects =
        [node("a", 1), node("b", 1), pod("stuck").on("a").terminating(), pod("low").on("b"), pod("p").priority(9)];
    let cluster = cluster(&objects);
    for strategy in Strategy::ALL {
        let in_time = planned(plan(&cluster, &for_pod("p"), &overdue(strategy, &[])));
        assert_eq!((victims(&in_time), in_time.awaited.clone()), (vec![], vec![key("stuck")]));
        let late = planned(plan(&cluster, &for_pod("p"), &overdue(strategy, &["stuck"])));
        assert_eq!((victims(&late), late.awaited.clone()), (vec!["low"], vec![]));
        assert_eq!(late.placements[0].node, "b");
        let again = planned(plan(&cluster, &for_pod("p"), &overdue(strategy, &[])));
        assert_eq!(again.awaited, [key("stuck")], "the next decision sees it as it is then");
    }
}

#[test]
fn a_gang_does_not_count_on_its_place_and_says_what_is_missing() {
    let mut objects = vec![node("a", 1), node("b", 1), pod("stuck").on("a").terminating(), pod("low").on("b")];
    objects.extend(waiting_gang("g", 5, 2));
    let cluster = cluster(&objects);
    let decision = plan(&cluster, &for_group("g"), &overdue(Strategy::LeastCost, &["stuck"]));
    assert_eq!(
        shortfall(decision),
        "2 pods needed, 0 fit now. Missing 2 cpu. Evicting every workload below priority 5 would free 1."
    );
    let in_time = planned(plan(&cluster, &for_group("g"), &overdue(Strategy::LeastCost, &[])));
    assert_eq!((victims(&in_time), in_time.awaited.clone()), (vec!["low"], vec![key("stuck")]));
}

#[test]
fn an_overdue_victim_of_a_decision_in_flight_frees_no_capacity() {
    let objects = [node("a", 1), pod("stuck").on("a").terminating(), pod("p").priority(9)];
    let cluster = cluster(&objects);
    let mut context = overdue(Strategy::LeastCost, &["stuck"]);
    context.departing = BTreeSet::from([SmolStr::new("uid-stuck")]);
    let decide = |context: &Context| plan(&cluster, &Preemptor::Pod(key("p")), context);
    assert!(matches!(decide(&context), Decision::Unschedulable(_)));
    context.lingering.clear();
    assert_eq!(planned(decide(&context)).awaited, [key("stuck")]);
    // A pod that does not terminate is not overdue, whatever the context says.
    context.lingering = BTreeSet::from([SmolStr::new("uid-p")]);
    assert_eq!(planned(decide(&context)).awaited, [key("stuck")]);
    assert!(still_fits(&cluster, &planned(decide(&context)).placements, 9, &context, &BTreeSet::new()).is_err());
}
