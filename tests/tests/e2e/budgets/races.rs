//! Others act at the same time: a second plan, a drain, a probe that fails, a client that spends the allowance.

use super::{MINUTE, Stage, group_told_no, told_no};
use futures::future::join_all;
use giveway_crds::plan::PlanState;
use giveway_tests::World;
use giveway_tests::audit::{ADMIN, How, Promises};
use giveway_tests::cluster::{PodHandle, Shaped};
use giveway_tests::wait::wait_for;
use std::time::Duration;

/// A victim that a budget refused is left alone for half a minute.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guaranteed_budget_holds_whoever_else_acts() {
    // One eviction a second: there is time to act between two of them.
    let world = World::builder().operator_flag("--evictions-per-second=1");
    let stage = Stage::build(world, &[1000], &[500, 600]).await;
    stage.world.class("higher", 200).managed().create().await;
    tokio::join!(
        two_plans_do_not_spend_one_allowance(&stage),
        a_drain_and_a_preemption_share_the_allowance(&stage),
        a_probe_that_fails_after_the_plan_saves_the_victims(&stage),
        a_plan_that_is_refused_half_way_takes_others_or_gives_up(&stage),
    );
    let (judgement, _) = stage.judge(&Promises::new().excuse_unbound("stranded", 3)).await;
    let below: Vec<_> = judgement.worst.iter().filter(|(_, worst)| worst.healthy < worst.desired).collect();
    // The pod whose probe fails counts as unhealthy; that is no act of a preemptor.
    assert!(below.iter().all(|(budget, _)| budget.0 == "probe"), "{below:?}");
}

async fn two_plans_do_not_spend_one_allowance(stage: &Stage) {
    let scene = stage.scene("two-plans").await;
    let nodes = scene.nodes(2, 1).await;
    scene.web("guarded-1000", &nodes).await;
    scene.budget("web").min_available(1).create_allowing(1).await;
    let (one, two) = tokio::join!(scene.pod("one", "urgent-500").create(), scene.pod("two", "urgent-500").create());
    let loser = wait_for("one of two preemptors is bound", MINUTE, async || {
        for (winner, loser) in [(&one, &two), (&two, &one)] {
            let pod = winner.get().await.ok_or("it is gone")?;
            if pod.spec.and_then(|spec| spec.node_name).is_some() {
                return Ok(loser);
            }
        }
        Err("none is".to_owned())
    })
    .await;
    told_no(loser).await;
    let history = stage.world.audit().await;
    assert_eq!(scene.requests(&history).iter().filter(|removal| removal.accepted).count(), 1);
}

/// Four pods on two nodes, of which two may go at once. One node is drained, the other one's room is wanted, and the
/// Deployment's new pods run on a third: both have to wait for them, and both come to an end.
async fn a_drain_and_a_preemption_share_the_allowance(stage: &Stage) {
    let scene = stage.scene("drain").await;
    let nodes = scene.nodes(2, 2).await;
    scene.deployment("web", "guarded-1000", 4).create().await;
    scene.budget("web").max_unavailable_percent(50).create_allowing(2).await;
    scene.more_nodes("drain-more", 1, 2).await;
    let drain = ["drain", &nodes[0], "--ignore-daemonsets", "--timeout=110s"];
    let wide = scene.pod("wide", "urgent-500").cpu(2).node_selector("kubernetes.io/hostname", &nodes[1]);
    let preempt = async { wide.create().await.wait_bound(PATIENCE).await };
    let (drained, _) = tokio::join!(stage.world.kubectl(&drain), preempt);
    assert!(drained.is_ok(), "{drained:?}");
    let history = stage.world.audit().await;
    let by_drain =
        history.removed_by(ADMIN).into_iter().filter(|r| r.pod.0 == scene.name && r.how == How::Evict).count();
    let by_giveway = scene.requests(&history).iter().filter(|removal| removal.accepted).count();
    assert_eq!((by_drain, by_giveway), (2, 2));
}

async fn a_probe_that_fails_after_the_plan_saves_the_victims(stage: &Stage) {
    let scene = stage.scene("probe").await;
    let nodes = scene.nodes(1, 1).await;
    scene.web("guarded-1000", &nodes).await;
    // The other pod is on a node that the gang does not want.
    let elsewhere = stage.world.nodes(1).cpus(1).prefix("probe-elsewhere").create().await;
    let far = scene.web_on("far", "guarded-1000", &elsewhere).await;
    scene.budget("web").min_available(1).create_allowing(1).await;
    let gang = scene.gang("late", "urgent-500", 1).spec(|spec| spec.preemption_delay_seconds = Some(10)).create().await;
    gang.wait_plan(PlanState::Planned, MINUTE).await;
    far[0].set_ready(false).await.unwrap();
    group_told_no(&gang).await;
    let history = stage.world.audit().await;
    assert!(scene.requests(&history).iter().all(|removal| !removal.accepted), "{:?}", scene.requests(&history));
    // It was a plan for a while only: as soon as the pod is ready, it is made again, and carried out.
    far[0].set_ready(true).await.unwrap();
    gang.wait_bound(PATIENCE).await;
}

/// Between the first and the second eviction somebody else spends what the budget allows.
async fn a_plan_that_is_refused_half_way_takes_others_or_gives_up(stage: &Stage) {
    tokio::join!(refused_half_way(stage, "around", 3), refused_half_way(stage, "stranded", 0));
}

async fn refused_half_way(stage: &Stage, name: &str, others: u32) {
    let scene = stage.scene(name).await;
    let nodes = scene.nodes(1, 4 + others).await;
    for index in 0..others {
        scene.pod(&format!("other-{index}"), "higher").on(&nodes[0]).create().await;
    }
    let web = scene.web("guarded-1000", &nodes).await;
    // Four more pods under the same budget, on a node that the gang does not want.
    let elsewhere = stage.world.nodes(1).cpus(4).prefix(&format!("{name}-elsewhere")).create().await;
    let far = scene.web_on("far", "guarded-1000", &elsewhere).await;
    scene.budget("web").min_available(4).create_allowing(4).await;
    let gang = scene.gang(name, "urgent-500", 4).create().await;
    wait_for("the first victim is on its way", MINUTE, async || {
        let there = join_all(web.iter().map(PodHandle::get)).await.into_iter().flatten();
        let left = there.filter(|pod| pod.metadata.deletion_timestamp.is_none()).count();
        if left < web.len() { Ok(()) } else { Err("none is".to_owned()) }
    })
    .await;
    let mut spent = 0;
    while far[spent].evict(&stage.other).await.is_ok() {
        spent += 1;
    }
    if others > 0 {
        gang.wait_bound(PATIENCE).await;
    } else {
        group_told_no(&gang).await;
    }
    let history = stage.world.audit().await;
    let requests = scene.requests(&history);
    let gone = |prefix: &str| requests.iter().filter(|r| r.accepted && r.pod.1.starts_with(prefix)).count();
    assert_eq!(gone("web") + spent, 4, "{requests:#?}");
    assert_eq!(gone("other"), if others > 0 { spent } else { 0 }, "{requests:#?}");
    assert!(requests.iter().any(|removal| removal.code == 429), "{requests:#?}");
}
