//! Removes the objects of a test from a shared cluster.

use super::Kit;
use crate::wait::wait_for;
use giveway_crds::{PodGroup, Workload};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{DeleteParams, ListParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;

/// Deadline for the removal of pods.
const LIMIT: Duration = Duration::from_secs(60);

/// Deletes the objects of a test in the kit's namespace, its classes and the fake nodes, and waits until all pods are removed.
///
/// # Panics
/// If an object cannot be deleted.
pub async fn tidy(kit: &Kit) {
    delete_all::<Job>(kit).await;
    delete_all::<Deployment>(kit).await;
    delete_all::<PodDisruptionBudget>(kit).await;
    delete_all::<Workload>(kit).await;
    delete_all::<Pod>(kit).await;
    delete_all::<PodGroup>(kit).await;
    let classes: Api<PriorityClass> = Api::all(kit.client.clone());
    for class in classes.list(&ListParams::default()).await.unwrap() {
        let name = class.name_any();
        if !name.starts_with("system-") {
            classes.delete(&name, &DeleteParams::default()).await.unwrap();
        }
    }
    wait_for("the pods and groups of the test are removed", LIMIT, async || {
        let pods = names::<Pod>(kit).await?;
        let groups = names::<PodGroup>(kit).await?;
        if pods.is_empty() && groups.is_empty() { Ok(()) } else { Err(format!("{pods:?} {groups:?}")) }
    })
    .await;
    let nodes: Api<Node> = Api::all(kit.client.clone());
    for node in nodes.list(&ListParams::default()).await.unwrap() {
        if node.annotations().get("kwok.x-k8s.io/node").is_some_and(|is| is == "fake") {
            nodes.delete(&node.name_any(), &DeleteParams::default()).await.unwrap();
        }
    }
}

/// Deletes the pods of a namespace and waits until they are removed.
///
/// # Panics
/// If they are not removed before the deadline.
pub async fn remove_pods(kit: &Kit) {
    delete_all::<Pod>(kit).await;
    wait_for("the pods are removed", LIMIT, async || {
        let pods = names::<Pod>(kit).await?;
        if pods.is_empty() { Ok(()) } else { Err(format!("{pods:?}")) }
    })
    .await;
}

async fn names<K>(kit: &Kit) -> Result<Vec<String>, String>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    let all = kit.api::<K>().list(&ListParams::default()).await.map_err(|error| error.to_string())?;
    Ok(all.iter().map(ResourceExt::name_any).collect())
}

async fn delete_all<K>(kit: &Kit)
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    kit.api::<K>().delete_collection(&DeleteParams::background(), &ListParams::default()).await.unwrap();
}
