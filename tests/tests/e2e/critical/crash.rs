//! The operator is killed again and again while it helps an add-on: no taint of ours is left, and foreign ones are as they
//! were.

use super::{addon, after, taints, wait_plan, wait_untainted};
use crate::MINUTE;
use giveway_crds::critical;
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::{PodHandle, Shaped, stored_plans};
use giveway_tests::proxy::{Fault, calm};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::{until, wait_for};
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::Taint;
use std::collections::{BTreeMap, BTreeSet};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            killed_after_every_write_it_leaves_no_taint_and_foreign_ones_alone,
            what_a_lost_answer_left_is_swept_by_the_next_leader_and_others_are_not,
            while_a_taint_cannot_be_removed_the_next_addon_is_told_why_it_waits;
    ]
}

const FOREIGN: &[(&str, &str)] =
    &[("NoSchedule", "true"), ("NoExecute", ""), ("PreferNoSchedule", "00000000-0000-0000-0000-000000000000")];

/// Nodes that others keep for add-ons.
async fn foreign(world: &World) -> BTreeMap<String, Vec<Taint>> {
    for (index, (effect, value)) in FOREIGN.iter().enumerate() {
        let nodes = world.nodes(1).cpus(1).prefix(&format!("pool-{index}"));
        nodes.taint("CriticalAddonsOnly", value, effect).taint("dedicated", "pool", "NoSchedule").create().await;
    }
    taints(world).await
}

fn ours(found: &BTreeMap<String, Vec<Taint>>, uids: &BTreeSet<String>) -> usize {
    let is_ours = |taint: &Taint| uids.iter().any(|uid| *taint == critical::taint(uid));
    found.values().flatten().filter(|taint| is_ours(taint)).count()
}

/// A moment to kill the operator at: when this is so.
type Moment = fn(&Seen) -> bool;

/// What can be seen from outside. A moment that nobody saw, because the machine stood still, is over when the pod is bound.
struct Seen {
    refused: bool,
    planned: bool,
    tainted: bool,
    evicted: usize,
    bound: bool,
}

async fn seen(world: &World, dns: &PodHandle) -> Seen {
    let plans = stored_plans(&world.client()).await.unwrap_or_default();
    let pod = dns.get().await;
    let scheduled = pod.as_ref().and_then(|pod| pod.status.as_ref()?.conditions.as_ref()).into_iter().flatten();
    Seen {
        refused: scheduled
            .into_iter()
            .any(|c| c.type_ == "PodScheduled" && c.reason.as_deref() == Some("Unschedulable")),
        planned: plans.iter().any(|plan| plan.preemptor.uid == dns.uid),
        tainted: taints(world).await.values().flatten().any(|taint| *taint == critical::taint(&dns.uid)),
        evicted: plans
            .iter()
            .filter(|plan| plan.preemptor.uid == dns.uid)
            .map(|plan| plan.state)
            .filter(|state| *state > PlanState::Planned)
            .count(),
        bound: pod.is_some_and(|pod| pod.spec.is_some_and(|spec| spec.node_name.is_some())),
    }
}

async fn killed_after_every_write_it_leaves_no_taint_and_foreign_ones_alone() {
    let mut world = after("1s").operator_flag("--evictions-per-second=2").start().await;
    let before = foreign(&world).await;
    let moments: [(&str, Moment); 5] = [
        ("due", |seen| seen.refused || seen.bound),
        ("stored", |seen| seen.planned),
        ("tainted", |seen| seen.tainted || seen.bound),
        ("evicting", |seen| seen.evicted > 0),
        ("bound", |seen| seen.bound),
    ];
    let mut uids = BTreeSet::new();
    for (index, (name, moment)) in moments.into_iter().enumerate() {
        let node = world.nodes(1).cpus(2).prefix(name).create().await;
        world.fill(&node).prefix(name).grace_seconds(2).singles().await;
        let dns = addon(&world, &format!("dns-{index}")).cpu(2).node_selector("kubernetes.io/hostname", &node[0]);
        let dns = dns.create().await;
        uids.insert(dns.uid.clone());
        wait_for(&format!("the moment {name}"), MINUTE, async || {
            if moment(&seen(&world, &dns).await) { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        world.operator().kill();
        world.operator().start().await;
        dns.wait_bound(MINUTE).await;
        wait_plan(&world, &dns, PlanState::Completed).await;
        let gone = until("no taint of ours is left", MINUTE, async || {
            let found = taints(&world).await;
            if ours(&found, &uids) == 0 { Ok(()) } else { Err(format!("{found:?}")) }
        });
        gone.await.unwrap();
        assert_eq!(taints(&world).await, before, "{name}: foreign taints are as they were");
    }
    let history = world.audit().await;
    let evicted: BTreeSet<&str> = history.evicted().iter().map(|removal| removal.uid.as_str()).collect();
    assert_eq!((history.evicted().len(), evicted.len()), (10, 10), "each victim once");
    world.check_promises().await;
}

async fn what_a_lost_answer_left_is_swept_by_the_next_leader_and_others_are_not() {
    let mut world = after("1s").start().await;
    let node = world.nodes(1).cpus(1).create().await;
    world.fill(&node).grace_seconds(0).singles().await;
    let dns = addon(&world, "dns").create().await;
    wait_plan(&world, &dns, PlanState::Completed).await;
    let before = foreign(&world).await;
    world.operator().kill();
    // As if the API server had carried the call out late; and one whose UID no plan names.
    let late = format!("CriticalAddonsOnly={}:NoSchedule", dns.uid);
    world.kubectl(&["taint", "node", &node[0], &late]).await.unwrap();
    let other = world.nodes(1).cpus(1).prefix("other").create().await;
    let unknown = "CriticalAddonsOnly=6f1a2b3c-0000-0000-0000-000000000001:NoSchedule";
    world.kubectl(&["taint", "node", &other[0], unknown]).await.unwrap();
    world.operator().start().await;
    let swept = until("the stray taint is gone", MINUTE, async || {
        let found = taints(&world).await;
        if found.contains_key(&node[0]) { Err(format!("{found:?}")) } else { Ok(found) }
    });
    let mut found = swept.await.unwrap();
    assert!(found.remove(&other[0]).is_some(), "nobody knows whose that is");
    assert_eq!(found, before);
    world.check_promises().await;
}

async fn while_a_taint_cannot_be_removed_the_next_addon_is_told_why_it_waits() {
    let mut world = after("1s").proxy().start().await;
    let node = world.nodes(2).cpus(1).create().await;
    world.fill(&node).grace_seconds(0).singles().await;
    let first = addon(&world, "first").create().await;
    wait_plan(&world, &first, PlanState::Completed).await;
    wait_untainted(&world).await;
    world.operator().kill();
    let late = critical::taint(&first.uid);
    let late = format!("{}={}:{}", late.key, late.value.unwrap_or_default(), late.effect);
    world.kubectl(&["taint", "node", &node[0], &late]).await.unwrap();
    world.proxy().play(Box::new(|call| {
        let node = call.method == "PATCH" && call.path.starts_with("/api/v1/nodes/");
        if node { Fault::Answer(403) } else { Fault::None }
    }));
    world.operator().start().await;
    let second = addon(&world, "second").create().await;
    let told = second.wait_event("CriticalAddonUnschedulable", MINUTE).await;
    let kept = format!(
        "Nobody is evicted for it yet: node {} was kept for an earlier critical add-on, and its taint {late} cannot be removed: ",
        node[0]
    );
    assert!(told.starts_with(&kept) && told.ends_with("(403)"), "{told}");
    assert_eq!(world.audit().await.evicted().len(), 1, "nobody went for the second");
    world.proxy().play(calm());
    second.wait_bound(MINUTE).await;
    wait_plan(&world, &second, PlanState::Completed).await;
    wait_untainted(&world).await;
    world.check_promises().await;
}
