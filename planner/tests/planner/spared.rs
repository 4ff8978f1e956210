//! Units of lower priority that are not evicted, and why: whole sentences, word by word.

use crate::common::world::*;
use crate::common::*;
use giveway_planner::{Cluster, Context, Decision, Plan, Preemptor, Sparing, Strategy, UnitKind, spared};
use proptest::prelude::{Just, Strategy as Values, TestCaseError, prop_assert, prop_assert_eq};
use serde_json::json;
use std::collections::BTreeSet;

const GPU: &str = "nvidia.com/gpu";

fn answer(cluster: &Cluster, preemptor: &Preemptor, context: &Context) -> (Plan, Sparing) {
    let plan = planned(plan(cluster, preemptor, context));
    let sparing = spared(cluster, preemptor, context, &plan);
    (plan, sparing)
}

/// Checks the victims, and returns the units that are not evicted, as `name: why`.
#[track_caller]
fn stays(objects: &[Built], preemptor: &Preemptor, goes: &[&str]) -> Vec<String> {
    let (plan, sparing) = answer(&cluster(objects), preemptor, &Context::default());
    assert_eq!(victims(&plan), goes);
    lines(&sparing)
}

fn lines(sparing: &Sparing) -> Vec<String> {
    sparing.units.iter().map(|unit| format!("{}: {}", unit.key.name, unit.why)).collect()
}

#[test]
fn the_more_important_units_stay_if_the_members_fit_beside_them() {
    let all = [
        node("a", 3),
        pod("older").on("a").set("/status/startTime", json!("2026-01-01T00:00:00Z")),
        pod("younger").on("a").set("/status/startTime", json!("2026-01-02T00:00:00Z")),
        pod("high").priority(5).on("a"),
        pod("p").priority(10),
    ];
    assert_eq!(
        stays(&all, &for_pod("p"), &["younger"]),
        [
            "high: Its priority 5 is above that of every victim, and the preemptor fits on node a beside it once the \
             victims have terminated.",
            "older: The preemptor fits on node a beside it once the victims have terminated."
        ]
    );
}

#[test]
fn a_unit_that_frees_nothing_of_what_is_missing_says_so() {
    let mut all = vec![node("a", 64).offers(GPU, "2"), pod("web").priority(3).on("a"), pod("train").on("a")];
    all[2] = pod("train").asks(GPU, "2").priority(7).on("a");
    all.extend(waiting_gang("g", 10, 2).into_iter().enumerate().map(|(n, built)| match n {
        0 => built,
        _ => built.asks(GPU, "1"),
    }));
    assert_eq!(
        stays(&all, &for_group("g"), &["train"]),
        ["web: Evicting it would free none of the nvidia.com/gpu that the members lack on node a."]
    );
    all.push(pod("p").priority(10).asks(GPU, "1"));
    assert_eq!(
        stays(&all, &for_pod("p"), &["train"]),
        ["web: Evicting it would free none of the nvidia.com/gpu that the preemptor lacks on node a."]
    );
}

#[test]
fn if_no_eviction_is_needed_that_is_the_reason() {
    let mut all = vec![node("a", 2), node("b", 1), pod("near").priority(1).on("a"), pod("far").on("b")];
    all.extend(waiting_gang("g", 10, 2));
    assert_eq!(stays(&all, &for_group("g"), &["far"]), ["near: The members fit on node a without any eviction."]);
    all.extend([node("c", 2), pod("other").priority(1).on("c"), pod("leaving").on("c").terminating()]);
    assert_eq!(
        stays(&all, &for_group("g"), &[]),
        [
            "near: The members fit on node a without any eviction.",
            "other: The members fit on node c once the pods that are leaving anyway have terminated."
        ],
        "a leaving pod is not listed as staying"
    );
}

#[test]
fn a_budget_that_would_be_violated_is_named() {
    let all = [
        node("a", 2),
        pod("db").on("a").label("app", "db"),
        pod("low").priority(1).on("a"),
        budget("db", "db", 0),
        pod("p").priority(10),
    ];
    assert_eq!(
        stays(&all, &for_pod("p"), &["low"]),
        ["db: Evicting it as well would violate budget default/db, and the preemptor fits on node a beside it once \
          the victims have terminated."]
    );
}

#[test]
fn a_guaranteed_budget_is_named_with_what_it_allows_and_the_threshold() {
    let guarded = |name: &str| pod(name).on("a").label("app", "db").threshold(1000);
    let all = [
        node("a", 3),
        guarded("db-1"),
        guarded("db-2"),
        budget("db", "db", 1),
        pod("other").priority(500).on("a"),
        pod("p").priority(999).asks("cpu", "2"),
    ];
    let sentence =
        "Evicting it as well would violate budget default/db, which allows 1 more disruption to preemptors below 1000.";
    let lines_of_units = stays(&all, &for_pod("p"), &["other", "db-1"]);
    assert_eq!(lines_of_units, [format!("db-2: {sentence}")]);
}

#[test]
fn an_unguarded_pod_stays_when_a_guarded_victim_uses_its_budget_up() {
    let all = [
        node("a", 3),
        pod("db-1").on("a").label("app", "db").threshold(2000),
        pod("db-2").priority(5).on("a").label("app", "db"),
        budget("db", "db", 1),
        pod("other").priority(500).on("a"),
        pod("p").priority(999),
    ];
    let lines_of_units = stays(&all, &for_pod("p"), &["db-1"]);
    let sentence =
        "Evicting it as well would violate budget default/db, which allows 1 more disruption to preemptors below 2000.";
    assert_eq!(lines_of_units[1], format!("db-2: {sentence}"), "{lines_of_units:?}");
    assert!(
        lines_of_units[0].starts_with("other: Its priority 500 is above that of every victim, and"),
        "{lines_of_units:?}"
    );
}

#[test]
fn the_nodes_of_a_whole_group_are_counted_and_it_is_named_once() {
    let mut all = vec![gang("low", 5, 3).whole()];
    for name in ["a", "b", "c"] {
        all.extend([node(name, 2), pod(&format!("low-{name}")).group("low").on(name)]);
        all.push(pod(&format!("x-{name}")).on(name));
    }
    all.extend(waiting_gang("g", 10, 3));
    let (plan, sparing) = answer(&cluster(&all), &for_group("g"), &Context::default());
    assert_eq!(victims(&plan), ["x-a", "x-b", "x-c"]);
    let [low] = sparing.units.as_slice() else { panic!("{sparing:?}") };
    assert_eq!((low.kind, &low.key, low.priority), (UnitKind::PodGroup, &key("low"), 5));
    assert_eq!(
        low.why,
        "Its priority 5 is above that of every victim, and the members fit on node a and 2 others beside it once the \
         victims have terminated."
    );
    assert_eq!(sparing.others, Vec::<String>::new());
}

#[test]
fn a_pod_that_cannot_be_evicted_is_named_with_its_protection() {
    let mirror = |name: &str| pod(name).on("a").annotation("kubernetes.io/config.mirror", "x");
    let all = [
        node("a", 7),
        mirror("static"),
        gang("half", 0, 1).whole(),
        mirror("half-0").group("half"),
        pod("half-1").group("half").on("a"),
        pod("refused").on("a"),
        gang("pair", 0, 1).whole(),
        pod("pair-0").group("pair").on("a"),
        pod("pair-1").group("pair").on("a"),
        pod("victim").on("a"),
        pod("p").priority(10),
    ];
    let mut context = Context::default();
    context.exempt.extend(["uid-refused".into(), "uid-pair-1".into()]);
    let (plan, sparing) = answer(&cluster(&all), &for_pod("p"), &context);
    assert_eq!(victims(&plan), ["victim"]);
    assert_eq!(
        lines(&sparing),
        [
            "pair: All its pods are disrupted together, and its pod default/pair-1 is excluded as a victim of this decision.",
            "half: The preemptor fits on node a beside it once the victims have terminated.",
            "half-0: It is a mirror pod, which cannot be evicted.",
            "refused: It is excluded as a victim of this decision.",
            "static: It is a mirror pod, which cannot be evicted."
        ]
    );
    assert_eq!(sparing.others, Vec::<String>::new(), "every unit has a pod here");
}

#[test]
fn the_preemptors_own_members_stay() {
    let all = [
        node("a", 2),
        gang("g", 10, 2),
        pod("g-0").group("g").priority(5).on("a"),
        pod("g-1").group("g").priority(10),
        pod("low").on("a"),
    ];
    let mut cluster = cluster(&all);
    let plan = planned(decide(&cluster, &for_group("g")));
    assert_eq!(victims(&plan), ["low"]);
    // Without its class the members count by their own priorities.
    let classless = gang("g", 0, 2).set("/spec/priority", json!(null)).set("/spec/priorityClassName", json!("none"));
    add(&mut cluster, &classless);
    let sparing = spared(&cluster, &for_group("g"), &Context::default(), &plan);
    assert_eq!(lines(&sparing), ["g-0: It belongs to the preemptor's own group."]);
}

#[test]
fn all_other_units_are_counted() {
    let mut all = vec![node("a", 3), node("b", 4), gang("whole", 2, 2).whole(), pod("p").priority(10)];
    all.extend([pod("victim").on("a"), pod("equal").priority(10).on("a"), pod("above").priority(11).on("a")]);
    all.extend((0..2).map(|i| pod(&format!("whole-{i}")).group("whole").on("b")));
    all.extend([pod("single").priority(1).on("b"), pod("leaving").on("b").asks("cpu", "0").terminating()]);
    all.push(pod("same").priority(10).on("b"));
    let (_, sparing) = answer(&cluster(&all), &for_pod("p"), &Context::default());
    assert_eq!(sparing.units, []);
    assert_eq!(
        sparing.others,
        [
            "2 other units of a priority below 10 have no pod on the nodes of the placement.",
            "2 pods on the nodes of the placement have a priority of at least 10 and cannot be evicted for it."
        ]
    );
    all.retain(|built| !["single", "equal"].contains(&built.0["metadata"]["name"].as_str().unwrap()));
    (all[0], all[1]) = (node("a", 2), node("b", 3));
    let (_, sparing) = answer(&cluster(&all), &for_pod("p"), &Context::default());
    assert_eq!(
        sparing.others,
        [
            "1 other unit of a priority below 10 has no pod on the nodes of the placement.",
            "1 pod on the nodes of the placement has a priority of at least 10 and cannot be evicted for it."
        ]
    );
}

#[test]
fn victims_of_a_decision_in_flight_are_neither_listed_nor_counted() {
    let all = [
        node("a", 2),
        node("b", 1),
        pod("going-a").on("a"),
        pod("low").on("a"),
        pod("going-b").on("b"),
        pod("p").priority(10).asks("cpu", "2"),
    ];
    let departing = ["uid-going-a".into(), "uid-going-b".into()].into();
    let context = Context { departing, ..Context::default() };
    let (plan, sparing) = answer(&cluster(&all), &for_pod("p"), &context);
    assert_eq!((victims(&plan), plan.awaited.as_slice()), (vec!["low"], &[key("going-a")][..]));
    assert_eq!(sparing, Sparing::default());
}

#[test]
fn what_is_awaited_besides_the_victims_is_said() {
    let mut all = vec![node("a", 3), pod("leaving").on("a").terminating(), pod("low").on("a")];
    all.extend([pod("more").priority(1).on("a"), pod("p").priority(10).asks("cpu", "2")]);
    assert_eq!(
        stays(&all, &for_pod("p"), &["low"]),
        ["more: Its priority 1 is above that of every victim, and the preemptor fits on node a beside it once the \
          victims and the pods that are leaving anyway have terminated."]
    );
}

#[test]
fn a_plan_that_does_not_fit_any_more_is_not_defended() {
    let mut cluster =
        cluster(&[node("a", 2), pod("low").on("a"), pod("more").priority(1).on("a"), pod("p").priority(9)]);
    let plan = planned(decide(&cluster, &for_pod("p")));
    add(&mut cluster, &pod("new").priority(99).on("a"));
    let sparing = spared(&cluster, &for_pod("p"), &Context::default(), &plan);
    assert_eq!(
        lines(&sparing),
        ["more: It is not a victim of this plan, but the preemptor no longer fits on node a beside it."]
    );
    cluster.remove_pod(&key("p"));
    assert_eq!(
        spared(&cluster, &for_pod("p"), &Context::default(), &plan),
        Sparing::default(),
        "no pod is pending any more"
    );
}

#[test]
fn members_that_look_at_each_other_are_asked_whether_they_fit() {
    let term = json!({"topologyKey": "hostname", "labelSelector": {"matchLabels": {"app": "web"}}});
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let all = [
        node("a", 8),
        pod("web").on("a").label("app", "web"),
        pod("other").on("a"),
        pod("p").priority(10).set("/spec/affinity", apart),
    ];
    assert_eq!(
        stays(&all, &for_pod("p"), &["web"]),
        ["other: The preemptor fits on node a beside it once the victims have terminated."]
    );
}

/// Returns the plan of a strategy for a world, and its explanation; `None` without a plan.
fn said(world: &World, objects: &[Built], strategy: Strategy) -> Option<(Plan, Sparing)> {
    let (cluster, context) = (cluster(objects), Context { strategy, ..Context::default() });
    match plan(&cluster, &world.preemptor(), &context) {
        Decision::Preempt(plan) => {
            let sparing = spared(&cluster, &world.preemptor(), &context, &plan);
            Some((*plan, sparing))
        }
        _ => None,
    }
}

/// Every pod of lower priority on the nodes of a plan is a victim, is named once, or is leaving.
fn every_unit_is_listed(world: &World, plan: &Plan, sparing: &Sparing) -> Result<(), TestCaseError> {
    let nodes: BTreeSet<usize> =
        (0..world.nodes.len()).filter(|n| plan.placements.iter().any(|p| *p.node == format!("node-{n:02}"))).collect();
    let uids = victim_uids(plan);
    let is_victim = |unit: &[usize]| uids.contains(format!("uid-{}", world.pods[unit[0]].name).as_str());
    let name = |unit: &[usize]| match world.pods[unit[0]].group.filter(|group| world.groups[*group].1) {
        Some(group) => format!("low-{group:02}"),
        None => world.pods[unit[0]].name.clone(),
    };
    let units = world.units_below();
    let (here, elsewhere): (Vec<_>, Vec<_>) = units
        .iter()
        .filter(|unit| !is_victim(unit))
        .partition(|unit| unit.iter().any(|p| nodes.contains(&world.pods[*p].node)));
    let mut expected: Vec<String> = here.iter().map(|unit| name(unit)).collect();
    let mut named: Vec<String> = sparing.units.iter().map(|unit| unit.key.name.to_string()).collect();
    expected.sort();
    named.sort();
    prop_assert_eq!(named, expected);
    let counted = sparing.others.iter().find_map(|line| line.split_once(" other unit")?.0.parse().ok());
    prop_assert_eq!(counted.unwrap_or(0), elsewhere.len(), "{:?}", sparing.others);
    let priorities: Vec<i32> = sparing.units.iter().map(|unit| unit.priority).collect();
    prop_assert!(priorities.is_sorted_by(|a, b| a >= b), "{priorities:?}");
    for unit in &sparing.units {
        prop_assert!(!unit.why.contains("no longer"), "a plan that was just made fits: {}", unit.why);
        let highest = unit.why.starts_with("Its priority").then_some(plan.cost.highest_priority).flatten();
        prop_assert!(highest.is_none_or(|highest| highest < unit.priority), "{}", unit.why);
    }
    let free = |n: usize| {
        let stays = |low: &&Low| low.node == n && !plan.awaited.iter().any(|pod| *pod.name == low.name);
        let used: usize = world.pods.iter().filter(stays).map(|low| low.cpus).sum();
        let here = plan.placements.iter().filter(|p| *p.node == format!("node-{n:02}"));
        let members = here.map(|p| world.members[p.pod.name[2..].parse::<usize>().unwrap()]);
        world.nodes[n].checked_sub(used + members.sum::<usize>())
    };
    for unit in here {
        let listed = sparing.units.iter().find(|listed| *listed.key.name == name(unit)).unwrap();
        prop_assert_eq!(world.is_barred(unit), listed.why.contains("everal budgets select"), "{}", listed.why);
        if world.is_barred(unit) {
            continue;
        }
        let mut together = world.chosen(&uids);
        together.push(unit.clone());
        let may = world.guarantees_hold(&together.iter().collect::<Vec<_>>());
        // The reason is a guaranteed budget if and only if it forbids the eviction beside the victims; no eviction is needed if and only if
        // the members fit beside all pods of the unit's nodes.
        prop_assert_eq!(!may, listed.why.contains("which allows"), "{}", listed.why);
        let mut its_nodes = unit.iter().map(|p| world.pods[*p].node).filter(|n| nodes.contains(n));
        let without = its_nodes.all(|n| free(n).is_some());
        prop_assert!(!may || world.apart || without != listed.why.contains("beside it"), "{}", listed.why);
    }
    Ok(())
}

#[test]
fn every_unit_below_the_preemptor_is_a_victim_or_named_once_or_counted_elsewhere() {
    let plans = |size, cases, seed| {
        let shuffled = worlds(size).prop_flat_map(|world| {
            let objects = world.objects();
            (Just(world), Just(objects.clone()), Just(objects).prop_shuffle())
        });
        for_all(cases, seed, shuffled, |(world, objects, other_order)| {
            let mut meant = false;
            for strategy in Strategy::ALL {
                let answer = said(&world, &objects, strategy);
                if let Some((plan, sparing)) = &answer {
                    every_unit_is_listed(&world, plan, sparing)?;
                    meant |= !sparing.units.is_empty();
                }
                prop_assert_eq!(&said(&world, &other_order, strategy), &answer, "in another order");
            }
            Ok(meant)
        })
    };
    let named = plans(TINY, 2000, 41) + plans(LARGER, 300, 42);
    assert!(named > 300, "{named}");
}
