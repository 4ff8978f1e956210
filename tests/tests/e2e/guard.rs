//! The stock scheduler against a guarded service: what it may not take it does not get, what it may take it gets, and
//! nobody else is asked.

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

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            the_stock_scheduler_takes_no_pod_of_a_guarded_service_and_everybody_concerned_is_told,
            an_allowance_of_one_is_spent_once_however_many_want_it,
            only_a_scheduler_that_preempts_asks_the_guard,
            whoever_reaches_the_port_spends_nobody_s_allowance,
            a_guard_that_is_down_stops_nobody_and_one_that_fails_closed_does,
            a_guard_that_fails_closed_does_not_keep_its_own_webhook_from_a_place,
            the_scheduler_takes_what_it_may;
    ]
}

/// From this priority on the budgets of guarded pods may be violated.
const THRESHOLD: i32 = 5000;

/// The classes of every test here: `guarded` (10, with the threshold), `low` (10), `mid` (900), `high` (1000), `boss`
/// (5000). None of them is managed: the scheduler preempts by itself.
pub(crate) async fn classes(world: &World) {
    world.class("guarded", 10).annotation(keys::ANNOTATION_THRESHOLD, &THRESHOLD.to_string()).create().await;
    world.class("low", 10).create().await;
    world.class("mid", 900).create().await;
    world.class("high", 1000).create().await;
    world.class("boss", THRESHOLD).create().await;
}

/// A Deployment of class `guarded` on the nodes of pool `guarded`, and the budget `api` over it. Returns its pods, when
/// they are ready and the budget has counted them.
pub(crate) async fn service(world: &World, replicas: usize, min_available: usize) -> Vec<Pod> {
    let manifest = format!(
        r#"apiVersion: apps/v1
kind: Deployment
metadata: {{name: api}}
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
metadata: {{name: api}}
spec:
  minAvailable: {min_available}
  selector: {{matchLabels: {{app: api}}}}
"#
    );
    world.apply(&manifest).await.unwrap();
    let (pods, budgets) = (world.kit().api::<Pod>(), world.kit().api::<PodDisruptionBudget>());
    wait_for("the service is ready and its budget has counted it", MINUTE, async || {
        let all = pods.list(&ListParams::default().labels("app=api")).await.map_err(|error| error.to_string())?;
        let running = all.items.iter().filter(|pod| ready(pod)).count();
        let status = budgets.get("api").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        let counted = usize::try_from(status.current_healthy) == Ok(replicas);
        if running == replicas && counted { Ok(all.items) } else { Err(format!("{running} run, {status:?}")) }
    })
    .await
}

/// Follows the budget `api` from now on.
struct Watched {
    least: Arc<Mutex<i32>>,
    task: tokio::task::JoinHandle<()>,
}

impl Watched {
    /// Begins.
    fn begin(world: &World) -> Self {
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

    /// How many pods more than it wants the budget has had, at the worst moment.
    fn least(&self) -> i32 {
        *self.least.lock().unwrap()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The value of a metric of the webhook; 0 where it does not exist yet.
pub(crate) async fn metric(world: &mut World, name: &str) -> u64 {
    let (_, metrics) = world.webhook().http("/metrics").await.unwrap();
    let values = metrics.lines().filter_map(|line| line.strip_prefix(name)?.rsplit(' ').next()?.parse::<u64>().ok());
    values.sum()
}

/// How often the guard was asked.
pub(crate) const DECISIONS: &str = "giveway_webhook_guard_decisions_total{";
/// How often it refused because of a budget.
pub(crate) const REFUSED: &str = "giveway_webhook_guard_decisions_total{verdict=\"guaranteed_budget\"}";

/// A client that the API server takes for kube-scheduler.
pub(crate) async fn as_scheduler(world: &mut World) -> Client {
    let file = world.plane().directory().join("kube-scheduler.kubeconfig");
    kubeconfig::client(Kubeconfig::read_from(file).unwrap()).await.unwrap()
}

/// What kube-scheduler writes before it deletes a victim.
pub(crate) fn announcement() -> Patch<serde_json::Value> {
    Patch::Strategic(json!({"status": {"conditions": [{
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
        // An old announcement is taken back by the disruption controller.
        "lastTransitionTime": jiff::Timestamp::now(),
    }]}}))
}

/// Names of the pods that the scheduler deleted; it may ask for the same one several times.
async fn removed_by_the_scheduler(world: &World) -> BTreeSet<String> {
    let history = world.audit().await;
    let removed = history.removed_by(SCHEDULER).into_iter().filter(|removal| removal.accepted);
    removed.map(|removal| removal.pod.1.clone()).collect()
}

async fn the_stock_scheduler_takes_no_pod_of_a_guarded_service_and_everybody_concerned_is_told() {
    let mut world = World::builder().webhook_flag("--guard-hold-seconds=2").start().await;
    classes(&world).await;
    world.nodes(2).cpus(4).label("pool", "guarded").create().await;
    let pods = service(&world, 8, 8).await;
    let watched = Watched::begin(&world);
    let mut vips = Vec::new();
    for name in ["vip-a", "vip-b", "vip-c"] {
        vips.push(world.pod(name).priority("high").create().await);
    }
    let words = "budget default/api allows 0 more disruptions to preemptors below 5000; the highest pending preemptor is pod default/vip-a with priority 1000.";
    for vip in &vips {
        let told = vip.wait_event("GuaranteedBudget", MINUTE).await;
        assert!(told.starts_with("Preemption of pod default/api-") && told.ends_with(words), "{told}");
    }
    wait_for("the scheduler was refused nine times", MINUTE, async || {
        let refused = metric(&mut world, REFUSED).await;
        if refused >= 9 { Ok(()) } else { Err(format!("{refused} times")) }
    })
    .await;
    let events = world.kubectl(&["get", "events", "--field-selector=reason=GuaranteedBudget", "-o", "name"]).await;
    let events = events.unwrap().lines().count();
    assert!((4..=11).contains(&events), "{events} events for 3 preemptors and 8 pods");
    let victims = world.kubectl(&["get", "events", "--field-selector=reason=GuaranteedBudget"]).await.unwrap();
    assert!(victims.lines().any(|line| line.contains("pod/api-")), "no victim was told:\n{victims}");
    assert_eq!(removed_by_the_scheduler(&world).await, BTreeSet::new());
    assert_eq!(watched.least(), 0, "healthy pods above what the budget wants, at the worst moment");
    let now = world.kit().api::<Pod>().list(&ListParams::default().labels("app=api")).await.unwrap();
    let names = |pods: &[Pod]| pods.iter().filter_map(|pod| pod.metadata.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&now.items), names(&pods), "the same pods as in the beginning");
    world.check_promises().await;
}

async fn an_allowance_of_one_is_spent_once_however_many_want_it() {
    let world = World::builder().webhook_flag("--guard-hold-seconds=2").start().await;
    classes(&world).await;
    world.nodes(2).cpus(4).label("pool", "guarded").create().await;
    service(&world, 8, 7).await;
    let watched = Watched::begin(&world);
    // The most important one comes first: a place that another one had by then it would take from that one.
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
    assert_eq!(removed_by_the_scheduler(&world).await.len(), 1);
    assert_eq!(watched.least(), 0, "the allowance was used, and no more");
    world.check_promises().await;
}

async fn the_scheduler_takes_what_it_may() {
    let mut world = World::start().await;
    classes(&world).await;
    world.nodes(2).cpus(4).label("pool", "guarded").create().await;
    service(&world, 4, 4).await;
    // The other four places are taken by pods that nobody guards.
    let mut low = Vec::new();
    for n in 0..4 {
        low.push(world.pod(&format!("low-{n}")).priority("low").create().await);
    }
    for pod in &low {
        pod.wait_running(MINUTE).await;
    }
    // A budget without a threshold is no more than a preference.
    let vip = world.pod("vip").priority("high").create().await;
    vip.wait_bound(MINUTE).await;
    let removed = removed_by_the_scheduler(&world).await;
    assert_eq!(removed.len(), 1, "{removed:?}");
    assert!(removed.iter().all(|name| name.starts_with("low-")), "{removed:?}");
    // At the threshold a budget may be violated; here nothing else is left to take.
    let boss = world.pod("boss").cpu(4).priority("boss").create().await;
    boss.wait_bound(MINUTE).await;
    assert_eq!(metric(&mut world, REFUSED).await, 0, "nothing was refused");
    assert!(metric(&mut world, DECISIONS).await > 0, "the guard was asked");
    world.check_promises().await;
}

async fn only_a_scheduler_that_preempts_asks_the_guard() {
    let mut world = World::builder().webhook_flag("--guard-hold-seconds=1").start().await;
    classes(&world).await;
    world.nodes(1).cpus(4).label("pool", "guarded").create().await;
    let pods = service(&world, 3, 3).await;
    let names: Vec<String> = pods.into_iter().filter_map(|pod| pod.metadata.name).collect();
    let (api, patch) = (world.kit().api::<Pod>(), PatchParams::default());
    // A user announces, changes and deletes; the fake kubelets have patched every status already.
    api.patch_status(&names[0], &patch, &announcement()).await.unwrap();
    api.delete(&names[0], &DeleteParams::default()).await.unwrap();
    let scheduler: Api<Pod> = Api::default_namespaced(as_scheduler(&mut world).await);
    // A scheduler writes another condition, and deletes what it has not announced.
    let other = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "True", "reason": "Other"}]}});
    scheduler.patch_status(&names[1], &patch, &Patch::Strategic(other)).await.unwrap();
    scheduler.delete(&names[1], &DeleteParams::default()).await.unwrap();
    assert_eq!(metric(&mut world, DECISIONS).await, 0, "none of them is a preemption by a scheduler");

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
    // It was the test that took the second one.
    world.check(&Promises::new().excuse_unguarded("api")).await;
}

/// What `/guard` answers to a review that anybody posts: kube-scheduler is said to announce, or to delete, this pod.
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

async fn whoever_reaches_the_port_spends_nobody_s_allowance() {
    let mut world = World::builder().webhook_flag("--guard-hold-seconds=1").start().await;
    classes(&world).await;
    world.nodes(1).cpus(8).label("pool", "guarded").create().await;
    let pods = service(&world, 3, 2).await;
    // Somebody waits who could take them, and who opens no threshold.
    let vip = world.pod("vip").cpu(64).priority("high").create().await;
    vip.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
    let client = crate::guard_cost::of_the_webhook(&mut world);
    for pod in &pods {
        let answer = forged(&client, pod, true).await;
        assert_eq!(answer["response"]["allowed"], json!(true), "an announcement spends nothing: {answer}");
        let said = forged(&client, pod, false).await["response"]["status"]["message"].to_string();
        assert!(said.contains("the pod is not announced as a victim in its status"), "{said}");
    }
    let status = world.kit().api::<PodDisruptionBudget>().get("api").await.unwrap().status.unwrap();
    assert_eq!((status.disruptions_allowed, status.disrupted_pods.unwrap_or_default().len()), (1, 0));
    assert_eq!(metric(&mut world, "giveway_webhook_guard_claims_total{").await, 0, "no budget was written");
    world.check_promises().await;
}

async fn a_guard_that_is_down_stops_nobody_and_one_that_fails_closed_does() {
    for (policy, goes) in [("Ignore", true), ("Fail", false)] {
        let mut world = World::builder().helm_value(&format!("guard.failurePolicy={policy}")).start().await;
        classes(&world).await;
        world.nodes(1).cpus(2).label("pool", "guarded").create().await;
        service(&world, 2, 2).await;
        world.webhook().kill();
        let vip = world.pod("vip").priority("high").create().await;
        if goes {
            vip.wait_bound(MINUTE).await;
        } else {
            vip.wait_condition("PodScheduled", "False", "Unschedulable", MINUTE).await;
            assert_eq!(removed_by_the_scheduler(&world).await, BTreeSet::new());
            world.webhook().start().await;
            vip.wait_event("GuaranteedBudget", MINUTE).await;
        }
        let promises = Promises::new();
        world.check(&if goes { promises.excuse_unguarded("api") } else { promises }).await;
    }
}

async fn a_guard_that_fails_closed_does_not_keep_its_own_webhook_from_a_place() {
    let mut world = World::builder().helm_value("guard.failurePolicy=Fail").start().await;
    classes(&world).await;
    world.nodes(1).cpus(2).label("pool", "guarded").create().await;
    service(&world, 1, 1).await;
    // The last place is taken by a pod that nothing guards.
    let low = world.pod("low").priority("low").create().await;
    low.wait_running(MINUTE).await;
    world.webhook().kill();
    let kit = Kit { client: world.client(), namespace: "giveway-system".to_owned() };
    let webhook = PodBuilder::new(kit, "webhook").priority("system-cluster-critical").create().await;
    webhook.wait_bound(MINUTE).await;
    low.wait_gone(MINUTE).await;
    // It takes no guarded one, as long as no webhook says that it may.
    assert!(removed_by_the_scheduler(&world).await.iter().all(|name| name == "low"));
    world.check_promises().await;
}
