//! One round of one slot: a new small cluster, and test pods that kube-scheduler decides on.

use super::board::{Board, Verdict, verdict};
use super::compare::{Objects, Tally, yaml};
use super::random::{Pods, node_name, node_patch, pin, zone_key};
use giveway_tests::control_plane::Version;
use giveway_tests::random::Random;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Number of attempts for a test pod on which kube-scheduler and planner disagree.
const TRIES: usize = 3;

/// Nodes and namespaces that are used for one random cluster after the other.
pub struct Slot {
    pub client: Client,
    pub board: Board,
    pub seed: u64,
    pub number: usize,
    pub nodes: usize,
    pub namespaces: Vec<Namespace>,
    pub volumes: Vec<PersistentVolume>,
    pub claims: Vec<PersistentVolumeClaim>,
}

impl Slot {
    /// Plays one round: changes nodes, creates pods and compares the decisions on test pods.
    pub async fn round(&self, round: usize, nodes: &mut Vec<Node>, tally: &mut Tally) {
        let mut random = Random::new(self.seed, self.number, round);
        let mut objects = Objects {
            namespaces: self.namespaces.clone(),
            volumes: self.volumes.clone(),
            claims: self.claims.clone(),
            ..Objects::default()
        };
        let changed = random.below(self.nodes);
        for index in 0..self.nodes {
            if round == 0 {
                nodes.push(self.change_node(index, &mut random).await);
            } else if index == changed || random.percent(40) {
                nodes[index] = self.change_node(index, &mut random).await;
            }
        }
        objects.nodes.clone_from(nodes);
        let with_resources = Version::chosen().unwrap().has_pod_resources();
        let mut pods = Pods { slot: self.number, with_resources, random: &mut random };
        for index in 0..2 + pods.random.below(4) {
            let node = node_name(self.number, pods.random.below(self.nodes));
            let written = pods.occupant(&format!("o{round}-{index}"), &node);
            let Some(pod) = self.create(written, tally).await else { continue };
            objects.pods.push(match pods.random.below(12) {
                0 => self.terminate(pod).await,
                1 => self.resize(pod, pods.random).await,
                _ => pod,
            });
        }
        for index in 0..[0, 0, 1, 1, 2][pods.random.below(5)] {
            let node = node_name(self.number, pods.random.below(self.nodes));
            let written = pods.nominee(&format!("h{round}-{index}"));
            let Some(pod) = self.create(written, tally).await else { continue };
            objects.pods.push(self.patch_status(&pod, json!({"nominatedNodeName": node})).await);
        }
        let questions = if pods.random.percent(25) { 2 } else { 1 };
        for number in 0..questions {
            let written = pods.candidate("named-per-attempt");
            for index in 0..self.nodes {
                let node = node_name(self.number, index);
                let by_field = pods.random.percent(25);
                let pinned = if by_field { pin_by_field(&written, &node) } else { pin_by_resource(&written, &node) };
                self.ask(round, pinned, Some(&node), &objects, tally).await;
            }
            if number == 0 {
                let bound = self.ask(round, written, None, &objects, tally).await;
                objects.pods.extend(bound);
            }
        }
        if pods.random.percent(25) {
            let written = pods.candidate("named-per-attempt");
            self.ask_domain(round, written, &objects, tally).await;
        }
        for namespace in &self.namespaces {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace.metadata.name.as_deref().unwrap());
            pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await.unwrap();
        }
    }

    /// Creates a test pod and compares the decision of kube-scheduler with that of the planner. Returns the pod if it stays
    /// bound.
    async fn ask(
        &self,
        round: usize,
        written: Value,
        node: Option<&str>,
        objects: &Objects,
        tally: &mut Tally,
    ) -> Option<Pod> {
        for attempt in 1..=TRIES {
            // Every pod has a new name: kwok identifies pods by name and may still process the last one.
            tally.questions += 1;
            let mut written = written.clone();
            written["metadata"]["name"] = json!(format!("q{round}-{}", tally.questions));
            let pod = self.create(written.clone(), tally).await?;
            let uid = pod.metadata.uid.clone().unwrap();
            let decided = self.board.wait("the scheduler has decided", &uid, verdict).await;
            // The planner must give the same answer for the pod without the defaults that the API server sets.
            let mut plain: Pod = serde_json::from_value(written).unwrap();
            plain.metadata.uid = Some(uid.clone());
            let nodes: Vec<String> = match node {
                Some(node) => vec![node.to_owned()],
                None => (0..self.nodes).map(|index| node_name(self.number, index)).collect(),
            };
            let refusals: Vec<Option<String>> =
                nodes.iter().map(|n| objects.refusal(&pod, n, node.is_some())).collect();
            let plainly: Vec<Option<String>> = nodes.iter().map(|n| objects.refusal(&plain, n, false)).collect();
            let agrees = |refusals: &[Option<String>]| match &decided {
                Verdict::Bound(on) => nodes.iter().zip(refusals).any(|(node, why)| node == on && why.is_none()),
                Verdict::Unschedulable(_) => refusals.iter().all(Option::is_some),
            };
            let lenient = || {
                let refusals: Vec<_> = nodes.iter().map(|node| objects.lenient_refusal(&pod, node)).collect();
                agrees(&refusals)
            };
            let strict = agrees(&refusals);
            if plainly == refusals && (strict || lenient()) {
                tally.lenient += usize::from(!strict);
                match node {
                    Some(_) => tally.count(refusals[0].as_ref()),
                    None => tally.free += 1,
                }
                if let (None, Verdict::Bound(on)) = (node, &decided) {
                    let mut bound = pod;
                    bound.spec.as_mut().unwrap().node_name = Some(on.clone());
                    return Some(bound);
                }
                self.delete(&pod).await;
                return None;
            }
            self.delete(&pod).await;
            tally.again += 1;
            if attempt == TRIES {
                let verdicts: Vec<_> = nodes.iter().zip(&refusals).collect();
                tally.disagreements.push(format!(
                    "slot {}, round {round}\nscheduler: {decided:?}\nplanner (None = fits): {verdicts:?}\nas written: \
                     {plainly:?}\n{}---\n{}",
                    self.number,
                    yaml(&pod),
                    objects.yaml()
                ));
            }
        }
        None
    }

    /// Compares topology constraints: kube-scheduler schedules a pod with a node selector for each zone, and the planner places a
    /// group of this pod that must stay within one zone. The planner must choose a zone in which kube-scheduler bound the pod, if
    /// there is one.
    async fn ask_domain(&self, round: usize, mut written: Value, objects: &Objects, tally: &mut Tally) {
        let key = zone_key(self.number);
        written["metadata"]["labels"]["scheduling.giveway.dev/pod-group"] = json!("zoned");
        let zone = |node: &Node| node.metadata.labels.as_ref().and_then(|labels| labels.get(&key)).cloned();
        let zones: BTreeSet<String> = objects.nodes.iter().filter_map(zone).collect();
        let mut open = BTreeSet::new();
        for zone in zones {
            let mut within = written.clone();
            within["spec"]["nodeSelector"][&key] = json!(zone);
            if let Some(bound) = self.ask(round, within, None, objects, tally).await {
                self.delete(&bound).await;
                open.insert(zone);
            }
        }
        let namespace = written["metadata"]["namespace"].clone();
        written["metadata"]["name"] = json!("zoned-0");
        written["metadata"]["uid"] = json!("uid-zoned-0");
        let group = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "zoned", "namespace": namespace, "uid": "uid-zoned"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}, "disruptionMode": "Pod", "priority": 50,
                "preemptionPolicy": "Never", "schedulingConstraints": {"topology": [{"key": key}]}}
        });
        let pod: Pod = serde_json::from_value(written).unwrap();
        let found = objects.domain(&pod, &serde_json::from_value(group).unwrap(), &key);
        match &found {
            Some(_) => tally.domains.0 += 1,
            None => tally.domains.1 += 1,
        }
        // With nominations to other nodes the planner may be stricter, but never laxer.
        let agree = found.as_ref().map_or(open.is_empty() || objects.any_nominated(), |zone| open.contains(zone));
        if !agree {
            tally.disagreements.push(format!(
                "slot {}, round {round}\nscheduler: zones {open:?}\nplanner: zone {found:?}\n{}---\n{}",
                self.number,
                yaml(&pod),
                objects.yaml()
            ));
        }
    }

    async fn change_node(&self, index: usize, random: &mut Random) -> Node {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patch = Patch::Merge(node_patch(self.number, index, random));
        nodes.patch(&node_name(self.number, index), &PatchParams::default(), &patch).await.unwrap()
    }

    /// Creates a pod; returns `None` if the API server rejects it as invalid.
    async fn create(&self, written: Value, tally: &mut Tally) -> Option<Pod> {
        let pod: Pod = serde_json::from_value(written).unwrap();
        match self.api(&pod).create(&PostParams::default(), &pod).await {
            Ok(pod) => Some(pod),
            Err(kube::Error::Api(status)) if status.code == 422 => {
                tally.invalid.insert(status.message.clone());
                None
            }
            Err(error) => panic!("creating {}: {error}", yaml(&pod)),
        }
    }

    /// Deletes a bound pod, which keeps terminating for the whole round.
    async fn terminate(&self, pod: Pod) -> Pod {
        let name = pod.metadata.name.as_deref().unwrap();
        let annotation = json!({"metadata": {"annotations": {"kwok.giveway.dev/grace-seconds": "600"}}});
        self.api(&pod).patch(name, &PatchParams::default(), &Patch::Merge(annotation)).await.unwrap();
        self.api(&pod).delete(name, &DeleteParams::default().grace_period(600)).await.unwrap();
        self.api(&pod).get(name).await.unwrap()
    }

    /// Reports a resize in progress of a running pod's first container.
    async fn resize(&self, pod: Pod, random: &mut Random) -> Pod {
        let running = |pod: &Pod| {
            let status = pod.status.as_ref()?;
            status.container_statuses.clone().filter(|_| status.phase.as_deref() == Some("Running"))
        };
        let uid = pod.metadata.uid.clone().unwrap();
        let mut statuses = json!(self.board.wait("the pod runs", &uid, running).await);
        statuses[0]["allocatedResources"] = json!({"cpu": random.pick(&["100m", "1", "2"]), "memory": "100M"});
        if random.percent(50) {
            statuses[0]["resources"] = json!({"requests": {"cpu": random.pick(&["50m", "1500m"])}});
        }
        let mut status = json!({"containerStatuses": statuses});
        if random.percent(50) {
            let reason = random.pick(&["Infeasible", "Deferred"]);
            let conditions = json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
            status["conditions"] = conditions;
        }
        self.patch_status(&pod, status).await
    }

    async fn patch_status(&self, pod: &Pod, status: Value) -> Pod {
        let name = pod.metadata.name.as_deref().unwrap();
        let patch = Patch::Merge(json!({"status": status}));
        self.api(pod).patch_status(name, &PatchParams::default(), &patch).await.unwrap()
    }

    async fn delete(&self, pod: &Pod) {
        let name = pod.metadata.name.as_deref().unwrap();
        match self.api(pod).delete(name, &DeleteParams::default().grace_period(0)).await {
            // The pod may have been evicted by a taint that kube-scheduler had not observed when it bound the pod.
            Ok(_) | Err(kube::Error::Api(_)) => {}
            Err(error) => panic!("deleting {name}: {error}"),
        }
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        Api::namespaced(self.client.clone(), pod.metadata.namespace.as_deref().unwrap())
    }
}

/// Pins a pod to a node by a resource that only the node offers. Its node affinity, and so the nodes that count for topology
/// spread, are unchanged.
fn pin_by_resource(written: &Value, node: &str) -> Value {
    let mut pod = written.clone();
    pod["spec"]["containers"][0]["resources"]["limits"][pin(node)] = json!("1");
    pod
}

/// Pins a pod to a node by the field `metadata.name`, in every term of its node affinity.
fn pin_by_field(written: &Value, node: &str) -> Value {
    let mut pod = written.clone();
    let required = &mut pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    if !required.is_object() {
        *required = json!({"nodeSelectorTerms": [{}]});
    }
    for term in required["nodeSelectorTerms"].as_array_mut().unwrap() {
        let mut fields = term["matchFields"].as_array().cloned().unwrap_or_default();
        fields.push(json!({"key": "metadata.name", "operator": "In", "values": [node]}));
        term["matchFields"] = json!(fields);
    }
    pod
}
