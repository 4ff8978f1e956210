//! Writes on `Preemption` objects, which store plans.

use super::answer::already_exists;
use super::{FIELD_MANAGER, object};
use crate::messages::report::CallError;
use giveway_crds::keys;
use giveway_crds::preemption::{Preemption, PreemptionStatus};
use kube::api::{Api, Patch, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

/// Creates one of the `Preemption` objects of a plan. Succeeds also if an object of that name exists with the same spec: then an earlier
/// call succeeded whose response was lost.
pub(super) async fn create(client: &Client, part: &Preemption) -> Result<(), CallError> {
    let preemptions: Api<Preemption> = Api::all(client.clone());
    match preemptions.create(&params(), part).await {
        Ok(_) => Ok(()),
        // The kind does not exist. No `Preemption` was deleted, so the creation is retried after a delay.
        Err(kube::Error::Api(status)) if status.code == 404 => Err(CallError::Failed(status.message)),
        Err(kube::Error::Api(status)) if already_exists(&status) => {
            match preemptions.get_opt(&part.name_any()).await? {
                Some(found) if found.spec == part.spec => Ok(()),
                Some(_) => Err(CallError::Failed(format!("another Preemption has the name {}", part.name_any()))),
                // It was deleted since.
                None => Err(CallError::Failed(status.message)),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes the status of the `Preemption` named `plan` as a merge patch.
pub(super) async fn write_status(client: &Client, plan: &str, status: &PreemptionStatus) -> Result<(), CallError> {
    let preemptions: Api<Preemption> = Api::all(client.clone());
    preemptions.patch_status(plan, &object::params(), &Patch::Merge(json!({ "status": status }))).await?;
    Ok(())
}

/// Removes the label of the `Preemption` named `plan` by which admission reserves the node for the preemptor. The state of the plan ends
/// the reservation too, but admission evaluates every plan that has the label.
pub(super) async fn release_node(client: &Client, plan: &str) -> Result<(), CallError> {
    let preemptions: Api<Preemption> = Api::all(client.clone());
    let patch = json!({ "metadata": { "labels": { keys::LABEL_KEEPS_NODE: null } } });
    preemptions.patch(plan, &object::params(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Returns the parameters of the creation of a Preemption: they name the operator as the field manager.
fn params() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.into()), ..PostParams::default() }
}

#[cfg(test)]
mod tests {
    use super::super::stand_in::api_server;
    use super::*;
    use http::Method;

    /// Returns the answer to the creation of a Preemption if the API server answers it with this status, and knows no Preemption.
    async fn created(status: serde_json::Value) -> Result<(), CallError> {
        let not_found = json!({
            "status": "Failure", "code": 404, "reason": "NotFound", "message": "preemptions \"p-1\" not found"
        });
        let code = u16::try_from(status["code"].as_u64().unwrap()).unwrap();
        let (status, not_found) = (status.to_string(), not_found.to_string());
        let client = api_server(move |method| match *method {
            Method::POST => (code, status.clone()),
            _ => (404, not_found.clone()),
        });
        let part = serde_json::from_value(json!({"metadata": {"name": "p-1"}, "spec": {"strategy": "least-cost"}}));
        create(&client, &part.unwrap()).await
    }

    /// The answer `Gone` would mean that the `Preemption` was deleted: a departure that has evicted pods is stored again at once then.
    #[tokio::test]
    async fn a_kind_that_does_not_exist_is_an_error_that_is_retried_after_a_delay() {
        let words = "the server could not find the requested resource";
        let status = json!({"status": "Failure", "code": 404, "reason": "NotFound", "message": words});
        assert_eq!(created(status).await, Err(CallError::Failed(words.into())));
    }

    /// Before, each 409 counted as "it exists"; as it was not found, the departure ended as if its Preemption had been deleted.
    #[tokio::test]
    async fn a_conflict_at_the_creation_never_means_that_the_preemption_was_deleted() {
        let status = |reason: &str, message: &str| json!({"status": "Failure", "code": 409, "reason": reason, "message": message});
        let exists = "preemptions \"p-1\" already exists";
        let conflict = "Operation cannot be fulfilled on resourcequotas \"q\": the object has been modified";
        let denied = "admission webhook \"deny.example.com\" denied the request: closed";
        assert_eq!(created(status("AlreadyExists", exists)).await, Err(CallError::Failed(exists.into())));
        let answer = created(status("Conflict", conflict)).await;
        assert_eq!(answer, Err(CallError::Failed(format!("{conflict} (409)"))));
        assert_eq!(created(status("AlreadyExists", denied)).await, Err(CallError::Rejected(denied.into())));
    }
}
