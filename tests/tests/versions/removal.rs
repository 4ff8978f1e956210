//! Uninstall with helm: afterwards kube-scheduler preempts for classes that were managed.

use crate::LIMIT;
use crate::stories::cli;
use giveway_tests::World;
use giveway_tests::audit::SCHEDULER;
use giveway_tests::cluster::Shaped as _;
use giveway_tests::giveway::NAMESPACE;
use giveway_tests::giveway::chart::CRITICAL_ADDONS;
use giveway_tests::paths;

/// Kinds of the objects that the chart creates.
const KINDS: &str = "clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,configmaps,mutatingwebhookconfigurations,\
                     validatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings";

/// Releases the classes while the webhook runs, as the chart's hook does, and uninstalls the chart. Then no object of the chart
/// is left, and kube-scheduler preempts for the class that was managed.
pub async fn uninstall(world: &mut World) {
    let chart = paths::repository().join("helm").display().to_string();
    world.class("low", 10).create().await;
    world.class("high", 1000).managed().create().await;
    let nodes = world.nodes(1).prefix("last").cpus(2).create().await;
    let low = world.fill(&nodes).priority("low").singles().await;
    let policy = ["get", "priorityclass", "high", "-o", "jsonpath={.preemptionPolicy}"];
    assert_eq!(world.kubectl(&policy).await.unwrap(), "Never");

    let said = cli(world, &["release", "--all"]).await;
    assert!(said.contains("/high released"), "{said}");
    assert_eq!(world.kubectl(&policy).await.unwrap(), "PreemptLowerPriority");
    // The world was installed without a helm release, so helm first takes over the objects.
    let values = values(world).await;
    let mut install =
        vec!["install", "giveway", &chart, "--namespace", NAMESPACE, "--take-ownership", "--force-conflicts"];
    install.extend(values.iter().flat_map(|value| ["--set", value]));
    world.helm(&install).await.unwrap();
    world.helm(&["uninstall", "giveway", "--namespace", NAMESPACE]).await.unwrap();
    world.operator().terminate().await;
    world.webhook().terminate().await;
    let left = world.kubectl(&["get", KINDS, "--all-namespaces", "-o", "name"]).await.unwrap();
    let left: Vec<&str> = left.lines().filter(|line| line.contains("giveway")).collect();
    assert_eq!(left, Vec::<&str>::new());

    let pod = world.pod("after").priority("high").create().await;
    pod.wait_bound(LIMIT).await;
    let history = world.audit().await;
    let preempted =
        history.removed_by(SCHEDULER).into_iter().filter(|r| low.iter().any(|pod| pod.uid == r.uid)).count();
    assert_eq!(preempted, 1, "kube-scheduler preempts for the released class");
}

/// Returns the chart values with which this world was installed.
async fn values(world: &World) -> [String; 4] {
    let read = async |field: &str| {
        let path = format!("jsonpath={{.webhooks[0].clientConfig.{field}}}");
        world.kubectl(&["get", "mutatingwebhookconfiguration", "giveway", "-o", &path]).await.unwrap()
    };
    let url = read("url").await;
    let (address, _) = url.trim_start_matches("https://").split_once('/').unwrap();
    let authority = read("caBundle").await;
    [
        "deployments.enabled=false".to_owned(),
        CRITICAL_ADDONS.to_owned(),
        format!("webhook.url=https://{address}"),
        format!("webhook.caBundle={authority}"),
    ]
}
