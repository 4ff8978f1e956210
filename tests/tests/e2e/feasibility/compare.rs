//! The planner's answers about the same pods and nodes, and statistics of the agreements.

use giveway_crds::PodGroup;
use giveway_planner::{Cluster, Context, Decision, ObjectKey, Placement, Preemptor, plan, still_fits};
use giveway_tests::random::share;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The objects of a slot.
#[derive(Clone, Default)]
pub struct Objects {
    pub namespaces: Vec<Namespace>,
    pub nodes: Vec<Node>,
    pub volumes: Vec<PersistentVolume>,
    pub claims: Vec<PersistentVolumeClaim>,
    /// The existing pods, including gated pods with a nomination.
    pub pods: Vec<Pod>,
}

impl Objects {
    /// Returns the planner's reason why the pod does not fit on the node, or `None` if it fits. For a pod that is pinned to the
    /// node, panics if the planner's decision on the pod differs.
    pub fn refusal(&self, pod: &Pod, node: &str, pinned: bool) -> Option<String> {
        let nominated_here = |other: &Pod| nomination(other).is_none_or(|nominated| nominated == node);
        let cluster = self.cluster(pod, nominated_here);
        let refusal = place(&cluster, pod, node);
        if refusal.is_none() {
            // Nominations to other nodes may only make the planner stricter. Without nominations both answers must be equal.
            assert_eq!(place(&self.cluster(pod, |other| nomination(other).is_none()), pod, node), None, "{node}");
        } else {
            assert!(
                place(&self.cluster(pod, |_| true), pod, node).is_some(),
                "more nominations, and it fits on {node}"
            );
        }
        if pinned {
            match plan(&cluster, &Preemptor::Pod(key(pod)), &Context::default()) {
                Decision::Fits { placements, .. } => {
                    assert_eq!((placements[0].node.as_str(), &refusal), (node, &None), "plan and still_fits differ");
                }
                Decision::Unschedulable(why) => assert!(refusal.is_some(), "plan and still_fits differ: {why}"),
                other => panic!("{other:?}"),
            }
        }
        refusal
    }

    /// Returns the domain of this topology key in which the planner places a group that consists of this pod.
    pub fn domain(&self, pod: &Pod, group: &PodGroup, key: &str) -> Option<String> {
        let mut cluster = self.cluster(pod, |_| true);
        cluster.upsert_group(group).expect("a valid group");
        let group = cluster.groups().next()?.key.clone();
        match plan(&cluster, &Preemptor::Group(group), &Context::default()) {
            Decision::Fits { domain, .. } => {
                assert_eq!(domain.as_ref().map(|domain| domain.key.as_str()), Some(key));
                domain.map(|domain| domain.value.to_string())
            }
            Decision::Unschedulable(_) => None,
            other => panic!("{other:?}"),
        }
    }

    /// Returns true if a pod has a nomination.
    pub fn any_nominated(&self) -> bool {
        self.pods.iter().any(|pod| nomination(pod).is_some())
    }

    /// Like [`Objects::refusal`], without the anti-affinity of nominated pods, which kube-scheduler may skip.
    pub fn lenient_refusal(&self, pod: &Pod, node: &str) -> Option<String> {
        let affinity = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
        let has_terms = affinity.is_some_and(|a| a.pod_affinity.is_some() || a.pod_anti_affinity.is_some());
        let mut objects = self.clone();
        for nominated in objects.pods.iter_mut().filter(|other| !has_terms && nomination(other).is_some()) {
            if let Some(spec) = &mut nominated.spec {
                spec.affinity = None;
            }
        }
        objects.refusal(pod, node, false)
    }

    fn cluster(&self, pod: &Pod, wanted: impl Fn(&Pod) -> bool) -> Cluster {
        let mut cluster = Cluster::default();
        for namespace in &self.namespaces {
            cluster.upsert_namespace(namespace);
        }
        for node in &self.nodes {
            cluster.upsert_node(node).unwrap();
        }
        for volume in &self.volumes {
            cluster.upsert_volume(volume);
        }
        for claim in &self.claims {
            cluster.upsert_claim(claim);
        }
        for pod in self.pods.iter().filter(|other| wanted(other)).chain([pod]) {
            cluster.upsert_pod(pod).unwrap();
        }
        cluster
    }

    /// Returns all objects as YAML, without managed fields.
    pub fn yaml(&self) -> String {
        let namespaces = self.namespaces.iter().map(yaml);
        let nodes = self.nodes.iter().map(yaml);
        let volumes = self.volumes.iter().map(yaml).chain(self.claims.iter().map(yaml));
        namespaces.chain(nodes).chain(volumes).chain(self.pods.iter().map(yaml)).collect::<Vec<_>>().join("---\n")
    }
}

/// Returns an object as YAML, without managed fields.
pub fn yaml(object: &impl Serialize) -> String {
    let mut value = serde_json::to_value(object).unwrap();
    for noise in ["managedFields", "creationTimestamp", "resourceVersion"] {
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.remove(noise);
        }
    }
    serde_yaml_ng::to_string(&value).unwrap()
}

fn key(pod: &Pod) -> ObjectKey {
    ObjectKey::new(pod.metadata.namespace.clone().unwrap(), pod.metadata.name.clone().unwrap())
}

fn nomination(pod: &Pod) -> Option<&str> {
    pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref())
}

fn place(cluster: &Cluster, pod: &Pod, node: &str) -> Option<String> {
    let placement =
        Placement { pod: key(pod), uid: pod.metadata.uid.clone().unwrap_or_default().into(), node: node.into() };
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
    let fits = still_fits(cluster, &[placement], priority, &Context::default(), &BTreeSet::new());
    fits.err().map(|why| why.split_once(": ").map_or(why.clone(), |(_, reason)| reason.to_owned()))
}

/// Number of comparisons of each kind.
#[derive(Default)]
pub struct Tally {
    pub rounds: usize,
    /// Pairs of a pod and a node, by the planner's answer.
    pub pairs: BTreeMap<String, usize>,
    /// Test pods that were not pinned to a node.
    pub free: usize,
    /// Groups with a topology constraint to one zone: those that fit, and those that do not.
    pub domains: (usize, usize),
    /// Test pods that kube-scheduler decided on.
    pub questions: usize,
    /// Test pods that were scheduled again after a disagreement.
    pub again: usize,
    /// Agreements that hold only because kube-scheduler skipped the anti-affinity of a nominated pod.
    pub lenient: usize,
    /// Test pods that the API server rejected.
    pub invalid: BTreeSet<String>,
    pub disagreements: Vec<String>,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.free += other.free;
        self.domains.0 += other.domains.0;
        self.domains.1 += other.domains.1;
        self.lenient += other.lenient;
        self.questions += other.questions;
        self.again += other.again;
        self.invalid.extend(other.invalid);
        self.disagreements.extend(other.disagreements);
        for (reason, count) in other.pairs {
            *self.pairs.entry(reason).or_default() += count;
        }
    }

    pub fn count(&mut self, refusal: Option<&String>) {
        let reason = refusal.map_or("fits", |reason| reason.trim_end_matches('.').split(" {").next().unwrap_or(reason));
        *self.pairs.entry(reason.to_owned()).or_default() += 1;
    }

    /// Panics if a filter was never the reason of an answer, or if too many agreements needed a second attempt.
    pub fn check_coverage(&self) {
        for reason in [
            "fits",
            "the node is unschedulable",
            "the node has the untolerated taint",
            "the node doesn't match its node affinity/selector",
            "a port that it needs is taken",
            "insufficient cpu",
            "insufficient memory",
            "insufficient pods",
            "insufficient example.com/gpu",
            "no pod there matches its pod affinity",
            "its pod anti-affinity, or that of another pod, excludes the node",
            "its topology spread constraints do not allow it",
            "the node cannot attach one of its volumes",
        ] {
            let count = self.pairs.get(reason).copied().unwrap_or(0);
            assert!(count >= share(25), "only {count} pairs with \"{reason}\": {self}");
        }
        assert!(self.domains.0 >= share(40) && self.domains.1 >= share(40), "{self}");
        // Agreements after a second attempt or by a known difference are rare (none with the fixed seed).
        assert!(self.again * 100 <= self.questions, "{self}");
        assert!(self.lenient * 100 <= self.pairs.values().sum(), "{self}");
        assert!(self.invalid.is_empty(), "the API server refused pods: {:?}", self.invalid);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: usize = self.pairs.values().sum();
        write!(f, "{} clusters, {pairs} pairs of a pod and a node", self.rounds)?;
        write!(f, ", {} pods without a pin, {} questions asked again", self.free, self.again)?;
        write!(f, ", groups within a zone: {} placed, {} not", self.domains.0, self.domains.1)?;
        write!(f, ", {} without the anti-affinity of a nominated pod; {:?}", self.lenient, self.pairs)
    }
}
