//! Others act at the same time: a second plan, a drain, a probe that fails, a client that spends the allowance.

use super::{MINUTE, Stage, group_told_no, told_no};
use futures::future::join_all;
use giveway_crds::plan::PlanState;
use giveway_tests::World;
use giveway_tests::audit::{ADMIN, How, Promises};
use giveway_tests::cluster::{FillBuilder, PodBuilder, PodHandle, Shaped};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            a_guaranteed_budget_holds_whoever_else_acts;
    ]
}

/// A victim that a budget refused is left alone for half a minute.
const PATIENCE: Duration = Duration::from_secs(120);

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
        a_budget_that_stays_closed_half_way_through_a_group_does_not_hold_the_preemptor(&stage),
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
    until_left(&web, |left| left < web.len()).await;
    let spent = spend(stage, &far).await;
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

/// Of a whole group one pod has gone when somebody else spends what the budget allows. Room elsewhere is taken at once all the same, and
/// the rest of the group goes when the budget is open again.
async fn a_budget_that_stays_closed_half_way_through_a_group_does_not_hold_the_preemptor(stage: &Stage) {
    let scene = stage.scene("kept").await;
    let nodes = scene.nodes(1, 4).await;
    let fill = FillBuilder::new(scene.kit.clone(), &nodes).prefix("web").priority("guarded-1000").label("app", "web");
    let web = fill.whole().groups_of(4).await.remove(0).pods;
    let elsewhere = stage.world.nodes(1).cpus(4).prefix("kept-elsewhere").create().await;
    let far = scene.web_on("far", "guarded-1000", &elsewhere).await;
    scene.budget("web").min_available(4).create_allowing(4).await;
    let gang = scene.gang("kept", "urgent-500", 4).create().await;
    until_left(&web, |left| left < web.len()).await;
    let spent = spend(stage, &far).await;
    assert!((1..4).contains(&spent), "{spent}");
    let plan = gang.wait_plan(PlanState::Cancelled, MINUTE).await;
    assert!(plan.message.contains("was refused"), "{}", plan.message);
    scene.more_nodes("kept-more", 1, 4).await;
    gang.wait_bound(MINUTE).await;
    assert_eq!(left(&web).await, spent, "the budget is closed");
    // In the place of those who went others are healthy.
    let others = stage.world.nodes(1).cpus(4).prefix("kept-others").create().await;
    for index in 0..4 {
        let pod =
            PodBuilder::new(scene.kit.clone(), &format!("new-{index}")).priority("guarded-1000").label("app", "web");
        pod.on(&others[0]).create().await;
    }
    until_left(&web, |left| left == 0).await;
}

/// How many of the pods are not on their way.
async fn left(pods: &[PodHandle]) -> usize {
    let there = join_all(pods.iter().map(PodHandle::get)).await.into_iter().flatten();
    there.filter(|pod| pod.metadata.deletion_timestamp.is_none()).count()
}

async fn until_left(pods: &[PodHandle], enough: impl Fn(usize) -> bool) {
    wait_for("pods are on their way", MINUTE, async || {
        let left = left(pods).await;
        if enough(left) { Ok(()) } else { Err(format!("{left} of {} are not", pods.len())) }
    })
    .await;
}

/// Evicts one after the other until the budget refuses; returns how many went.
async fn spend(stage: &Stage, pods: &[PodHandle]) -> usize {
    let mut spent = 0;
    while pods[spent].evict(&stage.other).await.is_ok() {
        spent += 1;
    }
    spent
}
