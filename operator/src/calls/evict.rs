//! Eviction of one pod, always with its UID as a precondition (design, section 5, "Evict").
//!
//! One call is usually enough: the Eviction API writes the condition `DisruptionTarget` and deletes the pod, whether or not a
//! PodDisruptionBudget selects it. It would overwrite a condition that was written before, so none is written before.
//! If the Eviction API refuses and the pod may be deleted all the same, the operator writes the condition itself,
//! because DELETE writes none. An annotation of the Eviction object names the plan; it is visible only in the audit log
//! of the API server.

use super::answer::ErrorClass;
use super::object;
use crate::messages::command::{EvictCall, EvictOutcome};
use crate::messages::report::CallError;
use giveway_crds::condition::{Reason, types};
use giveway_crds::keys;
use giveway_crds::wording::Names;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions as KubePreconditions};
use kube::core::PartialObjectMeta;
use kube::{Client, ResourceExt};
use serde_json::json;

/// A pod of which only the metadata is parsed: a tenant may have written a status that the client library cannot represent.
type PodMeta = PartialObjectMeta<Pod>;

/// Evicts a pod, or only dry-runs that if `call.rehearsal` is set. Deletes the pod if a budget refuses and `call.may_force` is set. The
/// caller may retry after any `Err` except [`CallError::Gone`].
pub(super) async fn evict(client: &Client, call: &EvictCall, names: Names) -> Result<EvictOutcome, CallError> {
    let pods: Api<PodMeta> = Api::namespaced(client.clone(), &call.pod.namespace);
    if call.rehearsal {
        return match post_eviction(&pods, call, None).await {
            Ok(()) => Ok(EvictOutcome::Allowed),
            // A budget that the plan may violate is not an obstacle. Dry runs of the condition and of DELETE find out whether anything else
            // rejects them.
            Err(kube::Error::Api(status)) if ErrorClass::of(&status) == ErrorClass::Budget && call.may_force => {
                match add_disruption_target(&pods, call, names).await {
                    Ok(_) => {
                        delete(&pods, call, None).await.map_or_else(unless_rejected, |()| Ok(EvictOutcome::Allowed))
                    }
                    Err(error) => unless_rejected(error),
                }
            }
            Err(kube::Error::Api(status)) if ErrorClass::of(&status) == ErrorClass::Budget => {
                Ok(EvictOutcome::Refused(budget_message(&status)))
            }
            Err(error) => unless_rejected(error),
        };
    }
    // An earlier request may have been carried out, or may be carried out at any time. A pod that it has evicted is not evicted a second
    // time: the version that was read is a precondition of what follows.
    let mut version = None;
    if call.again {
        let pod = pods.get(&call.pod.name).await?;
        if pod.uid().as_deref() != Some(call.uid.as_str()) {
            return Ok(EvictOutcome::Gone);
        }
        if terminates(&pod, call) {
            return Ok(EvictOutcome::Accepted);
        }
        version = pod.resource_version();
    }
    match post_eviction(&pods, call, version.clone()).await {
        Ok(()) => Ok(EvictOutcome::Accepted),
        Err(kube::Error::Api(status)) if ErrorClass::of(&status) == ErrorClass::Budget => {
            if call.may_force {
                let marked = match add_disruption_target(&pods, call, names).await {
                    Ok(marked) => marked,
                    Err(error) => return unless_rejected(error),
                };
                if terminates(&marked, call) {
                    return Ok(EvictOutcome::Accepted);
                }
                let version = version.and(marked.resource_version());
                delete(&pods, call, version).await.map_or_else(unless_rejected, |()| Ok(EvictOutcome::Forced))
            } else {
                Ok(EvictOutcome::Refused(budget_message(&status)))
            }
        }
        Err(error) => unless_rejected(error),
    }
}

/// Returns true if a pod is being deleted with a grace period that is not longer than that of the call.
fn terminates(pod: &PodMeta, call: &EvictCall) -> bool {
    let longer = |given: i64| call.grace.is_some_and(|grace| given > grace);
    let metadata = &pod.metadata;
    metadata.deletion_timestamp.is_some() && !metadata.deletion_grace_period_seconds.is_some_and(longer)
}

/// Converts an error of an eviction: a rejection by the API server is an outcome, and any other error an `Err` after which the eviction may
/// be retried. After a conflict it is `Unanswered`: the pod is read again, however often it changes.
fn unless_rejected(error: kube::Error) -> Result<EvictOutcome, CallError> {
    if let kube::Error::Api(status) = &error
        && ErrorClass::of(status) == ErrorClass::Conflict
    {
        return Err(CallError::Unanswered(format!("{} ({})", status.message, status.code)));
    }
    match error.into() {
        CallError::Rejected(words) => Ok(EvictOutcome::Rejected(words)),
        error => Err(error),
    }
}

/// Returns the API server's message about the budget that refused an eviction. The detail, if there is one, names the budget and counts its
/// pods.
fn budget_message(status: &kube::core::Status) -> String {
    let causes = status.details.iter().flat_map(|d| &d.causes);
    let detail = causes.map(|c| c.message.as_str()).find(|message| !message.is_empty());
    detail.unwrap_or(&status.message).to_owned()
}

/// Adds the condition `DisruptionTarget` to the pod, which shows the pod's owner for which preemptor the pod is deleted, or only dry-runs
/// that if `call.rehearsal` is set. Returns the metadata of the pod.
async fn add_disruption_target(pods: &Api<PodMeta>, call: &EvictCall, names: Names) -> Result<PodMeta, kube::Error> {
    let patch = json!({
        "metadata": { "uid": call.uid.as_str() },
        "status": { "conditions": [{
            "type": types::DISRUPTION_TARGET,
            "status": "True",
            "reason": Reason::PreemptionByScheduler.as_str(),
            "message": names.render(&call.message, &call.pod.namespace),
            "lastTransitionTime": Timestamp::now().to_string(),
        }]}
    });
    let params = PatchParams { dry_run: call.rehearsal, ..object::params() };
    pods.patch_status(&call.pod.name, &params, &Patch::Strategic(patch)).await
}

/// Posts the pod's Eviction to the Eviction API, with the pod's UID, and its resourceVersion if `version` is given, as preconditions.
/// kube's own `evict` drops the UID precondition.
async fn post_eviction(pods: &Api<PodMeta>, call: &EvictCall, version: Option<String>) -> Result<(), kube::Error> {
    let eviction = Eviction {
        metadata: ObjectMeta {
            name: Some(call.pod.name.to_string()),
            namespace: Some(call.pod.namespace.to_string()),
            annotations: Some([(keys::ANNOTATION_PLAN.to_owned(), call.cause.id().to_owned())].into()),
            ..ObjectMeta::default()
        },
        delete_options: Some(DeleteOptions {
            grace_period_seconds: call.grace,
            preconditions: Some(Preconditions { uid: Some(call.uid.to_string()), resource_version: version }),
            ..DeleteOptions::default()
        }),
    };
    let params = PostParams { dry_run: call.rehearsal, ..PostParams::default() };
    pods.create_subresource::<_, serde_json::Value>("eviction", &call.pod.name, &params, &eviction).await.map(|_| ())
}

/// Deletes the pod if it still has its UID and, if given, this resourceVersion; or only dry-runs that if `call.rehearsal` is set.
async fn delete(pods: &Api<PodMeta>, call: &EvictCall, version: Option<String>) -> Result<(), kube::Error> {
    let params = DeleteParams {
        dry_run: call.rehearsal,
        grace_period_seconds: call.grace.and_then(|seconds| u32::try_from(seconds).ok()),
        preconditions: Some(KubePreconditions { uid: Some(call.uid.to_string()), resource_version: version }),
        ..DeleteParams::default()
    };
    pods.delete(&call.pod.name, &params).await.map(|_| ())
}

#[cfg(test)]
#[path = "evict_tests.rs"]
mod tests;
