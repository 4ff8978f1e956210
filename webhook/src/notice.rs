//! Events about admission responses.
//!
//! Rejected clients retry. Therefore an object gets at most one event per reason in every [`AGAIN`], all objects
//! together get a bounded number of events, and those of one namespace a quarter of it; further events are dropped.
//! Responses never wait for or depend on events.

use giveway_admission::notice::{EventDraft, EventObject};
use giveway_crds::kinds;
use giveway_crds::names::is_subdomain;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::DynamicObject;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Minimum time between two events of the same reason on an object.
pub const AGAIN: Duration = Duration::from_secs(60);
/// The window over which events are counted, and the maximum number of events in it.
const WINDOW: Duration = Duration::from_secs(10);
const MOST_IN_WINDOW: usize = 100;
/// Maximum number of events in a window on objects of one namespace, so that one namespace cannot use up all of them.
const MOST_OF_NAMESPACE: usize = MOST_IN_WINDOW / 4;
/// Maximum number of remembered pairs of object and reason.
const MOST_REMEMBERED: usize = 4096;
/// Timeout of reading an owner.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of events that are queued.
const QUEUE: usize = 256;

/// Remembers the last events, and limits their number.
#[derive(Debug, Default)]
pub struct EventLimiter {
    written: BTreeMap<(String, &'static str), Instant>,
    window: Option<Window>,
}

/// Number of events since the start of the window, by namespace.
#[derive(Debug)]
struct Window {
    since: Instant,
    of: BTreeMap<String, usize>,
}

impl EventLimiter {
    /// Returns true if this event may be written at the time `now`, and counts it: the same event was not written a short time ago, and
    /// neither its namespace nor the cluster had too many events.
    pub fn admit(&mut self, notice: &EventDraft, now: Instant) -> bool {
        let key = (notice.about.uid.clone(), notice.reason.as_str());
        if self.written.get(&key).is_some_and(|since| now - *since < AGAIN) {
            return false;
        }
        if self.written.len() >= MOST_REMEMBERED {
            self.written.retain(|_, since| now - *since < AGAIN);
        }
        if self.window.as_ref().is_some_and(|window| now - window.since >= WINDOW) {
            self.window = None;
        }
        let window = self.window.get_or_insert_with(|| Window { since: now, of: BTreeMap::new() });
        let namespace = &notice.about.namespace;
        let of_namespace = window.of.get(namespace).copied().unwrap_or_default();
        let in_window: usize = window.of.values().sum();
        if in_window >= MOST_IN_WINDOW || of_namespace >= MOST_OF_NAMESPACE || self.written.len() >= MOST_REMEMBERED {
            return false;
        }
        window.of.insert(namespace.clone(), of_namespace + 1);
        self.written.insert(key, now);
        true
    }
}

/// Creates the queue of events that are to be written: at most 256 at the same time.
pub fn queue() -> (mpsc::Sender<EventDraft>, mpsc::Receiver<EventDraft>) {
    mpsc::channel(QUEUE)
}

/// Writes the events of a queue to the API server, within the limits on events, until the queue is closed.
pub async fn write(client: Client, notices: mpsc::Receiver<EventDraft>) {
    write_of(client, notices, false).await;
}

/// Like [`write()`], for events on owners of pods. Each owner is read first, and gets no event if it does not exist: any client
/// that can reach the port can forge a review. The limits on events also limit these reads.
pub async fn write_on_owners(client: Client, notices: mpsc::Receiver<EventDraft>) {
    write_of(client, notices, true).await;
}

/// Returns true if the API server has an owner of pods with this kind, name and UID. Returns false if it cannot be read.
async fn exists(client: &Client, object: &EventObject) -> bool {
    let Some(row) = kinds::of_version(&object.api_version, object.kind) else { return false };
    // The names become part of the request path.
    if ![&object.namespace, &object.name].into_iter().all(|name| is_subdomain(name)) {
        return false;
    }
    let owners: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &object.namespace, &row.resource(row.version));
    match tokio::time::timeout(PATIENCE, owners.get_metadata_opt(&object.name)).await {
        Ok(Ok(found)) => found.and_then(|found| found.metadata.uid).is_some_and(|uid| uid == object.uid),
        Ok(Err(error)) => {
            tracing::warn!(%error, kind = row.kind, "an owner cannot be read, and gets no event");
            false
        }
        Err(_) => false,
    }
}

/// Writes the events of a queue, within the limits on events, until it is closed. If `read_first` is true, an event is written only if
/// the API server has the owner that it is about.
async fn write_of(client: Client, mut notices: mpsc::Receiver<EventDraft>, read_first: bool) {
    let reporter = Reporter { controller: "giveway-webhook".to_owned(), instance: std::env::var("HOSTNAME").ok() };
    let recorder = Recorder::new(client.clone(), reporter);
    let mut limiter = EventLimiter::default();
    while let Some(notice) = notices.recv().await {
        if !limiter.admit(&notice, Instant::now()) || (read_first && !exists(&client, &notice.about).await) {
            continue;
        }
        let event = Event {
            type_: EventType::Warning,
            reason: notice.reason.as_str().to_owned(),
            note: Some(notice.note),
            action: notice.action.to_owned(),
            secondary: notice.related.map(reference),
        };
        if let Err(error) = recorder.publish(&event, &reference(notice.about)).await {
            tracing::warn!(%error, "an event could not be written");
        }
    }
}

/// Converts the object that an event is about to the reference that the event contains.
fn reference(object: EventObject) -> ObjectReference {
    ObjectReference {
        api_version: Some(object.api_version),
        kind: Some(object.kind.to_owned()),
        namespace: Some(object.namespace),
        name: Some(object.name),
        uid: Some(object.uid),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_crds::condition::Reason;
    use kube::client::Body;
    use serde_json::json;
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    fn notice(uid: &str, reason: Reason) -> EventDraft {
        let (namespace, name, uid) = ("a".to_owned(), "p".to_owned(), uid.to_owned());
        let about = EventObject { api_version: "v1".to_owned(), kind: "Pod", namespace, name, uid };
        EventDraft { about, related: None, reason, action: "Refusing", note: "why".into() }
    }

    #[test]
    fn a_reason_is_reported_once_a_minute_and_another_reason_at_once() {
        let (mut limiter, start) = (EventLimiter::default(), Instant::now());
        let one = notice("u", Reason::GuaranteedBudget);
        assert!(limiter.admit(&one, start));
        assert!(!limiter.admit(&one, start + AGAIN - Duration::from_secs(1)));
        assert!(limiter.admit(&notice("u", Reason::NoPreemptor), start));
        assert!(limiter.admit(&one, start + AGAIN));
    }

    #[test]
    fn a_flood_of_objects_gets_a_bounded_number_of_events() {
        let (mut limiter, start) = (EventLimiter::default(), Instant::now());
        let many = (0..2 * MOST_IN_WINDOW).map(|n| {
            let mut notice = notice(&n.to_string(), Reason::NoPreemptor);
            notice.about.namespace = format!("team-{}", n % 10);
            notice
        });
        assert_eq!(many.filter(|notice| limiter.admit(notice, start)).count(), MOST_IN_WINDOW);
        assert!(limiter.admit(&notice("late", Reason::NoPreemptor), start + WINDOW), "the next window is open");
        assert!(limiter.written.len() <= MOST_REMEMBERED);
    }

    #[test]
    fn many_events_of_one_namespace_do_not_suppress_those_of_others() {
        let (mut limiter, start) = (EventLimiter::default(), Instant::now());
        let mut admit = |namespace: &str, uid: usize, now: Instant| {
            let mut notice = notice(&format!("{namespace}-{uid}"), Reason::NoPreemptor);
            notice.about.namespace = namespace.to_owned();
            limiter.admit(&notice, now)
        };
        assert_eq!((0..1000).filter(|n| admit("flood", *n, start)).count(), MOST_IN_WINDOW / 4);
        assert!(admit("other", 1, start));
        assert!(admit("flood", 1000, start + WINDOW), "the next window is open");
    }

    /// Returns the requests that are sent while events on this object are written, to an API server that has only the
    /// Job `team/train` with UID `real`.
    async fn asked(name: &str, uid: &str) -> Vec<String> {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let path = request.uri().path();
            seen.lock().unwrap().push(format!("{} {path}", request.method()));
            let job =
                json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"uid": "real"}});
            let not_found = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "message": "not found", "code": 404});
            let (code, answer) = match path {
                "/apis/batch/v1/namespaces/team/jobs/train" => (200, job),
                _ if request.method() == "POST" => (201, json!({"metadata": {"name": "event"}})),
                _ => (404, not_found),
            };
            let answer = http::Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        });
        let mut notice = notice(uid, Reason::GangLabelTooLate);
        let (namespace, name, uid) = ("team".to_owned(), name.to_owned(), uid.to_owned());
        notice.about = EventObject { api_version: "batch/v1".to_owned(), kind: "Job", namespace, name, uid };
        let (sender, notices) = queue();
        sender.try_send(notice).unwrap();
        drop(sender);
        write_on_owners(Client::new(service, "team"), notices).await;
        std::mem::take(&mut *requests.lock().unwrap())
    }

    #[tokio::test]
    async fn an_owner_that_does_not_exist_gets_no_event() {
        let read = "GET /apis/batch/v1/namespaces/team/jobs/train";
        let read_and_write = [read, "POST /apis/events.k8s.io/v1/namespaces/team/events"];
        assert_eq!(asked("train", "real").await, read_and_write);
        assert_eq!(asked("train", "made-up").await, [read], "another object had the name");
        assert_eq!(asked("none", "real").await, ["GET /apis/batch/v1/namespaces/team/jobs/none"]);
        assert!(asked("../../team/secrets/x", "real").await.is_empty(), "no request is made for an invalid name");
    }
}
