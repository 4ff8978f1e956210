//! API calls that request capacity from a cluster autoscaler: ProvisioningRequests and placeholder pods.

use super::answer::already_exists;
use crate::messages::capacity::{CapacityRequest, Identity, Placeholder};
use crate::messages::report::CallError;
use giveway_crds::autoscaling::ProvisioningRequest;
use k8s_openapi::api::core::v1::{Pod, PodTemplate};
use kube::api::{Api, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Creates the ProvisioningRequest `asked`, and those of its PodTemplates that do not exist. The templates are created second because the
/// request owns them: after an interrupted call, they are garbage-collected with the request, or the next call creates the missing ones.
pub(super) async fn create_request(client: &Client, asked: &CapacityRequest) -> Result<(), CallError> {
    let namespace = &asked.gang.key.namespace;
    let mut members = Vec::new();
    for (waiter, _) in &asked.sets {
        members.push(read(client, waiter).await?);
    }
    let requests: Api<ProvisioningRequest> = Api::namespaced(client.clone(), namespace);
    let made = match create(&requests, &asked.request()).await? {
        Some(made) => made,
        None => requests.get(&asked.name).await?,
    };
    let is_its = made.owner_references().iter().any(|owner| owner.uid == asked.gang.uid.as_str());
    if !is_its {
        return Err(CallError::Failed(format!(
            "a ProvisioningRequest {} exists that Giveway did not create",
            asked.name
        )));
    }
    let templates: Api<PodTemplate> = Api::namespaced(client.clone(), namespace);
    for (at, member) in members.iter().enumerate() {
        create(&templates, &asked.template(at, member, &made.uid().unwrap_or_default())).await?;
    }
    Ok(())
}

/// Creates the placeholder pod that reserves capacity for a member of a gang, with the resource requests that the member has now. Succeeds
/// also if the placeholder exists.
pub(super) async fn create_placeholder(client: &Client, placeholder: &Placeholder) -> Result<(), CallError> {
    let member = read(client, &placeholder.member).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), &placeholder.gang.key.namespace);
    create(&pods, &placeholder.pod(&member)).await?;
    Ok(())
}

/// Reads the current state of a member of a gang. Returns `CallError::Gone` if it does not exist, or a pod with another UID has its name.
async fn read(client: &Client, member: &Identity) -> Result<Pod, CallError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &member.key.namespace);
    let pod = pods.get(&member.key.name).await?;
    if pod.uid().as_deref() == Some(member.uid.as_str()) { Ok(pod) } else { Err(CallError::Gone) }
}

/// Creates an object and returns it; `None` if an object of that name exists already.
async fn create<K>(api: &Api<K>, object: &K) -> Result<Option<K>, CallError>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned,
{
    match api.create(&PostParams::default(), object).await {
        Ok(made) => Ok(Some(made)),
        Err(kube::Error::Api(status)) if already_exists(&status) => Ok(None),
        // A 404 on a creation means that the namespace or the kind does not exist.
        Err(kube::Error::Api(status)) if status.code == 404 => Err(CallError::Failed(status.message)),
        Err(error) => Err(error.into()),
    }
}
