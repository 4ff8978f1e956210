//! Writes on nodes (the taint that reserves a node for a critical add-on) and reads of kube-scheduler's Lease.

use super::answer::has_changed;
use super::object;
use crate::messages::report::CallError;
use giveway_crds::critical;
use giveway_planner::model::ObjectKey;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, Patch};
use kube::{Client, ResourceExt};
use serde_json::json;

/// Adds (`add`) or removes the taint that reserves the node for the pod with this UID, and keeps every other taint. The list of taints can
/// only be written as a whole, so the resourceVersion of the node is a precondition, and a node that changes meanwhile is read again, up to
/// eight times.
pub(super) async fn taint(client: &Client, node: &str, uid: &str, add: bool) -> Result<(), CallError> {
    const ATTEMPTS: usize = 8;
    let nodes: Api<Node> = Api::all(client.clone());
    let mut attempt = 1;
    loop {
        let current = nodes.get(node).await?;
        let taints = current.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let Some(taints) = changed_taints(taints, uid, add) else { return Ok(()) };
        let metadata = json!({ "uid": current.uid(), "resourceVersion": current.resource_version() });
        let patch = json!({ "metadata": metadata, "spec": { "taints": taints } });
        match nodes.patch(node, &object::params(), &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if has_changed(&status) && attempt < ATTEMPTS => attempt += 1,
            result => return result.map(|_| ()).map_err(CallError::from),
        }
    }
}

/// Returns the taints of a node with Giveway's taint for the pod with this UID (`add`) or without it; `None` if nothing has to change. A
/// node can have only one taint of a key and effect: if it has one of the same key and effect that Giveway did not add, Giveway's is not
/// added.
fn changed_taints(mut taints: Vec<Taint>, uid: &str, add: bool) -> Option<Vec<Taint>> {
    let ours = critical::taint(uid);
    let before = taints.len();
    if add {
        if !taints.iter().any(|taint| taint.key == ours.key && taint.effect == ours.effect) {
            taints.push(ours);
        }
    } else {
        taints.retain(|t| (&t.key, &t.value, &t.effect) != (&ours.key, &ours.value, &ours.effect));
    }
    (taints.len() != before).then_some(taints)
}

/// Reads a Lease and returns when it was last renewed; `None` if it does not exist or was never renewed.
pub(super) async fn lease_renewal_time(client: &Client, lease: &ObjectKey) -> Result<Option<MicroTime>, CallError> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), &lease.namespace);
    let found = leases.get_opt(&lease.name).await?;
    Ok(found.and_then(|lease| lease.spec?.renew_time))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(value: Option<&str>, effect: &str) -> Taint {
        let value = value.map(str::to_owned);
        Taint { key: "CriticalAddonsOnly".into(), value, effect: effect.into(), time_added: None }
    }

    #[test]
    fn only_our_taint_is_added_and_removed() {
        let foreign = vec![taint(Some("true"), "NoExecute"), taint(Some("u-2"), "PreferNoSchedule")];
        let with = changed_taints(foreign.clone(), "u-1", true).unwrap();
        assert_eq!(with[2], taint(Some("u-1"), "NoSchedule"));
        assert_eq!(changed_taints(with.clone(), "u-1", true), None, "once");
        assert_eq!(changed_taints(with, "u-1", false), Some(foreign.clone()));
        assert_eq!(changed_taints(foreign, "u-1", false), None);
    }

    #[test]
    fn a_node_with_a_taint_of_another_component_is_not_changed() {
        for value in [None, Some(""), Some("true"), Some("u-2")] {
            let foreign = vec![taint(value, "NoSchedule")];
            assert_eq!(changed_taints(foreign.clone(), "u-1", true), None);
            assert_eq!(changed_taints(foreign, "u-1", false), None);
        }
    }
}
