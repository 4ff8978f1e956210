//! The operator is killed at different points while it preempts for an add-on: it leaves no taint of its own, and foreign taints
//! are unchanged.

use super::{addon, after, taints, wait_plan, wait_untainted};
use crate::MINUTE;
use giveway_crds::critical;
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::{PodHandle, Shaped, stored_plans};
use giveway_tests::proxy::{Fault, no_faults};
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
            an_operator_killed_after_any_write_leaves_no_taint_and_keeps_foreign_taints,
            the_next_leader_removes_a_leftover_taint_and_keeps_foreign_taints,
            an_add_on_gets_an_event_while_an_earlier_taint_cannot_be_removed;
    ]
}

const FOREIGN: &[(&str, &str)] =
    &[("NoSchedule", "true"), ("NoExecute", ""), ("PreferNoSchedule", "00000000-0000-0000-0000-000000000000")];

/// Creates nodes with taints `CriticalAddonsOnly` of other users, and returns these taints.
async fn create_foreign_taints(world: &World) -> BTreeMap<String, Vec<Taint>> {
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

/// Condition after which the operator is killed.
type Moment = fn(&Progress) -> bool;

/// Progress of an add-on as the API server shows it. A slow test may miss a state, so `bound` ends most waits too.
struct Progress {
    unschedulable: bool,
    planned: bool,
    tainted: bool,
    evicted: usize,
    bound: bool,
}

async fn progress(world: &World, dns: &PodHandle) -> Progress {
    let plans = stored_plans(&world.client()).await.unwrap_or_default();
    let pod = dns.get().await;
    let scheduled = pod.as_ref().and_then(|pod| pod.status.as_ref()?.conditions.as_ref()).into_iter().flatten();
    Progress {
        unschedulable: scheduled
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

async fn an_operator_killed_after_any_write_leaves_no_taint_and_keeps_foreign_taints() {
    let mut world = after("1s").operator_flag("--evictions-per-second=2").start().await;
    let before = create_foreign_taints(&world).await;
    let moments: [(&str, Moment); 5] = [
        ("due", |now| now.unschedulable || now.bound),
        ("stored", |now| now.planned),
        ("tainted", |now| now.tainted || now.bound),
        ("evicting", |now| now.evicted > 0),
        ("bound", |now| now.bound),
    ];
    let mut uids = BTreeSet::new();
    for (index, (name, moment)) in moments.into_iter().enumerate() {
        let node = world.nodes(1).cpus(2).prefix(name).create().await;
        world.fill(&node).prefix(name).grace_seconds(2).singles().await;
        let dns = addon(&world, &format!("dns-{index}")).cpu(2).node_selector("kubernetes.io/hostname", &node[0]);
        let dns = dns.create().await;
        uids.insert(dns.uid.clone());
        wait_for(&format!("the add-on is {name}"), MINUTE, async || {
            if moment(&progress(&world, &dns).await) { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        world.operator().kill();
        world.operator().start().await;
        dns.wait_bound(MINUTE).await;
        wait_plan(&world, &dns, PlanState::Completed).await;
        let removed = until("no taint of the operator is left", MINUTE, async || {
            let found = taints(&world).await;
            if ours(&found, &uids) == 0 { Ok(()) } else { Err(format!("{found:?}")) }
        });
        removed.await.unwrap();
        assert_eq!(taints(&world).await, before, "{name}: foreign taints are unchanged");
    }
    let history = world.audit().await;
    let evicted: BTreeSet<&str> = history.evicted().iter().map(|removal| removal.uid.as_str()).collect();
    assert_eq!((history.evicted().len(), evicted.len()), (10, 10), "each victim is evicted once");
    world.check_promises().await;
}

async fn the_next_leader_removes_a_leftover_taint_and_keeps_foreign_taints() {
    let mut world = after("1s").start().await;
    let node = world.nodes(1).cpus(1).create().await;
    world.fill(&node).grace_seconds(0).singles().await;
    let dns = addon(&world, "dns").create().await;
    wait_plan(&world, &dns, PlanState::Completed).await;
    let before = create_foreign_taints(&world).await;
    world.operator().kill();
    // One taint as if the API server had carried out a call of the old leader late, and one whose UID is in no plan.
    let late = format!("CriticalAddonsOnly={}:NoSchedule", dns.uid);
    world.kubectl(&["taint", "node", &node[0], &late]).await.unwrap();
    let other = world.nodes(1).cpus(1).prefix("other").create().await;
    let unknown = "CriticalAddonsOnly=6f1a2b3c-0000-0000-0000-000000000001:NoSchedule";
    world.kubectl(&["taint", "node", &other[0], unknown]).await.unwrap();
    world.operator().start().await;
    let swept = until("the leftover taint is removed", MINUTE, async || {
        let found = taints(&world).await;
        if found.contains_key(&node[0]) { Err(format!("{found:?}")) } else { Ok(found) }
    });
    let mut found = swept.await.unwrap();
    assert!(found.remove(&other[0]).is_some(), "a taint whose UID is in no plan must stay");
    assert_eq!(found, before);
    world.check_promises().await;
}

async fn an_add_on_gets_an_event_while_an_earlier_taint_cannot_be_removed() {
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
    let event = second.wait_event("CriticalAddonUnschedulable", MINUTE).await;
    let kept = format!(
        "No pod is evicted for this critical add-on yet: node {} was kept for an earlier critical add-on, and its taint {late} cannot be removed: ",
        node[0]
    );
    assert!(event.starts_with(&format!("{kept}injected by the test")), "{event}");
    assert_eq!(world.audit().await.evicted().len(), 1, "no pod was evicted for the second add-on");
    world.proxy().play(no_faults());
    second.wait_bound(MINUTE).await;
    wait_plan(&world, &second, PlanState::Completed).await;
    wait_untainted(&world).await;
    world.check_promises().await;
}
