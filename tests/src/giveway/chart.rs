//! Values of the chart that the rendering tests and the end-to-end test `chart` share.

use crate::paths;
use std::path::PathBuf;

/// `--set` value that turns on critical add-ons, which are off by default.
pub const CRITICAL_ADDONS: &str = "criticalAddons.enabled=true";

/// `--set` values for almost every option of the chart.
pub const EVERY_VALUE: &[&str] = &[
    CRITICAL_ADDONS,
    "image.digests.operator=sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
    "image.pullSecrets[0].name=registry",
    "victims.protectedNamespaces={kube-system,billing}",
    "namespaces.selector.matchLabels.team=ml",
    "namespaces.selector.matchExpressions[0].key=stage",
    "namespaces.selector.matchExpressions[0].operator=NotIn",
    "namespaces.selector.matchExpressions[0].values={test,play}",
    "namespaces.selector.matchExpressions[1].key=scheduling.giveway.dev/enabled",
    "namespaces.selector.matchExpressions[1].operator=Exists",
    "priorityClassQuota.enabled=true",
    "pods.labels.team=platform",
    "pods.annotations.note=kept",
    "operator.extraArgs={--log-level=debug,--traces-endpoint=http://otel-collector.monitoring:4318/v1/traces}",
    "pods.env[0].name=HTTPS_PROXY",
    "pods.env[0].value=http://proxy.example:3128",
    "victims.evictionsPerMinute.perNamespace=1000000",
    "victims.evictionsPerMinute.perCluster=0",
    "webhook.extraArgs={--log-level=debug}",
    "webhook.hostNetwork=true",
    "webhook.metricsPort=9190",
    "pods.topologySpreadConstraints[0].maxSkew=1",
    "pods.topologySpreadConstraints[0].topologyKey=topology.kubernetes.io/zone",
    "pods.topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
];

/// The namespace of `helm test` for a release in `giveway-system`.
pub const TEST_NAMESPACE: &str = "giveway-test-3252bef2";

/// The platforms that have a values file in the chart's folder.
pub const PLATFORMS: [&str; 4] = ["aks", "eks", "gke", "openshift"];

/// Returns the path of the values file of a platform.
pub fn values_file(platform: &str) -> PathBuf {
    paths::repository().join("helm").join(format!("values-{platform}.yaml"))
}
