//! What the rules know of the cluster: the classes, groups and templates that a request can name.
//!
//! The view keeps only what the rules read. It is filled by [`crate::watch`] and [`crate::lookup`]; rules see it
//! read-only.

use crate::guard::facts::Facts;
use giveway_crds::policy::{DisruptionMode, SchedulingPolicy};
use giveway_crds::priority::Classes;
use giveway_crds::{PodGroup, Workload};
use std::collections::BTreeMap;

/// Namespace of the cluster's own components; Giveway never touches it.
pub const KUBE_SYSTEM: &str = "kube-system";

/// What never changes while the webhook runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Giveway's own namespace; never touched.
    pub namespace: String,
    /// User name of the operator: the only one who may release members.
    pub operator_user: String,
    /// Whether every new class that does not say otherwise becomes a managed one.
    pub manage_new_classes: bool,
}

/// What a pod needs to know of its group, whether the group exists already or only its template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Whether members are held until the gang has a place.
    pub gang: bool,
    /// The priority class of the group, when it has one.
    pub class_name: Option<String>,
    /// Its priority, where admission has filled it in.
    pub priority: Option<i32>,
    /// Whether it gives way whole or not at all.
    pub whole: bool,
}

impl Group {
    /// A group of this policy and class.
    pub fn new(policy: &SchedulingPolicy, class_name: Option<&String>) -> Self {
        let class_name = class_name.filter(|name| !name.is_empty()).cloned();
        Self { gang: policy.gang.is_some(), class_name, ..Self::default() }
    }
}

/// Objects by namespace and name.
pub type Namespaced<T> = BTreeMap<String, BTreeMap<String, T>>;

/// The cluster as the rules see it.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Settings of the webhook.
    pub settings: Settings,
    /// Every PriorityClass.
    pub classes: Classes,
    /// Every PodGroup.
    pub groups: Namespaced<Group>,
    /// The templates of every Workload, by name.
    pub workloads: Namespaced<BTreeMap<String, Group>>,
    /// What the guard knows besides; empty where it is turned off.
    pub facts: Facts,
}

impl View {
    /// A view of an empty cluster.
    pub fn new(settings: Settings) -> Self {
        let (classes, facts) = (Classes::default(), Facts::default());
        Self { settings, classes, groups: BTreeMap::new(), workloads: BTreeMap::new(), facts }
    }

    /// Whether Giveway keeps its hands off this namespace.
    pub fn is_untouchable(&self, namespace: &str) -> bool {
        namespace == KUBE_SYSTEM || namespace == self.settings.namespace
    }

    /// The PodGroup of this name.
    pub fn group(&self, namespace: &str, name: &str) -> Option<&Group> {
        self.groups.get(namespace)?.get(name)
    }

    /// The templates of the Workload of this name.
    pub fn templates(&self, namespace: &str, workload: &str) -> Option<&BTreeMap<String, Group>> {
        self.workloads.get(namespace)?.get(workload)
    }

    /// Adds or replaces a PodGroup.
    pub fn put_group(&mut self, group: &PodGroup) {
        let facts = Group {
            priority: group.spec.priority,
            whole: group.spec.disruption_mode == DisruptionMode::PodGroup,
            ..Group::new(&group.spec.scheduling_policy, group.spec.priority_class_name.as_ref())
        };
        put(&mut self.groups, group.metadata.namespace.as_deref(), group.metadata.name.as_deref(), facts);
    }

    /// Adds or replaces a Workload.
    pub fn put_workload(&mut self, workload: &Workload) {
        let templates = workload.spec.pod_group_templates.iter();
        let facts = templates
            .map(|t| (t.name.clone(), Group::new(&t.scheduling_policy, t.priority_class_name.as_ref())))
            .collect();
        put(&mut self.workloads, workload.metadata.namespace.as_deref(), workload.metadata.name.as_deref(), facts);
    }
}

fn put<T>(map: &mut Namespaced<T>, namespace: Option<&str>, name: Option<&str>, facts: T) {
    if let (Some(namespace), Some(name)) = (namespace, name) {
        map.entry(namespace.to_owned()).or_default().insert(name.to_owned(), facts);
    }
}

/// Removes an object, and the namespace with the last one in it.
pub fn take<T>(map: &mut Namespaced<T>, namespace: Option<&str>, name: Option<&str>) {
    if let (Some(namespace), Some(name)) = (namespace, name)
        && let Some(objects) = map.get_mut(namespace)
    {
        objects.remove(name);
        if objects.is_empty() {
            map.remove(namespace);
        }
    }
}
