//! A standby watches the cluster: when the leader ends, it decides without a list of the cluster.

use crate::MINUTE;
use crate::crash::holder;
use giveway_crds::plan::PlanState;
use giveway_tests::cluster::Shaped;
use giveway_tests::giveway::Daemon;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::world::World;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            a_standby_decides_without_a_list_of_the_cluster_when_the_leader_is_killed;
    ]
}

const LEASE: &str = "--lease-duration-seconds=8";
/// Logs every request.
const REQUESTS: &str = "--log-level=info,giveway_cluster::client=debug";

/// Returns how often an operator that logs its requests has listed this resource.
fn lists(operator: &Daemon, resource: &str) -> usize {
    let log = std::fs::read_to_string(operator.log()).unwrap();
    let path = format!("/{resource}?");
    let is_list = |line: &&str| line.contains("requesting method=GET") && line.contains("limit=500");
    log.lines().filter(is_list).filter(|line| line.contains(&path)).count()
}

async fn a_standby_decides_without_a_list_of_the_cluster_when_the_leader_is_killed() {
    let mut world = World::builder().operator_flag(LEASE).start().await;
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(50).cpus(8).create().await;
    world.fill(&nodes).priority("low").whole().groups_of(4).await;
    // It is ready when it has listed everything.
    let mut standby = world.another_operator(&[LEASE, REQUESTS]).await;
    standby.start().await;
    assert_eq!((lists(&standby, "pods"), lists(&standby, "preemptions")), (1, 0), "it does not lead");
    let first = holder(&world).await;

    world.operator().kill();
    let gang = world.gang("train", 8).priority("high").create().await;
    gang.wait_bound(MINUTE).await;
    let plan = gang.wait_plan(PlanState::Completed, MINUTE).await;
    let next = holder(&world).await;
    assert!(plan.term == next && next != first, "the plan of term {}, after {first} and {next}", plan.term);
    assert_eq!((lists(&standby, "pods"), lists(&standby, "preemptions")), (1, 1), "only the stored plans were listed");
    assert_eq!(world.audit().await.evicted().len(), 8);
    world.check_promises().await;
}
