//! The kinds that are watched: which objects of each, and how they are stored in the view.

use crate::view::View;
use giveway_admission::namespaced::{Namespaced, NamespacedNames, names_of, put, take};
use giveway_admission::rules::guard::facts::{Allowance, PodObject};
use giveway_cluster::objects::TrimmedObject;
use giveway_crds::keys;
use giveway_crds::native::NativeGroup;
use giveway_crds::priority::Class;
use giveway_crds::{PodGroup, Workload};
use giveway_serving::patience;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::WatchParams;
use std::collections::BTreeMap;

/// A kind of objects in the view.
pub trait Viewed: Resource<DynamicType: Clone> + TrimmedObject + Clone + Send + Sync + 'static {
    /// The bit of this kind in the synced set of [`SharedView`](super::SharedView).
    const BIT: u8;

    /// Returns the parameters of the watch: which objects of the kind are watched, and for how long one request lasts.
    fn params() -> WatchParams {
        WatchParams::default().timeout(patience::STREAM)
    }

    /// Stores what rules read of this object in the view, and replaces what was stored for its name.
    fn store(&self, view: &mut View);

    /// Removes the object with this name and namespace from the view, if it is there.
    fn remove(view: &mut View, namespace: Option<&str>, name: Option<&str>);

    /// Returns the names of all objects of this kind in the view; for a kind without namespaces, in the namespace with an empty name.
    fn names(view: &View) -> NamespacedNames;
}

impl Viewed for PriorityClass {
    const BIT: u8 = 1;

    fn store(&self, view: &mut View) {
        view.classes.upsert(Class::from_object(self));
    }

    fn remove(view: &mut View, _: Option<&str>, name: Option<&str>) {
        view.classes.remove(name.unwrap_or_default());
    }

    fn names(view: &View) -> NamespacedNames {
        BTreeMap::from([(String::new(), view.classes.iter().map(|class| class.name.as_str().into()).collect())])
    }
}

impl Viewed for PodGroup {
    const BIT: u8 = 2;

    fn store(&self, view: &mut View) {
        view.put_group(self);
    }

    fn remove(view: &mut View, namespace: Option<&str>, name: Option<&str>) {
        take(&mut view.groups, namespace, name);
    }

    fn names(view: &View) -> NamespacedNames {
        names_of(&view.groups)
    }
}

impl Viewed for NativeGroup {
    const BIT: u8 = 64;

    fn store(&self, view: &mut View) {
        view.put_native(self);
    }

    fn remove(view: &mut View, namespace: Option<&str>, name: Option<&str>) {
        take(&mut view.natives, namespace, name);
    }

    fn names(view: &View) -> NamespacedNames {
        names_of(&view.natives)
    }
}

impl Viewed for Workload {
    const BIT: u8 = 4;

    fn store(&self, view: &mut View) {
        view.put_workload(self);
    }

    fn remove(view: &mut View, namespace: Option<&str>, name: Option<&str>) {
        take(&mut view.workloads, namespace, name);
    }

    fn names(view: &View) -> NamespacedNames {
        names_of(&view.workloads)
    }
}

/// Stores `facts`, what the guard needs of the object with this metadata, in the map; `None` removes what is stored for the object.
fn put_or_remove<T>(map: &mut Namespaced<T>, metadata: &ObjectMeta, facts: Option<T>) {
    let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
    match facts {
        Some(facts) => put(map, namespace, name, facts),
        None => take(map, namespace, name),
    }
}

impl Viewed for PodObject<false> {
    const BIT: u8 = 8;

    fn params() -> WatchParams {
        WatchParams::default().timeout(patience::STREAM).fields("spec.nodeName=")
    }

    fn store(&self, view: &mut View) {
        put_or_remove(&mut view.facts.waiting, self.meta(), self.waiting());
    }

    fn remove(view: &mut View, namespace: Option<&str>, name: Option<&str>) {
        take(&mut view.facts.waiting, namespace, name);
    }

    fn names(view: &View) -> NamespacedNames {
        names_of(&view.facts.waiting)
    }
}

impl Viewed for PodObject<true> {
    const BIT: u8 = 16;

    fn params() -> WatchParams {
        WatchParams::default().timeout(patience::STREAM).labels(keys::LABEL_POD_GROUP)
    }

    fn store(&self, view: &mut View) {
        match self.meta().namespace.as_deref().filter(|_| self.is_bound_member()) {
            Some(namespace) => view.facts.members.put(namespace, self.bound()),
            None => Self::remove(view, self.meta().namespace.as_deref(), self.meta().name.as_deref()),
        }
    }

    fn remove(view: &mut View, namespace: Option<&str>, name: Option<&str>) {
        view.facts.members.remove(namespace, name);
    }

    fn names(view: &View) -> NamespacedNames {
        view.facts.members.names()
    }
}

impl Viewed for PodDisruptionBudget {
    const BIT: u8 = 32;

    fn store(&self, view: &mut View) {
        put_or_remove(&mut view.facts.budgets, self.meta(), Allowance::from_object(self));
    }

    fn remove(view: &mut View, namespace: Option<&str>, name: Option<&str>) {
        take(&mut view.facts.budgets, namespace, name);
    }

    fn names(view: &View) -> NamespacedNames {
        names_of(&view.facts.budgets)
    }
}
