//! Follows one kind of objects with the rights of the user: what is forbidden, missing or fails is a change like an added object.

use crate::connect::{Api, RequestError};
use crate::error::CliError;
use crate::live;
use giveway_cluster::objects::KindFields;
use giveway_cluster::watch::permitted::{PermittedReader, PermittedScope};
use giveway_cluster::watch::{Event, WatchFailure};
use kube::api::WatchParams;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Shortest pause between two lists of a kind that may not be watched.
const SHORTEST_PAUSE: Duration = Duration::from_secs(10);

/// Such a pause is this many times as long as the list before it, so that a large cluster is not listed all the time.
const PAUSE_FACTOR: u32 = 9;

/// Pause after a failure: after the first one, and the maximum after consecutive failures.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// Pause until a kind that the cluster lacks is requested again.
const MISSING: Duration = Duration::from_secs(30);

/// What became known of a kind of objects: an object was listed, changed or deleted, or the kind cannot be read.
#[derive(Debug)]
pub(super) enum FollowedChange {
    /// A list begins.
    Started,
    /// An object of the list.
    Listed(Value),
    /// The list is complete: an object of the kind that was not in it does not exist, or may not be read.
    Complete(PermittedScope),
    /// An object was added or modified.
    Applied(Value),
    /// An object was deleted.
    Deleted(Value),
    /// No object may be read.
    Forbidden,
    /// The cluster does not have the kind.
    Missing,
    /// The kind may be listed and not watched: it is listed again after a pause.
    Unwatched,
    /// The kind cannot be read now. What is known of it stays.
    Failed(CliError),
    /// Changes are delivered again.
    Restored,
}

/// Why no event was delivered.
enum Interruption {
    Failure(WatchFailure),
    /// A list made no progress for this time.
    Late(Duration),
}

/// Lists and watches one kind, as far as the user may, and delivers its changes one by one.
pub(super) struct KindFollower {
    api: Api,
    /// The kind; of native groups a version of it.
    row: &'static KindFields,
    /// True for native groups, whose version is determined first.
    is_native: bool,
    /// `None` while the version of native groups is not known.
    reader: Option<PermittedReader>,
    /// How long to wait before the next request.
    pause: Duration,
    /// Number of consecutive failures.
    failures: u32,
    /// True from a failure until changes are delivered again.
    is_interrupted: bool,
    is_unwatched: bool,
    list_began: Instant,
    /// Duration of the last list.
    list_took: Duration,
}

impl KindFollower {
    /// Creates the follower of a kind, for the objects that the user may read. `row` describes the kind. No request is made before
    /// [`KindFollower::next`].
    pub(super) fn of(api: &Api, row: &'static KindFields) -> Self {
        let reader = Some(reader_of(api, row));
        Self { reader, is_native: false, ..Self::of_native_groups(api, row) }
    }

    /// Creates the follower of PodGroups of Kubernetes itself. `row` describes any version of them; the served one is determined later.
    pub(super) fn of_native_groups(api: &Api, row: &'static KindFields) -> Self {
        Self {
            api: api.clone(),
            row,
            is_native: true,
            reader: None,
            pause: Duration::ZERO,
            failures: 0,
            is_interrupted: false,
            is_unwatched: false,
            list_began: Instant::now(),
            list_took: Duration::ZERO,
        }
    }

    /// Waits for the next change of the kind, or for what ends or delays the changes. Failed requests are retried after growing delays.
    pub(super) async fn next(&mut self) -> FollowedChange {
        loop {
            if !self.pause.is_zero() {
                sleep(std::mem::take(&mut self.pause)).await;
            }
            let Some(reader) = &mut self.reader else {
                match live::native_groups(&self.api).await {
                    Ok(Some(row)) => self.reader = Some(reader_of(&self.api, row)),
                    Ok(None) => return self.missing(),
                    Err(error) => return self.interrupted_by(error),
                }
                continue;
            };
            let asks = self.is_interrupted || self.is_unwatched;
            match next_event(reader, asks, self.api.object_timeout()).await {
                Ok(Some(event)) => return self.delivered(event),
                Ok(None) => {
                    (self.failures, self.is_interrupted, self.is_unwatched) = (0, false, false);
                    return FollowedChange::Restored;
                }
                Err(Interruption::Late(waited)) => {
                    let problem = format!("the API server did not answer within {waited:?}");
                    return self.interrupted(problem);
                }
                Err(Interruption::Failure(failure)) => {
                    if let Some(change) = self.failed(failure) {
                        return change;
                    }
                }
            }
        }
    }

    /// Returns the change that an event of the list or watch is. A complete list or a change resets the count of failures.
    fn delivered(&mut self, event: Event<Value>) -> FollowedChange {
        match event {
            Event::Begun => {
                self.list_began = Instant::now();
                FollowedChange::Started
            }
            Event::Listed(object) => FollowedChange::Listed(object),
            Event::Complete => {
                (self.failures, self.is_interrupted) = (0, false);
                self.list_took = self.list_began.elapsed();
                FollowedChange::Complete(self.reader.as_ref().map_or(PermittedScope::Nothing, PermittedReader::scope))
            }
            Event::Applied(object) => {
                self.failures = 0;
                FollowedChange::Applied(object)
            }
            Event::Deleted(object) => {
                self.failures = 0;
                FollowedChange::Deleted(object)
            }
        }
    }

    /// Records a failure of the list or watch. Returns the change that it is, or `None` if only the next request shows what is wrong.
    fn failed(&mut self, failure: WatchFailure) -> Option<FollowedChange> {
        if failure.is_forbidden() {
            if matches!(failure, WatchFailure::List(_)) {
                (self.failures, self.is_interrupted) = (0, false);
                return Some(FollowedChange::Forbidden);
            }
            // Perhaps the list is forbidden now as well. If it is not, the kind may only be listed.
            let was_unwatched = std::mem::replace(&mut self.is_unwatched, true);
            self.pause = if was_unwatched { SHORTEST_PAUSE.max(self.list_took * PAUSE_FACTOR) } else { Duration::ZERO };
            return was_unwatched.then_some(FollowedChange::Unwatched);
        }
        if failure.is_unserved() && (self.is_native || live::may_be_missing(self.row)) {
            return Some(self.missing());
        }
        let problem = match failure {
            failure if failure.is_unserved() => "the API server does not know this kind".to_owned(),
            // The watch continues, or the kind is listed again.
            WatchFailure::Missed(_) | WatchFailure::Ended => {
                self.delay_request();
                return None;
            }
            WatchFailure::List(error) | WatchFailure::Watch(error) => RequestError::from(error).to_string(),
            WatchFailure::Silent(waited) => format!("the API server did not answer within {waited:?}"),
        };
        Some(self.interrupted(problem))
    }

    /// Records that the cluster does not have the kind, and delays the next request.
    fn missing(&mut self) -> FollowedChange {
        if self.is_native {
            self.reader = None;
        }
        (self.failures, self.is_interrupted, self.pause) = (0, false, MISSING);
        FollowedChange::Missing
    }

    /// Records that the kind cannot be read now because of `problem`, and delays the next request.
    fn interrupted(&mut self, problem: String) -> FollowedChange {
        self.interrupted_by(CliError::Cluster { what: format!("GET {}", self.row.path()), problem })
    }

    /// Records that the kind cannot be read because of this error, and delays the next request.
    fn interrupted_by(&mut self, error: CliError) -> FollowedChange {
        self.is_interrupted = true;
        self.delay_request();
        FollowedChange::Failed(error)
    }

    /// Delays the next request, longer after each consecutive failure.
    fn delay_request(&mut self) {
        let (first, longest) = BACK_OFF;
        self.pause = longest.min(first * 2_u32.saturating_pow(self.failures));
        self.failures = (self.failures + 1).min(8);
    }
}

/// Returns the reader that lists and watches the objects of a kind: in the whole cluster if the user may, otherwise in the namespace of
/// the command.
fn reader_of(api: &Api, row: &'static KindFields) -> PermittedReader {
    let namespace = live::is_namespaced(row).then(|| api.namespace.clone());
    let params = WatchParams { field_selector: live::field_selector(row), ..WatchParams::default() };
    api.follow(row, namespace, params)
}

/// Waits for the next event of a list or watch; during a list at most for `time_limit`. If `resumes`, first tries a watch that was
/// interrupted or forbidden, and returns `None` if it delivers changes again.
async fn next_event(
    reader: &mut PermittedReader,
    resumes: bool,
    time_limit: Duration,
) -> Result<Option<Event<Value>>, Interruption> {
    if resumes && reader.resume().await.map_err(Interruption::Failure)? {
        return Ok(None);
    }
    // Only a list has a time limit, because a watch may have no events for a long time.
    let next = if reader.is_listing() {
        timeout(time_limit, reader.next()).await.map_err(|_| Interruption::Late(time_limit))?
    } else {
        reader.next().await
    };
    next.map(Some).map_err(Interruption::Failure)
}
