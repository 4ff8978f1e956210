//! Changes during a preemption for an add-on: nodes are created, cordoned and deleted, and the add-on itself is deleted.

use super::{addon, after, taints, wait_plan, wait_tainted, wait_untainted};
use crate::MINUTE;
use giveway_crds::plan::PlanState;
use giveway_crds::{Preemption, PreemptionSpec};
use giveway_tests::audit::OPERATOR;
use giveway_tests::cluster::{Denial, Shaped};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use kube::Api;
use kube::api::PostParams;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            a_new_node_before_the_first_eviction_prevents_every_eviction;
        release:
            another_node_is_chosen_if_the_tainted_node_is_cordoned_or_deleted,
            a_new_node_or_the_deletion_of_the_add_on_stops_further_evictions;
    ]
}

/// Waits until at least `count` pods were evicted.
async fn wait_evicted(world: &World, count: usize) {
    wait_for(&format!("{count} pods were evicted"), MINUTE, async || {
        let evicted = world.audit().await.evicted_names();
        if evicted.len() >= count { Ok(()) } else { Err(format!("{evicted:?}")) }
    })
    .await;
}

async fn another_node_is_chosen_if_the_tainted_node_is_cordoned_or_deleted() {
    let world = after("1s").start().await;
    for prefix in ["a", "b", "c"] {
        let node = world.nodes(1).cpus(1).prefix(prefix).create().await;
        // All terminate within the 10 s that step 1 allows; the pod on the last node terminates immediately.
        let grace = if prefix == "c" { 0 } else { 9 };
        world.pod(&format!("on-{prefix}")).on(&node[0]).grace_seconds(grace).create().await;
    }
    let dns = addon(&world, "dns").create().await;
    assert_eq!(wait_tainted(&world, &dns).await, "a-000", "of equal nodes the first by name is chosen");
    wait_evicted(&world, 1).await;
    world.kubectl(&["cordon", "a-000"]).await.unwrap();
    let event = dns.wait_event("Cancelled", MINUTE).await;
    assert_eq!(
        event,
        "The plan became infeasible while victims terminated: Pod kube-system/dns does not fit on node a-000 any more: the node is unschedulable."
    );
    assert_eq!(wait_tainted_again(&world, &dns, "a-000").await, "b-000");
    wait_evicted(&world, 2).await;
    world.kubectl(&["delete", "node", "b-000", "--wait=false"]).await.unwrap();
    assert_eq!(dns.wait_bound(MINUTE).await, "c-000");
    wait_plan(&world, &dns, PlanState::Completed).await;
    wait_untainted(&world).await;
    assert_eq!(world.audit().await.evicted_names(), ["on-a", "on-b", "on-c"]);
    world.check_promises().await;
}

async fn wait_tainted_again(world: &World, pod: &giveway_tests::cluster::PodHandle, before: &str) -> String {
    wait_for("another node has the taint", MINUTE, async || {
        let found = wait_tainted(world, pod).await;
        if found == before { Err(found) } else { Ok(found) }
    })
    .await
}

async fn a_new_node_before_the_first_eviction_prevents_every_eviction() {
    let world = after("1s").start().await;
    let nodes = world.nodes(1).cpus(1).create().await;
    world.fill(&nodes).grace_seconds(0).singles().await;
    // While plans cannot be stored, no pod is evicted.
    let of = ("scheduling.giveway.dev", "preemptions");
    let denial = Denial { name: "no-plans", operation: "CREATE", of, unless: "false", message: "no plans now" };
    world.apply(&denial.manifest()).await.unwrap();
    let plans = Api::<Preemption>::all(world.client_of(OPERATOR).await);
    let spec = PreemptionSpec { strategy: "probe".into(), part: 1, parts: 1, ..PreemptionSpec::default() };
    let probe = Preemption::new("probe", spec);
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    wait_for("plans are denied", MINUTE, async || match plans.create(&dry, &probe).await {
        Err(refusal) if refusal.to_string().contains("no plans now") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let dns = addon(&world, "dns").create().await;
    dns.wait_event("Planned", MINUTE).await;
    world.nodes(1).cpus(1).prefix("new").create().await;
    assert_eq!(dns.wait_bound(MINUTE).await, "new-000");
    world.kubectl(&["delete", "validatingadmissionpolicybinding", "no-plans"]).await.unwrap();
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    assert!(taints(&world).await.is_empty());
    world.check_promises().await;
}

async fn a_new_node_or_the_deletion_of_the_add_on_stops_further_evictions() {
    let world = after("1s").operator_flag("--evictions-per-second=1").start().await;
    let nodes = world.nodes(1).cpus(3).create().await;
    world.fill(&nodes).grace_seconds(0).singles().await;
    let dns = addon(&world, "dns").cpu(3).create().await;
    wait_evicted(&world, 1).await;
    world.nodes(1).cpus(3).prefix("new").create().await;
    assert_eq!(dns.wait_bound(MINUTE).await, "new-000");
    let plan = wait_plan(&world, &dns, PlanState::Cancelled).await;
    assert!(
        plan.message
            .starts_with("kube-scheduler bound the critical add-on to node new-000, not to the node of the plan; "),
        "{}",
        plan.message
    );
    wait_untainted(&world).await;
    let evicted = world.audit().await.evicted().len();
    assert!((1..3).contains(&evicted), "{evicted} of 3");
    // The node is filled again, and the next add-on is deleted between two evictions.
    world.fill(&nodes).prefix("again").grace_seconds(0).singles().await;
    let second = addon(&world, "dns-2").cpu(3).create().await;
    wait_tainted(&world, &second).await;
    wait_evicted(&world, evicted + 1).await;
    second.delete().await;
    wait_untainted(&world).await;
    let plan = wait_plan(&world, &second, PlanState::Cancelled).await;
    assert!(plan.message.starts_with("Pod kube-system/dns-2 was deleted or has ended; "), "{}", plan.message);
    assert!(world.audit().await.evicted().len() < evicted + 3, "the remaining victims are not evicted");
    world.check(&giveway_tests::audit::Promises::new().excuse_unbound("dns-2", 1)).await;
}
