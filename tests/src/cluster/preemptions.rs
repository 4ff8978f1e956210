//! Reads stored plans from the API server.

use giveway_crds::Preemption;
use giveway_crds::plan::StoredPlan;
use giveway_crds::preemption::{assemble, plan_of_part};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use std::collections::BTreeMap;

/// Returns all plans whose parts are all stored, the oldest first.
///
/// # Errors
/// If the API server does not answer.
pub async fn stored_plans(client: &Client) -> Result<Vec<StoredPlan>, kube::Error> {
    let objects = Api::<Preemption>::all(client.clone()).list(&ListParams::default()).await?;
    let mut plans: BTreeMap<String, Vec<Preemption>> = BTreeMap::new();
    for part in objects.items {
        plans.entry(plan_of_part(&part.name_any()).to_owned()).or_default().push(part);
    }
    let created = |parts: &Vec<Preemption>| parts.first().and_then(|part| part.creation_timestamp());
    let mut order: Vec<_> = plans.into_values().collect();
    order.sort_by_key(|parts| {
        let name = parts.first().map(ResourceExt::name_any).unwrap_or_default();
        (created(parts), name.len(), name)
    });
    Ok(order.into_iter().filter_map(|parts| assemble(parts).ok()).collect())
}
