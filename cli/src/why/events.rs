//! Events of an object that the API server retains (one hour, by default).

use crate::connect::{Api, GetResult};
use crate::error::CliError;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

/// Reporting component of the operator's events about preemptions and pending groups.
pub(super) const OPERATOR: &str = "giveway-operator";

/// An event of the API server about an object, of either API version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedEvent {
    /// Time of the last occurrence.
    pub(crate) at: Option<Timestamp>,
    /// `Normal` or `Warning`.
    pub(crate) type_: String,
    /// The reason.
    pub(crate) reason: String,
    /// The message.
    pub(crate) message: String,
    /// Reporting component. Any user who may create events can write any name here.
    pub(crate) by: String,
}

/// Returns the events about an object, the oldest first; none if the user may not read events.
pub(super) async fn of(api: &Api, namespace: &str, kind: &str, name: &str) -> Result<Vec<ObservedEvent>, CliError> {
    let selector = format!("involvedObject.name%3D{name}%2CinvolvedObject.kind%3D{kind}");
    let mut events: Vec<ObservedEvent> = list(api, namespace, &selector).await?.iter().map(read).collect();
    events.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.message.cmp(&b.message)));
    Ok(events)
}

/// Returns the events about all objects of this name, each with the kind of its object; none if the user may not read events.
pub(super) async fn of_all_kinds(
    api: &Api,
    namespace: &str,
    name: &str,
) -> Result<Vec<(String, ObservedEvent)>, CliError> {
    let events = list(api, namespace, &format!("involvedObject.name%3D{name}")).await?;
    let kind = |event: &Value| event["involvedObject"]["kind"].as_str().unwrap_or_default().to_owned();
    Ok(events.iter().map(|event| (kind(event), read(event))).collect())
}

/// Reads the events of a namespace that a field selector selects; none if the user may not read events.
async fn list(api: &Api, namespace: &str, selector: &str) -> Result<Vec<Value>, CliError> {
    let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector={selector}");
    match api.get::<Value>(&path).await? {
        GetResult::Found(mut found) => {
            let items = found.get_mut("items").and_then(Value::as_array_mut);
            Ok(items.map(std::mem::take).unwrap_or_default())
        }
        GetResult::Missing | GetResult::Forbidden(_) => Ok(Vec::new()),
    }
}

/// Reads an event of either API version; its time is that of the last occurrence.
fn read(event: &Value) -> ObservedEvent {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let times = [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ];
    ObservedEvent {
        at: times.into_iter().find_map(|time| time.as_str()?.parse().ok()),
        type_: text(&event["type"]),
        reason: text(&event["reason"]),
        message: text(&event["message"]),
        by: [&event["reportingComponent"], &event["source"]["component"]]
            .into_iter()
            .find_map(|name| name.as_str().filter(|name| !name.is_empty()))
            .unwrap_or("an unknown component")
            .to_owned(),
    }
}

/// Returns the time since `then` as kubectl prints it: `12s`, `5m`, `3h`, `2d`.
pub(crate) fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
