//! Cache of the cluster for the admission rules: the classes, groups and templates that a request can name.
//!
//! It keeps only what the rules read, and only [`crate::watch`] fills it. Objects that were looked up for one request
//! ([`Found`]) are combined with it for that request, as [`Known`].

pub mod facts;

use crate::namespaced::{Namespaced, put};
use facts::Facts;
use giveway_crds::keys::LABEL_GANG;
use giveway_crds::native::{self, NativeGroup};
use giveway_crds::policy::{DisruptionMode, SchedulingPolicy};
use giveway_crds::priority::{Class, Classes};
use giveway_crds::{PodGroup, Workload};
use giveway_planner::sentence::Names;
use kube::api::ObjectMeta;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Namespace of the cluster's own components; Giveway never changes anything in it.
pub const KUBE_SYSTEM: &str = "kube-system";

/// Name of the operator's ServiceAccount.
const OPERATOR: &str = "giveway-operator";

/// Settings that are fixed while the webhook runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Giveway's own namespace; never changed.
    pub namespace: String,
    /// True if every new class without the annotation becomes a managed one.
    pub manage_new_classes: bool,
    /// True if Jobs of gangs get a pod failure policy that ignores disruptions.
    pub default_pod_failure_policy: bool,
    /// Which names appear in messages to which namespaces.
    pub names: Names,
}

impl Settings {
    /// Returns true if Giveway does not act on this namespace.
    pub fn is_untouchable(&self, namespace: &str) -> bool {
        namespace == KUBE_SYSTEM || namespace == self.namespace
    }

    /// Returns true if this is the user name of Giveway's operator.
    pub fn is_operator(&self, user: &str) -> bool {
        let account = user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
        account == Some((self.namespace.as_str(), OPERATOR))
    }
}

/// What the rules for pods read of a group, from the PodGroup or from the template it will be created from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
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

impl Group {
    /// Creates a group with this policy and class.
    pub fn new(policy: &SchedulingPolicy, class_name: Option<&String>) -> Self {
        let class_name = class_name.filter(|name| !name.is_empty()).cloned();
        Self { gang: policy.gang.is_some(), class_name, ..Self::default() }
    }

    /// Returns what the rules for pods read of this PodGroup.
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

/// Returns kind and name of the owner that a group was created for: Giveway copies the label that asked for it to such
/// groups.
fn made_for(metadata: &ObjectMeta) -> Option<(String, String)> {
    let is_made = metadata.labels.as_ref()?.get(LABEL_GANG).is_some_and(|value| value == "true");
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| is_made && owner.controller == Some(true))?;
    Some((owner.kind.clone(), owner.name.clone()))
}

/// Cache of the cluster for the admission rules.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Settings of the webhook.
    pub settings: Settings,
    /// Every PriorityClass.
    pub classes: Classes,
    /// Every PodGroup.
    pub groups: Namespaced<Group>,
    /// Every PodGroup of Kubernetes itself; empty if the guard is disabled.
    pub natives: Namespaced<Group>,
    /// The templates of every Workload, by name.
    pub workloads: Namespaced<BTreeMap<String, Group>>,
    /// Objects that only the guard reads; empty if it is disabled.
    pub facts: Facts,
}

impl View {
    /// Creates a view of an empty cluster.
    pub fn new(settings: Settings) -> Self {
        let (classes, facts) = (Classes::default(), Facts::default());
        Self { settings, classes, groups: BTreeMap::new(), natives: BTreeMap::new(), workloads: BTreeMap::new(), facts }
    }

    /// Returns true if Giveway does not act on this namespace.
    pub fn is_untouchable(&self, namespace: &str) -> bool {
        self.settings.is_untouchable(namespace)
    }

    /// Returns the PodGroup of this name: a native one if the name begins with the API group.
    pub fn group(&self, namespace: &str, name: &str) -> Option<&Group> {
        match native::own_name(name) {
            Some(name) => self.natives.get(namespace)?.get(name),
            None => self.groups.get(namespace)?.get(name),
        }
    }

    /// Returns the templates of the Workload of this name.
    pub fn templates(&self, namespace: &str, workload: &str) -> Option<&BTreeMap<String, Group>> {
        self.workloads.get(namespace)?.get(workload)
    }

    /// Adds or replaces a PodGroup.
    pub fn put_group(&mut self, group: &PodGroup) {
        let facts = Group::of(group);
        put(&mut self.groups, group.metadata.namespace.as_deref(), group.metadata.name.as_deref(), facts);
    }

    /// Adds or replaces a native group.
    pub fn put_native(&mut self, group: &NativeGroup) {
        let facts = Group {
            class_name: group.class_name().map(str::to_owned),
            priority: group.priority(),
            whole: group.mode() == DisruptionMode::PodGroup,
            ..Group::default()
        };
        put(&mut self.natives, group.metadata.namespace.as_deref(), group.metadata.name.as_deref(), facts);
    }

    /// Adds or replaces a Workload.
    pub fn put_workload(&mut self, workload: &Workload) {
        let facts = templates_of(workload);
        put(&mut self.workloads, workload.metadata.namespace.as_deref(), workload.metadata.name.as_deref(), facts);
    }
}

/// Returns the groups that the templates of a Workload describe, by name of the template.
pub fn templates_of(workload: &Workload) -> BTreeMap<String, Group> {
    let templates = workload.spec.pod_group_templates.iter();
    templates.map(|t| (t.name.clone(), Group::new(&t.scheduling_policy, t.priority_class_name.as_ref()))).collect()
}

/// Objects that were looked up for one request, because the view does not contain them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Classes.
    pub classes: Vec<Class>,
    /// PodGroups.
    pub groups: Namespaced<Group>,
    /// The templates of Workloads.
    pub workloads: Namespaced<BTreeMap<String, Group>>,
}

impl Found {
    /// Returns true if nothing was found.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.groups.is_empty() && self.workloads.is_empty()
    }

    /// Adds the objects of another look-up.
    pub fn extend(&mut self, other: Self) {
        self.classes.extend(other.classes);
        for (namespace, groups) in other.groups {
            self.groups.entry(namespace).or_default().extend(groups);
        }
        for (namespace, workloads) in other.workloads {
            self.workloads.entry(namespace).or_default().extend(workloads);
        }
    }
}

/// What a rule reads: the view, and objects looked up for the request. If both contain an object, the view's is used,
/// because the watch is newer than the look-up.
#[derive(Debug)]
pub struct Known<'a> {
    /// Settings of the webhook.
    pub settings: &'a Settings,
    /// Every PriorityClass.
    pub classes: Cow<'a, Classes>,
    view: &'a View,
    found: Option<&'a Found>,
}

impl<'a> From<&'a View> for Known<'a> {
    fn from(view: &'a View) -> Self {
        Self { settings: &view.settings, classes: Cow::Borrowed(&view.classes), view, found: None }
    }
}

impl<'a> Known<'a> {
    /// Combines the view with what was looked up.
    pub fn with(view: &'a View, found: &'a Found) -> Self {
        let mut known = Self { found: Some(found), ..Self::from(view) };
        for class in &found.classes {
            if view.classes.get(&class.name).is_none() {
                known.classes.to_mut().upsert(class.clone());
            }
        }
        known
    }

    /// Returns true if Giveway does not act on this namespace.
    pub fn is_untouchable(&self, namespace: &str) -> bool {
        self.settings.is_untouchable(namespace)
    }

    /// Returns the PodGroup of this name.
    pub fn group(&self, namespace: &str, name: &str) -> Option<&Group> {
        let found = || self.found?.groups.get(namespace)?.get(name);
        self.view.group(namespace, name).or_else(found)
    }

    /// Returns the templates of the Workload of this name.
    pub fn templates(&self, namespace: &str, workload: &str) -> Option<&BTreeMap<String, Group>> {
        let found = || self.found?.workloads.get(namespace)?.get(workload);
        self.view.templates(namespace, workload).or_else(found)
    }
}
