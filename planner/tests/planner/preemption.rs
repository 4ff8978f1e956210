//! Which pods are evicted, and which never are.

use crate::common::*;
use giveway_planner::model::MAX_GRACEFUL_TERMINATION;
use giveway_planner::{Context, Decision, Placement, UnitKind};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use std::collections::BTreeSet;

#[test]
fn a_gang_that_fits_evicts_no_pod_and_takes_the_tightest_nodes() {
    let mut all = vec![node("a", 8), node("b", 2), node("c", 3)];
    all.extend(waiting_gang("g", 10, 2));
    match decide(&cluster(&all), &for_group("g")) {
        Decision::Fits { placements, left: 0, .. } => {
            assert!(placements.iter().all(|placement| placement.node == "b"), "{placements:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn min_count_members_are_enough_and_the_others_are_not_planned() {
    let mut all = vec![node("a", 2), gang("g", 10, 2)];
    all.extend((0..3).map(|i| pod(&format!("g-{i}")).group("g")));
    all.push(pod("low").on("a").asks("cpu", "0"));
    match decide(&cluster(&all), &for_group("g")) {
        Decision::Fits { placements, left, .. } => assert_eq!((placements.len(), left), (2, 1)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_gang_waits_until_enough_of_its_pods_exist() {
    let all = [node("a", 8), gang("g", 10, 3), pod("g-0").group("g"), pod("g-1").group("g").on("a")];
    assert_eq!(
        decide(&cluster(&all), &for_group("g")),
        Decision::WaitingForPods { live: 2, min_count: 3, finished: 0, below: 0 }
    );
}

#[test]
fn there_is_nothing_to_plan_without_a_waiting_pod() {
    let all = [node("a", 8), gang("g", 10, 1), pod("g-0").group("g").on("a"), pod("p").on("a")];
    let cluster = cluster(&all);
    for preemptor in [for_group("g"), for_pod("p"), for_group("none"), for_pod("none")] {
        assert_eq!(decide(&cluster, &preemptor), Decision::Nothing, "{preemptor}");
    }
}

#[test]
fn bound_members_count_towards_min_count() {
    let mut all = vec![node("a", 2), gang("g", 10, 3), pod("low").on("a"), pod("g-0").group("g").on("a")];
    all.push(node("b", 1));
    all.extend((1..3).map(|i| pod(&format!("g-{i}")).group("g")));
    let plan = planned(decide(&cluster(&all), &for_group("g")));
    assert_eq!(victims(&plan), ["low"]);
    let nodes: BTreeSet<&str> = plan.placements.iter().map(|placement| placement.node.as_str()).collect();
    assert_eq!(nodes, BTreeSet::from(["a", "b"]));
}

#[test]
fn a_group_in_mode_pod_group_is_evicted_also_where_its_capacity_is_not_needed() {
    let mut all = vec![node("a", 1), node("b", 1), gang("low", 5, 2).whole()];
    all.extend([pod("low-0").group("low").on("a"), pod("low-1").group("low").on("b")]);
    all.push(pod("p").priority(10));
    let cluster = cluster(&all);
    let plan = planned(decide(&cluster, &for_pod("p")));
    assert_eq!(victims(&plan), ["low"]);
    assert_eq!(plan.victims[0].kind, UnitKind::PodGroup);
    assert_eq!(plan.victims[0].pods.len(), 2);
    assert_eq!(
        plan.victims[0].why,
        "Its priority 5 is below 10, and the capacity of 1 of its 2 pods is needed; all its pods are disrupted together."
    );
    assert_eq!(check_plan(&cluster, &for_pod("p"), &plan), Ok(()));
}

#[test]
fn pods_of_a_group_in_mode_pod_are_evicted_one_by_one() {
    let mut all = vec![node("a", 2), gang("low", 5, 2), pod("p").priority(10)];
    all.extend([pod("low-0").group("low").on("a"), pod("low-1").group("low").on("a")]);
    let plan = planned(decide(&cluster(&all), &for_pod("p")));
    assert_eq!(victims(&plan), ["low-1"]);
    assert_eq!(plan.victims[0].kind, UnitKind::Pod);
}

#[test]
fn a_single_pod_is_preferred_over_a_group_of_the_same_priority() {
    let mut all = vec![node("a", 3), gang("low", 0, 2).whole(), pod("p").priority(10), pod("alone").on("a")];
    all.extend([pod("low-0").group("low").on("a"), pod("low-1").group("low").on("a")]);
    assert_eq!(victims(&planned(decide(&cluster(&all), &for_pod("p")))), ["alone"]);
}

#[test]
fn the_lowest_priorities_are_evicted_first_and_no_unit_above_the_ceiling() {
    let mut all = vec![node("a", 4)];
    all.extend((1..=4).map(|i| pod(&format!("p{i}")).priority(i).on("a")));
    all.extend(waiting_gang("g", 10, 2));
    let plan = planned(decide(&cluster(&all), &for_group("g")));
    assert_eq!(victims(&plan), ["p2", "p1"]);
    assert_eq!(plan.cost.highest_priority, Some(2));
    assert!(plan.trace.contains(&"No unit above priority 2 has to be evicted.".to_owned()), "{:?}", plan.trace);
}

#[test]
fn equal_priority_evicts_no_pod() {
    let mut all = vec![node("a", 1), pod("same").priority(10).on("a")];
    all.extend(waiting_gang("g", 10, 1));
    let sentence = shortfall(decide(&cluster(&all), &for_group("g")));
    assert_eq!(sentence, "1 pod needed, 0 fit now. Missing 1 cpu. No workload has a priority below 10.");
}

#[test]
fn either_the_whole_gang_fits_or_no_pod_is_evicted() {
    let mut all = vec![node("a", 2), pod("low").on("a"), pod("high").priority(99).on("a")];
    all.extend(waiting_gang("g", 10, 2));
    assert!(matches!(decide(&cluster(&all), &for_group("g")), Decision::Unschedulable(_)));
}

#[test]
fn for_all_members_as_many_as_possible_are_placed_when_evictions_are_needed_anyway() {
    let mut all = vec![
        node("a", 3),
        gang("g", 10, 2).for_all(),
        pod("x").on("a"),
        pod("y").on("a"),
        pod("z").priority(99).on("a"),
    ];
    all.extend((0..3).map(|i| pod(&format!("g-{i}")).group("g")));
    let plan = planned(decide(&cluster(&all), &for_group("g")));
    assert_eq!(plan.placements.len(), 2);
    all[0] = node("a", 4);
    all.push(pod("w").on("a"));
    assert_eq!(planned(decide(&cluster(&all), &for_group("g"))).placements.len(), 3);
}

#[test]
fn mirror_pods_excluded_pods_and_the_groups_of_excluded_pods_are_not_evicted() {
    let mut all = vec![node("a", 1), node("b", 1), node("c", 1), gang("low", 1, 1).whole(), pod("p").priority(10)];
    all.push(pod("mirror").on("a").annotation("kubernetes.io/config.mirror", "x"));
    all.push(pod("low-0").group("low").on("b"));
    all.push(pod("low-1").group("low").on("c"));
    let context = Context { exempt: BTreeSet::from(["uid-low-1".into()]), ..Context::default() };
    let sentence = shortfall(plan(&cluster(&all), &for_pod("p"), &context));
    let why = " There are pods below priority 10, but none of them can be evicted now: they are on nodes that cannot \
               be used, are static or protected, are victims of another plan, or their eviction for this preemptor \
               was refused a short while ago.";
    assert!(sentence.ends_with(why), "{sentence}");
}

#[test]
fn pods_that_are_leaving_anyway_are_awaited_and_no_other_is_evicted() {
    let all = [
        node("a", 2),
        pod("leaving").on("a").terminating(),
        pod("small").asks("cpu", "0").on("a").terminating(),
        pod("low").on("a"),
        pod("p").priority(10),
    ];
    let plan = planned(decide(&cluster(&all), &for_pod("p")));
    assert_eq!(plan.victims, vec![]);
    assert_eq!(plan.awaited, [key("leaving")]);
    assert_eq!(plan.cost.victim_pods, 0);
}

#[test]
fn a_pod_with_a_grace_period_above_an_hour_is_not_awaited_but_evicted_as_others() {
    let longest = MAX_GRACEFUL_TERMINATION;
    let world = |grace: i64, priority: i32| {
        [
            node("a", 2),
            pod("slow").priority(priority).on("a").terminating_in(grace),
            pod("other").priority(5).on("a"),
            pod("p").priority(10),
        ]
    };
    let plan = planned(decide(&cluster(&world(longest, 0)), &for_pod("p")));
    assert_eq!((victims(&plan), &plan.awaited), (vec![], &vec![key("slow")]));
    let plan = planned(decide(&cluster(&world(longest + 1, 0)), &for_pod("p")));
    assert_eq!((victims(&plan), &plan.awaited), (vec!["slow"], &vec![]), "it is the least important one");
    let plan = planned(decide(&cluster(&world(longest + 1, 10)), &for_pod("p")));
    assert_eq!((victims(&plan), &plan.awaited), (vec!["other"], &vec![]), "it is not awaited");
}

#[test]
fn a_member_that_claims_to_be_a_mirror_pod_does_not_protect_its_group() {
    let forged = pod("low-x").group("low").annotation("kubernetes.io/config.mirror", "x");
    for (node_of_it, room) in [("nowhere", 1), ("a", 2)] {
        let all = [
            node("a", room),
            gang("low", 1, 1).whole(),
            pod("low-0").group("low").on("a"),
            forged.clone().on(node_of_it),
            pod("p").priority(10),
        ];
        let plan = planned(decide(&cluster(&all), &for_pod("p")));
        assert_eq!(plan.victims.iter().map(|unit| unit.pods.len()).collect::<Vec<_>>(), [1], "on {node_of_it}");
        assert_eq!(victims(&plan), ["low"]);
    }
}

/// As kube-scheduler counts it: in 64 bits, in which an amount that does not fit is zero. Otherwise a pod that uses nothing would close its
/// node for all others, or pods beside it would be evicted without benefit.
#[test]
fn a_running_pod_that_asks_for_more_than_can_be_counted_takes_nothing_of_that_and_is_no_victim() {
    let read = |pod: &Built| -> Pod { serde_json::from_value(pod.0.clone()).unwrap() };
    let mut model = cluster(&[node("a", 2), pod("q").priority(10)]);
    let error = model.upsert_pod(&read(&pod("odd").priority(5).on("a").asks("cpu", "1e300"))).unwrap_err().to_string();
    assert_eq!(
        error,
        "Pod default/odd: spec.containers[0].resources.requests[cpu]: Invalid value: \"1e300\": is too large"
    );
    // In thousandths these are too large as well; in whole ones, as of everything else, they are not.
    model.upsert_pod(&read(&pod("large").priority(5).on("a").asks("cpu", "10P"))).unwrap();
    model.upsert_pod(&read(&pod("larger").priority(5).on("a").asks("memory", "1e19"))).unwrap();
    assert!(matches!(decide(&model, &for_pod("q")), Decision::Fits { .. }));
    // Its other requests count.
    model.upsert_pod(&read(&pod("large").priority(20).on("a").asks("cpu", "2").asks("memory", "1e19"))).unwrap();
    assert!(
        shortfall(decide(&model, &for_pod("q"))).contains("Missing 1 cpu"),
        "no pod is evicted that would free nothing"
    );
    // A pending pod whose quantities cannot be parsed uses no capacity.
    model.upsert_pod(&read(&pod("odd-2").priority(5).asks("cpu", "1e300"))).unwrap_err();
    assert!(model.pod(&key("odd-2")).is_none());
}

#[test]
fn policy_never_evicts_no_pod_and_says_so() {
    let mut all = vec![node("a", 1), pod("low").on("a")];
    all.extend(waiting_gang("g", 10, 1));
    all[2] = gang("g", 10, 1).never();
    let sentence = shortfall(decide(&cluster(&all), &for_group("g")));
    assert_eq!(
        sentence,
        "1 pod needed, 0 fit now. Missing 1 cpu. Its preemptionPolicy is Never, so no pod is evicted for it."
    );
}

#[test]
fn a_pod_preempts_only_when_a_managed_class_says_so() {
    let unmanaged = pod("p").priority(10).set("/metadata/annotations", json!({}));
    let all = [node("a", 1), pod("low").on("a"), unmanaged];
    let mut cluster = cluster(&all);
    assert!(shortfall(decide(&cluster, &for_pod("p"))).contains("preemptionPolicy is Never"));
    cluster.trust_pod_policy = true;
    assert_eq!(victims(&planned(decide(&cluster, &for_pod("p")))), ["low"]);
}

#[test]
fn large_members_are_placed_first_so_that_small_ones_fill_the_rest() {
    let mut all = vec![node("a", 4), node("b", 3), gang("g", 10, 3)];
    all.push(pod("g-1-small").group("g").asks("cpu", "2"));
    all.push(pod("g-2-small").group("g").asks("cpu", "1"));
    all.push(pod("g-3-large").group("g").asks("cpu", "4"));
    match decide(&cluster(&all), &for_group("g")) {
        Decision::Fits { placements, left: 0, .. } => {
            assert_eq!(
                (&*placements[0].pod.name, &*placements[0].node),
                ("g-3-large", "a"),
                "the first that is placed"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_with_victims_that_violate_no_budget_is_preferred() {
    let all = [
        node("a", 1),
        node("b", 1),
        pod("protected").on("a").label("app", "db"),
        pod("free").priority(5).on("b"),
        budget("db", "db", 0),
        pod("p").priority(10),
    ];
    let plan = planned(decide(&cluster(&all), &for_pod("p")));
    assert_eq!(victims(&plan), ["free"]);
    assert_eq!(plan.cost.budget_violations, 0);
}

#[test]
fn a_budget_is_a_preference_and_its_violation_is_counted() {
    let mut all = vec![node("a", 2), budget("db", "db", 1)];
    all.extend([pod("x").on("a").label("app", "db"), pod("y").on("a").label("app", "db")]);
    all.extend(waiting_gang("g", 10, 2));
    let plan = planned(decide(&cluster(&all), &for_group("g")));
    assert_eq!(plan.cost.budget_violations, 1);
    assert_eq!(plan.victims.iter().filter(|victim| victim.violates_budget).count(), 1);
}

#[test]
fn members_that_keep_apart_are_placed_apart() {
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "hostname", "labelSelector": {"matchLabels": {"apart": "yes"}}}]}});
    let mut all = vec![node("a", 4), node("b", 4), gang("g", 10, 2)];
    all.extend(
        (0..2).map(|i| pod(&format!("g-{i}")).group("g").label("apart", "yes").set("/spec/affinity", apart.clone())),
    );
    all.extend([pod("low-a").asks("cpu", "4").on("a"), pod("low-b").asks("cpu", "4").on("b")]);
    let cluster = cluster(&all);
    let plan = planned(decide(&cluster, &for_group("g")));
    assert_eq!(victims(&plan), ["low-a", "low-b"]);
    let nodes: BTreeSet<&Placement> = plan.placements.iter().collect();
    assert_eq!(nodes.len(), 2);
    assert_eq!(check_plan(&cluster, &for_group("g"), &plan), Ok(()));
}

#[test]
fn members_with_anti_affinity_are_not_placed_beside_the_pods_they_exclude() {
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "hostname", "labelSelector": {"matchLabels": {"apart": "yes"}}}]}});
    let mut all = vec![node("a", 4), node("b", 4), node("c", 4), gang("g", 10, 2)];
    all.extend(
        (0..2).map(|i| pod(&format!("g-{i}")).group("g").label("apart", "yes").set("/spec/affinity", apart.clone())),
    );
    all.push(pod("there").priority(99).label("apart", "yes").on("a"));
    all.push(pod("low").asks("cpu", "4").on("c"));
    let plan = planned(decide(&cluster(&all), &for_group("g")));
    assert_eq!(victims(&plan), ["low"]);
    let nodes: BTreeSet<&str> = plan.placements.iter().map(|placement| placement.node.as_str()).collect();
    assert_eq!(nodes, BTreeSet::from(["b", "c"]));
}

/// What `docs/security.md` says about a tenant with a class above others.
#[test]
fn anti_affinity_over_a_zone_makes_victims_in_the_whole_zone_for_a_gang_and_none_for_a_single_pod() {
    let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]}});
    let web = |name: &str, on: &str| pod(name).label("app", "web").on(on);
    let zone = [
        node("a", 4).label("zone", "z"),
        node("b", 4).label("zone", "z"),
        web("web-a", "a"),
        web("web-b", "b"),
        pod("other").on("a"),
    ];
    let with = |preemptor: &[Built]| cluster(zone.iter().chain(preemptor));
    // As for kube-scheduler, the victims of a single pod are on its own node, and the one on the other node excludes it.
    let single = pod("p").priority(10).set("/spec/affinity", apart.clone());
    assert!(matches!(decide(&with(&[single]), &for_pod("p")), Decision::Unschedulable(_)));
    let gang_of_one = [gang("g", 10, 1), pod("g-0").group("g").set("/spec/affinity", apart)];
    let plan = planned(decide(&with(&gang_of_one), &for_group("g")));
    let mut victims = victims(&plan);
    victims.sort_unstable();
    assert_eq!(victims, ["web-a", "web-b"]);
}

#[test]
fn what_is_not_modeled_is_said() {
    let selector = json!({"matchLabels": {"team": "red"}});
    let term = json!({"labelSelector": {}, "namespaceSelector": selector, "topologyKey": "hostname"});
    let apart = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    let p = pod("p").priority(10).set("/spec/affinity/podAntiAffinity", apart);
    let plan = planned(decide(&cluster(&[node("a", 1), pod("low").on("a"), p]), &for_pod("p")));
    assert_eq!(plan.not_modeled, ["the namespaceSelector of its pod affinity, because no namespaces are known"]);
}

#[test]
fn victims_free_every_scarce_resource() {
    let mut all = vec![node("a", 2).offers("example.com/gpu", "2"), pod("cpus").asks("cpu", "2").on("a")];
    all.push(pod("gpus").asks("cpu", "0").asks("example.com/gpu", "2").on("a"));
    all.push(pod("p").priority(10).asks("cpu", "2").asks("example.com/gpu", "2"));
    all.extend(waiting_gang("g", 10, 2).into_iter().map(|built| match built.0["kind"] == "Pod" {
        true => built.asks("example.com/gpu", "1"),
        false => built,
    }));
    let both = ["cpus", "gpus"];
    for preemptor in [for_pod("p"), for_group("g")] {
        assert_eq!(victims(&planned(decide(&cluster(&all), &preemptor))), both, "{preemptor}");
    }
    // Of the CPUs there is enough for one member now, and for two only when they are given back.
    all[0] = all[0].clone().offers("cpu", "3");
    assert_eq!(victims(&planned(decide(&cluster(&all), &for_group("g")))), both);
}

/// No member may start beside members that decisions in flight are about to evict.
#[test]
fn members_that_are_being_evicted_do_not_count_for_the_barrier_and_pin_no_domain() {
    let mut all = vec![node("a", 2).label("zone", "z1"), node("b", 4).label("zone", "z2")];
    let topology = json!({"topology": [{"key": "zone"}]});
    all.push(gang("g", 10, 2).set("/spec/schedulingConstraints", topology));
    all.push(pod("g-0").group("g").on("a"));
    all.push(pod("g-1").group("g"));
    let now = cluster(&all);
    match decide(&now, &for_group("g")) {
        Decision::Fits { placements, .. } => assert_eq!(placements[0].node, "a", "beside the one that is there"),
        other => panic!("{other:?}"),
    }
    let going = Context { departing: ["uid-g-0".into()].into(), ..Context::default() };
    match plan(&now, &for_group("g"), &going) {
        Decision::WaitingForPods { live: 1, min_count: 2, .. } => {}
        other => panic!("{other:?}"),
    }
    all.push(pod("g-2").group("g"));
    match plan(&cluster(&all), &for_group("g"), &going) {
        Decision::Fits { placements, .. } => {
            let nodes: Vec<&str> = placements.iter().map(|placement| placement.node.as_str()).collect();
            assert_eq!(nodes, ["b", "b"], "they need places of their own, in one zone, whichever");
        }
        other => panic!("{other:?}"),
    }
}
