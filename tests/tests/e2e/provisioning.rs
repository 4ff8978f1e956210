//! Capacity requests to a cluster autoscaler for gangs that do not fit, made before any eviction. The tests play the autoscaler;
//! the requests of the operator are real.

use crate::rights::client_with_token_of;
use crate::{MINUTE, expect_condition};
use giveway_crds::autoscaling::{ATOMIC_SCALE_UP, ProvisioningRequest};
use giveway_crds::condition::types::CAPACITY_REQUESTED;
use giveway_crds::keys::LABEL_PLACEHOLDER;
use giveway_tests::attack::Call;
use giveway_tests::cluster::{Group, PodHandle, Shaped};
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::core::v1::{Pod, PodTemplate, ResourceQuota};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        shared:
            without_capacity_requests_the_operator_has_no_rights_for_them;
        own:
            placeholders_request_nodes_for_a_gang_without_evictions,
            only_the_operator_creates_placeholders_and_it_creates_no_other_pods;
        release:
            a_failed_request_is_reported_and_the_gang_preempts_after_its_delay,
            an_unfulfilled_request_is_withdrawn_when_the_gang_preempts,
            a_gang_preempts_after_its_delay_if_the_autoscaler_adds_too_few_nodes,
            a_fulfilled_request_lets_a_gang_start_without_evictions;
    ]
}

/// A reduced CRD of cluster-autoscaler's ProvisioningRequest: names, status, and an immutable spec.
const PROVISIONING_REQUESTS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: provisioningrequests.autoscaling.x-k8s.io
  annotations: {api-approved.kubernetes.io: 'https://github.com/kubernetes/autoscaler/pull/5848'}
spec:
  group: autoscaling.x-k8s.io
  scope: Namespaced
  names: {kind: ProvisioningRequest, plural: provisioningrequests, singular: provisioningrequest}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [podSets, provisioningClassName]
            x-kubernetes-validations: [{rule: self == oldSelf, message: Value is immutable}]
            properties:
              provisioningClassName: {type: string, maxLength: 253}
              podSets:
                type: array
                minItems: 1
                maxItems: 32
                items:
                  type: object
                  required: [count, podTemplateRef]
                  properties:
                    count: {type: integer, minimum: 1}
                    podTemplateRef: {type: object, required: [name], properties: {name: {type: string, maxLength: 253}}}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

/// Starts a world with this method of capacity requests.
async fn world(method: &str, flags: &[&str]) -> World {
    let flag = if method == "Placeholder" { "placeholder" } else { "provisioning-request" };
    let mut builder = World::builder()
        .helm_value(&format!("provisioning.method={method}"))
        .operator_flag(&format!("--provisioning-method={flag}"));
    for flag in flags {
        builder = builder.operator_flag(flag);
    }
    let world = builder.start().await;
    if method == "ProvisioningRequest" {
        world.apply(PROVISIONING_REQUESTS).await.unwrap();
    }
    world.class("low", 10).managed().create().await;
    world.class("high", 1000).managed().create().await;
    world
}

/// Creates a node full of pods of class `low` and a gang of four that preempts after `delay` seconds. Returns both.
async fn create_full_node_and_gang(world: &World, delay: i32) -> (Vec<PodHandle>, Group) {
    let nodes = world.nodes(1).cpus(4).create().await;
    let low = world.fill(&nodes).priority("low").singles().await;
    let late = world.gang("train", 4).priority("high").spec(|spec| spec.preemption_delay_seconds = Some(delay));
    (low, late.create().await)
}

fn requests(world: &World) -> Api<ProvisioningRequest> {
    Api::default_namespaced(world.client())
}

/// Waits for the ProvisioningRequest and its pod templates, and returns the request.
async fn wait_request(world: &World) -> ProvisioningRequest {
    wait_for("the request and its templates exist", MINUTE, async || {
        let list = requests(world).list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let request = list.items.into_iter().next().ok_or("no request")?;
        for set in &request.spec.pod_sets {
            let templates: Api<PodTemplate> = Api::default_namespaced(world.client());
            templates.get(&set.pod_template_ref.name).await.map_err(|error| error.to_string())?;
        }
        Ok(request)
    })
    .await
}

/// Sets conditions of these types on a request, as an autoscaler does.
async fn set_conditions(world: &World, request: &ProvisioningRequest, types: &[&str]) {
    let condition = |type_: &&str| {
        json!({"type": type_, "status": "True", "reason": "Said", "message": "no quota in this zone",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions: Vec<Value> = types.iter().map(condition).collect();
    let status = Patch::Merge(json!({"status": {"conditions": conditions}}));
    let name = request.metadata.name.as_deref().unwrap();
    requests(world).patch_status(name, &PatchParams::default(), &status).await.unwrap();
}

/// Waits until no ProvisioningRequest and no pod template exists.
async fn wait_request_removed(world: &World) {
    let templates: Api<PodTemplate> = Api::default_namespaced(world.client());
    wait_for("request and templates are removed", 2 * MINUTE, async || {
        let all = ListParams::default();
        let left = requests(world).list(&all).await.map_err(|error| error.to_string())?.items.len();
        let more = templates.list(&all).await.map_err(|error| error.to_string())?.items.len();
        if left + more == 0 { Ok(()) } else { Err(format!("{left} requests and {more} templates")) }
    })
    .await;
}

async fn a_fulfilled_request_lets_a_gang_start_without_evictions() {
    let world = world("ProvisioningRequest", &["--provisioning-first"]).await;
    let (low, gang) = create_full_node_and_gang(&world, 600).await;
    let request = wait_request(&world).await;
    assert_eq!(request.spec.provisioning_class_name, ATOMIC_SCALE_UP);
    let [set] = request.spec.pod_sets.as_slice() else { panic!("{request:?}") };
    assert_eq!(set.count, 4);
    let templates: Api<PodTemplate> = Api::default_namespaced(world.client());
    let template = templates.get(&set.pod_template_ref.name).await.unwrap().template.unwrap().spec.unwrap();
    assert!(template.scheduling_gates.is_none(), "{template:?}");
    assert_eq!(template.containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap()["cpu"].0, "1");
    expect_condition(&gang, CAPACITY_REQUESTED, "True CapacityRequested", "which has not been accepted yet.").await;
    set_conditions(&world, &request, &["Accepted"]).await;
    expect_condition(
        &gang,
        CAPACITY_REQUESTED,
        "True CapacityAccepted",
        "Capacity for 4 pods is requested from the cluster autoscaler",
    )
    .await;
    world.nodes(1).cpus(4).prefix("new").create().await;
    set_conditions(&world, &request, &["Accepted", "Provisioned"]).await;
    gang.wait_bound(MINUTE).await;
    expect_condition(&gang, CAPACITY_REQUESTED, "False CapacityNotNeeded", "").await;
    wait_request_removed(&world).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    low[0].wait_running(MINUTE).await;
    world.check_promises().await;
}

async fn a_failed_request_is_reported_and_the_gang_preempts_after_its_delay() {
    let world = world("ProvisioningRequest", &["--provisioning-first"]).await;
    let (_, gang) = create_full_node_and_gang(&world, 20).await;
    let request = wait_request(&world).await;
    set_conditions(&world, &request, &["Accepted", "Failed"]).await;
    expect_condition(
        &gang,
        CAPACITY_REQUESTED,
        "False CapacityFailed",
        "no quota in this zone. The request is repeated at 20",
    )
    .await;
    gang.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names().len(), 4);
    wait_request_removed(&world).await;
    world.check_promises().await;
}

async fn an_unfulfilled_request_is_withdrawn_when_the_gang_preempts() {
    let world = world("ProvisioningRequest", &["--provisioning-first"]).await;
    let (_, gang) = create_full_node_and_gang(&world, 10).await;
    set_conditions(&world, &wait_request(&world).await, &["Accepted"]).await;
    gang.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names().len(), 4);
    expect_condition(&gang, CAPACITY_REQUESTED, "False CapacityNotNeeded", "").await;
    wait_request_removed(&world).await;
    world.check_promises().await;
}

fn placeholders() -> ListParams {
    ListParams::default().labels(LABEL_PLACEHOLDER)
}

/// Plays an autoscaler until the gang is bound: adds a node of 4 CPUs whenever at least four pods are unschedulable, at most
/// `limit` nodes.
async fn autoscale(world: &World, gang: &Group, limit: usize) {
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    let mut nodes = 0;
    wait_for("the gang is bound", 2 * MINUTE, async || {
        let all = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let is_unschedulable = |pod: &&Pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let mut unschedulable = conditions.filter(|c| c.reason.as_deref() == Some("Unschedulable"));
            pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()) && unschedulable.next().is_some()
        };
        if nodes < limit && all.iter().filter(is_unschedulable).count() >= 4 {
            world.nodes(1).cpus(4).prefix(&format!("{}-new-{nodes}", gang.name)).create().await;
            nodes += 1;
        }
        let members = gang.members().await.map_err(|error| error.to_string())?;
        let bound = members.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())).count();
        if bound == members.len() { Ok(()) } else { Err(format!("{bound} members bound, {nodes} nodes added")) }
    })
    .await;
}

/// Waits until no placeholder exists.
async fn wait_placeholders_removed(world: &World) {
    let pods: Api<Pod> = Api::all(world.client());
    wait_for("no placeholder exists", MINUTE, async || {
        let left = pods.list(&placeholders()).await.map_err(|error| error.to_string())?.items;
        if left.is_empty() { Ok(()) } else { Err(format!("{} exist", left.len())) }
    })
    .await;
}

async fn placeholders_request_nodes_for_a_gang_without_evictions() {
    let world = world("Placeholder", &["--provisioning-first", "--provisioning-after=1s"]).await;
    world.class("patient", 500).managed().never().create().await;
    let nodes = world.nodes(2).cpus(4).create().await;
    let low = world.fill(&nodes).priority("low").singles().await;
    let late = world.gang("train", 8).priority("high").spec(|spec| spec.preemption_delay_seconds = Some(600));
    let gang = late.create().await;
    expect_condition(&gang, CAPACITY_REQUESTED, "True CapacityRequested", "placeholder pods, of which 0 are bound.")
        .await;
    autoscale(&world, &gang, 2).await;
    wait_placeholders_removed(&world).await;
    expect_condition(&gang, CAPACITY_REQUESTED, "False CapacityNotNeeded", "").await;
    // A gang with policy `Never` depends on the autoscaler alone.
    let patient = world.gang("patient", 4).priority("patient").create().await;
    autoscale(&world, &patient, 1).await;
    wait_placeholders_removed(&world).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    for pod in &low {
        pod.wait_running(MINUTE).await;
    }
    world.check_promises().await;
}

async fn a_gang_preempts_after_its_delay_if_the_autoscaler_adds_too_few_nodes() {
    let world = world("Placeholder", &["--provisioning-first"]).await;
    let nodes = world.nodes(2).cpus(4).create().await;
    world.fill(&nodes).priority("low").singles().await;
    let late = world.gang("train", 8).priority("high").spec(|spec| spec.preemption_delay_seconds = Some(25));
    let gang = late.create().await;
    expect_condition(&gang, CAPACITY_REQUESTED, "True CapacityRequested", "").await;
    autoscale(&world, &gang, 1).await;
    let evicted = world.audit().await.evicted_names();
    assert!(evicted.len() >= 4, "{evicted:?}");
    wait_placeholders_removed(&world).await;
    world.check_promises().await;
}

/// Changes a pod.
type Change<'c> = &'c dyn Fn(&mut Value);

/// Returns a pod with the fields of a placeholder.
fn placeholder(image: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "forged", "labels": {LABEL_PLACEHOLDER: "train"}},
        "spec": {
            "preemptionPolicy": "Never", "priorityClassName": "high", "automountServiceAccountToken": false,
            "containers": [{"name": "placeholder", "image": image}]
        }
    })
}

async fn only_the_operator_creates_placeholders_and_it_creates_no_other_pods() {
    let mut world = world("Placeholder", &["--provisioning-after=1s"]).await;
    let pause = "registry.k8s.io/pause:3.10";
    let only = "only Giveway's operator creates placeholders: remove the label";
    let pods = "/api/v1/namespaces/default/pods";
    // An administrator with all RBAC rights.
    let administrator = world.client();
    Call::post(pods, &placeholder(pause)).refused(&administrator, "a placeholder of another user", only).await;
    let nodes = world.nodes(1).cpus(4).create().await;
    let victim = world.pod("victim").priority("low").on(&nodes[0]).create().await;
    let label = json!({"metadata": {"labels": {LABEL_PLACEHOLDER: "train"}}});
    let immutable = "field is immutable";
    let labelled = Call::merge(&format!("{pods}/victim"), &label);
    labelled.refused(&administrator, "a placeholder label added to a pod", immutable).await;
    world.pod("free").priority("low").node_selector("none", "such").create().await;
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": nodes[0]},
        "metadata": {"name": "free", "labels": {LABEL_PLACEHOLDER: "train"}}});
    let bound = Call::post(&format!("{pods}/free/binding"), &binding);
    bound
        .refused(&administrator, "a placeholder label added by a binding", "a binding would write it to the pod")
        .await;

    world.kubectl(&["create", "serviceaccount", "admin"]).await.unwrap();
    let operator = client_with_token_of(&mut world, "giveway-operator").await;
    let words = "Giveway's operator may create only placeholders: pods of the image registry.k8s.io/pause:3.10";
    Call::post(pods, &placeholder(pause)).dry().allowed(&operator, "a placeholder").await;
    let evil = Call::post(pods, &placeholder("registry.example/evil:1"));
    evil.refused(&operator, "another image", words).await;
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut pod = placeholder(pause);
        change(&mut pod);
        Call::post(pods, &pod)
    };
    let denied: [(&str, Change<'_>); 6] = [
        ("no label", &|pod| pod["metadata"]["labels"] = json!({})),
        ("a command", &|pod| pod["spec"]["containers"][0]["command"] = json!(["sh"])),
        ("the host's network", &|pod| pod["spec"]["hostNetwork"] = json!(true)),
        ("an account", &|pod| pod["spec"]["serviceAccountName"] = json!("admin")),
        ("a privilege", &|pod| {
            pod["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
        }),
        ("a volume", &|pod| {
            pod["spec"]["volumes"] = json!([{"name": "v", "hostPath": {"path": "/"}}]);
        }),
    ];
    for (what, change) in denied {
        changed(change).refused(&operator, what, words).await;
    }

    // Placeholders count against quotas, and the condition reports a rejection.
    let quota: ResourceQuota =
        serde_json::from_value(json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "6"}}})).unwrap();
    world.kit().api::<ResourceQuota>().create(&PostParams::default(), &quota).await.unwrap();
    wait_for("the status of the quota is computed", MINUTE, async || {
        let status = world.kit().api::<ResourceQuota>().get("few").await.map_err(|error| error.to_string())?.status;
        if status.unwrap_or_default().used.is_some() { Ok(()) } else { Err("its status is empty".to_owned()) }
    })
    .await;
    let gang = world.gang("train", 4).cpu(2).priority("low").create().await;
    expect_condition(&gang, CAPACITY_REQUESTED, "False CapacityFailed", "exceeded quota: few").await;
    world.kit().api::<ResourceQuota>().delete("few", &Default::default()).await.unwrap();
    // kube-scheduler would preempt for placeholders of this class.
    world.class("plain", 20).create().await;
    let plain = world.gang("plain", 4).cpu(2).priority("plain").create().await;
    expect_condition(
        &plain,
        CAPACITY_REQUESTED,
        "False CapacityFailed",
        "the priority class of the pods is not managed",
    )
    .await;
    victim.wait_running(MINUTE).await;
    gang.delete().await;
    plain.delete().await;
    wait_placeholders_removed(&world).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}

async fn without_capacity_requests_the_operator_has_no_rights_for_them(world: &mut World) {
    let operator = client_with_token_of(world, "giveway-operator").await;
    let pods = Call::post("/api/v1/namespaces/default/pods", &placeholder("registry.k8s.io/pause:3.10"));
    pods.refused(&operator, "a placeholder", "cannot create resource \"pods\"").await;
    let list = Call::get("/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests");
    list.refused(&operator, "requests", "cannot list resource \"provisioningrequests\"").await;
    world.check_promises().await;
}
