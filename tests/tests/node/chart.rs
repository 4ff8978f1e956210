//! The default chart on a real node: Deployments, probes, certificates in Secrets, Services through kube-proxy and the rendered
//! rights, also while its pods are deleted and replaced.

use crate::gang::{Gang, lives, name, uid};
use crate::{CALM, LIMIT, URGENT, create_classes};
use giveway_crds::policy::SchedulingPolicy;
use giveway_crds::{PodGroup, PodGroupSpec};
use giveway_tests::World;
use giveway_tests::cluster::{ready, stored_plans};
use giveway_tests::giveway::chart::values_file;
use giveway_tests::giveway::{NAMESPACE, release_values};
use giveway_tests::paths;
use giveway_tests::search::{is_documented_to_stay, objects_of_giveway};
use giveway_tests::wait::wait_for;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::task::JoinSet;

/// Returns the pods of a component.
async fn pods(world: &World, component: &str) -> Vec<Pod> {
    let selector = format!("app.kubernetes.io/component={component}");
    let pods: Api<Pod> = Api::namespaced(world.client(), NAMESPACE);
    pods.list(&ListParams::default().labels(&selector)).await.unwrap().items
}

/// Waits until a component has exactly `count` pods, all ready, and the `old` pods are removed.
async fn wait_replaced(world: &World, component: &str, count: usize, old: &[String]) {
    wait_for(&format!("the {component} has {count} ready pods and no others"), LIMIT, async || {
        let pods = pods(world, component).await;
        let (good, removed) =
            (pods.iter().filter(|pod| ready(pod)).count(), !pods.iter().any(|pod| old.contains(&uid(pod))));
        let there = pods.len();
        if removed && good == count && there == count { Ok(()) } else { Err(format!("{good} of {there}, {removed}")) }
    })
    .await;
}

pub async fn the_default_chart_is_ready_and_check_passes_inside_the_cluster(world: &mut World) {
    let available = "jsonpath={range .items[*]}{.metadata.name} {.status.availableReplicas}{\"\\n\"}{end}";
    let deployments = world.kubectl(&["get", "deployments", "-n", NAMESPACE, "-o", available]).await.unwrap();
    assert_eq!(deployments, "giveway-operator 2\ngiveway-webhook 2\n");
    let restarts = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";
    let restarts = world.kubectl(&["get", "pods", "-n", NAMESPACE, "-o", restarts]).await.unwrap();
    assert_eq!(restarts, "0 0 0 0", "a container was restarted");

    // A pod with the image of the CLI and an administrator's rights reaches the API server through kube-proxy.
    let version = env!("CARGO_PKG_VERSION");
    world.kubectl(&["create", "serviceaccount", "checker"]).await.unwrap();
    let binding = ["create", "clusterrolebinding", "checker", "--clusterrole=cluster-admin"];
    world.kubectl(&[&binding[..], &["--serviceaccount=default:checker"]].concat()).await.unwrap();
    let pod = format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: check}}
spec:
  serviceAccountName: checker
  restartPolicy: Never
  containers: [{{name: check, image: 'giveway.test/giveway-cli:{version}', args: [check]}}]
"
    );
    world.apply(&pod).await.unwrap();
    let phase = ["get", "pod", "check", "-o", "jsonpath={.status.phase}"];
    wait_for("the check has ended", LIMIT, async || match world.kubectl(&phase).await?.as_str() {
        "Succeeded" | "Failed" => Ok(()),
        other => Err(other.to_owned()),
    })
    .await;
    let said = world.kubectl(&["logs", "check"]).await.unwrap();
    for kind in ["crds", "webhook", "policies", "guard", "certificate", "operator", "version", "in-tree"] {
        assert!(said.contains(&format!("OK      {kind}")), "{kind} has not passed:\n{said}");
    }
    assert!(said.contains("\n0 failed, 0 "), "{said}");
    assert_eq!(world.kubectl(&phase).await.unwrap(), "Succeeded", "{said}");
    world.kubectl(&["delete", "clusterrolebinding/checker", "serviceaccount/checker"]).await.unwrap();
}

pub async fn helm_test_schedules_a_gang_and_passes(world: &mut World) {
    let said = world.helm(&["test", "giveway", "--namespace", NAMESPACE, "--timeout", "3m"]).await.unwrap();
    assert!(said.contains("Succeeded"), "{said}");
    // Deleting the namespace takes a while.
    let wait = ["wait", "namespace/giveway-test-3252bef2", "--for=delete", "--timeout=60s"];
    world.kubectl(&wait).await.unwrap();
}

pub async fn a_gang_starts_although_the_leading_operator_is_deleted_during_evictions(world: &mut World) {
    create_classes(world).await;
    let calm = Gang::new("calm", CALM).arguments(&["--ignore-term"]).grace(8).apply(world).await;
    calm.wait_ready(world, 4).await;
    let holder = ["get", "lease", "giveway-operator", "-n", NAMESPACE, "-o", "jsonpath={.spec.holderIdentity}"];
    let holder = world.kubectl(&holder).await.unwrap();
    let operators = pods(world, "operator").await;
    let leader = operators.iter().find(|pod| holder.starts_with(name(pod))).expect("the leader is a pod");
    let urgent = Gang::new("urgent", URGENT).apply(world).await;
    urgent.group.wait_plan(giveway_crds::plan::PlanState::Evicting, LIMIT).await;
    let api: Api<Pod> = Api::namespaced(world.client(), NAMESPACE);
    api.delete(name(leader), &DeleteParams::default()).await.unwrap();
    urgent.wait_ready(world, 4).await;
    wait_replaced(world, "operator", 2, &[uid(leader)]).await;
    // On a slow machine the plan may end before all victims have terminated.
    let group = urgent.group.get().await.metadata.uid.unwrap();
    let plans = wait_for("no plan is in flight", LIMIT, async || {
        let plans = stored_plans(&world.client()).await.map_err(|error| error.to_string())?;
        let of_it: Vec<_> = plans.into_iter().filter(|plan| plan.preemptor.uid == group).collect();
        if of_it.iter().any(|plan| plan.state.in_flight()) { Err(format!("{of_it:?}")) } else { Ok(of_it) }
    })
    .await;
    assert_eq!(plans.len(), 1, "exactly one plan is made: {plans:?}");
    assert_eq!(plans[0].victims.len(), 1, "the plan has one victim group: {plans:?}");
}

/// Sends admission requests continuously until it is stopped.
struct Load {
    stop: Arc<AtomicBool>,
    made: Arc<AtomicUsize>,
    tasks: JoinSet<Vec<String>>,
}

impl Load {
    fn start(client: &Client) -> Self {
        let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..3 {
            let (client, stop, made) = (client.clone(), stop.clone(), made.clone());
            tasks.spawn(async move {
                let mut failed = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    if let Err(error) = admit(&client).await {
                        failed.push(error);
                    }
                    made.fetch_add(1, Ordering::Relaxed);
                }
                failed
            });
        }
        Self { stop, made, tasks }
    }

    /// Waits until `count` more requests were answered.
    async fn more(&self, count: usize) {
        let goal = self.made.load(Ordering::Relaxed) + count;
        wait_for(&format!("{count} more requests are answered"), LIMIT, async || {
            let made = self.made.load(Ordering::Relaxed);
            if made >= goal { Ok(()) } else { Err(format!("{made} of {goal}")) }
        })
        .await;
    }

    /// Stops the load. Returns the number of requests and the errors of those that failed.
    async fn end(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let failed = self.tasks.join_all().await.concat();
        (self.made.load(Ordering::Relaxed), failed)
    }
}

/// Creates a PodGroup with `dryRun` and checks that admission set the priority of its class.
async fn admit(client: &Client) -> Result<(), String> {
    let groups: Api<PodGroup> = Api::namespaced(client.clone(), "default");
    let spec = PodGroupSpec {
        scheduling_policy: SchedulingPolicy::gang(2),
        priority_class_name: Some(CALM.to_owned()),
        ..PodGroupSpec::default()
    };
    let metadata = ObjectMeta { name: Some("probe".to_owned()), ..ObjectMeta::default() };
    let group = PodGroup { metadata, spec, status: None };
    let created = groups.create(&PostParams { dry_run: true, ..PostParams::default() }, &group).await;
    match created.map_err(|error| error.to_string())?.spec.priority {
        Some(100) => Ok(()),
        other => Err(format!("the priority became {other:?}")),
    }
}

pub async fn no_admission_fails_while_a_webhook_replica_is_deleted(world: &mut World) {
    create_classes(world).await;
    let old = pods(world, "webhook").await;
    // This client does not retry.
    let load = Load::start(&world.client_of("admin").await);
    load.more(50).await;
    let webhooks: Api<Pod> = Api::namespaced(world.client(), NAMESPACE);
    webhooks.delete(name(&old[0]), &DeleteParams::default()).await.unwrap();
    load.more(100).await;
    wait_replaced(world, "webhook", 2, &[uid(&old[0])]).await;
    load.more(50).await;
    let (made, failed) = load.end().await;
    assert!(made >= 200 && failed.is_empty(), "of {made} requests failed: {failed:#?}");
}

pub async fn no_admission_fails_while_both_deployments_are_restarted(world: &mut World) {
    create_classes(world).await;
    let old: Vec<String> =
        [pods(world, "webhook").await, pods(world, "operator").await].concat().iter().map(uid).collect();
    let load = Load::start(&world.client_of("admin").await);
    load.more(20).await;
    let both = ["deployment/giveway-webhook", "deployment/giveway-operator"];
    world.kubectl(&[&["-n", NAMESPACE, "rollout", "restart"][..], &both].concat()).await.unwrap();
    wait_replaced(world, "webhook", 2, &old).await;
    wait_replaced(world, "operator", 2, &old).await;
    load.more(20).await;
    let (made, failed) = load.end().await;
    assert!(failed.is_empty(), "of {made} requests failed: {failed:#?}");
    // The new operator schedules a gang.
    let calm = Gang::new("calm", CALM).apply(world).await;
    calm.wait_ready(world, 4).await;
}

pub async fn an_upgrade_with_another_flag_does_not_affect_a_gang_in_flight(world: &mut World) {
    create_classes(world).await;
    let calm = Gang::new("calm", CALM).arguments(&["--ignore-term"]).grace(8).apply(world).await;
    calm.wait_ready(world, 4).await;
    let old: Vec<String> = pods(world, "operator").await.iter().map(uid).collect();
    let urgent = Gang::new("urgent", URGENT).apply(world).await;
    urgent.group.wait_plan(giveway_crds::plan::PlanState::Evicting, LIMIT).await;
    let chart = paths::repository().join("helm").display().to_string();
    let values = release_values(&["operator.extraArgs={--evictions-per-second=400}".to_owned()]);
    let mut args = vec!["upgrade", "giveway", &chart, "--namespace", NAMESPACE, "--wait", "--timeout", "2m"];
    args.extend(values.iter().map(String::as_str));
    world.helm(&args).await.unwrap();
    urgent.wait_ready(world, 4).await;
    wait_replaced(world, "operator", 2, &old).await;
    let flags = ["get", "deployment", "giveway-operator", "-n", NAMESPACE, "-o"];
    let flags = world.kubectl(&[&flags[..], &["jsonpath={.spec.template.spec.containers[0].args}"]].concat()).await;
    assert!(flags.as_ref().unwrap().contains("--evictions-per-second=400"), "{flags:?}");
}

/// Upgrades the chart to these values, and waits until the old pods of the webhook are replaced and admission works.
async fn upgrade_webhook(world: &World, args: &[&str], replicas: usize) {
    let old: Vec<String> = pods(world, "webhook").await.iter().map(uid).collect();
    let chart = paths::repository().join("helm").display().to_string();
    let values = release_values(&[format!("webhook.replicas={replicas}")]);
    let mut all = vec!["upgrade", "giveway", &chart, "--namespace", NAMESPACE, "--wait", "--timeout", "2m"];
    all.extend(values.iter().map(String::as_str).chain(args.iter().copied()));
    world.helm(&all).await.unwrap();
    wait_replaced(world, "webhook", replicas, &old).await;
    let client = world.client();
    wait_for("admission works", LIMIT, async || admit(&client).await).await;
}

pub async fn with_the_values_of_eks_the_webhook_answers_on_the_address_of_its_node(world: &mut World) {
    create_classes(world).await;
    let eks = values_file("eks").display().to_string();
    // The ports of a node are free for one replica.
    upgrade_webhook(world, &["--values", &eks], 1).await;
    let webhook = pods(world, "webhook").await.remove(0);
    let (spec, status) = (webhook.spec.unwrap(), webhook.status.unwrap());
    assert_eq!((spec.host_network, status.pod_ip), (Some(true), status.host_ip));
    let calm = Gang::new("calm", CALM).apply(world).await;
    calm.wait_ready(world, 4).await;
    upgrade_webhook(world, &[], 2).await;
}

pub async fn an_uninstall_leaves_only_the_documented_objects(world: &mut World) {
    create_classes(world).await;
    let calm = Gang::new("calm", CALM).apply(world).await;
    calm.wait_ready(world, 4).await;
    world.helm(&["uninstall", "giveway", "--namespace", NAMESPACE, "--wait", "--timeout", "3m"]).await.unwrap();
    wait_for("the pods of the chart are removed", LIMIT, async || {
        let pods = world.kubectl(&["get", "pods", "-n", NAMESPACE, "-o", "name"]).await?;
        if pods.is_empty() { Ok(()) } else { Err(pods) }
    })
    .await;
    // kube-scheduler preempts for the class again.
    let policy = ["get", "priorityclass", URGENT, "-o", "jsonpath={.preemptionPolicy}"];
    assert_eq!(world.kubectl(&policy).await.unwrap(), "PreemptLowerPriority");
    // Running pods are not affected.
    assert_eq!(calm.pods(world).await.iter().filter(|pod| lives(pod) && ready(pod)).count(), 4);
    // Besides the documented objects, only images on the node and pods that use them contain the name Giveway.
    let image = |line: &str| {
        line.contains(".status.images=") || line.contains("=giveway.test/") || line.contains("names=giveway")
    };
    wait_for("no other object of Giveway exists", LIMIT, async || {
        let left = objects_of_giveway(world)
            .await
            .into_iter()
            .filter(|line| !is_documented_to_stay(line) && !image(line))
            .collect::<Vec<_>>();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:#?}")) }
    })
    .await;
    let annotations = "jsonpath={.items[*].metadata.annotations}";
    let annotations = world.kubectl(&["get", "pods", "--all-namespaces", "-o", annotations]).await.unwrap();
    assert!(!annotations.contains("scheduling.giveway.dev/"), "{annotations}");
}
