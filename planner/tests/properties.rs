//! Random small clusters: every plan is valid, does not depend on the order of arrival, and is found when there is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use common::*;
use giveway_planner::{Cluster, Context, Decision, Placement, still_fits};
use std::collections::BTreeSet;

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap();
            list.swap(last, other);
        }
    }
}

/// A cluster of a few nodes with pods, whole groups, budgets and thresholds, and a gang `g` of priority 50.
fn random(numbers: &mut Numbers) -> Vec<Built> {
    let nodes = 1 + numbers.below(4);
    let mut all: Vec<Built> = Vec::new();
    let mut free: Vec<u64> = (0..nodes).map(|_| 1 + numbers.below(4)).collect();
    for (n, cpus) in free.iter().enumerate() {
        all.push(node(&format!("node-{n}"), usize::try_from(*cpus).unwrap()));
    }
    for g in 0..3 {
        let built = gang(&format!("low-{g}"), i32::try_from(numbers.below(7) * 10).unwrap(), 1);
        all.push(if numbers.below(3) > 0 { built.whole() } else { built });
    }
    all.extend(
        (0..2).map(|b| budget(&format!("budget-{b}"), &b.to_string(), i32::try_from(numbers.below(3)).unwrap())),
    );
    for p in 0..2 + numbers.below(8) {
        let (at, cpus) = (usize::try_from(numbers.below(nodes)).unwrap(), 1 + numbers.below(2));
        if free[at] < cpus {
            continue;
        }
        free[at] -= cpus;
        let built = pod(&format!("p-{p}")).asks("cpu", &cpus.to_string()).on(&format!("node-{at}"));
        let built = built.priority(i32::try_from(numbers.below(7) * 10).unwrap());
        let built = if numbers.below(2) == 0 { built.group(&format!("low-{}", numbers.below(3))) } else { built };
        let built = built.label("app", &numbers.below(4).to_string());
        let built = if numbers.below(4) == 0 { built.threshold(55) } else { built };
        all.push(if numbers.below(8) == 0 { built.terminating() } else { built });
    }
    let members = 1 + numbers.below(3);
    all.push(gang("g", 50, usize::try_from(1 + numbers.below(members)).unwrap()));
    for m in 0..members {
        all.push(pod(&format!("g-{m}")).group("g").asks("cpu", &(1 + numbers.below(2)).to_string()));
    }
    all
}

/// No guaranteed budget is violated: a victim with a threshold of 55 never is under a budget that is.
fn keeps_guarantees(cluster: &Cluster, victims: &BTreeSet<String>) -> bool {
    let gone: Vec<_> = cluster.pods().filter(|pod| victims.contains(&pod.uid)).collect();
    cluster.budgets().all(|budget| {
        let under: Vec<_> = gone.iter().filter(|pod| budget.matches(&pod.labels)).collect();
        let guarded = gone.iter().any(|pod| {
            let unit = cluster.group_of(pod).filter(|g| g.mode == giveway_crds::policy::DisruptionMode::PodGroup);
            let mates = gone.iter().filter(|mate| unit.is_some() && mate.group == pod.group).chain([pod]);
            budget.matches(&pod.labels) && mates.into_iter().any(|mate| mate.threshold.is_some())
        });
        !guarded || i32::try_from(under.len()).unwrap() <= budget.disruptions_allowed
    })
}

/// Whether there is any placement of `need` members with everybody below priority 50 gone: tried one by one.
fn possible(cluster: &Cluster, members: &[(String, Vec<String>)], need: usize) -> bool {
    let gone = cluster.pods().filter(|pod| pod.bound() && (pod.terminating || cluster.effective_priority(pod) < 50));
    let gone: BTreeSet<String> = gone.map(|pod| pod.uid.clone()).collect();
    fn go(
        cluster: &Cluster,
        members: &[(String, Vec<String>)],
        placed: &mut Vec<Placement>,
        need: usize,
        gone: &BTreeSet<String>,
    ) -> bool {
        if placed.len() >= need {
            return true;
        }
        let Some(((name, nodes), rest)) = members.split_first() else { return false };
        for node in nodes {
            placed.push(Placement { pod: key(name), uid: format!("uid-{name}"), node: node.clone() });
            let fits = still_fits(cluster, placed, 50, &Context::default(), gone).is_ok();
            if fits && go(cluster, rest, placed, need, gone) {
                return true;
            }
            placed.pop();
        }
        go(cluster, rest, placed, need, gone)
    }
    go(cluster, members, &mut Vec::new(), need, &gone)
}

#[test]
fn plans_are_valid_repeatable_and_found_when_there_is_one() {
    let mut numbers = Numbers(7);
    let (mut plans, mut refusals) = (0, 0);
    for round in 0..3000 {
        let mut all = random(&mut numbers);
        let first = cluster(&all);
        let decision = decide(&first, &for_group("g"));
        numbers.shuffle(&mut all);
        assert_eq!(decide(&cluster(&all), &for_group("g")), decision, "round {round}: another order");
        match &decision {
            Decision::Preempt(plan) => {
                assert_eq!(check_plan(&first, &for_group("g"), plan), Ok(()), "round {round}: {plan:?}");
                assert!(keeps_guarantees(&first, &victim_uids(plan)), "round {round}: {plan:?}");
                plans += 1;
            }
            Decision::Unschedulable(why) if why.guaranteed.is_empty() => {
                let nodes: Vec<String> = first.nodes().map(|node| node.name.clone()).collect();
                let members = first.members(&key("g")).map(|pod| (pod.key.name.clone(), nodes.clone()));
                let members: Vec<_> = members.collect();
                let need = first.group(&key("g")).unwrap().min_count.unwrap();
                assert!(!possible(&first, &members, need), "round {round}: {why}");
                refusals += 1;
            }
            _ => {}
        }
    }
    assert!(plans > 300 && refusals > 100, "{plans} plans, {refusals} refusals");
}
