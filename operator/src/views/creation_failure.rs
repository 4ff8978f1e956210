//! What a controller reports about a pod that it could not create, in an event on itself. Nothing else is stored of such a pod.

use giveway_crds::brief::shorten;
use giveway_crds::kinds::is_creation_failure;
use giveway_crds::wording::conditions::pod_group::member_not_created;
use k8s_openapi::api::events::v1::Event;

/// Maximum number of characters of the message that are quoted: users can write events.
const MOST_OF_MESSAGE: usize = 400;

/// A pod that could not be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreationFailure {
    /// Kind and name of its controller.
    pub controller: String,
    /// The controller's message, which ends with the words of the component that rejected the pod.
    pub message: String,
    /// When the controller reported it last, in seconds since the epoch.
    pub at: i64,
}

impl CreationFailure {
    /// Reads an event of a controller that could not create a pod; `None` for any other event.
    pub fn of(event: &Event) -> Option<Self> {
        let regarding = event.regarding.as_ref()?;
        let (kind, name) = (regarding.kind.as_deref()?, regarding.name.as_deref()?);
        if kind == "Pod" || !is_creation_failure(event.reason.as_deref()?) {
            return None;
        }
        let repeated = event.series.as_ref().map(|series| series.last_observed_time.0);
        let last = event.deprecated_last_timestamp.as_ref().map(|at| at.0);
        let first = event.event_time.as_ref().map(|at| at.0);
        let note = event.note.as_deref().unwrap_or_default();
        let message = note.chars().take(MOST_OF_MESSAGE).map(|c| if c.is_control() { ' ' } else { c });
        Some(Self {
            controller: format!("{} {name}", shorten(kind)),
            message: message.collect(),
            at: repeated.or(last).or(first)?.as_second(),
        })
    }

    /// Returns the sentence that the controller could not create a member, with the controller's message.
    pub fn sentence(&self) -> String {
        member_not_created(&self.controller, &self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(event: Value) -> Option<CreationFailure> {
        CreationFailure::of(&serde_json::from_value(event).unwrap())
    }

    #[test]
    fn an_event_about_a_pod_that_was_not_created_is_read_with_the_time_of_its_last_repetition() {
        let event = json!({
            "metadata": {"name": "train.1"}, "type": "Warning", "reason": "FailedCreate",
            "regarding": {"kind": "Job", "name": "train"}, "note": "Error creating: exceeded\nquota",
            "deprecatedLastTimestamp": "1970-01-01T00:01:40Z", "eventTime": null,
        });
        let read_once = read(event.clone()).unwrap();
        assert_eq!(read_once.sentence(), "Job train could not create a pod: Error creating: exceeded quota");
        assert_eq!(read_once.at, 100);
        let mut repeated = event.clone();
        repeated["series"] = json!({"count": 2, "lastObservedTime": "1970-01-01T00:03:20.000000Z"});
        assert_eq!(read(repeated).map(|failure| failure.at), Some(200));
        let mut long = event.clone();
        long["note"] = json!("é".repeat(3_000));
        assert_eq!(read(long.clone()).unwrap().message.chars().count(), MOST_OF_MESSAGE);
        // The API server limits the note of an event, and not the kind of the object that it regards.
        long["regarding"]["kind"] = json!("é".repeat(3_000));
        assert!(read(long).unwrap().sentence().chars().count() < MOST_OF_MESSAGE + 150);
        for (field, value) in
            [("reason", json!("SuccessfulCreate")), ("regarding", json!({"kind": "Pod", "name": "p"}))]
        {
            let mut other = event.clone();
            other[field] = value;
            assert_eq!(read(other), None, "{field}");
        }
    }
}
