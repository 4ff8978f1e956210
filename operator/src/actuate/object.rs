//! Writes on Giveway's own kinds, and events.

use super::FIELD_MANAGER;
use crate::command::{Notice, Subject};
use crate::report::CallError;
use crate::words::Names;
use giveway_crds::{PodGroup, keys};
use giveway_planner::model::ObjectKey;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Debug;

pub(super) fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() }
}

fn failed(error: impl std::fmt::Display) -> CallError {
    CallError::Failed(error.to_string())
}

/// Writes the whole status of an object, whatever it was. For a kind of ours the API server heeds no UID in a patch of a status, so it is
/// tested like any other field.
pub(super) async fn write_status<K>(
    client: &Client,
    object: &ObjectKey,
    uid: &str,
    status: &impl Serialize,
) -> Result<(), CallError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let objects: Api<K> = Api::namespaced(client.clone(), &object.namespace);
    let patch = json!([
        { "op": "test", "path": "/metadata/uid", "value": uid },
        { "op": "add", "path": "/status", "value": status },
    ]);
    let patch = serde_json::from_value(patch).map_err(failed)?;
    objects.patch_status(&object.name, &params(), &Patch::<()>::Json(patch)).await?;
    Ok(())
}

/// Creates a group; one that exists already is as good.
pub(super) async fn create_group(client: &Client, group: &PodGroup) -> Result<(), CallError> {
    let groups: Api<PodGroup> =
        Api::namespaced(client.clone(), group.metadata.namespace.as_deref().unwrap_or_default());
    match groups.create(&PostParams::default(), group).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Deletes a group that has not changed; one that has, or that is gone, is as good.
pub(super) async fn delete_group(
    client: &Client,
    group: &ObjectKey,
    uid: &str,
    version: &str,
) -> Result<(), CallError> {
    let groups: Api<PodGroup> = Api::namespaced(client.clone(), &group.namespace);
    let preconditions = Some(Preconditions { uid: Some(uid.to_owned()), resource_version: Some(version.to_owned()) });
    match groups.delete(&group.name, &DeleteParams { preconditions, ..DeleteParams::default() }).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Adds or removes our finalizer, and keeps those of others. A group that changes meanwhile is read again.
pub(super) async fn protect(client: &Client, group: &ObjectKey, uid: &str, protect: bool) -> Result<(), CallError> {
    const ATTEMPTS: usize = 5;
    let groups: Api<PodGroup> = Api::namespaced(client.clone(), &group.namespace);
    let mut attempt = 1;
    loop {
        let current = groups.get(&group.name).await?;
        if current.uid().as_deref() != Some(uid) {
            return Err(CallError::Gone);
        }
        let mut finalizers: Vec<String> =
            current.finalizers().iter().filter(|f| *f != keys::FINALIZER_PROTECTION).cloned().collect();
        if protect {
            finalizers.push(keys::FINALIZER_PROTECTION.to_owned());
        }
        let patch = json!({ "metadata": { "resourceVersion": current.resource_version(), "finalizers": finalizers } });
        match groups.patch(&group.name, &params(), &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS => attempt += 1,
            result => return result.map(|_| ()).map_err(CallError::from),
        }
    }
}

/// Emits an event.
pub(super) async fn publish(recorder: &Recorder, notice: &Notice, names: Names) -> Result<(), CallError> {
    let event = event(notice, names);
    let api_version = match &notice.kind {
        Subject::Known("ConfigMap" | "Node" | "Pod") => "v1".to_owned(),
        Subject::Known("PodDisruptionBudget") => "policy/v1".to_owned(),
        Subject::Known(_) => format!("{}/v1alpha1", keys::GROUP),
        Subject::Other { api_version, .. } => api_version.clone(),
    };
    let reference = ObjectReference {
        api_version: Some(api_version),
        kind: Some(notice.kind.to_string()),
        name: Some(notice.key.name.to_string()),
        // Events of what has no namespace are in `default`.
        namespace: Some(notice.key.namespace.to_string()).filter(|namespace| !namespace.is_empty()),
        uid: Some(notice.uid.to_string()),
        ..ObjectReference::default()
    };
    recorder.publish(&event, &reference).await?;
    Ok(())
}

fn event(notice: &Notice, names: Names) -> Event {
    Event {
        type_: if notice.warning { EventType::Warning } else { EventType::Normal },
        reason: notice.reason.as_str().to_owned(),
        note: Some(shorten(&names.told(&notice.note, &notice.key.namespace), NOTE)),
        action: shorten(&notice.action, ACTION),
        secondary: None,
    }
}

/// Of an event the API server takes notes of at most so many bytes.
const NOTE: usize = 1024;
/// And actions of at most so many.
const ACTION: usize = 128;

fn shorten(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut end = most - '…'.len_utf8();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_crds::condition::Reason;
    use giveway_planner::model::ObjectKey;

    #[test]
    fn an_event_is_never_longer_than_the_api_server_takes() {
        let notice = |text: &str| Notice {
            kind: "Pod".into(),
            key: ObjectKey::new("default", "p"),
            uid: "u".into(),
            warning: true,
            reason: Reason::Preempted,
            action: text.to_owned(),
            note: text.into(),
        };
        let said = |text: &str| {
            let event = event(&notice(text), Names::default());
            (event.action, event.note.unwrap())
        };
        let fits = "a".repeat(128);
        assert_eq!(said(&fits), (fits.clone(), fits));
        for letter in ["a", "é", "…"] {
            let (action, note) = said(&letter.repeat(3_000));
            assert!(action.len() <= 128 && note.len() <= 1024 && action.ends_with('…') && note.ends_with('…'));
            assert!(action.len() > 120 && note.len() > 1000, "{letter}: as much as fits");
        }
    }
}
