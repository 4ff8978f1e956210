//! Events about verdicts, for users who do not see the response to the request.

use giveway_crds::condition::Reason;

/// An object that an event names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventObject {
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
pub struct EventDraft {
    /// The object that it is about.
    pub about: EventObject,
    /// The related object: the preemptor or the victim.
    pub related: Option<EventObject>,
    /// Reason of the event.
    pub reason: Reason,
    /// Action of the event.
    pub action: &'static str,
    /// Message of the event.
    pub note: String,
}
