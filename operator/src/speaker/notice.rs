//! Events as data.

use giveway_crds::condition::Reason;
use giveway_crds::wording::Sentence;
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;

/// The kind of the object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventSubject {
    /// `Pod`, `PodGroup`, `PodDisruptionBudget`, `Node`, `ConfigMap` or `Secret`.
    Known(&'static str),
    /// An owner of pods, of any kind.
    Other {
        /// Its `apiVersion`.
        api_version: String,
        /// Its kind.
        kind: String,
    },
}

impl From<&'static str> for EventSubject {
    /// Returns the subject for one of the kinds that events are usually about.
    fn from(kind: &'static str) -> Self {
        Self::Known(kind)
    }
}

impl std::fmt::Display for EventSubject {
    /// Writes the kind of the object.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Known(kind) => f.write_str(kind),
            Self::Other { kind, .. } => f.write_str(kind),
        }
    }
}

/// An event on an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventNotice {
    /// Kind of the object.
    pub kind: EventSubject,
    /// The object.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
    /// True for events of type `Warning`.
    pub warning: bool,
    /// Reason of the event.
    pub reason: Reason,
    /// The `action` of the event. It distinguishes events with the same reason, so that the recorder does not merge
    /// them into one series.
    pub action: String,
    /// The `note` of the event.
    pub note: Sentence,
}

impl EventNotice {
    /// Creates an event on the object of this kind, name and UID, with this `reason`, `action` and `note`. Its type is `Warning` if
    /// `warning` is true, otherwise `Normal`.
    pub fn on(
        kind: impl Into<EventSubject>,
        (key, uid): (ObjectKey, SmolStr),
        warning: bool,
        reason: Reason,
        action: impl Into<String>,
        note: impl Into<Sentence>,
    ) -> Self {
        Self { kind: kind.into(), key, uid, warning, reason, action: action.into(), note: note.into() }
    }
}
