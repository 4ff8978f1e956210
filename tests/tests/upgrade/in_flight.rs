//! An upgrade of CRDs, chart and daemons with one gang in each state, each gang on nodes of its own.

use giveway_crds::condition::types::INITIALLY_SCHEDULED;
use giveway_crds::keys;
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::{Group, GroupBuilder, Shaped, stored_plans};
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
/// Label key that assigns nodes to gangs.
const PART: &str = "part";

/// Returns a builder of a gang that is pinned to the nodes of this part.
fn gang(world: &World, part: &str, size: usize) -> GroupBuilder {
    world.gang(part, size).priority("high").node_selector(PART, part)
}

/// Creates the nodes of a part, each full of one pod of a group in mode `PodGroup` whose pods take `grace` seconds to terminate.
async fn create_full_part(world: &World, part: &str, nodes: usize, grace: u32) {
    let names = world.nodes(nodes).cpus(1).prefix(part).label(PART, part).create().await;
    let fill = world.fill(&names).prefix(&format!("low-{part}")).priority("low").whole();
    let fill = if grace > 0 { fill.grace_seconds(grace) } else { fill };
    fill.groups_of(nodes).await;
}

async fn state(world: &World, group: &str) -> Option<PlanState> {
    let plans = stored_plans(&world.client()).await.unwrap();
    plans.into_iter().rev().find(|plan| plan.preemptor.name == group).map(|plan| plan.state)
}

async fn wait_state(world: &World, group: &str, wanted: PlanState) {
    wait_for(&format!("the plan of {group} is {wanted:?}"), MINUTE, async || match state(world, group).await {
        Some(state) if state == wanted => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

/// Returns the number of evicted pods of a part.
async fn evicted(world: &World, part: &str) -> usize {
    let history = world.audit().await;
    history.evicted().iter().filter(|removal| removal.pod.1.starts_with(&format!("low-{part}"))).count()
}

async fn uids(group: &Group) -> BTreeSet<String> {
    let members = group.members().await.unwrap();
    members.into_iter().filter_map(|pod| pod.metadata.uid).collect()
}

pub async fn gangs_in_every_state_are_bound_after_an_upgrade_without_repeated_evictions() {
    let mut world = World::builder().predecessor().operator_flag("--evictions-per-second=1").start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    for (part, nodes, grace) in [("bound", 2, 0), ("leaving", 2, 90), ("planned", 2, 0), ("evicting", 8, 0)] {
        create_full_part(&world, part, nodes, grace).await;
    }
    world.nodes(2).cpus(1).prefix("releasing").label(PART, "releasing").create().await;
    world.nodes(3).cpus(1).prefix("waiting").label(PART, "waiting").create().await;

    // Before the upgrade the gangs are bound, waiting for a pod, unschedulable, waiting for victims, and planned with a delay.
    let bound = gang(&world, "bound", 2).create().await;
    bound.wait_bound(MINUTE).await;
    let mut waiting = gang(&world, "waiting", 2).min_count(3).create().await;
    waiting.wait_condition(INITIALLY_SCHEDULED, "False", "WaitingForPods", MINUTE).await;
    let unschedulable = gang(&world, "unschedulable", 2).create().await;
    unschedulable.wait_condition(INITIALLY_SCHEDULED, "False", "Unschedulable", MINUTE).await;
    let leaving = gang(&world, "leaving", 2).create().await;
    wait_state(&world, "leaving", PlanState::WaitingForVictims).await;
    let planned = gang(&world, "planned", 2).spec(|spec| spec.preemption_delay_seconds = Some(90)).create().await;
    wait_state(&world, "planned", PlanState::Planned).await;
    let before = uids(&bound).await;

    // CRDs and chart are upgraded while the old daemons still run.
    world.upgrade_chart().await;
    world.nodes(1).cpus(1).prefix("skew").label(PART, "skew").create().await;
    let skew = gang(&world, "skew", 1).create().await;
    skew.wait_bound(MINUTE).await;

    // Two more gangs: one is being ungated, and the victims of the other are evicted at one per second.
    world.plane().process("kube-scheduler").unwrap().kill();
    let releasing = gang(&world, "releasing", 2).create().await;
    wait_for("the pods of the gang are ungated", MINUTE, async || {
        let members = releasing.members().await.map_err(|error| error.to_string())?;
        let gated =
            members.iter().filter(|pod| giveway_tests::cluster::scheduling_gates(pod).contains(&keys::GATE.to_owned()));
        if gated.count() == 0 { Ok(()) } else { Err("some pods are gated".to_owned()) }
    })
    .await;
    let evicting = gang(&world, "evicting", 8).create().await;
    wait_for("some but not all victims are evicted", MINUTE, async || {
        let count = evicted(&world, "evicting").await;
        if (1..8).contains(&count) { Ok(()) } else { Err(format!("{count} of 8 are evicted")) }
    })
    .await;
    world.upgrade_daemons().await;
    assert_eq!(state(&world, "planned").await, Some(PlanState::Planned));
    assert_eq!(state(&world, "leaving").await, Some(PlanState::WaitingForVictims));
    world.plane().restart("kube-scheduler").unwrap();

    // After the upgrade the pending gangs get the pod and the nodes that they wait for.
    waiting.add_pods(1).await;
    world.nodes(2).cpus(1).prefix("unschedulable").label(PART, "unschedulable").create().await;
    for group in [&waiting, &unschedulable, &leaving, &planned, &releasing, &evicting] {
        group.wait_bound(2 * MINUTE).await;
    }
    assert_eq!(uids(&bound).await, before, "running pods are unchanged");
    let history = world.audit().await;
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    history.evicted().iter().for_each(|removal| *count.entry(&removal.uid).or_default() += 1);
    assert!(count.values().all(|times| *times == 1), "no pod is evicted twice: {count:?}");
    assert_eq!(count.len(), 2 + 2 + 2 + 8, "no other pod is evicted");
    world.check_promises().await;
}
