//! Short tests of the main features, to detect differences between versions of Kubernetes. `tests/e2e` has the complete tests.

use crate::LIMIT;
use giveway_crds::condition::types::{DISRUPTION_TARGET, INITIALLY_SCHEDULED};
use giveway_crds::keys::ANNOTATION_THRESHOLD;
use giveway_crds::plan::PlanState;
use giveway_tests::World;
use giveway_tests::audit::{How, SCHEDULER};
use giveway_tests::cluster::{PodHandle, Shaped as _, scheduling_gates};
use giveway_tests::control_plane::Version;
use giveway_tests::giveway::chart::CRITICAL_ADDONS;
use giveway_tests::giveway::{self, NAMESPACE};
use giveway_tests::paths;
use giveway_tests::wait::wait_for;

/// Number of other pods whose binding makes kube-scheduler retry the denied preemptor.
const ROUNDS: usize = 20;

/// Checks that the API server has this version and accepts the rendered chart with critical add-ons without warnings and unknown
/// fields, and that `kubectl giveway check` passes.
pub async fn install(world: &mut World, version: Version) {
    let reported = world.kubectl(&["get", "--raw", "/version"]).await.unwrap();
    assert!(reported.contains(&format!("\"gitVersion\": \"v{version}.")), "{reported}");
    let chart = paths::repository().join("helm").display().to_string();
    let template = ["template", "giveway", &chart, "--namespace", NAMESPACE, "--no-hooks", "--set", CRITICAL_ADDONS];
    let rendered = world.helm(&template).await.unwrap();
    let file = world.plane().directory().join("rendered.yaml");
    std::fs::write(&file, &rendered).unwrap();
    let file = file.display().to_string();
    let args = ["apply", "--dry-run=server", "--validate=strict", "-f", &file];
    let output = giveway::kubectl(&world.plane().kubeconfig(), &args).await.unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && err.is_empty(), "{err}");
    let documents = rendered.lines().filter(|line| line.starts_with("kind: ")).count();
    assert_eq!(out.lines().filter(|line| line.ends_with("(server dry run)")).count(), documents, "{out}");
    let check = cli(world, &["check"]).await;
    assert!(check.contains("\n0 failed, "), "{check}");
}

/// A gang that fits is bound, and all pods of a gang that does not fit stay gated.
pub async fn gang(world: &mut World) {
    let nodes = world.nodes(2).prefix("gang").cpus(4).create().await;
    let first = world.gang("first", 6).create().await;
    assert!(first.wait_bound(LIMIT).await.iter().all(|node| nodes.contains(node)));
    first.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", LIMIT).await;
    let second = world.gang("second", 4).create().await;
    second.wait_condition(INITIALLY_SCHEDULED, "False", "Unschedulable", LIMIT).await;
    for pod in &second.pods {
        assert!(!scheduling_gates(&pod.get().await.unwrap()).is_empty(), "{} was ungated", pod.name);
    }
    for pod in &first.pods[..2] {
        pod.delete().await;
    }
    second.wait_bound(LIMIT).await;
}

/// A gang preempts whole groups through the Eviction API with UID preconditions, and conditions report it.
pub async fn preemption(world: &mut World) {
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(2).prefix("full").cpus(4).create().await;
    let low = world.fill(&nodes).priority("low").whole().groups_of(4).await;
    let before = world.audit().await.evicted().len();
    let gang = world.gang("train", 6).priority("high").create().await;
    gang.wait_bound(LIMIT).await;
    let plan = gang.wait_plan(PlanState::Completed, LIMIT).await;
    assert_eq!((plan.cost.victim_pods, plan.cost.victim_groups), (8, 2), "{}", plan.message);
    let history = world.audit().await;
    let evicted = history.evicted().split_off(before);
    assert_eq!(evicted.len(), 8);
    for removal in evicted {
        assert_eq!((removal.how, removal.precondition.as_deref()), (How::Evict, Some(removal.uid.as_str())));
    }
    let words = "Preempted by pod group default/train of priority 1000, which needs its capacity; the priority of this group is 10.";
    for group in low {
        group.wait_removed(LIMIT).await;
        assert_eq!(group.wait_condition(DISRUPTION_TARGET, "True", "PreemptionByScheduler", LIMIT).await, words);
    }
}

/// Fills a node with pods whose class has a threshold, and creates a budget that allows one disruption.
async fn create_guarded_pods(world: &World) -> Vec<PodHandle> {
    world.class("guarded", 10).annotation(ANNOTATION_THRESHOLD, "5000").create().await;
    let nodes = world.nodes(1).prefix("guarded").cpus(4).label("pool", "guarded").create().await;
    let mut pods = Vec::new();
    for index in 0..4 {
        let pod = world.pod(&format!("db-{index}")).priority("guarded").label("app", "db").on(&nodes[0]);
        pods.push(pod.create().await);
    }
    world.budget("db").matching("app", "db").min_available(3).create_allowing(1).await;
    pods
}

/// A preemptor below the threshold cannot violate a guaranteed budget, and one that reaches the threshold can.
pub async fn budgets(world: &mut World) {
    world.class("high", 1000).managed().create().await;
    world.class("top", 5000).managed().create().await;
    create_guarded_pods(world).await;
    let before = world.audit().await.evicted().len();
    let below = world.gang("below", 3).priority("high").create().await;
    let words = "2 of 3 pods would fit only after evictions of pods of budget default/db, which allows 1 more disruption to preemptors below 5000.";
    let event = below.wait_event("UnschedulableGuaranteedBudget", LIMIT).await;
    assert!(event.contains(words), "{event}");
    assert_eq!(world.audit().await.evicted().len(), before);
    let above = world.gang("above", 3).priority("top").create().await;
    above.wait_bound(LIMIT).await;
    let history = world.audit().await;
    let ways: Vec<How> = history.evicted().iter().skip(before).map(|removal| removal.how).collect();
    assert_eq!(ways.len(), 3, "{ways:?}");
    assert!(ways.contains(&How::Delete), "two evictions were refused, and the pods were deleted: {ways:?}");
}

/// kube-scheduler preempts for an unmanaged class no more pods than the budget allows.
pub async fn guard(world: &mut World) {
    world.class("stock", 1000).create().await;
    let pods = create_guarded_pods(world).await;
    let before = world.audit().await.removed_by(SCHEDULER).len();
    let first = world.pod("first").priority("stock").node_selector("pool", "guarded").create().await;
    first.wait_bound(LIMIT).await;
    let second = world.pod("second").priority("stock").node_selector("pool", "guarded").create().await;
    let event = second.wait_event("GuaranteedBudget", LIMIT).await;
    assert!(event.contains("default/db"), "{event}");
    assert_eq!(world.audit().await.removed_by(SCHEDULER).len() - before, 1, "the budget allows one");
    let mut left = 0;
    for pod in &pods {
        left += usize::from(pod.get().await.is_some_and(|pod| pod.metadata.deletion_timestamp.is_none()));
    }
    assert_eq!(left, 3);
    // Frequent attempts of kube-scheduler do not accumulate delayed denials.
    let free = world.nodes(1).prefix("free").cpus(4).label("pool", "free").create().await;
    for round in 0..ROUNDS {
        let pod = world.pod(&format!("other-{round}")).node_selector("pool", "free").create().await;
        assert_eq!(pod.wait_bound(LIMIT).await, free[0]);
        pod.delete().await;
        pod.wait_removed(LIMIT).await;
    }
    wait_for("at most four denials are delayed", LIMIT, async || {
        let delayed = metric(world, "giveway_webhook_guard_delayed_denials").await;
        if delayed <= 4 { Ok(()) } else { Err(format!("{delayed} are delayed")) }
    })
    .await;
    // Deleting the preemptor ends the attempts of kube-scheduler.
    second.delete().await;
    second.wait_removed(LIMIT).await;
}

/// Returns the sum of a metric of the webhook over its labels, or 0 if it does not exist.
async fn metric(world: &mut World, name: &str) -> u64 {
    let (_, metrics) = world.webhook().http("/metrics").await.unwrap();
    let values = metrics.lines().filter_map(|line| line.strip_prefix(name)?.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}

/// kube-scheduler preempts one pod of a group in mode `PodGroup`, and the operator evicts the others.
pub async fn departure(world: &mut World) {
    world.class("low", 10).managed().create().await;
    world.class("stock", 1000).create().await;
    let nodes = world.nodes(2).prefix("whole").cpus(4).create().await;
    let low = world.fill(&nodes).priority("low").whole().groups_of(4).await;
    for group in &low {
        group.wait_condition(INITIALLY_SCHEDULED, "True", "Scheduled", LIMIT).await;
    }
    let stock = world.pod("stock").priority("stock").create().await;
    stock.wait_bound(LIMIT).await;
    let history = world.audit().await;
    let preempted =
        history.removed_by(SCHEDULER).into_iter().find(|r| low.iter().any(|g| g.pods.iter().any(|p| p.uid == r.uid)));
    let first = preempted.expect("kube-scheduler preempted a pod of a group").pod.1.clone();
    let (disrupted, remaining) = if first.starts_with(&low[0].name) { (&low[0], &low[1]) } else { (&low[1], &low[0]) };
    disrupted.wait_removed(LIMIT).await;
    let words = format!(
        "Preempted by kube-scheduler: it preempted pod {first}, so the 3 other pods of the PodGroup are evicted."
    );
    assert_eq!(disrupted.wait_condition(DISRUPTION_TARGET, "True", "PreemptionByScheduler", LIMIT).await, words);
    remaining.wait_running(LIMIT).await;
}

/// Runs `kubectl giveway` as the administrator and returns its output.
pub async fn cli(world: &mut World, args: &[&str]) -> String {
    let program = paths::giveway_program("kubectl-giveway").unwrap();
    let mut command = tokio::process::Command::new(program);
    let kubeconfig = world.plane().kubeconfig();
    let output = command.args(args).env_clear().env("KUBECONFIG", kubeconfig).output().await.unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{args:?}: {out}{err}");
    out.into_owned()
}
