//! The cluster of the demonstration: eight small full nodes, with CoreDNS on two of them.

use crate::cluster::{DeploymentBuilder, FillBuilder, GRACE_SECONDS, Kit, PodHandle, Shaped};
use crate::wait::wait_for;
use crate::world::World;
use giveway_crds::keys;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::PostParams;
use serde_json::json;
use std::time::Duration;

/// The Deployment of the add-on.
pub(super) const ADDON: &str = "coredns";
/// CPU request of most pods. Four such pods and one of the DaemonSet fit on a node.
const CPU: &str = "500m";
/// Seconds that a pod with a grace period of an hour takes to terminate: the whole shortened grace period.
const TERMINATION_SECONDS: &str = "10";
/// Seconds in an hour.
const HOUR: u32 = 3600;

/// Objects of the cluster.
pub(super) struct Layout {
    /// The namespace of add-ons.
    pub(super) system: Kit,
    /// The pods of CoreDNS.
    pub(super) addons: Vec<PodHandle>,
    /// The nodes without CoreDNS: web, train (2), notebook, mixed, infra.
    pub(super) nodes: Vec<String>,
}

/// Creates and fills the nodes. All pods are bound at creation, except those of CoreDNS and of the DaemonSet.
pub(super) async fn build(world: &World) -> Layout {
    let node = |prefix: &str, count| world.nodes(count).resource("cpu", "2200m").prefix(prefix);
    let system = Kit { namespace: "kube-system".to_owned(), ..world.kit() };
    let front = node("front", 2).create().await;
    // CoreDNS has no priority class, as in many charts; the annotation makes it a critical add-on.
    let dns = DeploymentBuilder::new(system.clone(), ADDON, 2).annotation(keys::ANNOTATION_CRITICAL, "true");
    let addons = dns.tolerate(keys::TAINT_CRITICAL).resource("cpu", "1").create().await;
    let mut nodes = node("node", 5).create().await;
    // A node pool that the administrator has tainted with the same key, full of critical pods.
    let infra = node("infra", 1).taint(keys::TAINT_CRITICAL, "true", "NoSchedule").create().await;
    nodes.extend(infra);
    create_daemon_set(&world.kit(), front.len() + nodes.len()).await;
    world.class("batch", 0).managed().create().await;

    let fill = |nodes: &[String], prefix: &str| world.fill(nodes).prefix(prefix).resource("cpu", CPU);
    let long = |pods: FillBuilder| pods.grace_seconds(HOUR).annotation(GRACE_SECONDS, TERMINATION_SECONDS);
    long(fill(&front, "shop")).singles().await;
    let web = fill(&nodes[..1], "web").grace_seconds(5).label("app", "web").singles().await;
    let all = i32::try_from(web.len()).unwrap_or(i32::MAX);
    world.budget("web").matching("app", "web").min_available(all).create_allowing(0).await;
    fill(&nodes[1..3], "train").priority("batch").grace_seconds(60).whole().groups_of(8).await;
    long(fill(&nodes[3..4], "notebook")).singles().await;
    world.pod("cache").resource("cpu", CPU).grace_seconds(2).on(&nodes[4]).create().await;
    long(fill(&nodes[4..5], "report")).singles().await;
    fill(&nodes[5..], "infra").priority("system-cluster-critical").grace_seconds(0).singles().await;
    Layout { system, addons, nodes }
}

/// Deletes a pod of CoreDNS after other pods have used the remaining capacity of its node, so its replacement fits nowhere
/// without an eviction. Returns a description.
pub(super) async fn delete_add_on(world: &World, layout: &Layout) -> String {
    let victim = &layout.addons[0];
    let node = victim.wait_bound(Duration::from_secs(10)).await;
    for name in ["squatter-1", "squatter-2"] {
        let pod =
            world.pod(name).resource("cpu", CPU).grace_seconds(HOUR).annotation(GRACE_SECONDS, TERMINATION_SECONDS);
        pod.on(&node).create().await;
    }
    victim.delete().await;
    format!("pod {} on node {node}; two other pods use its capacity", victim.name)
}

/// Creates a DaemonSet and waits until its controller's pods run on every node.
async fn create_daemon_set(kit: &Kit, nodes: usize) {
    let set = json!({
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {
                    "containers": [{"name": "main", "image": "registry.example/fake:1",
                        "resources": {"requests": {"cpu": "200m"}}}],
                    "automountServiceAccountToken": false,
                    "tolerations": [{"operator": "Exists"}]
                }
            }
        }
    });
    let set: DaemonSet = serde_json::from_value(set).unwrap();
    let api = kit.api::<DaemonSet>();
    api.create(&PostParams::default(), &set).await.unwrap();
    wait_for("the DaemonSet runs on every node", Duration::from_secs(60), async || {
        let set = api.get("agent").await.map_err(|error| error.to_string())?;
        let ready = set.status.map_or(0, |status| status.number_ready);
        if usize::try_from(ready) == Ok(nodes) { Ok(()) } else { Err(format!("{ready} of {nodes} pods are ready")) }
    })
    .await;
}
