//! Writes on Giveway's own kinds.

use super::FIELD_MANAGER;
use super::answer::{already_exists, has_changed};
use crate::messages::report::CallError;
use giveway_crds::{PodGroup, PodGroupStatus, Workload, WorkloadStatus, keys};
use giveway_planner::model::ObjectKey;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::fmt::Debug;

/// Returns the parameters of all patches by the operator: they name it as the field manager.
pub(super) fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() }
}

/// Returns the error `CallError::Failed` with the text of this error, for a call that cannot be made.
fn failed(error: impl std::fmt::Display) -> CallError {
    CallError::Failed(error.to_string())
}

/// Replaces the whole status of a Workload, if it still has this UID.
pub(super) async fn write_workload_status(
    client: &Client,
    workload: &ObjectKey,
    uid: &str,
    status: &WorkloadStatus,
) -> Result<(), CallError> {
    patch_status::<Workload>(client, workload, uid, json!([{ "op": "add", "path": "/status", "value": status }])).await
}

/// Changes the status of a PodGroup from `from` to `to`, if the PodGroup still has this UID. Marks of preempted pods (`preemptedPods`) that
/// the webhook adds at the same time are kept.
pub(super) async fn write_group_status(
    client: &Client,
    group: &ObjectKey,
    uid: &str,
    from: &PodGroupStatus,
    to: &PodGroupStatus,
) -> Result<(), CallError> {
    patch_status::<PodGroup>(client, group, uid, group_status_patch(from, to).map_err(failed)?).await
}

/// Patches the status of an object of one of Giveway's kinds, if it still has this UID. `changes` is a JSON patch. The API server ignores a
/// UID in the metadata of a status patch, so the patch tests the UID like any other field.
async fn patch_status<K>(client: &Client, object: &ObjectKey, uid: &str, changes: Value) -> Result<(), CallError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let objects: Api<K> = Api::namespaced(client.clone(), &object.namespace);
    let mut patch = vec![json!({ "op": "test", "path": "/metadata/uid", "value": uid })];
    patch.extend(changes.as_array().cloned().unwrap_or_default());
    let patch = serde_json::from_value(Value::Array(patch)).map_err(failed)?;
    objects.patch_status(&object.name, &params(), &Patch::<()>::Json(patch)).await?;
    Ok(())
}

/// Returns the JSON patch that changes the status of a PodGroup from `from` to `to`. Every field except the marks of preempted pods
/// (`preemptedPods`) is replaced whatever its stored value is; of the marks, only those are removed that `to` does not have. The patch that
/// creates the first status fails if the PodGroup has a status by then.
fn group_status_patch(from: &PodGroupStatus, to: &PodGroupStatus) -> serde_json::Result<Value> {
    const MARKS: &str = "preemptedPods";
    let fields = |status: &PodGroupStatus| -> serde_json::Result<Map<String, Value>> {
        let mut fields: Map<String, Value> = serde_json::from_value(serde_json::to_value(status)?)?;
        fields.remove(MARKS);
        Ok(fields)
    };
    let (before, after) = (fields(from)?, fields(to)?);
    if *from == PodGroupStatus::default() {
        return Ok(json!([
            { "op": "test", "path": "/status", "value": null },
            { "op": "add", "path": "/status", "value": after },
        ]));
    }
    let removed = before.keys().filter(|field| !after.contains_key(*field)).map(|field| format!("/status/{field}"));
    let marks = from.preempted_pods.keys().filter(|uid| !to.preempted_pods.contains_key(*uid));
    let marks = marks.map(|uid| format!("/status/{MARKS}/{}", uid.replace('~', "~0").replace('/', "~1")));
    let removed = removed.chain(marks).map(|path| json!({ "op": "remove", "path": path }));
    let added =
        after.iter().map(|(field, value)| json!({ "op": "add", "path": format!("/status/{field}"), "value": value }));
    Ok(added.chain(removed).collect())
}

/// Creates a PodGroup. Succeeds also if it exists already.
pub(super) async fn create_group(client: &Client, group: &PodGroup) -> Result<(), CallError> {
    let groups: Api<PodGroup> =
        Api::namespaced(client.clone(), group.metadata.namespace.as_deref().unwrap_or_default());
    match groups.create(&PostParams::default(), group).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if already_exists(&status) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Deletes an object if it has this UID, and this resourceVersion if it is given. Succeeds also if the object does not exist or has another
/// UID or resourceVersion.
pub(super) async fn delete<K>(api: Api<K>, name: &str, uid: &str, version: Option<&str>) -> Result<(), CallError>
where
    K: Clone + DeserializeOwned + Debug,
{
    let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: version.map(str::to_owned) };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(name, &params).await {
        Err(kube::Error::Api(status)) if version.is_some() && has_changed(&status) => Ok(()),
        Err(error) => match CallError::from(error) {
            CallError::Gone => Ok(()),
            error => Err(error),
        },
        Ok(_) => Ok(()),
    }
}

/// Adds Giveway's finalizer to a PodGroup with this UID if `protect` is true, or removes it, and keeps all other finalizers. A PodGroup
/// that changes meanwhile is read again, up to five times.
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
            Err(kube::Error::Api(status)) if has_changed(&status) && attempt < ATTEMPTS => attempt += 1,
            result => return result.map(|_| ()).map_err(CallError::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::stand_in::api_server;
    use giveway_crds::finished::FinishedMembers;
    use giveway_crds::pod_group::PreemptedPod;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;
    use std::collections::BTreeMap;

    /// Before, each 409 counted as "it has changed", and the object as one that need not be deleted any more.
    #[tokio::test]
    async fn a_denied_deletion_is_rejected_and_that_of_a_changed_object_is_not_needed() {
        let deleted = async |message: &str, version| {
            let status =
                json!({"status": "Failure", "code": 409, "reason": "Conflict", "message": message}).to_string();
            let groups: Api<PodGroup> = Api::all(api_server(move |_| (409, status.clone())));
            delete(groups, "g", "u-1", version).await
        };
        let denied = "admission webhook \"deny.example.com\" denied the request: closed";
        let changed = "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: 2";
        for version in [Some("1"), None] {
            assert_eq!(deleted(denied, version).await, Err(CallError::Rejected(denied.into())));
        }
        assert_eq!(deleted(changed, Some("1")).await, Ok(()));
    }

    #[test]
    fn the_patch_of_a_status_keeps_new_marks_and_removes_only_handled_ones() {
        let pod = |name: &str| PreemptedPod { name: name.to_owned(), time: Time(Timestamp::UNIX_EPOCH) };
        let marks = |uids: &[&str]| uids.iter().map(|uid| ((*uid).to_owned(), pod("p"))).collect();
        let patched = |stored: &PodGroupStatus, from: &PodGroupStatus, to: &PodGroupStatus| -> PodGroupStatus {
            let mut object = json!({});
            if *stored != PodGroupStatus::default() {
                object["status"] = serde_json::to_value(stored).unwrap();
            }
            let patch: json_patch::Patch = serde_json::from_value(group_status_patch(from, to).unwrap()).unwrap();
            json_patch::patch(&mut object, &patch).unwrap();
            serde_json::from_value(object["status"].take()).unwrap()
        };
        let finished = FinishedMembers { replaced: 1, ..FinishedMembers::default() };
        let from = PodGroupStatus {
            observed_generation: Some(2),
            finished,
            preempted_pods: marks(&["a/b~", "c"]),
            ..PodGroupStatus::default()
        };
        let to =
            PodGroupStatus { observed_generation: Some(3), preempted_pods: marks(&["c"]), ..PodGroupStatus::default() };
        let stored = PodGroupStatus { preempted_pods: marks(&["a/b~", "c", "new"]), ..from.clone() };
        let expected: PodGroupStatus = PodGroupStatus { preempted_pods: marks(&["c", "new"]), ..to.clone() };
        assert_eq!(patched(&stored, &from, &to), expected);
        // JSON Patch cannot test that a field is absent. The API server treats an absent field as null.
        let none = PodGroupStatus::default();
        let first = PodGroupStatus { preempted_pods: BTreeMap::new(), ..to.clone() };
        let patch = group_status_patch(&none, &first).unwrap();
        assert_eq!(patch[0], json!({ "op": "test", "path": "/status", "value": null }), "a mark is not overwritten");
        assert_eq!(patch[1]["value"], serde_json::to_value(&first).unwrap());
        let marked = PodGroupStatus { preempted_pods: marks(&["new"]), ..none };
        let with_mark = PodGroupStatus { preempted_pods: marks(&["new"]), ..first.clone() };
        assert_eq!(patched(&marked, &marked, &with_mark), with_mark);
    }
}
