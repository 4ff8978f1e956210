//! Gangs that wait are made visible to a cluster autoscaler, and get room from it before anybody is evicted. The autoscalers are
//! played: what they are asked is real.

use crate::rights::thief;
use crate::{MINUTE, told};
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
            what_is_off_has_no_rights_and_asks_nobody;
        own:
            placeholders_bring_nodes_for_a_gang_and_nobody_is_evicted,
            nobody_else_makes_placeholders_and_the_operator_makes_nothing_else;
        release:
            a_request_that_fails_is_told_and_the_gang_preempts_when_its_time_is_over,
            a_request_that_is_met_too_late_is_withdrawn_when_the_gang_preempts,
            where_the_autoscaler_stops_the_time_passes_and_the_gang_preempts,
            a_request_that_is_met_gives_a_gang_room_before_anybody_is_evicted;
    ]
}

/// The kind of cluster-autoscaler, as far as it matters: names, the status, and that a request cannot be changed.
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

/// A full node, and a gang of four that would take it after so many seconds.
async fn full(world: &World, delay: i32) -> (Vec<PodHandle>, Group) {
    let nodes = world.nodes(1).cpus(4).create().await;
    let low = world.fill(&nodes).priority("low").singles().await;
    let late = world.gang("train", 4).priority("high").spec(|spec| spec.preemption_delay_seconds = Some(delay));
    (low, late.create().await)
}

fn requests(world: &World) -> Api<ProvisioningRequest> {
    Api::default_namespaced(world.client())
}

/// The one request that there is, once its templates are there.
async fn asked(world: &World) -> ProvisioningRequest {
    wait_for("there is a request with its templates", MINUTE, async || {
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

/// The autoscaler says something about a request.
async fn say(world: &World, request: &ProvisioningRequest, types: &[&str]) {
    let condition = |type_: &&str| {
        json!({"type": type_, "status": "True", "reason": "Said", "message": "no quota in this zone",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let conditions: Vec<Value> = types.iter().map(condition).collect();
    let status = Patch::Merge(json!({"status": {"conditions": conditions}}));
    let name = request.metadata.name.as_deref().unwrap();
    requests(world).patch_status(name, &PatchParams::default(), &status).await.unwrap();
}

async fn nothing_is_left_of_the_request(world: &World) {
    let templates: Api<PodTemplate> = Api::default_namespaced(world.client());
    wait_for("request and templates are gone", 2 * MINUTE, async || {
        let all = ListParams::default();
        let left = requests(world).list(&all).await.map_err(|error| error.to_string())?.items.len();
        let more = templates.list(&all).await.map_err(|error| error.to_string())?.items.len();
        if left + more == 0 { Ok(()) } else { Err(format!("{left} requests and {more} templates")) }
    })
    .await;
}

async fn a_request_that_is_met_gives_a_gang_room_before_anybody_is_evicted() {
    let world = world("ProvisioningRequest", &["--provisioning-first"]).await;
    let (low, gang) = full(&world, 600).await;
    let request = asked(&world).await;
    assert_eq!(request.spec.provisioning_class_name, ATOMIC_SCALE_UP);
    let [set] = request.spec.pod_sets.as_slice() else { panic!("{request:?}") };
    assert_eq!(set.count, 4);
    let templates: Api<PodTemplate> = Api::default_namespaced(world.client());
    let template = templates.get(&set.pod_template_ref.name).await.unwrap().template.unwrap().spec.unwrap();
    assert!(template.scheduling_gates.is_none(), "{template:?}");
    assert_eq!(template.containers[0].resources.as_ref().unwrap().requests.as_ref().unwrap()["cpu"].0, "1");
    told(&gang, CAPACITY_REQUESTED, "True CapacityAsked", "which nobody has accepted yet.").await;
    say(&world, &request, &["Accepted"]).await;
    told(&gang, CAPACITY_REQUESTED, "True CapacityAccepted", "Room for 4 pods is asked of the cluster autoscaler")
        .await;
    world.nodes(1).cpus(4).prefix("new").create().await;
    say(&world, &request, &["Accepted", "Provisioned"]).await;
    gang.wait_bound(MINUTE).await;
    told(&gang, CAPACITY_REQUESTED, "False CapacityNotNeeded", "").await;
    nothing_is_left_of_the_request(&world).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    low[0].wait_running(MINUTE).await;
    world.check_promises().await;
}

async fn a_request_that_fails_is_told_and_the_gang_preempts_when_its_time_is_over() {
    let world = world("ProvisioningRequest", &["--provisioning-first"]).await;
    let (_, gang) = full(&world, 20).await;
    let request = asked(&world).await;
    say(&world, &request, &["Accepted", "Failed"]).await;
    told(&gang, CAPACITY_REQUESTED, "False CapacityFailed", "no quota in this zone. It is asked again at 20").await;
    gang.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names().len(), 4);
    nothing_is_left_of_the_request(&world).await;
    world.check_promises().await;
}

async fn a_request_that_is_met_too_late_is_withdrawn_when_the_gang_preempts() {
    let world = world("ProvisioningRequest", &["--provisioning-first"]).await;
    let (_, gang) = full(&world, 10).await;
    say(&world, &asked(&world).await, &["Accepted"]).await;
    gang.wait_bound(MINUTE).await;
    assert_eq!(world.audit().await.evicted_names().len(), 4);
    told(&gang, CAPACITY_REQUESTED, "False CapacityNotNeeded", "").await;
    nothing_is_left_of_the_request(&world).await;
    world.check_promises().await;
}

fn placeholders() -> ListParams {
    ListParams::default().labels(LABEL_PLACEHOLDER)
}

/// Adds a node of four for every four pods that kube-scheduler has no place for, up to a number, until the gang is bound.
async fn autoscale(world: &World, gang: &Group, limit: usize) {
    let pods: Api<Pod> = Api::default_namespaced(world.client());
    let mut nodes = 0;
    wait_for("the autoscaler has done its work", 2 * MINUTE, async || {
        let all = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let waits = |pod: &&Pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let mut unschedulable = conditions.filter(|c| c.reason.as_deref() == Some("Unschedulable"));
            pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()) && unschedulable.next().is_some()
        };
        if nodes < limit && all.iter().filter(waits).count() >= 4 {
            world.nodes(1).cpus(4).prefix(&format!("{}-new-{nodes}", gang.name)).create().await;
            nodes += 1;
        }
        let members = gang.members().await.map_err(|error| error.to_string())?;
        let bound = members.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())).count();
        if bound == members.len() { Ok(()) } else { Err(format!("{bound} members bound, {nodes} nodes added")) }
    })
    .await;
}

async fn no_placeholder_is_left(world: &World) {
    let pods: Api<Pod> = Api::all(world.client());
    wait_for("no placeholder is left", MINUTE, async || {
        let left = pods.list(&placeholders()).await.map_err(|error| error.to_string())?.items;
        if left.is_empty() { Ok(()) } else { Err(format!("{} are", left.len())) }
    })
    .await;
}

async fn placeholders_bring_nodes_for_a_gang_and_nobody_is_evicted() {
    let world = world("Placeholder", &["--provisioning-first", "--provisioning-after=1s"]).await;
    world.class("patient", 500).managed().never().create().await;
    let nodes = world.nodes(2).cpus(4).create().await;
    let low = world.fill(&nodes).priority("low").singles().await;
    let late = world.gang("train", 8).priority("high").spec(|spec| spec.preemption_delay_seconds = Some(600));
    let gang = late.create().await;
    told(&gang, CAPACITY_REQUESTED, "True CapacityAsked", "by as many placeholders, of which 0 have a node.").await;
    autoscale(&world, &gang, 2).await;
    no_placeholder_is_left(&world).await;
    told(&gang, CAPACITY_REQUESTED, "False CapacityNotNeeded", "").await;
    // One that never preempts waits for nobody else.
    let patient = world.gang("patient", 4).priority("patient").create().await;
    autoscale(&world, &patient, 1).await;
    no_placeholder_is_left(&world).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    for pod in &low {
        pod.wait_running(MINUTE).await;
    }
    world.check_promises().await;
}

async fn where_the_autoscaler_stops_the_time_passes_and_the_gang_preempts() {
    let world = world("Placeholder", &["--provisioning-first"]).await;
    let nodes = world.nodes(2).cpus(4).create().await;
    world.fill(&nodes).priority("low").singles().await;
    let late = world.gang("train", 8).priority("high").spec(|spec| spec.preemption_delay_seconds = Some(25));
    let gang = late.create().await;
    told(&gang, CAPACITY_REQUESTED, "True CapacityAsked", "").await;
    autoscale(&world, &gang, 1).await;
    let evicted = world.audit().await.evicted_names();
    assert!(evicted.len() >= 4, "{evicted:?}");
    no_placeholder_is_left(&world).await;
    world.check_promises().await;
}

/// What makes something else of a pod.
type Change<'c> = &'c dyn Fn(&mut Value);

/// A pod as the operator makes placeholders.
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

async fn nobody_else_makes_placeholders_and_the_operator_makes_nothing_else() {
    let mut world = world("Placeholder", &["--provisioning-after=1s"]).await;
    let pause = "registry.k8s.io/pause:3.10";
    let only = "only Giveway's operator makes placeholders: remove the label";
    let pods = "/api/v1/namespaces/default/pods";
    // The administrator has every right there is.
    let administrator = world.client();
    Call::post(pods, &placeholder(pause)).refused(&administrator, "a placeholder of somebody's", only).await;
    let nodes = world.nodes(1).cpus(4).create().await;
    let victim = world.pod("victim").priority("low").on(&nodes[0]).create().await;
    let label = json!({"metadata": {"labels": {LABEL_PLACEHOLDER: "train"}}});
    let immutable = "field is immutable";
    let labelled = Call::merge(&format!("{pods}/victim"), &label);
    labelled.refused(&administrator, "a pod that is made to look like one", immutable).await;
    world.pod("free").priority("low").node_selector("none", "such").create().await;
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": nodes[0]},
        "metadata": {"name": "free", "labels": {LABEL_PLACEHOLDER: "train"}}});
    let bound = Call::post(&format!("{pods}/free/binding"), &binding);
    bound.refused(&administrator, "a label by a binding", "a binding would write it to the pod").await;

    world.kubectl(&["create", "serviceaccount", "admin"]).await.unwrap();
    let operator = thief(&mut world, "giveway-operator").await;
    let words = "Giveway's operator makes only placeholders: pods of the image registry.k8s.io/pause:3.10";
    Call::post(pods, &placeholder(pause)).dry().allowed(&operator, "a placeholder").await;
    let evil = Call::post(pods, &placeholder("registry.example/evil:1"));
    evil.refused(&operator, "another image", words).await;
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut pod = placeholder(pause);
        change(&mut pod);
        Call::post(pods, &pod)
    };
    let crimes: [(&str, Change<'_>); 6] = [
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
    for (what, change) in crimes {
        changed(change).refused(&operator, what, words).await;
    }

    // Placeholders count in quotas, and a refusal is told.
    let quota: ResourceQuota =
        serde_json::from_value(json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "6"}}})).unwrap();
    world.kit().api::<ResourceQuota>().create(&PostParams::default(), &quota).await.unwrap();
    wait_for("the quota is counted", MINUTE, async || {
        let status = world.kit().api::<ResourceQuota>().get("few").await.map_err(|error| error.to_string())?.status;
        if status.unwrap_or_default().used.is_some() { Ok(()) } else { Err("it is not".to_owned()) }
    })
    .await;
    let gang = world.gang("train", 4).cpu(2).priority("low").create().await;
    told(&gang, CAPACITY_REQUESTED, "False CapacityFailed", "exceeded quota: few").await;
    world.kit().api::<ResourceQuota>().delete("few", &Default::default()).await.unwrap();
    // kube-scheduler would preempt for placeholders of this class.
    world.class("plain", 20).create().await;
    let plain = world.gang("plain", 4).cpu(2).priority("plain").create().await;
    told(&plain, CAPACITY_REQUESTED, "False CapacityFailed", "a priority class that is not managed").await;
    victim.wait_running(MINUTE).await;
    gang.delete().await;
    plain.delete().await;
    no_placeholder_is_left(&world).await;
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}

async fn what_is_off_has_no_rights_and_asks_nobody(world: &mut World) {
    let operator = thief(world, "giveway-operator").await;
    let pods = Call::post("/api/v1/namespaces/default/pods", &placeholder("registry.k8s.io/pause:3.10"));
    pods.refused(&operator, "a placeholder", "cannot create resource \"pods\"").await;
    let list = Call::get("/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests");
    list.refused(&operator, "requests", "cannot list resource \"provisioningrequests\"").await;
    world.check_promises().await;
}
