//! Fake nodes.

use super::Kit;
use crate::wait::wait_for;
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::{ListParams, ObjectMeta};
use std::collections::BTreeMap;
use std::time::Duration;

/// Builds nodes with equal properties; [`NodesBuilder::create`] creates them.
#[derive(Clone)]
pub struct NodesBuilder {
    kit: Kit,
    count: usize,
    prefix: String,
    capacity: BTreeMap<String, Quantity>,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
}

impl NodesBuilder {
    /// Returns a builder of `count` nodes `node-000` and so on, with 8 CPUs, 64 GiB of memory and 110 pods each.
    pub fn new(kit: Kit, count: usize) -> Self {
        let capacity = [("cpu", "8"), ("memory", "64Gi"), ("pods", "110")];
        Self {
            kit,
            count,
            prefix: "node".to_owned(),
            capacity: capacity
                .into_iter()
                .map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned())))
                .collect(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
        }
    }

    /// Sets the prefix of the names.
    #[must_use]
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// Sets the number of CPUs of each node.
    #[must_use]
    pub fn cpus(self, cpus: u32) -> Self {
        self.resource("cpu", &cpus.to_string())
    }

    /// Sets the number of GPUs (`nvidia.com/gpu`) of each node; 0 removes the resource.
    #[must_use]
    pub fn gpus(self, gpus: u32) -> Self {
        if gpus == 0 { self } else { self.resource("nvidia.com/gpu", &gpus.to_string()) }
    }

    /// Sets the memory of each node, as a quantity such as `64Gi`.
    #[must_use]
    pub fn memory(self, quantity: &str) -> Self {
        self.resource("memory", quantity)
    }

    /// Sets the maximum number of pods of each node.
    #[must_use]
    pub fn pods(self, pods: u32) -> Self {
        self.resource("pods", &pods.to_string())
    }

    /// Sets the capacity of another resource.
    #[must_use]
    pub fn resource(mut self, name: &str, quantity: &str) -> Self {
        self.capacity.insert(name.to_owned(), Quantity(quantity.to_owned()));
        self
    }

    /// Sets a label of each node.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a taint to each node; `effect` is `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[must_use]
    pub fn taint(mut self, key: &str, value: &str, effect: &str) -> Self {
        let taint =
            Taint { key: key.to_owned(), value: Some(value.to_owned()), effect: effect.to_owned(), ..Taint::default() };
        self.taints.push(taint);
        self
    }

    /// Creates the nodes, waits until kube-scheduler may use them, and returns their names.
    ///
    /// # Panics
    /// If a node is rejected or does not become ready.
    pub async fn create(self) -> Vec<String> {
        let api: Api<Node> = Api::all(self.kit.client.clone());
        let nodes: Vec<Node> = (0..self.count).map(|index| self.node(index)).collect();
        let created = Kit::create_all(&api, nodes).await;
        let names: Vec<String> = created.into_iter().filter_map(|node| node.metadata.name).collect();
        // Thousands of nodes take minutes on a busy machine.
        let limit =
            Duration::from_secs(60) + Duration::from_millis(100) * u32::try_from(names.len()).unwrap_or(u32::MAX);
        wait_for(&format!("{} nodes are ready", names.len()), limit, async || {
            let all = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let unready: Vec<&str> = (all.items.iter())
                .filter(|node| !is_ready(node))
                .filter_map(|node| node.metadata.name.as_deref())
                .filter(|name| names.iter().any(|wanted| wanted == name))
                .collect();
            if unready.is_empty() { Ok(()) } else { Err(format!("not ready: {}", unready.join(", "))) }
        })
        .await;
        names
    }

    /// Returns the node without a condition `Ready`, which kwok sets: the node controller taints a node whose condition is not ready,
    /// and may do so from an old copy, after the node is ready.
    fn node(&self, index: usize) -> Node {
        let name = format!("{}-{index:03}", self.prefix);
        let mut labels = self.labels.clone();
        labels.insert("kubernetes.io/hostname".to_owned(), name.clone());
        labels.insert("kubernetes.io/os".to_owned(), "linux".to_owned());
        Node {
            metadata: ObjectMeta {
                name: Some(name),
                labels: Some(labels),
                annotations: Some(BTreeMap::from([("kwok.x-k8s.io/node".to_owned(), "fake".to_owned())])),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                taints: (!self.taints.is_empty()).then(|| self.taints.clone()),
                ..NodeSpec::default()
            }),
            status: Some(NodeStatus {
                allocatable: Some(self.capacity.clone()),
                capacity: Some(self.capacity.clone()),
                ..NodeStatus::default()
            }),
        }
    }
}

/// Returns true if the node is ready and without the taint that Kubernetes sets until then.
pub fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"));
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    ready && !taints.is_some_and(|all| all.iter().any(|taint| taint.key.starts_with("node.kubernetes.io/")))
}
