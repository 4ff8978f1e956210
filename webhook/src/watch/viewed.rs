//! The kinds that are watched: which objects of each, and how they are stored in the view.

use crate::view::View;
use giveway_admission::namespaced::{Namespaced, take};
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
    fn remove(view: &mut View, metadata: &ObjectMeta);

    /// Replaces all objects of this kind in `view` by those in `listed`; other kinds are not changed.
    fn replace(view: &mut View, listed: View);
}

impl Viewed for PriorityClass {
    const BIT: u8 = 1;

    fn store(&self, view: &mut View) {
        view.classes.upsert(Class::from_object(self));
    }

    fn remove(view: &mut View, metadata: &ObjectMeta) {
        view.classes.remove(metadata.name.as_deref().unwrap_or_default());
    }

    fn replace(view: &mut View, listed: View) {
        view.classes = listed.classes;
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

    fn replace(view: &mut View, listed: View) {
        view.groups = listed.groups;
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

    fn replace(view: &mut View, listed: View) {
        view.natives = listed.natives;
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

    fn replace(view: &mut View, listed: View) {
        view.workloads = listed.workloads;
    }
}

/// Stores `facts`, what the guard needs of the object with this metadata, in the map; `None` removes what is stored for the object.
fn put_or_remove<T>(map: &mut Namespaced<T>, metadata: &ObjectMeta, facts: Option<T>) {
    match (facts, &metadata.namespace, &metadata.name) {
        (Some(facts), Some(namespace), Some(name)) => {
            map.entry(namespace.clone()).or_default().insert(name.clone(), facts);
        }
        _ => take(map, metadata.namespace.as_deref(), metadata.name.as_deref()),
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

    fn remove(view: &mut View, metadata: &ObjectMeta) {
        put_or_remove(&mut view.facts.waiting, metadata, None);
    }

    fn replace(view: &mut View, listed: View) {
        view.facts.waiting = listed.facts.waiting;
    }
}

impl Viewed for PodObject<true> {
    const BIT: u8 = 16;

    fn params() -> WatchParams {
        WatchParams::default().timeout(patience::STREAM).labels(keys::LABEL_POD_GROUP)
    }

    fn store(&self, view: &mut View) {
        let is_member = self.meta().deletion_timestamp.is_none() && !self.ended() && !self.is_mirror();
        let bound = Some(self.bound()).filter(|pod| is_member && pod.node.is_some());
        put_or_remove(&mut view.facts.members, self.meta(), bound);
    }

    fn remove(view: &mut View, metadata: &ObjectMeta) {
        put_or_remove(&mut view.facts.members, metadata, None);
    }

    fn replace(view: &mut View, listed: View) {
        view.facts.members = listed.facts.members;
    }
}

impl Viewed for PodDisruptionBudget {
    const BIT: u8 = 32;

    fn store(&self, view: &mut View) {
        put_or_remove(&mut view.facts.budgets, self.meta(), Allowance::from_object(self));
    }

    fn remove(view: &mut View, metadata: &ObjectMeta) {
        put_or_remove(&mut view.facts.budgets, metadata, None);
    }

    fn replace(view: &mut View, listed: View) {
        view.facts.budgets = listed.facts.budgets;
    }
}
