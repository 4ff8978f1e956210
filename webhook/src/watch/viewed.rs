//! The kinds that are watched: which objects of each, and how they are stored in the view.

use crate::namespaced::{Namespaced, take};
use crate::view::View;
use crate::view::facts::{Allowance, PodObject};
use giveway_crds::keys;
use giveway_crds::native::NativeGroup;
use giveway_crds::priority::{Class, Classes};
use giveway_crds::{PodGroup, Workload};
use giveway_serving::patience;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::runtime::watcher;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Pods per page of a list. Any user who creates pods can make each as large as the API server stores objects (1.5 MB),
/// and the text of a page is in memory up to three times.
const PODS_A_PAGE: u32 = 20;

/// A kind of objects in the view.
pub trait Viewed: Resource<DynamicType: Clone> + Clone + Debug + DeserializeOwned + Send + Sync + 'static {
    /// The bit of this kind in the synced set of [`SharedView`](super::SharedView).
    const BIT: u8;

    /// Returns which objects of the kind are watched.
    fn config() -> watcher::Config {
        watcher::Config::default().timeout(patience::STREAM)
    }

    /// Adds or replaces the object.
    fn store(&self, view: &mut View);

    /// Removes the object with this metadata.
    fn remove(view: &mut View, metadata: &ObjectMeta);

    /// Removes every object of the kind.
    fn clear(view: &mut View);
}

impl Viewed for PriorityClass {
    const BIT: u8 = 1;

    fn store(&self, view: &mut View) {
        view.classes.upsert(Class::from_object(self));
    }

    fn remove(view: &mut View, metadata: &ObjectMeta) {
        view.classes.remove(metadata.name.as_deref().unwrap_or_default());
    }

    fn clear(view: &mut View) {
        view.classes = Classes::default();
    }
}

impl Viewed for PodGroup {
    const BIT: u8 = 2;

    fn store(&self, view: &mut View) {
        view.put_group(self);
    }

    fn remove(view: &mut View, metadata: &ObjectMeta) {
        take(&mut view.groups, metadata.namespace.as_deref(), metadata.name.as_deref());
    }

    fn clear(view: &mut View) {
        view.groups.clear();
    }
}

impl Viewed for NativeGroup {
    const BIT: u8 = 64;

    fn store(&self, view: &mut View) {
        view.put_native(self);
    }

    fn remove(view: &mut View, metadata: &ObjectMeta) {
        take(&mut view.natives, metadata.namespace.as_deref(), metadata.name.as_deref());
    }

    fn clear(view: &mut View) {
        view.natives.clear();
    }
}

impl Viewed for Workload {
    const BIT: u8 = 4;

    fn store(&self, view: &mut View) {
        view.put_workload(self);
    }

    fn remove(view: &mut View, metadata: &ObjectMeta) {
        take(&mut view.workloads, metadata.namespace.as_deref(), metadata.name.as_deref());
    }

    fn clear(view: &mut View) {
        view.workloads.clear();
    }
}

/// Puts an object into a map, or removes it if the guard does not need it.
fn put<T>(map: &mut Namespaced<T>, metadata: &ObjectMeta, facts: Option<T>) {
    match (facts, &metadata.namespace, &metadata.name) {
        (Some(facts), Some(namespace), Some(name)) => {
            map.entry(namespace.clone()).or_default().insert(name.clone(), facts);
        }
        _ => take(map, metadata.namespace.as_deref(), metadata.name.as_deref()),
    }
}

impl Viewed for PodObject<false> {
    const BIT: u8 = 8;

    fn config() -> watcher::Config {
        watcher::Config::default().timeout(patience::STREAM).page_size(PODS_A_PAGE).fields("spec.nodeName=")
    }

    fn store(&self, view: &mut View) {
        put(&mut view.facts.waiting, self.meta(), self.waiting());
    }

    fn remove(view: &mut View, metadata: &ObjectMeta) {
        put(&mut view.facts.waiting, metadata, None);
    }

    fn clear(view: &mut View) {
        view.facts.waiting.clear();
    }
}

impl Viewed for PodObject<true> {
    const BIT: u8 = 16;

    fn config() -> watcher::Config {
        watcher::Config::default().timeout(patience::STREAM).page_size(PODS_A_PAGE).labels(keys::LABEL_POD_GROUP)
    }

    fn store(&self, view: &mut View) {
        let live = self.meta().deletion_timestamp.is_none() && !self.ended();
        let bound = Some(self.bound()).filter(|pod| live && pod.node.is_some());
        put(&mut view.facts.members, self.meta(), bound);
    }

    fn remove(view: &mut View, metadata: &ObjectMeta) {
        put(&mut view.facts.members, metadata, None);
    }

    fn clear(view: &mut View) {
        view.facts.members.clear();
    }
}

impl Viewed for PodDisruptionBudget {
    const BIT: u8 = 32;

    fn store(&self, view: &mut View) {
        put(&mut view.facts.budgets, self.meta(), Allowance::from_object(self));
    }

    fn remove(view: &mut View, metadata: &ObjectMeta) {
        put(&mut view.facts.budgets, metadata, None);
    }

    fn clear(view: &mut View) {
        view.facts.budgets.clear();
    }
}
