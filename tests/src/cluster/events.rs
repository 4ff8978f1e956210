//! Events, as `kubectl describe` shows them.

use super::Kit;
use crate::wait::wait_for;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use std::time::Duration;

/// An event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// `Normal` or `Warning`.
    pub type_: String,
    /// The reason, in PascalCase.
    pub reason: String,
    /// The message.
    pub message: String,
}

/// Returns the events about one object.
///
/// # Errors
/// If the API server does not answer.
pub async fn events_about(kit: &Kit, kind: &str, name: &str) -> Result<Vec<EventRecord>, kube::Error> {
    let selector = format!("involvedObject.kind={kind},involvedObject.name={name}");
    let list = kit.api::<Event>().list(&ListParams::default().fields(&selector)).await?;
    Ok(list.items.into_iter().map(record).collect())
}

fn record(event: Event) -> EventRecord {
    EventRecord {
        type_: event.type_.unwrap_or_default(),
        reason: event.reason.unwrap_or_default(),
        message: event.message.unwrap_or_default(),
    }
}

/// Waits for an event with this reason about an object of the kit's namespace, and returns its message.
///
/// # Panics
/// If the deadline has passed.
pub async fn wait_for_event(kit: &Kit, kind: &str, name: &str, reason: &str, limit: Duration) -> String {
    wait_for(&format!("{kind} {name} has an event {reason}"), limit, async || {
        let events = events_about(kit, kind, name).await.map_err(|error| error.to_string())?;
        let found = events.iter().find(|event| event.reason == reason);
        found.map(|event| event.message.clone()).ok_or_else(|| format!("{events:?}"))
    })
    .await
}
