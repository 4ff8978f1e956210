//! What a rule may look up in the cluster.

use giveway_crds::PodGroup;
use giveway_crds::keys::LABEL_GANG;
use giveway_crds::kinds::job::Additions;
use giveway_crds::policy::{DisruptionMode, SchedulingPolicy};
use giveway_crds::priority::Classes;
use giveway_crds::wording::Names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::borrow::Cow;

/// What a rule may look up in the cluster: classes, groups and templates that a request can name.
pub trait ClusterView {
    /// Returns the settings of Giveway in this cluster, which do not change while the webhook runs.
    fn settings(&self) -> &Settings;

    /// Returns all priority classes of the cluster, by name.
    fn classes(&self) -> &Classes;

    /// Returns what rules read of the PodGroup of this name: of a native one if the name begins with the API group. `None` if the
    /// view does not contain it.
    fn group(&self, namespace: &str, name: &str) -> Option<Cow<'_, GroupView>>;

    /// Returns true if the view contains the Workload of this name.
    fn has_workload(&self, namespace: &str, workload: &str) -> bool;

    /// Returns the group that this template of a Workload describes; `None` if the view does not contain the Workload, or the
    /// Workload has no such template.
    fn template(&self, namespace: &str, workload: &str, template: &str) -> Option<Cow<'_, GroupView>>;

    /// Returns true if Giveway does not act on this namespace.
    fn is_untouchable(&self, namespace: &str) -> bool {
        self.settings().is_untouchable(namespace)
    }
}

/// Namespace of the cluster's own components; Giveway never changes anything in it.
pub const KUBE_SYSTEM: &str = "kube-system";

/// Name of the operator's ServiceAccount.
const OPERATOR: &str = "giveway-operator";

/// Settings that are fixed while the webhook runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Giveway's own namespace, which is never changed; empty if it is not known.
    pub namespace: String,
    /// True if every new class without the annotation becomes a managed one.
    pub manage_new_classes: bool,
    /// True if Jobs of gangs get a pod failure policy that ignores disruptions.
    pub default_pod_failure_policy: bool,
    /// True if Indexed Jobs of gangs get a back-off for each index.
    pub default_backoff_limit_per_index: bool,
    /// Which names appear in messages to which namespaces.
    pub names: Names,
}

impl Settings {
    /// Returns true if Giveway does not act on this namespace; false for the empty one, of cluster-scoped objects.
    pub fn is_untouchable(&self, namespace: &str) -> bool {
        !namespace.is_empty() && [KUBE_SYSTEM, self.namespace.as_str()].contains(&namespace)
    }

    /// Returns what admission adds to Jobs of gangs, as the chart is configured: a `podFailurePolicy` rule, a back-off per index.
    pub fn additions(&self) -> Additions {
        Additions { rule: self.default_pod_failure_policy, backoff: self.default_backoff_limit_per_index }
    }

    /// Returns true if this is the user name of Giveway's operator.
    pub fn is_operator(&self, user: &str) -> bool {
        let account = user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
        account == Some((self.namespace.as_str(), OPERATOR))
    }
}

/// What the rules for pods read of a group, from the PodGroup or from the template it will be created from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupView {
    /// True if members are gated until the gang fits.
    pub gang: bool,
    /// The priority class of the group, if it has one.
    pub class_name: Option<String>,
    /// Its priority, if admission has filled it in.
    pub priority: Option<i32>,
    /// True if its pods are disrupted together (mode `PodGroup`).
    pub whole: bool,
    /// The Workload and the template that it was created from, if it names one.
    pub template: Option<(String, String)>,
    /// Kind and name of the owner that it was created for, if the owner's label asked for a gang.
    pub made_for: Option<(String, String)>,
}

impl GroupView {
    /// Creates the view of a group with this scheduling policy and class, and with defaults for all other fields.
    pub fn new(policy: &SchedulingPolicy, class_name: Option<&String>) -> Self {
        let class_name = class_name.filter(|name| !name.is_empty()).cloned();
        Self { gang: policy.gang.is_some(), class_name, ..Self::default() }
    }

    /// Returns those fields of a PodGroup of Giveway that the rules for pods read.
    pub fn of(group: &PodGroup) -> Self {
        Self {
            priority: group.spec.priority,
            whole: group.spec.disruption_mode == DisruptionMode::PodGroup,
            template: group.spec.pod_group_template_ref.as_ref().map(|reference| {
                let workload = &reference.workload;
                (workload.workload_name.clone(), workload.pod_group_template_name.clone())
            }),
            made_for: made_for(&group.metadata),
            ..Self::new(&group.spec.scheduling_policy, group.spec.priority_class_name.as_ref())
        }
    }
}

/// Returns kind and name of the owner for which Giveway created the PodGroup with this metadata; `None` if a user created it. The
/// PodGroups that Giveway creates have the gang label and their owner as controller.
fn made_for(metadata: &ObjectMeta) -> Option<(String, String)> {
    let is_made = metadata.labels.as_ref()?.get(LABEL_GANG).is_some_and(|value| value == "true");
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| is_made && owner.controller == Some(true))?;
    Some((owner.kind.clone(), owner.name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_scoped_objects_are_judged_even_if_the_own_namespace_is_unknown() {
        let known = Settings { namespace: "giveway-system".to_owned(), ..Settings::default() };
        for (namespace, untouchable) in [("kube-system", true), ("giveway-system", true), ("team", false), ("", false)]
        {
            assert_eq!(known.is_untouchable(namespace), untouchable, "{namespace}");
        }
        assert!(!Settings::default().is_untouchable(""));
    }
}
