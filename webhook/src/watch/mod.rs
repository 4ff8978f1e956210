//! Fills the view from watches of classes, groups and workloads, and of the objects that only the guard reads.
//!
//! An object that cannot be parsed is skipped and logged: it counts as absent and does not block the watch. When a
//! list begins again, its objects replace those of the view one by one, and at its end those that it does not contain are removed: there
//! is never a second copy, and the view is never empty in between. A failed watch
//! counts as broken until it has listed its kind again, because only a list proves that no change was missed. The answer
//! 404 to a list is a failure as well: no kind of the view is [optional](giveway_crds::optional).

mod viewed;

pub use viewed::Viewed;

use crate::supervise::Tasks;
use crate::view::View;
use giveway_admission::namespaced::NamespacedNames;
use giveway_admission::rules::guard::facts::PodObject;
use giveway_admission::view::Settings;
use giveway_cluster::objects::DecodedObject;
use giveway_cluster::watch::{Event, KindReader, WatchFailure};
use giveway_crds::native::{self, NativeGroup};
use giveway_crds::{PodGroup, Workload};
use giveway_serving::patience;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{Api, Client, Resource};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;
use tokio::time::Instant;

/// Delay of a watch after a failure: after the first one, and the maximum after consecutive failures.
const PAUSE: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(10));

/// The view, shared by the watches that write it and the requests that read it.
#[derive(Debug)]
pub struct SharedView {
    view: RwLock<View>,
    synced: tokio::sync::watch::Sender<u8>,
    /// Since when each watch is broken, by its bit.
    broken: Mutex<BTreeMap<u8, Instant>>,
    guarded: bool,
}

/// The kinds that admission reads.
const ADMISSION: u8 = PriorityClass::BIT | PodGroup::BIT | Workload::BIT;
/// The kinds that the guard reads.
const GUARD: u8 = PriorityClass::BIT
    | PodGroup::BIT
    | PodDisruptionBudget::BIT
    | NativeGroup::BIT
    | <PodObject<false> as Viewed>::BIT
    | <PodObject<true> as Viewed>::BIT;

/// Bit and name of every watch.
const NAMES: [(u8, &str); 7] = [
    (PriorityClass::BIT, "priorityclasses"),
    (PodGroup::BIT, "podgroups"),
    (NativeGroup::BIT, "native podgroups"),
    (Workload::BIT, "workloads"),
    (<PodObject<false> as Viewed>::BIT, "waiting pods"),
    (<PodObject<true> as Viewed>::BIT, "members of groups"),
    (PodDisruptionBudget::BIT, "poddisruptionbudgets"),
];

impl SharedView {
    /// Creates a view without objects, which no watch has filled yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            view: RwLock::new(View::new(settings)),
            synced: tokio::sync::watch::Sender::new(0),
            broken: Mutex::default(),
            guarded: false,
        }
    }

    /// Makes this the view of a webhook with the guard: it counts as complete only after the kinds that the guard reads were listed too.
    pub fn guarded(self) -> Self {
        Self { guarded: true, ..self }
    }

    /// Creates a view with these objects that counts as complete: as if every watch had listed its kind. For tests.
    pub fn complete(view: View) -> Self {
        let synced = tokio::sync::watch::Sender::new(ADMISSION | GUARD);
        Self { view: RwLock::new(view), synced, guarded: true, ..Self::new(Settings::default()) }
    }

    /// Locks the view for reading. The lock must not be held across an await.
    pub fn read(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the watches that must have listed their kinds before the view is complete, as the sum of their [bits](Viewed::BIT).
    fn wanted(&self) -> u8 {
        if self.guarded { ADMISSION | GUARD } else { ADMISSION }
    }

    /// Returns true if the view is complete: every watch that it needs has listed its kind once.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow() & self.wanted() == self.wanted()
    }

    /// Returns the name of every watch that the view needs, and for how long it has been broken: zero for a working one.
    pub fn broken(&self) -> Vec<(&'static str, Duration)> {
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        let watches = NAMES.iter().filter(|(bit, _)| bit & self.wanted() != 0);
        watches.map(|(bit, name)| (*name, broken.get(bit).map_or(Duration::ZERO, Instant::elapsed))).collect()
    }

    /// Records that the watch which `bit` identifies ([`Viewed::BIT`] of its kind) has been broken since `since`, unless it is recorded as
    /// broken already.
    pub(crate) fn mark_broken(&self, bit: u8, since: Instant) {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.entry(bit).or_insert(since);
    }

    /// Waits until every watch that admission needs has listed its kind once.
    pub async fn synced(&self) {
        self.wait_for(ADMISSION).await;
    }

    /// Waits until every watch that the guard needs has listed its kind once.
    pub async fn guard_synced(&self) {
        self.wait_for(GUARD).await;
    }

    /// Waits until all watches of the set `wanted`, given as the sum of their [bits](Viewed::BIT), have listed their kinds once.
    async fn wait_for(&self, wanted: u8) {
        let mut changes = self.synced.subscribe();
        // The sender lives as long as `self`, so that this cannot fail.
        let _ = changes.wait_for(|bits| bits & wanted == wanted).await;
    }

    /// Locks the view for writing and calls `change` with it.
    pub fn write(&self, change: impl FnOnce(&mut View)) {
        change(&mut self.view.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Records that the watch which `bit` identifies ([`Viewed::BIT`] of its kind) has listed its kind, and is not broken.
    pub(crate) fn mark_synced(&self, bit: u8) {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).remove(&bit);
        self.synced.send_modify(|bits| *bits |= bit);
    }
}

/// Returns the name of the watch which `bit` identifies ([`Viewed::BIT`] of its kind), for logs and errors.
fn name_of(bit: u8) -> &'static str {
    NAMES.iter().find(|(each, _)| *each == bit).map_or("", |(_, name)| name)
}

/// Starts, among `tasks`, a watch for every kind that the view needs, which writes the objects into it.
pub fn follow_all(client: &Client, view: &Arc<SharedView>, tasks: &mut Tasks) {
    tasks.start("the watch of priorityclasses", follow::<PriorityClass>(client.clone(), Arc::clone(view)));
    tasks.start("the watch of podgroups", follow::<PodGroup>(client.clone(), Arc::clone(view)));
    tasks.start("the watch of workloads", follow::<Workload>(client.clone(), Arc::clone(view)));
    if view.guarded {
        tasks.start("the watch of waiting pods", follow::<PodObject<false>>(client.clone(), Arc::clone(view)));
        tasks.start("the watch of members of groups", follow::<PodObject<true>>(client.clone(), Arc::clone(view)));
        tasks.start("the watch of native podgroups", follow_native(client.clone(), Arc::clone(view)));
        let budgets = follow::<PodDisruptionBudget>(client.clone(), Arc::clone(view));
        tasks.start("the watch of poddisruptionbudgets", budgets);
    }
}

/// Lists and watches one kind in all namespaces and writes its objects into the view. Never returns.
async fn follow<K: Viewed + Resource<DynamicType = ()>>(client: Client, view: Arc<SharedView>) {
    follow_until::<K>(Api::all(client), &view, |_| false).await;
}

/// Lists and watches one kind and writes its objects into the view. After each failure it begins again, until `is_end` returns true for the
/// failure.
async fn follow_until<K: Viewed>(api: Api<K>, view: &SharedView, is_end: impl Fn(&WatchFailure) -> bool) {
    let (shortest, longest) = PAUSE;
    let mut pause = shortest;
    loop {
        let started = Instant::now();
        let error = follow_once::<K>(api.clone(), view, patience::PAGE).await;
        if error.as_ref().is_some_and(&is_end) {
            return;
        }
        pause = if started.elapsed() > 2 * longest { shortest } else { longest.min(pause * 2) };
        tokio::time::sleep(pause).await;
    }
}

/// Lists and watches one kind and writes its objects into the view until that fails; then the watch counts as broken. Returns the
/// failure; `None` if the list delivered nothing for the time `page`.
async fn follow_once<K: Viewed>(api: Api<K>, view: &SharedView, page: Duration) -> Option<WatchFailure> {
    let mut unlisted = NamespacedNames::new();
    let mut reader = KindReader::new(api, K::params());
    let error = loop {
        let listing = reader.is_listing();
        let next = reader.next();
        // Only a list has a time limit, because a watch may have no events for a long time.
        let event = if listing { tokio::time::timeout(page, next).await } else { Ok(next.await) };
        match event {
            Ok(Ok(event)) => apply(event, &mut unlisted, view),
            Ok(Err(error)) => {
                tracing::warn!(kind = name_of(K::BIT), %error, "a watch failed and is started again");
                break Some(error);
            }
            Err(_) => {
                tracing::warn!(kind = name_of(K::BIT), "a list makes no progress and is started again");
                break None;
            }
        }
    };
    view.mark_broken(K::BIT, Instant::now());
    error
}

/// Lists and watches the native PodGroups, in the most stable version that the API server serves, and writes them into the view. If it
/// serves none, the view has no native groups. Never returns.
async fn follow_native(client: Client, view: Arc<SharedView>) {
    loop {
        let served = async { native::version::served(&client).await.map_err(|error| error.to_string()) };
        let served = tokio::time::timeout(patience::PAGE, served).await;
        match served.unwrap_or_else(|_| Err(format!("no answer within {:?}", patience::PAGE))) {
            Ok(Some(resource)) => {
                let api = Api::all_with(client.clone(), &resource);
                follow_until::<NativeGroup>(api, &view, WatchFailure::is_unserved).await;
            }
            Ok(None) => {
                view.write(|view| view.natives.clear());
                view.mark_synced(NativeGroup::BIT);
                return std::future::pending().await;
            }
            Err(error) => {
                tracing::warn!(%error, "the API server does not say whether it has native podgroups; it is asked again");
                view.mark_broken(NativeGroup::BIT, Instant::now());
            }
        }
        tokio::time::sleep(PAUSE.0).await;
    }
}

/// Applies an event of a list or watch to the view. While a list arrives, `unlisted` has the names of those objects of the view that it has
/// not contained yet: what is left at its end does not exist any more.
fn apply<K: Viewed>(event: Event<DecodedObject<K>>, unlisted: &mut NamespacedNames, view: &SharedView) {
    match event {
        Event::Begun => *unlisted = K::names(&view.read()),
        Event::Complete => {
            view.write(|view| {
                for (namespace, names) in std::mem::take(unlisted) {
                    names.iter().for_each(|name| K::remove(view, Some(&namespace), Some(name)));
                }
            });
            view.mark_synced(K::BIT);
        }
        Event::Listed(object) | Event::Applied(object) => {
            let metadata = object.meta();
            let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
            if let Some(names) = unlisted.get_mut(namespace.unwrap_or_default()) {
                names.remove(name.unwrap_or_default());
            }
            match &object.0 {
                Ok(object) => view.write(|view| object.store(view)),
                Err(invalid) => {
                    let (kind, error) = (name_of(K::BIT), &invalid.error);
                    tracing::warn!(kind, ?namespace, ?name, error, "an object cannot be read and counts as absent");
                    view.write(|view| K::remove(view, namespace, name));
                }
            }
        }
        Event::Deleted(object) => {
            let metadata = object.meta();
            view.write(|view| K::remove(view, metadata.namespace.as_deref(), metadata.name.as_deref()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_admission::view::ClusterView;
    use kube::client::Body;
    use serde_json::json;
    use std::convert::Infallible;

    /// Returns PodGroups of an API server that answers each request with this status and text.
    fn answering(code: u16, text: &'static str) -> Api<PodGroup> {
        let service = tower::service_fn(move |_: http::Request<Body>| async move {
            let answer = http::Response::builder().status(code).body(Body::from(text.as_bytes().to_vec()));
            Ok::<_, Infallible>(answer.unwrap())
        });
        Api::all(Client::new(service, "default"))
    }

    fn is_broken(view: &SharedView) -> bool {
        view.broken().iter().any(|(name, time)| *name == "podgroups" && !time.is_zero())
    }

    fn shared() -> SharedView {
        let settings = Settings { namespace: "own".into(), manage_new_classes: false, ..Settings::default() };
        SharedView::new(settings)
    }

    fn group(name: &str, spec: serde_json::Value) -> DecodedObject<PodGroup> {
        let group = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"namespace": "a", "name": name}, "spec": spec,
        });
        DecodedObject::decode(&group.to_string()).unwrap()
    }

    fn gang() -> serde_json::Value {
        json!({"schedulingPolicy": {"gang": {"minCount": 2}}})
    }

    #[test]
    fn a_list_that_begins_again_replaces_objects_one_by_one_and_removes_the_others_at_its_end() {
        let (view, mut unlisted) = (shared(), NamespacedNames::new());
        let names = || {
            view.read()
                .groups
                .get("a")
                .into_iter()
                .flat_map(|groups| groups.keys())
                .map(|name| name.to_string())
                .collect::<Vec<_>>()
        };
        for name in ["one", "two", "three"] {
            apply(Event::Applied(group(name, gang())), &mut unlisted, &view);
        }
        apply::<PodGroup>(Event::Begun, &mut unlisted, &view);
        assert_eq!(names(), ["one", "three", "two"], "still there while the new list arrives");
        apply(Event::Listed(group("two", json!({"schedulingPolicy": {"basic": {}}}))), &mut unlisted, &view);
        assert!(view.read().group("a", "two").is_some_and(|group| !group.gang));
        apply(Event::Listed(group("three", json!({"schedulingPolicy": 5}))), &mut unlisted, &view);
        assert_eq!(names(), ["one", "two"], "an object of the list that is unreadable counts as absent");
        apply(Event::Listed(group("four", gang())), &mut unlisted, &view);
        apply::<PodGroup>(Event::Begun, &mut unlisted, &view);
        apply(Event::Listed(group("four", gang())), &mut unlisted, &view);
        assert_eq!(names(), ["four", "one", "two"], "the list was interrupted");
        apply::<PodGroup>(Event::Complete, &mut unlisted, &view);
        assert_eq!(names(), ["four"]);
    }

    #[test]
    fn an_unreadable_object_counts_as_absent_and_stalls_nothing() {
        let (view, mut unlisted) = (shared(), NamespacedNames::new());
        apply(Event::Applied(group("g", gang())), &mut unlisted, &view);
        apply(Event::Applied(group("g", json!({"schedulingPolicy": 5}))), &mut unlisted, &view);
        assert!(view.read().group("a", "g").is_none());
        apply(Event::Applied(group("h", gang())), &mut unlisted, &view);
        assert!(view.read().group("a", "h").is_some());
    }

    #[test]
    fn a_deleted_object_is_forgotten() {
        let (view, mut unlisted) = (shared(), NamespacedNames::new());
        apply(Event::Applied(group("g", gang())), &mut unlisted, &view);
        apply(Event::Deleted(group("g", gang())), &mut unlisted, &view);
        assert!(view.read().groups.is_empty());
    }

    #[test]
    fn a_watch_is_broken_from_its_first_failure_until_it_has_listed_its_kind_again() {
        let (view, mut unlisted) = (shared(), NamespacedNames::new());
        let broken = || view.broken().into_iter().find(|(name, _)| *name == "podgroups").unwrap().1.as_secs();
        assert_eq!((broken(), view.broken().len()), (0, 3), "without a guard there are three watches");
        let now = Instant::now();
        view.mark_broken(PodGroup::BIT, now - Duration::from_secs(10));
        view.mark_broken(PodGroup::BIT, now - Duration::from_secs(5));
        for event in [Event::Begun, Event::Listed(group("one", gang())), Event::Applied(group("two", gang()))] {
            apply(event, &mut unlisted, &view);
            assert_eq!(broken(), 10, "the list is not complete");
        }
        apply::<PodGroup>(Event::Complete, &mut unlisted, &view);
        assert_eq!(broken(), 0);
    }

    #[tokio::test]
    async fn a_list_that_is_answered_404_empties_no_view_and_its_watch_is_broken() {
        let (view, mut unlisted) = (shared(), NamespacedNames::new());
        let error = follow_once(answering(404, "404 page not found\n"), &view, patience::PAGE).await;
        assert!(error.as_ref().is_some_and(WatchFailure::is_unserved), "{error:?}");
        assert!(is_broken(&view));
        view.mark_synced(PriorityClass::BIT | Workload::BIT);
        assert!(!view.is_synced(), "no request is answered before PodGroups have been listed");

        for event in [Event::Begun, Event::Listed(group("one", gang())), Event::Complete] {
            apply(event, &mut unlisted, &view);
        }
        assert!(view.is_synced() && !is_broken(&view));
        follow_once(answering(404, "404 page not found\n"), &view, patience::PAGE).await;
        assert!(is_broken(&view));
        assert!(view.read().group("a", "one").is_some());
    }

    #[tokio::test]
    async fn a_list_without_progress_ends_and_its_watch_is_broken() {
        let silent = |_: http::Request<Body>| std::future::pending::<Result<http::Response<Body>, Infallible>>();
        let groups = Api::all(Client::new(tower::service_fn(silent), "default"));
        let view = shared();
        let error = follow_once::<PodGroup>(groups, &view, Duration::from_millis(1)).await;
        assert!(error.is_none(), "{error:?}");
        assert!(is_broken(&view));
    }

    #[test]
    fn the_view_is_synced_when_every_kind_is() {
        let view = shared();
        for bit in [PriorityClass::BIT, PodGroup::BIT] {
            view.mark_synced(bit);
            assert!(!view.is_synced());
        }
        view.mark_synced(Workload::BIT);
        assert!(view.is_synced());
    }

    #[test]
    fn with_a_guard_the_view_is_synced_when_its_kinds_are_too() {
        let view = shared().guarded();
        for bit in [ADMISSION, NativeGroup::BIT, <PodObject<false> as Viewed>::BIT, <PodObject<true> as Viewed>::BIT] {
            view.mark_synced(bit);
            assert!(!view.is_synced());
        }
        view.mark_synced(PodDisruptionBudget::BIT);
        assert!(view.is_synced());
    }
}
