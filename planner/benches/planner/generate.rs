//! Clusters to measure with: the same objects on every machine and in every run.

use giveway_crds::PodGroup;
use giveway_planner::{Cluster, ObjectKey};
use k8s_openapi::api::core::v1::{
    Affinity, Container, Node, NodeStatus, Pod, PodAffinityTerm, PodAntiAffinity, PodSpec, PodStatus,
    ResourceRequirements, Toleration,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use serde_json::json;
use std::collections::BTreeMap;

/// Preemptors have this priority; all other pods are below 500.
pub(crate) const HIGH: i32 = 1000;
pub(crate) const GROUP_LABEL: &str = "scheduling.giveway.dev/pod-group";
const POLICY: &str = "scheduling.giveway.dev/preemption-policy";
const THRESHOLD: &str = "scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal";
/// Namespace of the preemptors.
pub(crate) const TEAM: &str = "preemptors";

/// A small generator of our own: the same numbers everywhere.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// What differs between the large clusters.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) nodes: usize,
    /// Pods in all: 8 per node have a GPU and are members of groups, the others only have CPUs.
    pub(crate) pods: usize,
    /// Budgets, over a tenth of the pods.
    pub(crate) budgets: usize,
    /// True if every second budget is guaranteed.
    pub(crate) guaranteed: bool,
}

/// S1's cluster: 5,000 nodes and 150,000 pods.
pub(crate) const LARGE: Shape = Shape { nodes: 5000, pods: 150_000, budgets: 200, guaranteed: false };
/// The cluster of the rows that begin with H: 15,000 nodes and 500,000 pods.
pub(crate) const HUGE: Shape = Shape { nodes: 15_000, pods: 500_000, budgets: 200, guaranteed: false };

fn quantities(list: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    list.iter().map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned()))).collect()
}

pub(crate) fn node(number: usize) -> Node {
    let name = node_name(number);
    let labels =
        [("kubernetes.io/hostname", name.clone()), ("topology.kubernetes.io/zone", format!("z{}", number % 3))];
    let offers = [("cpu", "96"), ("memory", "768Gi"), ("nvidia.com/gpu", "8"), ("pods", "110")];
    Node {
        metadata: ObjectMeta {
            name: Some(name),
            labels: Some(labels.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
            ..ObjectMeta::default()
        },
        status: Some(NodeStatus { allocatable: Some(quantities(&offers)), ..NodeStatus::default() }),
        ..Node::default()
    }
}

pub(crate) fn node_name(number: usize) -> String {
    format!("node-{number:05}")
}

/// Labels that an organisation gives to all its pods.
const COMMON_LABELS: [&str; 5] =
    ["team", "app.kubernetes.io/name", "app.kubernetes.io/part-of", "app.kubernetes.io/version", "cost-center"];

/// A pod as a Job or a ReplicaSet creates it: with labels of the organisation and of its controller, an owner, the two tolerations that
/// admission adds, and a sidecar container without requests. The last part of the name is its own, the rest names the controller.
pub(crate) fn pod(namespace: &str, name: &str, priority: i32, asks: &[(&str, &str)]) -> Pod {
    let (controller, index) = name.rsplit_once('-').unwrap_or((name, "0"));
    let app = name.split('-').next().unwrap_or_default();
    let (kind, api_version) = if app == "web" { ("ReplicaSet", "apps/v1") } else { ("Job", "batch/v1") };
    let controller_uid = format!("00000000-0000-4000-{namespace}-{controller}");
    let mut labels: BTreeMap<String, String> = COMMON_LABELS
        .map(|key| (key.to_owned(), format!("{app} of the department {namespace}")))
        .into_iter()
        .chain([("app".to_owned(), app.to_owned())])
        .collect();
    if kind == "Job" {
        labels.extend([
            ("batch.kubernetes.io/job-name".to_owned(), controller.to_owned()),
            ("batch.kubernetes.io/controller-uid".to_owned(), controller_uid.clone()),
            ("batch.kubernetes.io/job-completion-index".to_owned(), index.to_owned()),
        ]);
    } else {
        labels.insert("pod-template-hash".to_owned(), format!("{:x}", controller.len() * 7919));
    }
    let main = Container {
        name: "main".to_owned(),
        resources: Some(ResourceRequirements { requests: Some(quantities(asks)), ..ResourceRequirements::default() }),
        ..Container::default()
    };
    let sidecar = Container { name: "log-shipper".to_owned(), ..Container::default() };
    let tolerations = ["not-ready", "unreachable"].map(|condition| Toleration {
        key: Some(format!("node.kubernetes.io/{condition}")),
        operator: Some("Exists".to_owned()),
        effect: Some("NoExecute".to_owned()),
        toleration_seconds: Some(300),
        ..Toleration::default()
    });
    Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            uid: Some(format!("00000000-0000-{namespace}-{name}")),
            labels: Some(labels),
            annotations: Some(BTreeMap::from([(POLICY.to_owned(), "PreemptLowerPriority".to_owned())])),
            owner_references: Some(vec![OwnerReference {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                name: controller.to_owned(),
                uid: controller_uid,
                controller: Some(true),
                block_owner_deletion: Some(true),
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec {
            containers: vec![main, sidecar],
            priority: Some(priority),
            tolerations: Some(tolerations.to_vec()),
            ..PodSpec::default()
        }),
        status: Some(PodStatus { phase: Some("Pending".to_owned()), ..PodStatus::default() }),
    }
}

/// Binds a pod to a node.
pub(crate) fn on(mut pod: Pod, node: usize) -> Pod {
    pod.spec.as_mut().unwrap().node_name = Some(node_name(node));
    pod.status.as_mut().unwrap().phase = Some("Running".to_owned());
    pod
}

pub(crate) fn label(mut pod: Pod, key: &str, value: &str) -> Pod {
    pod.metadata.labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
    pod
}

pub(crate) fn group(namespace: &str, name: &str, priority: i32, min_count: usize, mode: &str) -> PodGroup {
    serde_json::from_value(json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{name}")},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, "disruptionMode": mode, "priority": priority,
            "preemptionPolicy": "PreemptLowerPriority"}
    }))
    .unwrap()
}

fn budget(namespace: &str, name: &str) -> PodDisruptionBudget {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace}, "spec": {"selector": {"matchLabels": {"budget": name}}},
        "status": {"disruptionsAllowed": 5, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}
    }))
    .unwrap()
}

/// Namespace, budget and threshold of the next workload; a tenth of them is under a budget.
struct Workloads {
    numbers: Numbers,
    shape: Shape,
}

impl Workloads {
    fn next(&mut self) -> (String, Option<String>, bool) {
        if self.numbers.below(10) > 0 || self.shape.budgets == 0 {
            return (format!("team-{:02}", self.numbers.below(20)), None, false);
        }
        let number = self.numbers.below(self.shape.budgets);
        let guaranteed = self.shape.guaranteed && number % 2 == 1;
        (format!("team-{:02}", number % 20), Some(format!("budget-{number:04}")), guaranteed)
    }

    fn priority(&mut self) -> i32 {
        i32::try_from(self.numbers.below(50)).unwrap() * 10
    }
}

fn mark(mut pod: Pod, budget: Option<&String>, guaranteed: bool) -> Pod {
    if guaranteed {
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(THRESHOLD.to_owned(), (HIGH + 1).to_string());
    }
    match budget {
        Some(budget) => label(pod, "budget", budget),
        None => pod,
    }
}

/// Calls `each` with every pod of a large cluster, and `group` with every group of it.
pub(crate) fn pods(shape: Shape, gpus: usize, mut each: impl FnMut(Pod), mut each_group: impl FnMut(PodGroup)) {
    let mut workloads = Workloads { numbers: Numbers(42), shape };
    let places = shape.nodes * gpus;
    let (mut place, mut number) = (0, 0);
    while place < places {
        let size = (8 + workloads.numbers.below(57)).min(places - place);
        let (namespace, budget, guaranteed) = workloads.next();
        let (name, priority) = (format!("train-{number:05}"), workloads.priority());
        each_group(group(&namespace, &name, priority, size, "PodGroup"));
        for member in 0..size {
            let asks = [("cpu", "4"), ("memory", "32Gi"), ("nvidia.com/gpu", "1")];
            let built = pod(&namespace, &format!("{name}-{member:02}"), priority, &asks);
            let built = label(on(built, (place + member) / gpus), GROUP_LABEL, &name);
            each(mark(built, budget.as_ref(), guaranteed));
        }
        place += size;
        number += 1;
    }
    // Ten pods of each ReplicaSet.
    let (mut of_set, mut priority) = (workloads.next(), workloads.priority());
    for number in 0..shape.pods.saturating_sub(places) {
        if number % 10 == 0 {
            (of_set, priority) = (workloads.next(), workloads.priority());
        }
        let (namespace, budget, guaranteed) = &of_set;
        let name = format!("web-{:05}-{}", number / 10, number % 10);
        let built = pod(namespace, &name, priority, &[("cpu", "2"), ("memory", "8Gi")]);
        each(mark(on(built, number % shape.nodes), budget.as_ref(), *guaranteed));
    }
}

/// A bound member of a group with GPUs under a budget, of the cluster of this shape.
pub(crate) fn guarded_member(shape: Shape) -> Pod {
    let mut found = None;
    let wanted = |pod: &Pod| {
        let labels = pod.metadata.labels.as_ref().unwrap();
        labels.contains_key("budget") && labels.contains_key(GROUP_LABEL)
    };
    pods(shape, 8, |pod| found = found.take().or_else(|| wanted(&pod).then_some(pod)), |_| {});
    found.unwrap()
}

/// A large cluster without preemptors.
pub(crate) fn large(shape: Shape) -> Cluster {
    large_with(shape, 8, |_, _| {})
}

/// The same with so many GPUs, and groups' pods, on a node, and nodes that are changed first.
pub(crate) fn large_with(shape: Shape, gpus: usize, change: impl Fn(usize, &mut Node)) -> Cluster {
    let mut cluster = Cluster::default();
    for number in 0..shape.nodes {
        let mut node = node(number);
        let offers = node.status.as_mut().unwrap().allocatable.as_mut().unwrap();
        offers.get_mut("nvidia.com/gpu").unwrap().0 = gpus.to_string();
        offers.get_mut("cpu").unwrap().0 = (12 * gpus).to_string();
        change(number, &mut node);
        cluster.upsert_node(&node).unwrap();
    }
    for number in 0..shape.budgets {
        let (namespace, name) = (format!("team-{:02}", number % 20), format!("budget-{number:04}"));
        cluster.upsert_budget(&budget(&namespace, &name)).unwrap();
    }
    let mut groups = Vec::new();
    pods(shape, gpus, |pod| _ = cluster.upsert_pod(&pod).unwrap(), |group| groups.push(group));
    for group in &groups {
        cluster.upsert_group(group).unwrap();
    }
    cluster
}

/// S8's cluster: nodes full of single pods of one GPU.
pub(crate) fn full_of_single_pods(nodes: usize) -> Cluster {
    let mut cluster = Cluster::default();
    for number in 0..nodes {
        cluster.upsert_node(&node(number)).unwrap();
    }
    for number in 0..nodes * 8 {
        let built = pod(
            "team-00",
            &format!("job-{:05}-{:02}", number / 50, number % 50),
            10,
            &[("cpu", "4"), ("nvidia.com/gpu", "1")],
        );
        cluster.upsert_pod(&on(built, number / 8)).unwrap();
    }
    cluster
}

/// A pending gang.
pub(crate) struct Gang<'a> {
    pub(crate) name: &'a str,
    pub(crate) priority: i32,
    pub(crate) size: usize,
    pub(crate) gpus: &'a str,
    pub(crate) cpus: &'a str,
    /// True if no two members may share a node.
    pub(crate) apart: bool,
}

impl Gang<'_> {
    pub(crate) fn add_to(&self, cluster: &mut Cluster) -> ObjectKey {
        cluster.upsert_group(&group(TEAM, self.name, self.priority, self.size, "Pod")).unwrap();
        for member in 0..self.size {
            let asks = [("cpu", self.cpus), ("nvidia.com/gpu", self.gpus)];
            let built = pod(TEAM, &format!("{}-{member:05}", self.name), self.priority, &asks);
            let mut built = label(label(built, GROUP_LABEL, self.name), "gang", self.name);
            if self.apart {
                built.spec.as_mut().unwrap().affinity = Some(apart(self.name));
            }
            cluster.upsert_pod(&built).unwrap();
        }
        ObjectKey::new(TEAM, self.name)
    }
}

fn apart(gang: &str) -> Affinity {
    let selector = LabelSelector {
        match_labels: Some(BTreeMap::from([("gang".to_owned(), gang.to_owned())])),
        ..LabelSelector::default()
    };
    let term = PodAffinityTerm {
        label_selector: Some(selector),
        topology_key: "kubernetes.io/hostname".to_owned(),
        ..PodAffinityTerm::default()
    };
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: Some(vec![term]),
            ..PodAntiAffinity::default()
        }),
        ..Affinity::default()
    }
}
