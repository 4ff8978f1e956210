//! Opens nodes that are kept for critical add-ons, while no operator runs that would do so.
//!
//! A node is kept by a taint, and by the label [`LABEL_KEEPS_NODE`] of a `Preemption`, which the policy
//! `giveway-kept-nodes` reads. The operator removes both after ten minutes at the latest. Each webhook removes them when
//! it has seen the label on the same `Preemption` for a longer time, measured with its own monotonic clock: the clocks
//! of other machines do not count. The policies `giveway-webhook-nodes` and `giveway-preemptions` allow no other change.

use giveway_crds::keys::LABEL_KEEPS_NODE;
use giveway_crds::{Preemption, critical};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Longest interval between two reads of the Preemptions with the label.
const EVERY: Duration = Duration::from_secs(30);
/// Time limit of one read with its writes.
const LIMIT: Duration = Duration::from_secs(20);

/// When the label of a Preemption whose taint reserves a node was first seen, by UID of the Preemption.
#[derive(Debug, Default)]
struct FirstSeen(BTreeMap<String, Instant>);

impl FirstSeen {
    /// Records that at the time `now` the Preemptions with these UIDs, and no others, have the label which says that their taint reserves a
    /// node. For those that are recorded already, the earlier time stays.
    fn note(&mut self, uids: BTreeSet<String>, now: Instant) {
        self.0.retain(|uid, _| uids.contains(uid));
        for uid in uids {
            self.0.entry(uid).or_insert(now);
        }
    }

    /// Returns true if the Preemption with this UID has had the label for at least the time `longest`.
    fn is_late(&self, uid: &str, longest: Duration, now: Instant) -> bool {
        self.0.get(uid).is_some_and(|since| now.duration_since(*since) >= longest)
    }
}

/// Watches for Preemptions for critical add-ons whose taint reserves a node for longer than `longest`, because no operator removes it, and
/// removes the taint and the Preemption's label. Never returns.
pub async fn remove_overdue_taints(client: Client, longest: Duration) {
    let mut seen = FirstSeen::default();
    loop {
        sleep(EVERY.min(longest)).await;
        match timeout(LIMIT, remove_due_taints(&client, &mut seen, longest)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "taints that reserve nodes for critical add-ons could not be checked")
            }
            Err(_) => tracing::warn!("taints that reserve nodes for critical add-ons could not be checked in time"),
        }
    }
}

/// Lists the Preemptions whose label says that their taint reserves a node, records them in `seen`, and removes taint and
/// label of those that have had the label for at least the time `longest`.
async fn remove_due_taints(client: &Client, seen: &mut FirstSeen, longest: Duration) -> Result<(), kube::Error> {
    let preemptions: Api<Preemption> = Api::all(client.clone());
    let with_label = ListParams::default().labels(&format!("{LABEL_KEEPS_NODE}=true"));
    let kept = preemptions.list(&with_label).await?.items;
    let now = Instant::now();
    seen.note(kept.iter().filter_map(|preemption| preemption.uid()).collect(), now);
    for preemption in kept {
        let uid = preemption.uid().unwrap_or_default();
        if seen.is_late(&uid, longest, now) {
            remove_taint_and_label(client, &preemptions, &preemption).await?;
        }
    }
    Ok(())
}

/// Removes the taint for the add-on of a Preemption from the nodes of its placements, and then the label from the Preemption.
async fn remove_taint_and_label(
    client: &Client,
    preemptions: &Api<Preemption>,
    preemption: &Preemption,
) -> Result<(), kube::Error> {
    if let Some(pod) = critical::tainted_for(&preemption.spec) {
        for placement in &preemption.spec.placements {
            untaint(client, &placement.node, pod).await?;
        }
    }
    let name = preemption.name_any();
    // With its UID, so that another Preemption of this name keeps the label.
    let patch = json!({"metadata": {"uid": preemption.uid(), "labels": {LABEL_KEEPS_NODE: null}}});
    preemptions.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    tracing::warn!(
        preemption = name,
        "no operator removed the expired taint that reserved the node for a critical add-on; the webhook removed it"
    );
    Ok(())
}

/// Removes the taint that reserves a node for the pod with the UID `pod`, if the node has it. The list of taints can only be
/// written as a whole, so the resource version that was read is a precondition: it is an error if the node changed
/// meanwhile, and the caller repeats it later.
async fn untaint(client: &Client, node: &str, pod: &str) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let Some(current) = nodes.get_opt(node).await? else { return Ok(()) };
    let taints = current.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let Some(others) = without_taint_for(taints, pod) else { return Ok(()) };
    let metadata = json!({"uid": current.uid(), "resourceVersion": current.resource_version()});
    let patch = json!({"metadata": metadata, "spec": {"taints": others}});
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Returns the taints except the one that reserves the node for the pod with the UID `pod`; `None` if that is not among them.
fn without_taint_for(mut taints: Vec<Taint>, pod: &str) -> Option<Vec<Taint>> {
    let before = taints.len();
    taints.retain(|taint| {
        let value = taint.value.as_deref().unwrap_or_default();
        critical::uid_of(&taint.key, value, &taint.effect) != Some(pod)
    });
    (taints.len() != before).then_some(taints)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use serde_json::Value;
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    const LONGEST: Duration = Duration::from_secs(900);

    #[test]
    fn a_preemption_is_late_when_it_has_had_the_label_without_a_break() {
        let (mut seen, start) = (FirstSeen::default(), Instant::now());
        let uids = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect::<BTreeSet<_>>();
        seen.note(uids(&["a", "b"]), start);
        let late = start + LONGEST;
        assert!(!seen.is_late("a", LONGEST, late - Duration::from_secs(1)));
        seen.note(uids(&["a"]), late - Duration::from_secs(1));
        seen.note(uids(&["a", "b"]), late);
        assert!(seen.is_late("a", LONGEST, late));
        assert!(!seen.is_late("b", LONGEST, late), "it did not have the label a second ago");
        assert!(!seen.is_late("c", LONGEST, late), "it never had the label");
    }

    fn taint(value: Option<&str>, effect: &str) -> Taint {
        let value = value.map(str::to_owned);
        Taint { key: "CriticalAddonsOnly".to_owned(), value, effect: effect.to_owned(), time_added: None }
    }

    #[test]
    fn only_the_taint_for_the_pod_is_removed() {
        let others = vec![taint(Some("u-1"), "NoExecute"), taint(None, "NoSchedule"), taint(Some("u-2"), "NoSchedule")];
        assert_eq!(without_taint_for(others.clone(), "u-1"), None);
        let all = [&others[..], &[taint(Some("u-1"), "NoSchedule")]].concat();
        assert_eq!(without_taint_for(all, "u-1"), Some(others));
    }

    /// Returns the writes of two reads of an API server with one Preemption, which keeps node `n1`.
    async fn writes(longest: Duration) -> Vec<(String, Value)> {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let seen = Arc::clone(&seen);
            async move {
                let (head, body) = request.into_parts();
                let path = head.uri.path().to_owned();
                let preemption = json!({
                    "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption",
                    "metadata": {"name": "p", "uid": "u-p", "labels": {LABEL_KEEPS_NODE: "true"}},
                    "spec": {
                        "preemptor": {"kind": "Pod", "namespace": "kube-system", "name": "dns", "uid": "u-dns", "priority": 0},
                        "strategy": critical::STRATEGY, "placements": [{"pod": "dns", "uid": "u-dns", "node": "n1"}],
                        "victims": [], "cost": {"budgetViolations": 0, "victimPods": 0, "victimGroups": 0}
                    }
                });
                let node = json!({
                    "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u-n1", "resourceVersion": "7"},
                    "spec": {"taints": [
                        {"key": "dedicated", "value": "a", "effect": "NoSchedule"},
                        {"key": "CriticalAddonsOnly", "value": "u-dns", "effect": "NoSchedule"}
                    ]}
                });
                if head.method == "PATCH" {
                    let bytes = body.collect_bytes().await.unwrap();
                    seen.lock().unwrap().push((path.clone(), serde_json::from_slice(&bytes).unwrap()));
                }
                let answer = match path.rsplit('/').next().unwrap_or_default() {
                    "preemptions" => {
                        assert!(head.uri.query().is_some_and(|query| query.contains("labelSelector=")), "{}", head.uri);
                        json!({"kind": "PreemptionList", "apiVersion": "scheduling.giveway.dev/v1alpha1", "metadata": {}, "items": [preemption]})
                    }
                    "p" => preemption,
                    _ => node,
                };
                let answer = http::Response::builder().body(Body::from(answer.to_string().into_bytes()));
                Ok::<_, Infallible>(answer.unwrap())
            }
        });
        let client = Client::new(service, "default");
        let mut first_seen = FirstSeen::default();
        for _ in 0..2 {
            remove_due_taints(&client, &mut first_seen, longest).await.unwrap();
        }
        std::mem::take(&mut *requests.lock().unwrap())
    }

    #[tokio::test]
    async fn a_late_node_loses_its_taint_and_then_the_preemption_its_label() {
        assert!(writes(LONGEST).await.is_empty());
        let taints = json!([{"key": "dedicated", "value": "a", "effect": "NoSchedule"}]);
        let node = json!({"metadata": {"uid": "u-n1", "resourceVersion": "7"}, "spec": {"taints": taints}});
        let label = json!({"metadata": {"uid": "u-p", "labels": {LABEL_KEEPS_NODE: null}}});
        let preemption = "/apis/scheduling.giveway.dev/v1alpha1/preemptions/p".to_owned();
        let once = [("/api/v1/nodes/n1".to_owned(), node), (preemption, label)];
        assert_eq!(writes(Duration::ZERO).await, [once.clone(), once].concat());
    }
}
