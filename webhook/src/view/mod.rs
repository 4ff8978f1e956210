//! Cache of the cluster for the admission rules: the classes, groups and templates that a request can name.
//!
//! It keeps only what the rules read, and only [`crate::watch`] fills it. Objects that were looked up for one request
//! ([`LookedUp`]) are combined with it for that request, as [`RequestView`].

use giveway_admission::namespaced::{Namespaced, put};
use giveway_admission::rules::guard::objects::{GuardObjects, GuardView};
use giveway_admission::view::{ClusterView, GroupView, Settings};
use giveway_crds::native::{self, NativeGroup};
use giveway_crds::policy::DisruptionMode;
use giveway_crds::priority::{Class, Classes};
use giveway_crds::{PodGroup, Workload};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Cache of the cluster for the admission rules.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Settings of the webhook.
    pub settings: Settings,
    /// Every PriorityClass.
    pub classes: Classes,
    /// Every PodGroup.
    pub groups: Namespaced<GroupView>,
    /// Every PodGroup of Kubernetes itself; empty if the guard is disabled.
    pub natives: Namespaced<GroupView>,
    /// The templates of every Workload, by name.
    pub workloads: Namespaced<BTreeMap<String, GroupView>>,
    /// Objects that only the guard reads; empty if it is disabled.
    pub facts: GuardObjects,
}

impl View {
    /// Creates a view without objects.
    pub fn new(settings: Settings) -> Self {
        let (classes, facts) = (Classes::default(), GuardObjects::default());
        Self { settings, classes, groups: BTreeMap::new(), natives: BTreeMap::new(), workloads: BTreeMap::new(), facts }
    }

    /// Stores what rules read of a PodGroup of Giveway, and replaces what was stored for its name.
    pub fn put_group(&mut self, group: &PodGroup) {
        let facts = GroupView::of(group);
        put(&mut self.groups, group.metadata.namespace.as_deref(), group.metadata.name.as_deref(), facts);
    }

    /// Stores what rules read of a native PodGroup (`scheduling.k8s.io`), and replaces what was stored for its name.
    pub fn put_native(&mut self, group: &NativeGroup) {
        let facts = GroupView {
            class_name: group.class_name().map(str::to_owned),
            priority: group.priority(),
            whole: group.mode() == DisruptionMode::PodGroup,
            ..GroupView::default()
        };
        put(&mut self.natives, group.metadata.namespace.as_deref(), group.metadata.name.as_deref(), facts);
    }

    /// Stores the templates of a Workload, and replaces what was stored for its name.
    pub fn put_workload(&mut self, workload: &Workload) {
        let facts = templates_of(workload);
        put(&mut self.workloads, workload.metadata.namespace.as_deref(), workload.metadata.name.as_deref(), facts);
    }
}

impl ClusterView for View {
    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn classes(&self) -> &Classes {
        &self.classes
    }

    fn group(&self, namespace: &str, name: &str) -> Option<Cow<'_, GroupView>> {
        let group = match native::own_name(name) {
            Some(name) => self.natives.get(namespace)?.get(name),
            None => self.groups.get(namespace)?.get(name),
        };
        group.map(Cow::Borrowed)
    }

    fn has_workload(&self, namespace: &str, workload: &str) -> bool {
        self.workloads.get(namespace).is_some_and(|workloads| workloads.contains_key(workload))
    }

    fn template(&self, namespace: &str, workload: &str, template: &str) -> Option<Cow<'_, GroupView>> {
        self.workloads.get(namespace)?.get(workload)?.get(template).map(Cow::Borrowed)
    }
}

impl GuardView for View {
    fn guard_objects(&self) -> &GuardObjects {
        &self.facts
    }
}

/// Returns, by template name, the fields of a Workload's PodGroup templates that the admission rules for pods read.
pub fn templates_of(workload: &Workload) -> BTreeMap<String, GroupView> {
    let templates = workload.spec.pod_group_templates.iter();
    templates.map(|t| (t.name.clone(), GroupView::new(&t.scheduling_policy, t.priority_class_name.as_ref()))).collect()
}

/// Objects that were looked up for one request, because the view does not contain them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LookedUp {
    /// Classes.
    pub classes: Vec<Class>,
    /// PodGroups.
    pub groups: Namespaced<GroupView>,
    /// The templates of Workloads.
    pub workloads: Namespaced<BTreeMap<String, GroupView>>,
}

impl LookedUp {
    /// Returns true if none of the objects that were looked up was found.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty() && self.groups.is_empty() && self.workloads.is_empty()
    }

    /// Adds the objects that another look-up has found to these ones.
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
pub struct RequestView<'a> {
    classes: Cow<'a, Classes>,
    view: &'a View,
    found: &'a LookedUp,
}

impl<'a> RequestView<'a> {
    /// Combines the view with the objects that were looked up for one request. If both have an object, that of the view is used.
    pub fn with(view: &'a View, found: &'a LookedUp) -> Self {
        let mut classes = Cow::Borrowed(&view.classes);
        for class in &found.classes {
            if view.classes.get(&class.name).is_none() {
                classes.to_mut().upsert(class.clone());
            }
        }
        Self { classes, view, found }
    }
}

impl ClusterView for RequestView<'_> {
    fn settings(&self) -> &Settings {
        &self.view.settings
    }

    fn classes(&self) -> &Classes {
        &self.classes
    }

    fn group(&self, namespace: &str, name: &str) -> Option<Cow<'_, GroupView>> {
        let found = || self.found.groups.get(namespace)?.get(name).map(Cow::Borrowed);
        self.view.group(namespace, name).or_else(found)
    }

    fn has_workload(&self, namespace: &str, workload: &str) -> bool {
        let found = || self.found.workloads.get(namespace).is_some_and(|workloads| workloads.contains_key(workload));
        self.view.has_workload(namespace, workload) || found()
    }

    fn template(&self, namespace: &str, workload: &str, template: &str) -> Option<Cow<'_, GroupView>> {
        // A Workload is known by one of both as a whole.
        if self.view.has_workload(namespace, workload) {
            return self.view.template(namespace, workload, template);
        }
        self.found.workloads.get(namespace)?.get(workload)?.get(template).map(Cow::Borrowed)
    }
}
