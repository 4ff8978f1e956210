//! Events. Each is written by a task of its own, and several tasks run at the same time. So an event gets its name and its time when the
//! arbiter publishes it: the times of events are in the order in which the arbiter published them, in whatever order they are written.

use super::FIELD_MANAGER;
use crate::messages::report::CallError;
use crate::speaker::notice::{EventNotice, EventSubject};
use giveway_crds::keys;
use giveway_crds::wording::Names;
use giveway_planner::SmolStr;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// An event that is repeated within this time becomes a series, in one object.
const SERIES: SignedDuration = SignedDuration::from_mins(6);
/// Interval at which older events are forgotten.
const SWEEP: SignedDuration = SignedDuration::from_mins(1);
/// The namespace of events about cluster-scoped objects.
const CLUSTER_SCOPED: &str = "default";
/// Maximum length of an event's `note` in bytes; the API server rejects longer ones.
const NOTE: usize = 1024;
/// Maximum length of an event's `action` in bytes.
const ACTION: usize = 128;
/// Maximum length of the object's name in the name of an event: 253 bytes are permitted, of which the time takes 17.
const NAME: usize = 236;

/// What the events of a series have in common: UID of the object, whether it is a warning, reason, and action.
type Matter = (SmolStr, bool, &'static str, String);

/// Gives the events of this process their names, times and series.
#[derive(Debug)]
pub(super) struct Stamps {
    /// `reportingInstance` of all events.
    instance: String,
    state: Mutex<StampState>,
}

#[derive(Debug, Default)]
struct StampState {
    /// The time of the last event, in microseconds since the epoch.
    last: i64,
    /// The last events.
    recent: BTreeMap<Matter, Event>,
    swept: Timestamp,
}

impl StampState {
    /// Returns the time of the next event, and records it: `now`, or a microsecond after the last event if the clock was set back.
    fn time(&mut self, now: Timestamp) -> Timestamp {
        self.last = now.as_microsecond().max(self.last.saturating_add(1));
        Timestamp::from_microsecond(self.last).unwrap_or(now)
    }

    /// Deletes, at most once per minute, the records of events that continue no series any more.
    fn forget(&mut self, now: Timestamp) {
        if now.duration_since(self.swept) >= SWEEP {
            self.recent.retain(|_, event| is_recent(event, now));
            self.swept = now;
        }
    }
}

/// Returns true if the same event, published now, still continues the series of `event`, whose last repetition is less than six minutes
/// ago.
fn is_recent(event: &Event, now: Timestamp) -> bool {
    let repeated = event.series.as_ref().map(|series| &series.last_observed_time);
    repeated.or(event.event_time.as_ref()).is_some_and(|last| now.duration_since(last.0) < SERIES)
}

impl Stamps {
    /// Creates the state of a process that has published no event. `instance` identifies the process in `reportingInstance`.
    pub(super) fn new(instance: &str) -> Self {
        Self { instance: instance.to_owned(), state: Mutex::default() }
    }

    /// Returns the event to write for a notice, with a later time than all events before it. If the same event was published in the last
    /// six minutes, it is that event as a series with a higher count.
    pub(super) fn stamp(&self, notice: &EventNotice, names: Names, now: Timestamp) -> Event {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = state.time(now);
        state.forget(now);
        let event = self.first(notice, names, now);
        let matter =
            (notice.uid.clone(), notice.warning, notice.reason.as_str(), event.action.clone().unwrap_or_default());
        let event = match state.recent.get(&matter).filter(|earlier| is_recent(earlier, now)) {
            Some(earlier) => {
                let count = earlier.series.as_ref().map_or(1, |series| series.count).saturating_add(1);
                let series = Some(EventSeries { count, last_observed_time: MicroTime(now) });
                Event { series, ..earlier.clone() }
            }
            None => event,
        };
        state.recent.insert(matter, event.clone());
        event
    }

    /// Returns the event for a notice that continues no series of earlier events, with `now` as its time. `names` says which names its
    /// message may have.
    fn first(&self, notice: &EventNotice, names: Names, now: Timestamp) -> Event {
        let namespace = Some(notice.key.namespace.to_string()).filter(|namespace| !namespace.is_empty());
        let name = first_bytes(&notice.key.name, NAME).trim_end_matches(['-', '.']);
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{name}.{:016x}", now.as_nanosecond())),
                namespace: Some(namespace.clone().unwrap_or_else(|| CLUSTER_SCOPED.to_owned())),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            type_: Some(if notice.warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(notice.reason.as_str().to_owned()),
            action: Some(shorten_to_bytes(&notice.action, ACTION)),
            note: Some(shorten_to_bytes(&names.render(&notice.note, &notice.key.namespace), NOTE)),
            regarding: Some(ObjectReference {
                api_version: Some(api_version(&notice.kind)),
                kind: Some(notice.kind.to_string()),
                name: Some(notice.key.name.to_string()),
                namespace,
                uid: Some(notice.uid.to_string()),
                ..ObjectReference::default()
            }),
            reporting_controller: Some(FIELD_MANAGER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }
}

/// Returns the `apiVersion` of the kind of the object that an event is about, for its field `regarding`.
fn api_version(kind: &EventSubject) -> String {
    match kind {
        EventSubject::Known("ConfigMap" | "Node" | "Pod" | "Secret") => "v1".to_owned(),
        EventSubject::Known("PodDisruptionBudget") => "policy/v1".to_owned(),
        EventSubject::Known(_) => format!("{}/v1alpha1", keys::GROUP),
        EventSubject::Other { api_version, .. } => api_version.clone(),
    }
}

/// Writes an event: creates it, or if it is a series, updates the earlier object if that still exists.
pub(super) async fn write(client: &Client, event: &Event) -> Result<(), CallError> {
    let events: Api<Event> =
        Api::namespaced(client.clone(), event.metadata.namespace.as_deref().unwrap_or(CLUSTER_SCOPED));
    if event.series.is_some() {
        match events.patch(&event.name_any(), &PatchParams::default(), &Patch::Merge(event)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            result => return result.map(|_| ()).map_err(CallError::from),
        }
    }
    events.create(&PostParams::default(), event).await?;
    Ok(())
}

/// Returns the text, or its beginning followed by `…` if it has more than `most` bytes.
fn shorten_to_bytes(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", first_bytes(text, most - '…'.len_utf8()))
}

/// Returns the longest beginning of a text that has at most `most` bytes and ends with a whole character.
fn first_bytes(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_crds::condition::Reason;
    use giveway_planner::model::ObjectKey;

    fn notice(name: &str, action: &str, note: &str) -> EventNotice {
        EventNotice {
            kind: "Pod".into(),
            key: ObjectKey::new("default", name),
            uid: format!("uid-{name}").into(),
            warning: true,
            reason: Reason::Preempted,
            action: action.to_owned(),
            note: note.into(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn stamp(stamps: &Stamps, notice: &EventNotice, second: i64) -> Event {
        stamps.stamp(notice, Names::default(), at(second))
    }

    #[test]
    fn events_of_one_moment_have_times_and_names_in_the_order_in_which_they_are_published() {
        let stamps = Stamps::new("operator");
        // The clock is set back after the second event.
        let seconds = [(0, 100), (1, 100), (2, 90), (3, 90), (4, 101)];
        let events =
            seconds.map(|(number, second)| stamp(&stamps, &notice("p", &format!("Action {number}"), "It is."), second));
        let times: Vec<Timestamp> = events.iter().filter_map(|event| Some(event.event_time.as_ref()?.0)).collect();
        assert!(times.is_sorted_by(|earlier, later| earlier < later) && times.len() == 5, "{times:?}");
        let names: Vec<String> = events.iter().map(ResourceExt::name_any).collect();
        assert!(names.is_sorted_by(|earlier, later| earlier < later), "{names:?}");
        let again = stamp(&stamps, &notice("p", "Action 0", "It is."), 101).series.unwrap();
        assert!(again.last_observed_time.0 > times[4], "a repetition, too");
    }

    #[test]
    fn a_repeated_event_becomes_a_series_until_it_has_been_quiet_for_six_minutes() {
        let stamps = Stamps::new("operator");
        let counted = |second: i64| {
            let event = stamp(&stamps, &notice("p", "Preempting", "It is."), second);
            (event.name_any(), event.series.map(|series| series.count))
        };
        let (first, count) = counted(1_000);
        assert_eq!(count, None);
        assert_eq!((counted(1_001), counted(1_300)), ((first.clone(), Some(2)), (first.clone(), Some(3))));
        let (second, count) = counted(1_660);
        assert_eq!(count, None, "six minutes after the last one");
        assert_ne!(second, first);
        assert_eq!(stamps.state.lock().unwrap().recent.len(), 1);
        stamp(&stamps, &notice("q", "Preempting", "It is."), 3_000);
        assert_eq!(stamps.state.lock().unwrap().recent.len(), 1, "the old one is forgotten");
    }

    #[test]
    fn an_event_is_never_longer_than_the_api_server_permits() {
        let stamps = Stamps::new("operator");
        let said = |text: &str| {
            let event = stamp(&stamps, &notice("p", text, text), 100);
            (event.action.unwrap(), event.note.unwrap())
        };
        let fits = "a".repeat(128);
        assert_eq!(said(&fits), (fits.clone(), fits));
        for letter in ["a", "é", "…"] {
            let (action, note) = said(&letter.repeat(3_000));
            assert!(action.len() <= 128 && note.len() <= 1024 && action.ends_with('…') && note.ends_with('…'));
            assert!(action.len() > 120 && note.len() > 1000, "{letter}: as much as fits");
        }
        let name = format!("{}.{}", "a".repeat(235), "b".repeat(17));
        let event = stamp(&stamps, &notice(&name, "Preempting", "It is."), 100);
        assert!(event.name_any().len() <= 253 && event.name_any().starts_with(&format!("{}.0", "a".repeat(235))));
        assert_eq!(event.regarding.unwrap().name, Some(name));
    }
}
