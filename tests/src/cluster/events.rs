//! Events, as `kubectl describe` shows them.

use super::Kit;
use crate::wait::wait_for;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use std::time::Duration;

/// An event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// `Normal` or `Warning`.
    pub type_: String,
    /// The reason, in PascalCase.
    pub reason: String,
    /// The sentence.
    pub message: String,
}

/// The events about one object.
///
/// # Errors
/// The API server cannot be asked.
pub(super) async fn about(kit: &Kit, kind: &str, name: &str) -> Result<Vec<Happened>, kube::Error> {
    let selector = format!("involvedObject.kind={kind},involvedObject.name={name}");
    let list = kit.api::<Event>().list(&ListParams::default().fields(&selector)).await?;
    Ok(list.items.into_iter().map(happened).collect())
}

fn happened(event: Event) -> Happened {
    Happened {
        type_: event.type_.unwrap_or_default(),
        reason: event.reason.unwrap_or_default(),
        message: event.message.unwrap_or_default(),
    }
}

/// Waits for an event with this reason about an object of the kit's namespace, and returns its message.
///
/// # Panics
/// The time is up.
pub async fn wait_for_event(kit: &Kit, kind: &str, name: &str, reason: &str, limit: Duration) -> String {
    wait_for(&format!("there is an event {reason} about {kind} {name}"), limit, async || {
        let events = about(kit, kind, name).await.map_err(|error| error.to_string())?;
        let found = events.iter().find(|event| event.reason == reason);
        found.map(|event| event.message.clone()).ok_or_else(|| format!("{events:?}"))
    })
    .await
}
