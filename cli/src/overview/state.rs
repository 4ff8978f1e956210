//! The cluster as it was last read, and why it could not be read since.

use crate::connect::Api;
use crate::error::CliError;
use crate::why::{PendingRow, visible};
use crate::world::World;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shortest pause between two reads.
const SHORTEST_PAUSE: Duration = Duration::from_secs(3);

/// A pause is this many times as long as the read before it, so that a large cluster is not read all the time.
const TIMES: u32 = 9;

/// Highest value of a PriorityClass that users may create.
const HIGHEST_OF_USERS: i32 = 1_000_000_000;

/// The cluster at one time.
pub(crate) struct Snapshot {
    /// Number of the read; each read has a higher one.
    revision: u64,
    /// When it was read.
    read_at: Time,
    /// The namespace of the flag `-n`, or of the context.
    pub(crate) namespace: String,
    /// The objects. Its notes say what the user may not read.
    pub(crate) world: World,
    /// What is pending.
    pub(crate) pending: Vec<PendingRow>,
}

impl Snapshot {
    /// Reads the cluster as far as the user may.
    ///
    /// # Errors
    /// A list fails for another reason than a missing right.
    pub(crate) async fn read(api: &Api, revision: u64) -> Result<Self, CliError> {
        let world = World::of_what_may_be_seen(api, &api.namespace).await?;
        let pending = visible(api, &world, &api.namespace).await?;
        Ok(Self { revision, read_at: Time(Timestamp::now()), namespace: api.namespace.clone(), world, pending })
    }

    /// Returns the highest priority that is pending; without a pending pod, the highest that users have a class for.
    pub(crate) fn highest_priority(&self) -> i32 {
        let pending = self.pending.iter().map(|row| row.priority).max();
        let classes = self.world.cluster.classes().iter().map(|class| class.value);
        pending.or(classes.filter(|value| *value <= HIGHEST_OF_USERS).max()).unwrap_or(0)
    }

    /// Creates a snapshot of objects without a cluster.
    #[cfg(test)]
    pub(crate) fn of(items: Vec<serde_json::Value>, pending: Vec<PendingRow>) -> Self {
        let objects = crate::live::Objects { source: "test".to_owned(), items, ..crate::live::Objects::default() };
        let world = World::new(objects, false).unwrap();
        let read_at = Time("2026-11-22T12:00:00Z".parse().unwrap());
        Self { revision: 1, read_at, namespace: "default".to_owned(), world, pending }
    }
}

/// The last snapshot, shared by what reads the cluster and what shows it.
pub(crate) struct State {
    current: Mutex<Arc<Snapshot>>,
    /// Why the last read failed, if it did.
    problem: Mutex<Option<String>>,
}

/// Which snapshot is the last one: the page asks for it every few seconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Revision {
    revision: u64,
    /// When it was read.
    pub(crate) read_at: Time,
    namespace: String,
    /// Why the cluster could not be read since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
    /// What is not known, as sentences.
    pub(crate) notes: Vec<String>,
}

impl State {
    /// Creates the state after the first read.
    pub(crate) fn new(first: Snapshot) -> Self {
        Self { current: Mutex::new(Arc::new(first)), problem: Mutex::new(None) }
    }

    /// Reads the cluster for the first time. Returns also how long to wait before the next read.
    ///
    /// # Errors
    /// As of [`Snapshot::read`].
    pub(crate) async fn read(api: &Api) -> Result<(Self, Duration), CliError> {
        let (first, pause) = timed(api, 1).await;
        Ok((Self::new(first?), pause))
    }

    /// Returns the last snapshot.
    pub(crate) fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&locked(&self.current))
    }

    /// Returns which snapshot is the last one.
    pub(crate) fn revision(&self) -> Revision {
        let current = self.current();
        Revision {
            revision: current.revision,
            read_at: current.read_at.clone(),
            namespace: current.namespace.clone(),
            problem: locked(&self.problem).clone(),
            notes: current.world.notes.clone(),
        }
    }

    /// Reads the cluster again. Returns how long to wait before the next read.
    pub(crate) async fn refresh(&self, api: &Api) -> Duration {
        let (outcome, pause) = timed(api, self.current().revision + 1).await;
        self.store(outcome);
        pause
    }

    /// Stores the outcome of a read. After a failure the last snapshot stays.
    pub(crate) fn store(&self, outcome: Result<Snapshot, CliError>) {
        let problem = match outcome {
            Ok(snapshot) => {
                *locked(&self.current) = Arc::new(snapshot);
                None
            }
            Err(error) => Some(error.to_string()),
        };
        *locked(&self.problem) = problem;
    }
}

/// Reads the cluster. Returns also how long to wait before the next read: longer after a long read, but not after a failed one, whose time
/// was spent waiting for the API server.
async fn timed(api: &Api, revision: u64) -> (Result<Snapshot, CliError>, Duration) {
    let started = Instant::now();
    let outcome = Snapshot::read(api, revision).await;
    let pause = if outcome.is_ok() { started.elapsed() * TIMES } else { SHORTEST_PAUSE };
    (outcome, pause.max(SHORTEST_PAUSE))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failed_read_the_last_snapshot_stays_with_the_problem_until_a_read_succeeds() {
        let state = State::new(Snapshot::of(Vec::new(), Vec::new()));
        state.store(Err(CliError::Cluster {
            what: "GET /api/v1/nodes".to_owned(),
            problem: "connection refused".to_owned(),
        }));
        let shown = state.revision();
        assert_eq!((shown.revision, shown.problem.as_deref()), (1, Some("GET /api/v1/nodes: connection refused")));
        state.store(Ok(Snapshot { revision: 2, ..Snapshot::of(Vec::new(), Vec::new()) }));
        let shown = serde_json::to_value(state.revision()).unwrap();
        let expected =
            serde_json::json!({"revision": 2, "readAt": "2026-11-22T12:00:00Z", "namespace": "default", "notes": []});
        assert_eq!(shown, expected);
    }
}
