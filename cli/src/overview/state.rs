//! The cluster as it is known now, and why it cannot be read. It is shared by what follows the cluster and by what shows it.

use crate::live::Gaps;
use crate::why::{self, PendingRow};
use crate::world::World;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedRwLockReadGuard, RwLock, watch};
use tokio::time::timeout;

/// Highest value of a PriorityClass that users may create.
const HIGHEST_OF_USERS: i32 = 1_000_000_000;

/// The objects of the cluster at one time, and what is pending.
pub(crate) struct Snapshot {
    /// The namespace of the flag `-n`, or of the context.
    pub(crate) namespace: String,
    /// The objects. Its notes say what the user may not read.
    pub(crate) world: World,
    /// What is pending.
    pub(crate) pending: Vec<PendingRow>,
}

impl Snapshot {
    /// Creates the snapshot of the objects in `world`. `gaps` says what the user may not read; `namespace` is that of the command.
    pub(super) fn new(namespace: String, world: World, gaps: Gaps) -> Self {
        let mut snapshot = Self { namespace, world, pending: Vec::new() };
        snapshot.update_derived(gaps);
        snapshot
    }

    /// Computes what depends on several objects, after objects have changed: notes, stored plans, and which pods are pending. `gaps`
    /// says what the user may not read.
    fn update_derived(&mut self, gaps: Gaps) {
        self.world.blind = gaps.blind;
        self.world.update_derived(gaps.notes);
        self.pending = why::pending(&self.world);
    }

    /// Returns the highest priority of a pending group or pod; if none is pending, the highest value of a PriorityClass that users may
    /// create.
    pub(crate) fn highest_priority(&self) -> i32 {
        let pending = self.pending.iter().map(|row| row.priority).max();
        let classes = self.world.cluster.classes().iter().map(|class| class.value);
        pending.or(classes.filter(|value| *value <= HIGHEST_OF_USERS).max()).unwrap_or(0)
    }

    /// Creates a snapshot of objects without a cluster.
    #[cfg(test)]
    pub(crate) fn of(items: Vec<serde_json::Value>, pending: Vec<PendingRow>) -> Self {
        let objects = crate::live::Objects { source: "test".to_owned(), items, ..crate::live::Objects::default() };
        Self { namespace: "default".to_owned(), world: World::new(objects, false).unwrap(), pending }
    }
}

/// Number and age of a snapshot of the cluster, and what is not known of the cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Revision {
    /// Number of the snapshot; each change has a higher one.
    pub(crate) revision: u64,
    /// The last time at which the snapshot was that of the cluster.
    pub(crate) read_at: Time,
    namespace: String,
    /// Why the cluster cannot be read since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// What is not known, as sentences.
    pub(crate) notes: Vec<String>,
}

impl Revision {
    /// Returns revision number 1, that of the first snapshot. `read_at` is when its objects were read.
    pub(crate) fn first(snapshot: &Snapshot, read_at: Time) -> Self {
        let (namespace, notes) = (snapshot.namespace.clone(), snapshot.world.notes.clone());
        Self { revision: 1, read_at, namespace, problem: None, notes }
    }
}

/// The last snapshot of the cluster, which readers lock and the follower changes.
pub(crate) struct State {
    snapshot: Arc<RwLock<Snapshot>>,
    revision: watch::Sender<Revision>,
}

impl State {
    /// Creates the state with a first snapshot, which was read at `read_at`.
    pub(crate) fn new(first: Snapshot, read_at: Time) -> Self {
        let revision = watch::Sender::new(Revision::first(&first, read_at));
        Self { snapshot: Arc::new(RwLock::new(first)), revision }
    }

    /// Locks and returns the last snapshot. No change is applied to it until the lock is dropped.
    pub(crate) async fn snapshot(&self) -> OwnedRwLockReadGuard<Snapshot> {
        Arc::clone(&self.snapshot).read_owned().await
    }

    /// Returns the revision of the last snapshot. It does not change while a snapshot is locked.
    pub(crate) fn revision(&self) -> Revision {
        self.revision.borrow().clone()
    }

    /// Waits until the snapshot is another one than that with the revision number `known`, but no longer than `most`.
    pub(crate) async fn changed(&self, known: u64, most: Duration) {
        let mut revisions = self.revision.subscribe();
        // The sender lives as long as the state, so that only the time limit ends this early.
        let _ = timeout(most, revisions.wait_for(|last| last.revision != known)).await;
    }

    /// Applies `change` to the objects of the snapshot. Readers learn of a new revision only from [`State::publish`].
    pub(super) async fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.snapshot.write().await.world);
    }

    /// Makes the changed objects a new revision. `gaps` says what the user may not read. With a `problem`, the cluster cannot be read
    /// now, and the age of the snapshot counts from the beginning of that problem.
    pub(super) async fn publish(&self, gaps: Gaps, problem: Option<String>) {
        let mut snapshot = self.snapshot.write().await;
        snapshot.update_derived(gaps);
        self.revision.send_modify(|last| {
            // From the beginning of a problem on, changes may be missing.
            if problem.is_none() || last.problem.is_none() {
                last.read_at = now();
            }
            last.revision += 1;
            last.problem = problem;
            last.notes.clone_from(&snapshot.world.notes);
        });
    }

    /// Records that the last snapshot is the state of the cluster now, unless the cluster cannot be read.
    pub(super) fn confirm(&self) {
        self.revision.send_if_modified(|last| {
            if last.problem.is_none() {
                last.read_at = now();
            }
            // What waits for another revision does not wait for this.
            false
        });
    }
}

/// Returns the current time of this machine as a time of Kubernetes.
pub(super) fn now() -> Time {
    Time(Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use serde_json::json;

    fn gaps() -> Gaps {
        Gaps { notes: Vec::new(), blind: false }
    }

    #[tokio::test]
    async fn a_problem_is_reported_with_the_time_since_when_changes_may_be_missing() {
        let state = samples::state();
        state.publish(gaps(), Some("GET /api/v1/nodes: connection refused".to_owned())).await;
        let broken = state.revision();
        assert_eq!((broken.revision, broken.problem.as_deref()), (2, Some("GET /api/v1/nodes: connection refused")));
        state.confirm();
        state.publish(gaps(), Some("GET /api/v1/pods: connection refused".to_owned())).await;
        assert_eq!(state.revision().read_at, broken.read_at, "what is known is as old as before");
        state.publish(gaps(), None).await;
        let shown = state.revision();
        assert!(shown.read_at.0 > broken.read_at.0 && shown.problem.is_none(), "{shown:?}");
        let text = json!({"revision": 4, "readAt": shown.read_at, "namespace": "default", "notes": []});
        assert_eq!(serde_json::to_value(shown).unwrap(), text);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_a_change_is_woken_by_a_new_revision_and_not_by_a_confirmation() {
        let state = samples::state();
        let wait = Duration::from_secs(5);
        let started = tokio::time::Instant::now();
        state.changed(0, wait).await;
        assert_eq!(started.elapsed(), Duration::ZERO, "revision 1 is news to a page that knows none");
        state.confirm();
        state.changed(1, wait).await;
        assert!(started.elapsed() >= wait);
        tokio::join!(state.changed(1, Duration::from_secs(3600)), state.publish(gaps(), None));
        assert!(started.elapsed() < 2 * wait);
    }
}
