//! Answers that are told in events, too.
//!
//! Who is refused comes back. So an object hears the same reason at most every [`AGAIN`], and all objects together get a bounded
//! number of events; what is above it is dropped. Nothing here is waited for: an answer never depends on its events.

use giveway_crds::condition::Reason;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How long an object does not hear the same reason again.
pub const AGAIN: Duration = Duration::from_secs(60);
/// The time over which events are counted, and the most of them in it.
const WINDOW: Duration = Duration::from_secs(10);
const MOST_IN_WINDOW: usize = 100;
/// The most objects that are remembered.
const MOST_REMEMBERED: usize = 4096;
/// The most events that wait to be written.
const QUEUE: usize = 256;

/// An object that an event names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The object that it is about.
    pub about: Object,
    /// The object on the other side.
    pub related: Option<Object>,
    /// Why.
    pub reason: Reason,
    /// What was done.
    pub action: &'static str,
    /// The sentence.
    pub note: String,
}

/// Who has heard what, and how many events there were.
#[derive(Debug, Default)]
pub struct Limiter {
    heard: BTreeMap<(String, &'static str), Instant>,
    window: Option<(Instant, usize)>,
}

impl Limiter {
    /// Whether this event may be written now; remembers it when it may.
    pub fn admit(&mut self, notice: &Notice, now: Instant) -> bool {
        let key = (notice.about.uid.clone(), notice.reason.as_str());
        if self.heard.get(&key).is_some_and(|since| now - *since < AGAIN) {
            return false;
        }
        if self.heard.len() >= MOST_REMEMBERED {
            self.heard.retain(|_, since| now - *since < AGAIN);
        }
        let (since, written) = self.window.filter(|(since, _)| now - *since < WINDOW).unwrap_or((now, 0));
        if written >= MOST_IN_WINDOW || self.heard.len() >= MOST_REMEMBERED {
            return false;
        }
        self.window = Some((since, written + 1));
        self.heard.insert(key, now);
        true
    }
}

/// A queue of events and its end that writes them.
pub fn queue() -> (mpsc::Sender<Notice>, mpsc::Receiver<Notice>) {
    mpsc::channel(QUEUE)
}

/// Writes what comes out of the queue, for ever.
pub async fn write(client: Client, mut notices: mpsc::Receiver<Notice>) {
    let reporter = Reporter { controller: "giveway-webhook".to_owned(), instance: std::env::var("HOSTNAME").ok() };
    let recorder = Recorder::new(client, reporter);
    let mut limiter = Limiter::default();
    while let Some(notice) = notices.recv().await {
        if !limiter.admit(&notice, Instant::now()) {
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

fn reference(object: Object) -> ObjectReference {
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

    fn notice(uid: &str, reason: Reason) -> Notice {
        let (namespace, name, uid) = ("a".to_owned(), "p".to_owned(), uid.to_owned());
        let about = Object { api_version: "v1".to_owned(), kind: "Pod", namespace, name, uid };
        Notice { about, related: None, reason, action: "Refusing", note: "why".into() }
    }

    #[test]
    fn the_same_reason_is_heard_once_a_minute_and_another_one_at_once() {
        let (mut limiter, start) = (Limiter::default(), Instant::now());
        let one = notice("u", Reason::GuaranteedBudget);
        assert!(limiter.admit(&one, start));
        assert!(!limiter.admit(&one, start + AGAIN - Duration::from_secs(1)));
        assert!(limiter.admit(&notice("u", Reason::NoPreemptor), start));
        assert!(limiter.admit(&one, start + AGAIN));
    }

    #[test]
    fn a_flood_of_objects_gets_a_bounded_number_of_events() {
        let (mut limiter, start) = (Limiter::default(), Instant::now());
        let many = (0..2 * MOST_IN_WINDOW).map(|n| notice(&n.to_string(), Reason::NoPreemptor));
        assert_eq!(many.filter(|notice| limiter.admit(notice, start)).count(), MOST_IN_WINDOW);
        assert!(limiter.admit(&notice("late", Reason::NoPreemptor), start + WINDOW), "the next window is open");
        assert!(limiter.heard.len() <= MOST_REMEMBERED);
    }
}
