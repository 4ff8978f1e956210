//! Eviction of one pod, always with its UID as a precondition (design, section 5, "Evict").
//!
//! One call is enough: the eviction API writes the condition `DisruptionTarget` and deletes the pod, whether or not a
//! budget selects it. It would overwrite what was written before, so nothing is. Where it refuses and the pod may be
//! deleted all the same, the condition is ours to write: DELETE writes none. For which plan a pod went says an annotation
//! of the request, which is read in the audit log of the API server and nowhere else.

use super::FIELD_MANAGER;
use crate::command::{EvictCall, EvictOutcome};
use crate::report::CallError;
use crate::words::Names;
use giveway_crds::condition::{Reason, types};
use giveway_crds::keys;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions as KubePreconditions};
use kube::{Client, ResourceExt};
use serde_json::json;

/// Evicts a pod. An `Err` that is not [`CallError::Gone`] may be tried again.
pub(super) async fn evict(client: &Client, call: &EvictCall, names: Names) -> Result<EvictOutcome, CallError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &call.pod.namespace);
    if call.rehearsal {
        return match request(&pods, call).await {
            Ok(()) => Ok(EvictOutcome::Allowed),
            // A budget that may be violated holds nobody back; whatever else may, is asked.
            Err(kube::Error::Api(status)) if is_for_budget(&status) && call.may_force => {
                delete(&pods, call).await.map_or_else(unless_denied, |()| Ok(EvictOutcome::Allowed))
            }
            Err(kube::Error::Api(status)) if is_for_budget(&status) => Ok(EvictOutcome::Refused(reason(&status))),
            Err(error) => unless_denied(error),
        };
    }
    if call.again {
        // The answer of an earlier call may have been lost: what is terminating must not be evicted twice. One that somebody deleted
        // with a longer grace than it gets now has not been.
        let pod = pods.get(&call.pod.name).await?;
        if pod.uid().as_deref() != Some(call.uid.as_str()) {
            return Ok(EvictOutcome::Gone);
        }
        let longer = |given: i64| call.grace.is_some_and(|grace| given > grace);
        if pod.metadata.deletion_timestamp.is_some() && !pod.metadata.deletion_grace_period_seconds.is_some_and(longer)
        {
            return Ok(EvictOutcome::Accepted);
        }
    }
    match request(&pods, call).await {
        Ok(()) => Ok(EvictOutcome::Accepted),
        Err(kube::Error::Api(status)) if is_for_budget(&status) => {
            if call.may_force {
                mark(&pods, call, names).await?;
                delete(&pods, call).await.map_or_else(unless_denied, |()| Ok(EvictOutcome::Forced))
            } else {
                Ok(EvictOutcome::Refused(reason(&status)))
            }
        }
        Err(error) => unless_denied(error),
    }
}

/// A definite no is an answer; anything else may be tried again.
fn unless_denied(error: kube::Error) -> Result<EvictOutcome, CallError> {
    match error {
        kube::Error::Api(status) if is_definite(&status) => Ok(denied(status)),
        error => Err(error.into()),
    }
}

/// Whether a budget is the reason: it does not allow the eviction, or more than one selects the pod, which the API
/// cannot handle. Throttling is a 429 too, and any failure a 500.
fn is_for_budget(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|d| &d.causes);
    match status.code {
        429 => {
            causes.into_iter().any(|c| c.reason == "DisruptionBudget") || status.message.contains("disruption budget")
        }
        500 => status.message.contains("more than one PodDisruptionBudget"),
        _ => false,
    }
}

/// Whether the answer is no, and not only for now: any 4xx but those that say that the pod is gone or changed, that the caller
/// is to wait, or that it took too long.
fn is_definite(status: &kube::core::Status) -> bool {
    (400..500).contains(&status.code)
        && !matches!(status.code, 404 | 408 | 409 | 429)
        && !crate::report::names_another_uid(status)
}

/// Who said no: the authorizer, or admission.
fn denied(status: Box<kube::core::Status>) -> EvictOutcome {
    let by_authorizer = status.code == 401 || (status.code == 403 && status.message.contains("is forbidden: User "));
    if by_authorizer { EvictOutcome::Unauthorized(status.message) } else { EvictOutcome::Forbidden(status.message) }
}

/// What the API server says of the budget: the detail names it and counts its pods.
fn reason(status: &kube::core::Status) -> String {
    let causes = status.details.iter().flat_map(|d| &d.causes);
    let detail = causes.map(|c| c.message.as_str()).find(|message| !message.is_empty());
    detail.unwrap_or(&status.message).to_owned()
}

/// Adds the condition that tells the pod's owner who took its place.
async fn mark(pods: &Api<Pod>, call: &EvictCall, names: Names) -> Result<(), CallError> {
    let patch = json!({
        "metadata": { "uid": call.uid.as_str() },
        "status": { "conditions": [{
            "type": types::DISRUPTION_TARGET,
            "status": "True",
            "reason": Reason::PreemptionByScheduler.as_str(),
            "message": names.told(&call.message, &call.pod.namespace),
            "lastTransitionTime": Timestamp::now().to_string(),
        }]}
    });
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.into()), ..PatchParams::default() };
    match pods.patch_status(&call.pod.name, &params, &Patch::Strategic(patch)).await {
        // It is written; nobody needs what the answer says besides.
        Ok(_) | Err(kube::Error::SerdeError(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Posts to the eviction API. kube's own `evict` loses the precondition, so the object is posted as it is.
async fn request(pods: &Api<Pod>, call: &EvictCall) -> Result<(), kube::Error> {
    let eviction = Eviction {
        metadata: ObjectMeta {
            name: Some(call.pod.name.to_string()),
            namespace: Some(call.pod.namespace.to_string()),
            annotations: Some([(keys::ANNOTATION_PLAN.to_owned(), call.cause.id().to_owned())].into()),
            ..ObjectMeta::default()
        },
        delete_options: Some(DeleteOptions {
            grace_period_seconds: call.grace,
            preconditions: Some(Preconditions { uid: Some(call.uid.to_string()), resource_version: None }),
            ..DeleteOptions::default()
        }),
    };
    let params = PostParams { dry_run: call.rehearsal, ..PostParams::default() };
    pods.create_subresource::<_, serde_json::Value>("eviction", &call.pod.name, &params, &eviction).await.map(|_| ())
}

async fn delete(pods: &Api<Pod>, call: &EvictCall) -> Result<(), kube::Error> {
    let params = DeleteParams {
        dry_run: call.rehearsal,
        grace_period_seconds: call.grace.and_then(|seconds| u32::try_from(seconds).ok()),
        preconditions: Some(KubePreconditions { uid: Some(call.uid.to_string()), resource_version: None }),
        ..DeleteParams::default()
    };
    pods.delete(&call.pod.name, &params).await.map(|_| ())
}

#[cfg(test)]
#[path = "evict_tests.rs"]
mod tests;
