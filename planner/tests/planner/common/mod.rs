//! Builders for small clusters, shared by the tests.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "every test file uses a part of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use giveway_crds::PodGroup;
use giveway_crds::native::{self, NativeGroup};
use giveway_crds::policy::DisruptionMode;
use giveway_planner::{Cluster, Context, Decision, ObjectKey, Plan, Preemptor, SmolStr, still_fits};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub mod numbers;
pub mod world;

pub const NAMESPACE: &str = "default";
/// A priority above those of all groups in the tests.
pub const AMPLE: i32 = 1_000_000_000;
const LABEL_GROUP: &str = "scheduling.giveway.dev/pod-group";

pub fn key(name: &str) -> ObjectKey {
    ObjectKey::new(NAMESPACE, name)
}

/// An object under construction.
#[derive(Clone, Debug)]
pub struct Built(pub Value);

impl Built {
    /// Sets the value at a JSON pointer; missing objects on the way are made.
    pub fn set(mut self, path: &str, value: Value) -> Self {
        let mut at = &mut self.0;
        for part in path.split('/').skip(1) {
            at = &mut at[part.replace("~1", "/").as_str()];
        }
        *at = value;
        self
    }

    pub fn label(self, name: &str, value: &str) -> Self {
        self.set(&format!("/metadata/labels/{}", name.replace('/', "~1")), json!(value))
    }

    pub fn annotation(self, name: &str, value: &str) -> Self {
        self.set(&format!("/metadata/annotations/{}", name.replace('/', "~1")), json!(value))
    }

    // Pods.

    pub fn on(self, node: &str) -> Self {
        self.set("/spec/nodeName", json!(node)).set("/status/phase", json!("Running"))
    }

    /// Makes it a member, with the priority of its group unless another one is set.
    pub fn group(self, name: &str) -> Self {
        let unset = self.0["spec"]["priority"] == 0;
        let member = self.label(LABEL_GROUP, name);
        if unset { member.priority(AMPLE) } else { member }
    }

    /// Makes it a member of a native group.
    pub fn native(self, name: &str) -> Self {
        self.set("/spec/schedulingGroup/podGroupName", json!(name))
    }

    pub fn priority(self, priority: i32) -> Self {
        self.set("/spec/priority", json!(priority))
    }

    pub fn asks(self, resource: &str, amount: &str) -> Self {
        let mut built = self;
        built.0["spec"]["containers"][0]["resources"]["requests"][resource] = json!(amount);
        built
    }

    pub fn terminating(self) -> Self {
        self.set("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))
    }

    /// As [`Built::terminating`], with this grace in seconds.
    pub fn terminating_in(self, grace: i64) -> Self {
        self.terminating().set("/metadata/deletionGracePeriodSeconds", json!(grace))
    }

    pub fn nominated(self, node: &str) -> Self {
        self.set("/status/nominatedNodeName", json!(node))
    }

    pub fn threshold(self, threshold: i32) -> Self {
        let name = "scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal";
        self.annotation(name, &threshold.to_string())
    }

    // Nodes.

    pub fn offers(self, resource: &str, amount: &str) -> Self {
        self.set(&format!("/status/allocatable/{}", resource.replace('/', "~1")), json!(amount))
    }

    // Groups.

    pub fn whole(self) -> Self {
        self.set("/spec/disruptionMode", json!("PodGroup"))
    }

    /// Evicts other pods for all members.
    pub fn for_all(self) -> Self {
        self.set("/spec/preemptFor", json!("AllMembers"))
    }

    pub fn never(self) -> Self {
        self.set("/spec/preemptionPolicy", json!("Never"))
    }
}

pub fn node(name: &str, cpus: usize) -> Built {
    Built(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"hostname": name}}, "spec": {},
        "status": {"allocatable": {"cpu": cpus.to_string(), "memory": "64Gi", "pods": "110"}}
    }))
}

/// A pod that requests one CPU and may preempt.
pub fn pod(name: &str) -> Built {
    Built(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}"), "labels": {},
            "annotations": {"scheduling.giveway.dev/preemption-policy": "PreemptLowerPriority"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}], "priority": 0},
        "status": {"phase": "Pending"}
    }))
}

/// A gang that may preempt.
pub fn gang(name: &str, priority: i32, min_count: usize) -> Built {
    Built(json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}")},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, "disruptionMode": "Pod", "priority": priority,
            "preemptionPolicy": "PreemptLowerPriority"}
    }))
}

/// A group of Kubernetes itself; `mode` is `single` or `all`.
pub fn native_group(name: &str, priority: i32, mode: &str) -> Built {
    Built(json!({
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": format!("uid-native-{name}")},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": {mode: {}}, "priority": priority}
    }))
}

pub fn budget(name: &str, app: &str, allowed: i32) -> Built {
    Built(json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    }))
}

/// A claim that is bound to a volume.
pub fn bound_claim(name: &str, volume: &str) -> Built {
    Built(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"volumeName": volume}, "status": {"phase": "Bound"}
    }))
}

/// The volume of a claim, which is in one zone.
pub fn pinned_volume(name: &str, claim: &str, zone: &str) -> Built {
    let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]);
    Built(json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"claimRef": {"namespace": NAMESPACE, "name": claim}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
        "status": {"phase": "Bound"}
    }))
}

/// A group and its waiting members of one CPU.
pub fn waiting_gang(name: &str, priority: i32, size: usize) -> Vec<Built> {
    let member = |i| pod(&format!("{name}-{i:03}")).group(name).priority(priority);
    std::iter::once(gang(name, priority, size)).chain((0..size).map(member)).collect()
}

/// The namespace of everything here.
pub fn default_namespace(never_evict: bool) -> Built {
    let namespace = Built(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}));
    namespace.annotation("scheduling.giveway.dev/never-evict", if never_evict { "true" } else { "false" })
}

pub fn add(cluster: &mut Cluster, object: &Built) {
    let value = object.0.clone();
    let kind = value["kind"].as_str().unwrap().to_owned();
    match kind.as_str() {
        "Node" => cluster.upsert_node(&serde_json::from_value::<Node>(value).unwrap()),
        "Pod" => {
            let native_group = native::group_of(&value).map(str::to_owned);
            cluster.upsert_pod_in(&serde_json::from_value::<Pod>(value).unwrap(), native_group.as_deref())
        }
        "PodGroup" if value["apiVersion"] == "scheduling.k8s.io/v1beta1" => {
            cluster.upsert_native_group(&serde_json::from_value::<NativeGroup>(value).unwrap())
        }
        "PodGroup" => cluster.upsert_group(&serde_json::from_value::<PodGroup>(value).unwrap()),
        "PersistentVolume" => Ok(cluster.upsert_volume(&serde_json::from_value::<PersistentVolume>(value).unwrap())),
        "PersistentVolumeClaim" => {
            Ok(cluster.upsert_claim(&serde_json::from_value::<PersistentVolumeClaim>(value).unwrap()))
        }
        "Namespace" => Ok(cluster.upsert_namespace(&serde_json::from_value::<Namespace>(value).unwrap())),
        _ => cluster.upsert_budget(&serde_json::from_value::<PodDisruptionBudget>(value).unwrap()),
    }
    .unwrap();
}

pub fn cluster<'a>(objects: impl IntoIterator<Item = &'a Built>) -> Cluster {
    let mut cluster = Cluster::default();
    for object in objects {
        add(&mut cluster, object);
    }
    cluster
}

pub fn for_group(name: &str) -> Preemptor {
    Preemptor::Group(key(name))
}

pub fn for_pod(name: &str) -> Preemptor {
    Preemptor::Pod(key(name))
}

static SLOWEST: AtomicU64 = AtomicU64::new(0);

/// How long the slowest decision of this process took.
pub fn slowest() -> Duration {
    Duration::from_nanos(SLOWEST.load(Ordering::Relaxed))
}

/// What the planner decides; the time of the slowest decision is kept.
pub fn plan(cluster: &Cluster, preemptor: &Preemptor, context: &Context) -> Decision {
    let start = Instant::now();
    let decision = giveway_planner::plan(cluster, preemptor, context);
    let took = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    SLOWEST.fetch_max(took, Ordering::Relaxed);
    decision
}

pub fn decide(cluster: &Cluster, preemptor: &Preemptor) -> Decision {
    plan(cluster, preemptor, &Context::default())
}

/// The plan, or a panic that says what was decided instead.
pub fn planned(decision: Decision) -> Plan {
    match decision {
        Decision::Preempt(plan) => *plan,
        Decision::Unschedulable(why) => panic!("unschedulable: {why}"),
        other => panic!("{other:?}"),
    }
}

/// The sentence, or a panic that says what was decided instead.
pub fn shortfall(decision: Decision) -> String {
    match decision {
        Decision::Unschedulable(why) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Names of the victim units.
pub fn victims(plan: &Plan) -> Vec<&str> {
    plan.victims.iter().map(|victim| victim.key.name.as_str()).collect()
}

/// UIDs of the victim pods.
pub fn victim_uids(plan: &Plan) -> BTreeSet<SmolStr> {
    plan.victims.iter().flat_map(|victim| &victim.pods).map(|pod| pod.uid.clone()).collect()
}

/// `pod>node` of every placement.
pub fn places(plan: &Plan) -> Vec<String> {
    plan.placements.iter().map(|p| format!("{}>{}", p.pod.name, p.node)).collect()
}

/// Checks a plan independently of what it says: the members fit without its victims (and leaving pods), but not
/// with one unit less evicted; every victim has a lower priority, is bound, and is evicted with its whole group.
pub fn check_plan(cluster: &Cluster, preemptor: &Preemptor, plan: &Plan) -> Result<(), String> {
    let priority = match preemptor {
        Preemptor::Group(key) => cluster.group(key).unwrap().priority,
        Preemptor::Pod(key) => cluster.effective_priority(cluster.pod(key).unwrap()),
    };
    let leaving = cluster.pods().filter(|pod| pod.terminating).map(|pod| pod.uid.clone());
    let all: BTreeSet<SmolStr> = victim_uids(plan).into_iter().chain(leaving).collect();
    let fits = |gone: &BTreeSet<SmolStr>| still_fits(cluster, &plan.placements, priority, &Context::default(), gone);
    fits(&all)?;
    for victim in &plan.victims {
        if victim.priority >= priority {
            return Err(format!("{} has priority {}", victim.key, victim.priority));
        }
        let mut without = all.clone();
        for pod in &victim.pods {
            without.remove(&pod.uid);
            let known =
                cluster.pod(&pod.key).filter(|known| known.uid == pod.uid && known.node.as_ref() == Some(&pod.node));
            if !known.is_some_and(|known| known.live() && !known.mirror) {
                return Err(format!("{} is no running pod", pod.key));
            }
        }
        if fits(&without).is_ok() {
            return Err(format!("{} is evicted for nothing", victim.key));
        }
    }
    for uid in victim_uids(plan) {
        let pod = cluster.pods().find(|pod| pod.uid == uid).unwrap();
        let Some(group) = cluster.group_of(pod).filter(|group| group.mode == DisruptionMode::PodGroup) else {
            continue;
        };
        let mut members = cluster.members(&group.key).filter(|pod| pod.live() && pod.bound());
        if !members.all(|member| all.contains(&member.uid)) {
            return Err(format!("{} is only partially disrupted", group.key));
        }
    }
    Ok(())
}
