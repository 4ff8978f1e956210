//! The guard: kube-scheduler cannot preempt pods of a guaranteed budget below the threshold, can preempt all others, and requests
//! of other users are not affected.

use crate::MINUTE;
use futures::StreamExt as _;
use giveway_crds::keys;
use giveway_tests::audit::{Promises, SCHEDULER};
use giveway_tests::cluster::{Kit, PodBuilder, Shaped, ready};
use giveway_tests::control_plane::kubeconfig;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::config::Kubeconfig;
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            kube_scheduler_preempts_no_guarded_pod_and_events_say_why,
            an_allowance_of_one_permits_one_preemption,
            the_guard_is_called_only_for_preemptions_by_a_scheduler,
            a_forged_admission_review_uses_up_no_allowance,
            with_the_guard_down_preemption_depends_on_its_failure_policy,
            a_webhook_that_does_not_answer_delays_a_pod_by_seconds_and_no_preemption_of_other_pods,
            a_guard_that_fails_closed_does_not_prevent_preemption_for_the_webhook,
            kube_scheduler_preempts_unguarded_pods_and_reaches_thresholds;
    ]
}

/// Threshold of class `guarded`.
const THRESHOLD: i32 = 5000;

/// Creates the classes `guarded` (10, with the threshold), `low` (10), `mid` (900), `high` (1000) and `boss` (5000). None is
/// managed, so kube-scheduler preempts for them.
pub(crate) async fn classes(world: &World) {
    world.class("guarded", 10).annotation(keys::ANNOTATION_THRESHOLD, &THRESHOLD.to_string()).create().await;
    world.class("low", 10).create().await;
    world.class("mid", 900).create().await;
    world.class("high", 1000).create().await;
    world.class("boss", THRESHOLD).create().await;
}

/// Creates a Deployment of class `guarded` on the nodes of pool `guarded` and the budget `api` for it. Returns its pods when they
/// are ready and the budget's status counts them.
pub(crate) async fn service(world: &World, replicas: usize, min_available: usize) -> Vec<Pod> {
    service_in(world, &world.kit(), replicas, min_available).await
}

/// The same in the namespace of this kit.
pub(crate) async fn service_in(world: &World, kit: &Kit, replicas: usize, min_available: usize) -> Vec<Pod> {
    let namespace = &kit.namespace;
    let manifest = format!(
        r#"apiVersion: apps/v1
kind: Deployment
metadata: {{name: api, namespace: {namespace}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: api}}}}
  template:
    metadata: {{labels: {{app: api}}}}
    spec:
      priorityClassName: guarded
      automountServiceAccountToken: false
      nodeSelector: {{pool: guarded}}
      containers:
      - name: main
        image: registry.example/fake:1
        resources: {{requests: {{cpu: "1"}}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: api, namespace: {namespace}}}
spec:
  minAvailable: {min_available}
  selector: {{matchLabels: {{app: api}}}}
"#
    );
    world.apply(&manifest).await.unwrap();
    let (pods, budgets) = (kit.api::<Pod>(), kit.api::<PodDisruptionBudget>());
    wait_for("the pods are ready and the budget counts them", MINUTE, async || {
        let all = pods.list(&ListParams::default().labels("app=api")).await.map_err(|error| error.to_string())?;
        let running = all.items.iter().filter(|pod| ready(pod)).count();
        let status = budgets.get("api").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        let counted = usize::try_from(status.current_healthy) == Ok(replicas);
        if running == replicas && counted { Ok(all.items) } else { Err(format!("{running} run, {status:?}")) }
    })
    .await
}

/// Watches the budget `api`.
struct BudgetWatch {
    least: Arc<Mutex<i32>>,
    task: tokio::task::JoinHandle<()>,
}

impl BudgetWatch {
    /// Starts the watch.
    fn start(world: &World) -> Self {
        let least = Arc::new(Mutex::new(i32::MAX));
        let (seen, api) = (Arc::clone(&least), world.kit().api::<PodDisruptionBudget>());
        let task = tokio::spawn(async move {
            let mut events = watcher::watcher(api, watcher::Config::default()).boxed();
            while let Some(event) = events.next().await {
                if let Ok(watcher::Event::Apply(budget) | watcher::Event::InitApply(budget)) = event
                    && let Some(status) = budget.status
                {
                    let mut least = seen.lock().unwrap();
                    *least = (*least).min(status.current_healthy - status.desired_healthy);
                }
            }
        });
        Self { least, task }
    }

    /// Returns the smallest difference between healthy and desired pods since the start.
    fn least(&self) -> i32 {
        *self.least.lock().unwrap()
    }
}

impl Drop for BudgetWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the sum of a metric of the webhook over its labels, or 0 if it does not exist.
pub(crate) async fn metric(world: &mut World, name: &str) -> u64 {
    let (_, metrics) = world.webhook().http("/metrics").await.unwrap();
    let values = metrics.lines().filter_map(|line| line.strip_prefix(name)?.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}

/// Metric that counts the guard's decisions.
pub(crate) const DECISIONS: &str = "giveway_webhook_guard_decisions_total{";
/// Metric that counts denials because of a guaranteed budget.
pub(crate) const REFUSED: &str = "giveway_webhook_guard_decisions_total{verdict=\"guaranteed_budget\"}";

/// Returns a client with kube-scheduler's credentials.
pub(crate) async fn as_scheduler(world: &mut World) -> Client {
    let file = world.plane().directory().join("kube-scheduler.kubeconfig");
    kubeconfig::client(Kubeconfig::read_from(file).unwrap()).await.unwrap()
}

/// Returns the patch with which kube-scheduler marks a victim before it deletes it.
pub(crate) fn announcement() -> Patch<serde_json::Value> {
    Patch::Strategic(json!({"status": {"conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
        // The disruption controller removes old conditions, so this one needs a current time.
        "lastTransitionTime": jiff::Timestamp::now(),
    }]}}))
}

/// Returns the names of the pods that kube-scheduler deleted, each once.
async fn removed_by_scheduler(world: &World) -> BTreeSet<String> {
    let history = world.audit().await;
    let removed = history.removed_by(SCHEDULER).into_iter().filter(|removal| removal.accepted);
    removed.map(|removal| removal.pod.1.clone()).collect()
}

async fn kube_scheduler_preempts_no_guarded_pod_and_events_say_why() {
    let mut world = World::builder().webhook_flag("--guard-delay-seconds=2").start().await;
    classes(&world).await;
    world.nodes(2).cpus(4).label("pool", "guarded").create().await;
    let pods = service(&world, 8, 8).await;
    let watched = BudgetWatch::start(&world);
    let mut vips = Vec::new();
    for name in ["vip-a", "vip-b", "vip-c"] {
        vips.push(world.pod(name).priority("high").create().await);
    }
    let words = "budget default/api allows 0 more disruptions to preemptors below 5000; the highest pending preemptor is pod default/vip-a with priority 1000.";
    for vip in &vips {
        let event = vip.wait_event("GuaranteedBudget", MINUTE).await;
        assert!(event.starts_with("Preemption of pod default/api-") && event.ends_with(words), "{event}");
    }
    wait_for("the guard has denied nine preemptions", MINUTE, async || {
        let refused = metric(&mut world, REFUSED).await;
        if refused >= 9 { Ok(()) } else { Err(format!("{refused} denials")) }
    })
    .await;
    let events = world.kubectl(&["get", "events", "--field-selector=reason=GuaranteedBudget", "-o", "name"]).await;
    let events = events.unwrap().lines().count();
    assert!((4..=11).contains(&events), "{events} events for 3 preemptors and 8 pods");
    let victims = world.kubectl(&["get", "events", "--field-selector=reason=GuaranteedBudget"]).await.unwrap();
    assert!(victims.lines().any(|line| line.contains("pod/api-")), "no victim has an event:\n{victims}");
    assert_eq!(removed_by_scheduler(&world).await, BTreeSet::new());
    assert_eq!(watched.least(), 0, "smallest difference between healthy and desired pods");
    let now = world.kit().api::<Pod>().list(&ListParams::default().labels("app=api")).await.unwrap();
    let names = |pods: &[Pod]| pods.iter().filter_map(|pod| pod.metadata.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&now.items), names(&pods), "the pods have not changed");
    world.check_promises().await;
}

async fn an_allowance_of_one_permits_one_preemption() {
    let world = World::builder().webhook_flag("--guard-delay-seconds=2").start().await;
    classes(&world).await;
    world.nodes(2).cpus(4).label("pool", "guarded").create().await;
    service(&world, 8, 7).await;
    let watched = BudgetWatch::start(&world);
    // The pod of the highest priority is created first; otherwise it could preempt one of the others.
    let vip = world.pod("vip").priority("high").create().await;
    let mut others = Vec::new();
    for name in ["mid-a", "mid-b", "mid-c"] {
        others.push(world.pod(name).priority("mid").create().await);
    }
    vip.wait_bound(MINUTE).await;
    for pod in &others {
        pod.wait_event("GuaranteedBudget", MINUTE).await;
        assert_eq!(pod.get().await.unwrap().spec.unwrap().node_name, None, "{} is bound", pod.name);
    }
    assert_eq!(removed_by_scheduler(&world).await.len(), 1);
    assert_eq!(watched.least(), 0, "the allowance was used and not exceeded");
    world.check_promises().await;
}

async fn kube_scheduler_preempts_unguarded_pods_and_reaches_thresholds() {
    let mut world = World::start().await;
    classes(&world).await;
    world.nodes(2).cpus(4).label("pool", "guarded").create().await;
    service(&world, 4, 4).await;
    // Pods without a threshold use the other four CPUs.
    let mut low = Vec::new();
    for n in 0..4 {
        low.push(world.pod(&format!("low-{n}")).priority("low").create().await);
    }
    for pod in &low {
        pod.wait_running(MINUTE).await;
    }
    // kube-scheduler preempts one of the pods without a threshold.
    let vip = world.pod("vip").priority("high").create().await;
    vip.wait_bound(MINUTE).await;
    let removed = removed_by_scheduler(&world).await;
    assert_eq!(removed.len(), 1, "{removed:?}");
    assert!(removed.iter().all(|name| name.starts_with("low-")), "{removed:?}");
    // A preemptor that reaches the threshold may violate the budget; no other victims suffice here.
    let boss = world.pod("boss").cpu(4).priority("boss").create().await;
    boss.wait_bound(MINUTE).await;
    assert_eq!(metric(&mut world, REFUSED).await, 0, "no preemption was denied");
    assert!(metric(&mut world, DECISIONS).await > 0, "the guard was called");
    world.check_promises().await;
}

async fn the_guard_is_called_only_for_preemptions_by_a_scheduler() {
    let mut world = World::builder().webhook_flag("--guard-delay-seconds=1").start().await;
    classes(&world).await;
    world.nodes(1).cpus(4).label("pool", "guarded").create().await;
    let pods = service(&world, 3, 3).await;
    let names: Vec<String> = pods.into_iter().filter_map(|pod| pod.metadata.name).collect();
    let (api, patch) = (world.kit().api::<Pod>(), PatchParams::default());
    // A user marks and deletes a pod. (The fake kubelets have patched the status of every pod before.)
    api.patch_status(&names[0], &patch, &announcement()).await.unwrap();
    api.delete(&names[0], &DeleteParams::default()).await.unwrap();
    let scheduler: Api<Pod> = Api::default_namespaced(as_scheduler(&mut world).await);
    // A scheduler writes another condition, and deletes a pod that it has not marked.
    let other = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "True", "reason": "Other"}]}});
    scheduler.patch_status(&names[1], &patch, &Patch::Strategic(other)).await.unwrap();
    scheduler.delete(&names[1], &DeleteParams::default()).await.unwrap();
    assert_eq!(metric(&mut world, DECISIONS).await, 0, "none of these requests is a preemption by a scheduler");

    let none = "no pending pod that may preempt has a priority above 10.";
    let said = scheduler.patch_status(&names[2], &patch, &announcement()).await.unwrap_err().to_string();
    assert!(
        said.contains("admission webhook \"guard.giveway.dev\" denied the request") && said.contains(none),
        "{said}"
    );
    api.patch_status(&names[2], &patch, &announcement()).await.unwrap();
    let said = scheduler.delete(&names[2], &DeleteParams::default()).await.unwrap_err().to_string();
    assert!(said.contains(none), "{said}");
    assert_eq!(metric(&mut world, DECISIONS).await, 2);
    // The test itself deleted two pods.
    world.check(&Promises::new().excuse_unguarded("api")).await;
}

/// Posts a forged review to `/guard`, in which kube-scheduler marks or deletes this pod, and returns the answer.
async fn forged(client: &Client, pod: &Pod, announces: bool) -> serde_json::Value {
    let mut announced = serde_json::to_value(pod).unwrap();
    announced["status"]["conditions"].as_array_mut().unwrap().push(json!({
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
    }));
    let (operation, sub, object, old) = match announces {
        true => ("UPDATE", "status", announced, serde_json::to_value(pod).unwrap()),
        false => ("DELETE", "", serde_json::Value::Null, announced),
    };
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "forged", "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": sub,
            "namespace": "default", "name": pod.metadata.name, "operation": operation,
            "userInfo": {"username": "system:kube-scheduler"}, "object": object, "oldObject": old,
        },
    });
    let request = http::Request::post("/guard?timeout=10s").header("content-type", "application/json");
    let request = request.body(serde_json::to_vec(&review).unwrap()).unwrap();
    client.request(request).await.unwrap()
}

async fn a_forged_admission_review_uses_up_no_allowance() {
    let mut world = World::builder().webhook_flag("--guard-delay-seconds=1").start().await;
    classes(&world).await;
    world.nodes(1).cpus(8).label("pool", "guarded").create().await;
    let pods = service(&world, 3, 2).await;
    // A pending preemptor has a priority above the pods and below the threshold.
    let vip = world.pod("vip").cpu(64).priority("high").create().await;
    vip.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    let client = crate::guard_cost::webhook_client(&mut world);
    for pod in &pods {
        let answer = forged(&client, pod, true).await;
        assert_eq!(answer["response"]["allowed"], json!(true), "a mark uses up no allowance: {answer}");
        let said = forged(&client, pod, false).await["response"]["status"]["message"].to_string();
        assert!(
            said.contains(
                "kube-scheduler has not set the condition DisruptionTarget (reason PreemptionByScheduler) on the pod"
            ),
            "{said}"
        );
    }
    let status = world.kit().api::<PodDisruptionBudget>().get("api").await.unwrap().status.unwrap();
    assert_eq!((status.disruptions_allowed, status.disrupted_pods.unwrap_or_default().len()), (1, 0));
    assert_eq!(metric(&mut world, "giveway_webhook_guard_claims_total{").await, 0, "no budget was updated");
    world.check_promises().await;
}

async fn with_the_guard_down_preemption_depends_on_its_failure_policy() {
    for (policy, permitted) in [("Ignore", true), ("Fail", false)] {
        let mut world = World::builder().helm_value(&format!("guard.failurePolicy={policy}")).start().await;
        classes(&world).await;
        world.nodes(1).cpus(2).label("pool", "guarded").create().await;
        service(&world, 2, 2).await;
        world.webhook().kill();
        let vip = world.pod("vip").priority("high").create().await;
        if permitted {
            vip.wait_bound(MINUTE).await;
        } else {
            vip.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
            assert_eq!(removed_by_scheduler(&world).await, BTreeSet::new());
            world.webhook().start().await;
            vip.wait_event("GuaranteedBudget", MINUTE).await;
        }
        let promises = Promises::new();
        world.check(&if permitted { promises.excuse_unguarded("api") } else { promises }).await;
    }
}

/// Time within which a pod with a class is admitted although the webhook does not answer: the entry waits 3 s, and the others that would
/// match wait 10 s.
const ADMITTED: Duration = Duration::from_secs(8);
/// Time within which kube-scheduler preempts a pod that is none of the guard's business: shorter than the two timeouts of the guard.
const PREEMPTED: Duration = Duration::from_secs(40);

async fn a_webhook_that_does_not_answer_delays_a_pod_by_seconds_and_no_preemption_of_other_pods() {
    let mut world = World::start().await;
    classes(&world).await;
    let nodes = world.nodes(1).cpus(2).create().await;
    world.fill(&nodes).priority("low").grace_seconds(1).singles().await;
    world.webhook().freeze(true);
    let vip = tokio::time::timeout(ADMITTED, world.pod("vip").priority("high").create()).await;
    let vip = vip.expect("a pod is admitted within the timeout of its entry");
    vip.wait_bound(PREEMPTED).await;
    assert_eq!(removed_by_scheduler(&world).await.len(), 1);
    world.webhook().freeze(false);
    world.check_promises().await;
}

async fn a_guard_that_fails_closed_does_not_prevent_preemption_for_the_webhook() {
    let mut world = World::builder().helm_value("guard.failurePolicy=Fail").start().await;
    classes(&world).await;
    world.nodes(1).cpus(2).label("pool", "guarded").create().await;
    service(&world, 1, 1).await;
    // A pod without a threshold uses the other CPU.
    let low = world.pod("low").priority("low").create().await;
    low.wait_running(MINUTE).await;
    world.webhook().kill();
    let kit = Kit { client: world.client(), namespace: "giveway-system".to_owned() };
    let webhook = PodBuilder::new(kit, "webhook").priority("system-cluster-critical").create().await;
    webhook.wait_bound(MINUTE).await;
    low.wait_removed(MINUTE).await;
    // No pod with a threshold was preempted while the webhook was down.
    assert!(removed_by_scheduler(&world).await.iter().all(|name| name == "low"));
    world.check_promises().await;
}
