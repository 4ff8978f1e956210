//! Where the pods of a group may be placed together: the shape of `schedulingConstraints` in `scheduling.k8s.io/v1beta1`,
//! shared by [`crate::PodGroup`] and the templates of [`crate::Workload`].

use crate::names::is_subdomain;
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
    /// Creates the constraint that all pods of a group are placed on nodes with the same value of the node label `key`.
    pub fn topology(key: &str) -> Self {
        Self { topology: vec![TopologyConstraint { key: key.to_owned() }] }
    }

    /// Validates the constraints as the schema does, for manifests that no API server has validated. An error names the
    /// field within the constraints.
    ///
    /// # Errors
    /// More than one domain, or a key that no label can have.
    pub fn check(&self) -> Result<(), String> {
        if self.topology.len() > 1 {
            return Err(format!("topology: Too many: {}: must have at most 1 item", self.topology.len()));
        }
        match self.topology_key().filter(|key| !is_label_key(key)) {
            Some(key) => Err(format!(
                "topology[0].key: Invalid value: \"{key}\": must be the key of a node label, such as \
                 topology.kubernetes.io/zone"
            )),
            None => Ok(()),
        }
    }

    /// Returns the key of the node label whose values are the topology domains; `None` without a constraint.
    pub fn topology_key(&self) -> Option<&str> {
        self.topology.first().map(|constraint| constraint.key.as_str())
    }
}

/// Returns true if the text is a valid label key: a name, after an optional DNS subdomain and slash.
fn is_label_key(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let ends = |text: &str| text.starts_with(alphanumeric) && text.ends_with(alphanumeric);
    let inside = |c: char| alphanumeric(c) || matches!(c, '-' | '_' | '.');
    prefix.is_none_or(is_subdomain) && name.len() <= 63 && ends(name) && name.chars().all(inside)
}

/// Returns true if the character is an ASCII letter or digit, as the first and last one of each part of a label key must be.
fn alphanumeric(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_labels() {
        let (name, prefix) = ("n".repeat(63), "p".repeat(253));
        for key in ["rack", "example.com/rack", "a-b.c/X_y.z-1", &name, &format!("{prefix}/rack")] {
            assert_eq!(SchedulingConstraints::topology(key).check(), Ok(()), "{key}");
        }
        let (name, prefix) = (format!("{name}n"), format!("{prefix}p/rack"));
        for key in
            ["", "my rack", "a/b/c", "Example.com/rack", "rack.", "/rack", "a..b/rack", "a./rack", "-", &name, &prefix]
        {
            let said = SchedulingConstraints::topology(key).check().unwrap_err();
            assert!(said.starts_with(&format!("topology[0].key: Invalid value: \"{key}\": must be")), "{said}");
        }
    }

    #[test]
    fn one_domain_is_the_most() {
        let two = [TopologyConstraint { key: "a".into() }, TopologyConstraint { key: "b".into() }];
        let said = SchedulingConstraints { topology: two.to_vec() }.check();
        assert_eq!(said, Err("topology: Too many: 2: must have at most 1 item".to_owned()));
        assert_eq!(SchedulingConstraints::default().check(), Ok(()));
    }
}
