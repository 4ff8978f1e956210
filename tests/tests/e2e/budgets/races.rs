//! Concurrent disruptions: a second plan, a drain, a failing readiness probe, another client that uses up the allowance.

use super::{MINUTE, Stage, wait_group_unschedulable, wait_pod_unschedulable};
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
            a_guaranteed_budget_holds_under_concurrent_disruptions;
    ]
}

/// Deadline of waits that include a retry: a victim that a budget refused is not tried again for 30 s.
const PATIENCE: Duration = Duration::from_secs(120);

async fn a_guaranteed_budget_holds_under_concurrent_disruptions() {
    // With one eviction per second the test can act between two evictions.
    let world = World::builder().operator_flag("--evictions-per-second=1");
    let stage = Stage::build(world, &[1000], &[500, 600]).await;
    stage.world.class("higher", 200).managed().create().await;
    tokio::join!(
        two_plans_do_not_spend_one_allowance(&stage),
        a_drain_and_a_preemption_share_the_allowance(&stage),
        a_probe_failure_after_the_plan_prevents_the_eviction(&stage),
        a_plan_refused_after_its_first_eviction_uses_other_victims_or_is_cancelled(&stage),
        a_partially_evicted_group_with_an_exhausted_budget_does_not_delay_the_preemptor(&stage),
    );
    let (judgement, _) = stage.judge(&Promises::new().excuse_unbound("stranded", 3)).await;
    let below: Vec<_> = judgement.worst.iter().filter(|(_, worst)| worst.healthy < worst.desired).collect();
    // In scene `probe` the budget is short of healthy pods because a probe fails, not because of a preemptor.
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
            let pod = winner.get().await.ok_or("the pod does not exist")?;
            if pod.spec.and_then(|spec| spec.node_name).is_some() {
                return Ok(loser);
            }
        }
        Err("neither is bound".to_owned())
    })
    .await;
    wait_pod_unschedulable(loser).await;
    let history = stage.world.audit().await;
    assert_eq!(scene.requests(&history).iter().filter(|removal| removal.accepted).count(), 1);
}

/// Four pods on two nodes; the budget allows two disruptions at a time. One node is drained while a preemptor needs the other,
/// and the Deployment's replacement pods run on a third node. Both disruptions have to wait for replacements, and both complete.
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

async fn a_probe_failure_after_the_plan_prevents_the_eviction(stage: &Stage) {
    let scene = stage.scene("probe").await;
    let nodes = scene.nodes(1, 1).await;
    scene.web("guarded-1000", &nodes).await;
    // The other pod of the budget runs on a node outside of the gang's node selector.
    let elsewhere = stage.world.nodes(1).cpus(1).prefix("probe-elsewhere").create().await;
    let far = scene.web_on("far", "guarded-1000", &elsewhere).await;
    scene.budget("web").min_available(1).create_allowing(1).await;
    let gang = scene.gang("late", "urgent-500", 1).spec(|spec| spec.preemption_delay_seconds = Some(10)).create().await;
    gang.wait_plan(PlanState::Planned, MINUTE).await;
    far[0].set_ready(false).await.unwrap();
    wait_group_unschedulable(&gang).await;
    let history = stage.world.audit().await;
    assert!(scene.requests(&history).iter().all(|removal| !removal.accepted), "{:?}", scene.requests(&history));
    // When the pod is ready again, a new plan is made and carried out.
    far[0].set_ready(true).await.unwrap();
    gang.wait_bound(PATIENCE).await;
}

/// Another user uses up the allowance of the budget between the first and the second eviction of a plan.
async fn a_plan_refused_after_its_first_eviction_uses_other_victims_or_is_cancelled(stage: &Stage) {
    tokio::join!(refused_after_first_eviction(stage, "around", 3), refused_after_first_eviction(stage, "stranded", 0));
}

/// Plays this case with a number of potential victims that no budget selects.
async fn refused_after_first_eviction(stage: &Stage, name: &str, others: u32) {
    let scene = stage.scene(name).await;
    let nodes = scene.nodes(1, 4 + others).await;
    for index in 0..others {
        scene.pod(&format!("other-{index}"), "higher").on(&nodes[0]).create().await;
    }
    let web = scene.web("guarded-1000", &nodes).await;
    // Four more pods of the same budget, on a node outside of the gang's node selector.
    let elsewhere = stage.world.nodes(1).cpus(4).prefix(&format!("{name}-elsewhere")).create().await;
    let far = scene.web_on("far", "guarded-1000", &elsewhere).await;
    scene.budget("web").min_available(4).create_allowing(4).await;
    let gang = scene.gang(name, "urgent-500", 4).create().await;
    wait_remaining(&web, |left| left < web.len()).await;
    let spent = use_up_allowance(stage, &far).await;
    if others > 0 {
        gang.wait_bound(PATIENCE).await;
    } else {
        wait_group_unschedulable(&gang).await;
    }
    let history = stage.world.audit().await;
    let requests = scene.requests(&history);
    let evicted = |prefix: &str| requests.iter().filter(|r| r.accepted && r.pod.1.starts_with(prefix)).count();
    assert_eq!(evicted("web") + spent, 4, "{requests:#?}");
    assert_eq!(evicted("other"), if others > 0 { spent } else { 0 }, "{requests:#?}");
    assert!(requests.iter().any(|removal| removal.code == 429), "{requests:#?}");
}

/// Another user uses up the allowance of the budget after the first pod of a group in mode `PodGroup` was evicted. The preemptor
/// is bound as soon as other capacity is free, and the rest of the group is evicted when the budget allows it again.
async fn a_partially_evicted_group_with_an_exhausted_budget_does_not_delay_the_preemptor(stage: &Stage) {
    let scene = stage.scene("kept").await;
    let nodes = scene.nodes(1, 4).await;
    let fill = FillBuilder::new(scene.kit.clone(), &nodes).prefix("web").priority("guarded-1000").label("app", "web");
    let web = fill.whole().groups_of(4).await.remove(0).pods;
    let elsewhere = stage.world.nodes(1).cpus(4).prefix("kept-elsewhere").create().await;
    let far = scene.web_on("far", "guarded-1000", &elsewhere).await;
    scene.budget("web").min_available(4).create_allowing(4).await;
    let gang = scene.gang("kept", "urgent-500", 4).create().await;
    wait_remaining(&web, |left| left < web.len()).await;
    let spent = use_up_allowance(stage, &far).await;
    assert!((1..4).contains(&spent), "{spent}");
    let plan = gang.wait_plan(PlanState::Cancelled, MINUTE).await;
    assert!(plan.message.contains("was refused"), "{}", plan.message);
    scene.more_nodes("kept-more", 1, 4).await;
    gang.wait_bound(MINUTE).await;
    assert_eq!(count_remaining(&web).await, spent, "the budget allows no disruption, so no further pod may be evicted");
    // Healthy pods replace the evicted ones, so the budget allows disruptions again.
    let others = stage.world.nodes(1).cpus(4).prefix("kept-others").create().await;
    for index in 0..4 {
        let pod =
            PodBuilder::new(scene.kit.clone(), &format!("new-{index}")).priority("guarded-1000").label("app", "web");
        pod.on(&others[0]).create().await;
    }
    wait_remaining(&web, |left| left == 0).await;
}

/// Returns the number of pods that exist and are not terminating.
async fn count_remaining(pods: &[PodHandle]) -> usize {
    let there = join_all(pods.iter().map(PodHandle::get)).await.into_iter().flatten();
    there.filter(|pod| pod.metadata.deletion_timestamp.is_none()).count()
}

/// Waits until the number of pods that are not terminating is as wanted.
async fn wait_remaining(pods: &[PodHandle], wanted: impl Fn(usize) -> bool) {
    wait_for("the wanted number of pods is terminating", MINUTE, async || {
        let remaining = count_remaining(pods).await;
        if wanted(remaining) { Ok(()) } else { Err(format!("{remaining} of {} are not terminating", pods.len())) }
    })
    .await;
}

/// Evicts pods one after the other as another user until the budget refuses. Returns the number of evicted pods.
async fn use_up_allowance(stage: &Stage, pods: &[PodHandle]) -> usize {
    let mut spent = 0;
    while pods[spent].evict(&stage.other).await.is_ok() {
        spent += 1;
    }
    spent
}
