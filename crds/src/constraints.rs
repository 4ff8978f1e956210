//! Where the pods of a group may be placed together: the shape of `schedulingConstraints` in `scheduling.k8s.io/v1beta1`,
//! shared by [`crate::PodGroup`] and the templates of [`crate::Workload`].

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What holds for the placement of a group as a whole.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingConstraints {
    /// Domains that the group must not span; at most one for now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1), extend("x-kubernetes-list-type" = "atomic"))]
    pub topology: Vec<TopologyConstraint>,
}

/// All pods of the group run within one domain: on nodes with the same value of one label.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyConstraint {
    /// Key of the node label whose values are the domains, such as `topology.kubernetes.io/zone`. Nodes without the label
    /// are in no domain. Groups of one template may be in different domains.
    #[schemars(length(max = 317))]
    #[x_kube(validation = ("self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$') && self.indexOf('/') <= 253", "must be the key of a node label, such as topology.kubernetes.io/zone: a name of at most 63 alphanumeric characters, '-', '_' or '.', which starts and ends with an alphanumeric character, after an optional prefix, a lower-case DNS subdomain of at most 253 characters and '/'"))]
    pub key: String,
}

impl SchedulingConstraints {
    /// Pods of a group stay within one value of this node label.
    pub fn topology(key: &str) -> Self {
        Self { topology: vec![TopologyConstraint { key: key.to_owned() }] }
    }

    /// Key of the node label whose values are the domains; `None` where the whole cluster is one.
    pub fn topology_key(&self) -> Option<&str> {
        self.topology.first().map(|constraint| constraint.key.as_str())
    }
}
