//! Scheduling constraints of a pod besides resources.

use super::affinity::{self, AffinityTerm, SpreadConstraint};
use super::node::Taint;
use giveway_crds::ObjectKey;
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec,
};
use smol_str::SmolStr;
use std::collections::BTreeMap;

/// The constraints of a pod, as far as the planner knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Constraints {
    /// `spec.nodeSelector`.
    pub(crate) node_selector: Vec<(String, String)>,
    /// Required node affinity: any of these terms; `None` without one.
    pub(crate) node_affinity: Option<Vec<NodeTerm>>,
    /// Node affinity that the configuration of its scheduler adds; the model fills it in.
    pub(crate) added_affinity: Option<Pin>,
    /// Features of the kubelet that it needs, if kube-scheduler compares them; the model fills them in.
    pub(crate) features: Vec<&'static str>,
    /// Tolerations.
    pub(crate) tolerations: Vec<Toleration>,
    /// Host ports of the pod, ascending, and then claims that only one pod may use, which the model adds.
    pub(crate) exclusive: Vec<Exclusive>,
    /// Required pod affinity.
    pub(crate) affinity: Vec<AffinityTerm>,
    /// Required pod anti-affinity.
    pub(crate) anti_affinity: Vec<AffinityTerm>,
    /// Topology spread that must hold (`DoNotSchedule`).
    pub(crate) spread: Vec<SpreadConstraint>,
    /// The nodes that can attach its volumes, a list for each that is pinned; the model fills it in.
    pub(crate) volumes: Vec<Pin>,
    /// The node of another pod that uses such a claim: the pod fits on no other node, and there only without that pod. The model fills it
    /// in.
    pub(crate) user_on: Option<SmolStr>,
}

/// The nodes to which something restricts a pod: those for which any of these terms holds. Of several such lists, each must hold.
pub(crate) type Pin = Vec<NodeTerm>;

/// A node selector term: all of these requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeTerm {
    /// Requirements on labels.
    pub(crate) labels: Vec<Requirement>,
    /// Requirements on fields; `metadata.name` is the only one there is.
    pub(crate) fields: Vec<Requirement>,
}

/// A requirement of a node selector on a label or field: `key operator values`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Requirement {
    /// Label key, or field path.
    pub(crate) key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub(crate) operator: String,
    /// Values that the operator compares with; sorted in ascending order, because a pod may list thousands.
    pub(crate) values: Vec<String>,
}

impl Requirement {
    /// Creates the requirement `key operator values`; the values are sorted.
    pub(super) fn new(key: &str, operator: &str, values: Option<&[String]>) -> Self {
        let mut values = values.unwrap_or_default().to_vec();
        values.sort_unstable();
        Self { key: key.to_owned(), operator: operator.to_owned(), values }
    }

    /// Returns true if `value` is one of the values in this requirement.
    pub(crate) fn lists(&self, value: &str) -> bool {
        self.values.binary_search_by(|listed| listed.as_str().cmp(value)).is_ok()
    }
}

/// A toleration. Empty key, value or effect as in the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Toleration {
    /// Key; empty means every key.
    pub(crate) key: String,
    /// How the taint's value is compared with `value`.
    pub(crate) operator: Comparison,
    /// Value to compare with.
    pub(crate) value: String,
    /// Effect; empty means every effect.
    pub(crate) effect: String,
}

/// Operator of a toleration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Comparison {
    /// The values are equal.
    #[default]
    Equal,
    /// Any value.
    Exists,
    /// The taint's value is larger. KEP-5471: the API server accepts this operator and the next one only if the feature
    /// `TaintTolerationComparisonOperators` (1.35, alpha) is enabled, so a pod that has one is in a cluster that compares.
    Gt,
    /// The taint's value is smaller.
    Lt,
}

impl Comparison {
    /// Reads the operator of a toleration; `None` for an unknown one, with which a toleration tolerates nothing.
    fn parse(operator: Option<&str>) -> Option<Self> {
        match operator {
            None | Some("" | "Equal") => Some(Self::Equal),
            Some("Exists") => Some(Self::Exists),
            Some("Gt") => Some(Self::Gt),
            Some("Lt") => Some(Self::Lt),
            Some(_) => None,
        }
    }

    /// Returns true if a taint with the value `taint` is tolerated by a toleration with this operator and `value`.
    fn holds(self, taint: &str, value: &str) -> bool {
        let numbers = || Some((decimal(taint)?, decimal(value)?));
        match self {
            Self::Equal => taint == value,
            Self::Exists => true,
            Self::Gt => numbers().is_some_and(|(taint, value)| taint > value),
            Self::Lt => numbers().is_some_and(|(taint, value)| taint < value),
        }
    }
}

/// Parses a decimal integer as the API server does; `None` for any other text, and for one with a plus sign or leading zeros.
fn decimal(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

impl Toleration {
    /// Returns true if a pod with this toleration tolerates the taint.
    pub(crate) fn covers(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && self.operator.holds(&taint.value, &self.value)
    }
}

/// Something that two pods on a node cannot both have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Exclusive {
    /// A port of the node.
    Port {
        /// Port number. It comes first, so that ports are in its order.
        port: i32,
        /// Address; empty and `0.0.0.0` mean every address.
        ip: String,
        /// `TCP`, `UDP` or `SCTP`.
        protocol: String,
    },
    /// A claim with the access mode `ReadWriteOncePod`.
    Claim(ObjectKey),
}

impl Exclusive {
    /// Returns the port number; `None` for a claim, which sorts after all ports.
    pub(crate) fn port(&self) -> Option<i32> {
        match self {
            Self::Port { port, .. } => Some(*port),
            Self::Claim(_) => None,
        }
    }
}

impl Constraints {
    /// Reads the scheduling constraints in the spec of a pod; `namespace` and `labels` are those of the pod. Constraints that depend on
    /// other objects stay empty.
    pub(super) fn from_spec(spec: &PodSpec, namespace: &str, labels: &BTreeMap<String, String>) -> Self {
        let affinity = spec.affinity.as_ref();
        let required = affinity
            .and_then(|a| a.node_affinity.as_ref())
            .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        let tolerations = spec.tolerations.iter().flatten();
        Self {
            node_selector: spec.node_selector.iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect(),
            node_affinity: required.map(node_terms),
            added_affinity: None,
            features: Vec::new(),
            tolerations: tolerations
                .filter_map(|t| {
                    Some(Toleration {
                        key: t.key.clone().unwrap_or_default(),
                        operator: Comparison::parse(t.operator.as_deref())?,
                        value: t.value.clone().unwrap_or_default(),
                        effect: t.effect.clone().unwrap_or_default(),
                    })
                })
                .collect(),
            exclusive: host_ports(spec),
            affinity: affinity::required_affinity(spec, namespace, labels),
            anti_affinity: affinity::required_anti_affinity(spec, namespace, labels),
            spread: affinity::spread(spec, labels),
            volumes: Vec::new(),
            user_on: None,
        }
    }

    /// Returns true if the required node affinity names exactly one node in `metadata.name`, as the DaemonSet controller sets it for its
    /// pods.
    pub(super) fn names_one_node(&self) -> bool {
        let one = |term: &NodeTerm| {
            let mut names = term.fields.iter().filter(|rule| rule.key == "metadata.name" && rule.operator == "In");
            names.any(|rule| rule.values.len() == 1)
        };
        self.node_affinity.as_ref().is_some_and(|terms| matches!(terms.as_slice(), [term] if one(term)))
    }

    /// Returns true if pods on other nodes can decide whether a node is feasible: there is pod affinity, anti-affinity or topology spread.
    pub(crate) fn looks_at_other_nodes(&self) -> bool {
        !self.affinity.is_empty() || !self.anti_affinity.is_empty() || !self.spread.is_empty()
    }
}

/// Converts a node selector to its terms, of which at least one must hold.
pub(super) fn node_terms(selector: &NodeSelector) -> Vec<NodeTerm> {
    let term = |term: &NodeSelectorTerm| NodeTerm {
        labels: term.match_expressions.iter().flatten().map(requirement).collect(),
        fields: term.match_fields.iter().flatten().map(requirement).collect(),
    };
    selector.node_selector_terms.iter().map(term).collect()
}

/// Reads a requirement of a node selector term, on a label or a field.
fn requirement(from: &NodeSelectorRequirement) -> Requirement {
    Requirement::new(&from.key, &from.operator, from.values.as_deref())
}

/// Returns the host ports of containers and sidecars, as the scheduler's NodePorts filter counts them. With `hostNetwork` every port is a
/// host port; the API server fills that in for pods, but not for templates.
fn host_ports(spec: &PodSpec) -> Vec<Exclusive> {
    let is_sidecar = |c: &&Container| c.restart_policy.as_deref() == Some("Always");
    let sidecars = spec.init_containers.iter().flatten().filter(is_sidecar);
    let on_node = spec.host_network == Some(true);
    let number = |port: &ContainerPort| port.host_port.or(on_node.then_some(port.container_port)).filter(|p| *p > 0);
    let mut ports: Vec<Exclusive> = spec
        .containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| container.ports.iter().flatten())
        .filter_map(|port| {
            Some(Exclusive::Port {
                ip: port.host_ip.clone().unwrap_or_default(),
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                port: number(port)?,
            })
        })
        .collect();
    ports.sort();
    ports.dedup();
    ports
}
