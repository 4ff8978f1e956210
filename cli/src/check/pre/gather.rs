//! Reads [`super::facts`] from the API server. What the user may not read is reported as unknown, not as an error.

use super::facts::{ClusterState, DryRunResult, Platform, ProbePod};
use super::values::Values;
use crate::check::facts::ReadResult;
use crate::check::gather::{autoscalers, get, in_tree, lease, resource_names};
use crate::check::wording;
use crate::connect::Api;
use crate::error::CliError;
use crate::role::user_without_right;
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Name of the pod that is created in a dry run. It is never stored.
const PROBE: &str = "giveway-check-probe";
/// The field manager of the dry run.
const DRY_RUN: &str = "dryRun=All&fieldManager=kubectl-giveway";
/// Fields of a pod that an API server drops if the feature gate for them is off.
const FIELDS: [(&str, &str); 2] = [
    ("spec.schedulingGates (feature gate PodSchedulingReadiness)", "/spec/schedulingGates/0"),
    ("lifecycle.preStop.sleep (feature gate PodLifecycleSleepAction)", "/spec/containers/0/lifecycle/preStop/sleep"),
];

/// Reads everything that the checks before an installation judge. `namespace` is that of the installation, `values` are those of the
/// chart.
///
/// # Errors
/// The API server cannot be reached.
pub(super) async fn facts(api: &Api, namespace: &str, values: &Values) -> Result<ClusterState, CliError> {
    let version: ReadResult<Option<Value>> = get(api, "/version").await?;
    let version = version.map(|found| found.map_or_else(String::new, |info| text(&info["gitVersion"])));
    let mut pods = Vec::new();
    for class in values.classes() {
        pods.push(pod(api, namespace, class, values).await?);
    }
    let scheduler = values.scheduler_lease().and_then(|name| name.split_once('/'));
    let (in_namespace, name) = scheduler.unwrap_or_default();
    Ok(ClusterState {
        now: Timestamp::now(),
        platform: platform(api, version.as_deref().unwrap_or_default()).await?,
        version,
        missing: missing(api, values).await?,
        pods,
        lease: match scheduler {
            Some(_) => lease(api, in_namespace, name.to_owned()).await?,
            None => Ok(None),
        },
        servers: servers(api).await?,
        agents: agents(api).await?,
        vpc_cni: exists(api, "/apis/apps/v1/namespaces/kube-system/daemonsets/aws-node").await?,
        in_tree: in_tree(api).await?,
        autoscalers: autoscalers(api).await?,
    })
}

/// Returns the text of a JSON string; an empty one for any other value.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Reads the list at a path of the API server, and returns its items; none if the kind is not served.
async fn items(api: &Api, path: &str) -> Result<ReadResult<Vec<Value>>, CliError> {
    let list: ReadResult<Option<Value>> = get(api, path).await?;
    Ok(list.map(|list| match list.and_then(|mut list| list.get_mut("items").map(Value::take)) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }))
}

/// Returns true if the object at this path of the API server exists.
async fn exists(api: &Api, path: &str) -> Result<ReadResult<bool>, CliError> {
    let found: ReadResult<Option<Value>> = get(api, path).await?;
    Ok(found.map(|found| found.is_some()))
}

/// Returns the platform of the cluster, recognized by the version of the API server, by an API group, or by a label of a node; `None`
/// if it is none of the known ones.
async fn platform(api: &Api, version: &str) -> Result<Option<Platform>, CliError> {
    for (part, platform) in [("-gke.", Platform::Gke), ("-eks-", Platform::Eks)] {
        if version.contains(part) {
            return Ok(Some(platform));
        }
    }
    if exists(api, "/apis/config.openshift.io").await? == Ok(true) {
        return Ok(Some(Platform::OpenShift));
    }
    let nodes = items(api, "/api/v1/nodes?limit=1").await?.unwrap_or_default();
    let is_aks = |node: &Value| node["metadata"]["labels"]["kubernetes.azure.com/cluster"].is_string();
    Ok(nodes.iter().any(is_aks).then_some(Platform::Aks))
}

/// Returns the resources that the chart needs with these values and the API server does not serve, as `RESOURCE (GROUP/VERSION)`.
async fn missing(api: &Api, values: &Values) -> Result<ReadResult<Vec<String>>, CliError> {
    let mut found = Vec::new();
    for (path, resource) in values.apis() {
        let list: ReadResult<Option<APIResourceList>> = get(api, path).await?;
        let is_served = match list {
            Ok(list) => list.is_some_and(|list| resource_names(list).contains(resource)),
            Err(problem) => return Ok(Err(problem)),
        };
        if !is_served {
            found.push(format!("{resource} ({})", path.trim_start_matches("/apis/")));
        }
    }
    Ok(Ok(found))
}

/// Returns the distinct IP addresses of the API servers, in order, from the EndpointSlices of Service `default/kubernetes`.
async fn servers(api: &Api) -> Result<ReadResult<Vec<String>>, CliError> {
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slices = items(api, &format!("{path}?labelSelector=kubernetes.io%2Fservice-name%3Dkubernetes")).await?;
    Ok(slices.map(|slices| {
        let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
        let addresses = endpoints.flat_map(|endpoint| endpoint["addresses"].as_array().into_iter().flatten());
        let mut found: Vec<String> = addresses.map(text).collect();
        found.sort();
        found.dedup();
        found
    }))
}

/// Returns true if agents of konnectivity run, which forward requests of the API servers to pods.
async fn agents(api: &Api) -> Result<ReadResult<bool>, CliError> {
    let path = "/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app%3Dkonnectivity-agent&limit=1";
    Ok(items(api, path).await?.map(|pods| !pods.is_empty()))
}

/// Creates a pod of a priority class in a dry run, and returns how the API server answered. Its namespace is that of the installation,
/// or `default` if that does not exist.
async fn pod(api: &Api, namespace: &str, class: &str, values: &Values) -> Result<ProbePod, CliError> {
    let probe = probe(class, values);
    let first = create(api, namespace, &probe).await?;
    let (namespace, is_own, outcome) = match first {
        Some(outcome) => (namespace, true, outcome),
        None => {
            let none = || DryRunResult::Unknown(wording::pre::no_default_namespace());
            ("default", false, create(api, "default", &probe).await?.unwrap_or_else(none))
        }
    };
    Ok(ProbePod { class: class.to_owned(), namespace: namespace.to_owned(), is_own, outcome })
}

/// Creates the pod `probe` in a dry run, and returns how the API server answered; `None` if the namespace does not exist.
async fn create(api: &Api, namespace: &str, probe: &Value) -> Result<Option<DryRunResult>, CliError> {
    let path = format!("/api/v1/namespaces/{namespace}/pods?{DRY_RUN}");
    let error = match api.send::<Value>(Method::POST, &path, probe).await {
        Ok(stored) => {
            let dropped = FIELDS.into_iter().filter(|(_, field)| stored.pointer(field).is_none());
            return Ok(Some(DryRunResult::Accepted(dropped.map(|(name, _)| name).collect())));
        }
        Err(error) => error,
    };
    let said = error.to_string();
    Ok(match error.code() {
        None => return Err(CliError::Cluster { what: "a dry run".to_owned(), problem: said }),
        Some(404) => None,
        Some(403) if user_without_right(&said).is_some() => Some(DryRunResult::Unknown(said)),
        Some(409) => Some(DryRunResult::Unknown(wording::admission::probe_exists("pod", PROBE))),
        Some(_) if said.contains("insufficient quota to match these scopes") => Some(DryRunResult::NeedsQuota(said)),
        Some(_) => Some(DryRunResult::Rejected(said)),
    })
}

/// Returns the pod that is created in a dry run: of this priority class (empty for none), and with those fields of the chart's pods
/// that a cluster may reject or drop.
fn probe(class: &str, values: &Values) -> Value {
    let mut security = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    if let Some(user) = values.user() {
        security["runAsUser"] = user.into();
        security["runAsGroup"] = user.into();
        security["fsGroup"] = user.into();
    }
    let mut spec = Map::new();
    if !class.is_empty() {
        spec.insert("priorityClassName".to_owned(), class.into());
    }
    if values.host_network() {
        spec.insert("hostNetwork".to_owned(), true.into());
    }
    spec.insert("automountServiceAccountToken".to_owned(), false.into());
    spec.insert("schedulingGates".to_owned(), json!([{"name": "giveway.dev/check"}]));
    spec.insert("securityContext".to_owned(), security);
    let container = json!({
        "name": "webhook",
        "image": values.image(),
        "ports": [{"name": "https", "containerPort": values.port()}],
        "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
        "resources": values.resources(),
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}
        }
    });
    spec.insert("containers".to_owned(), json!([container]));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": PROBE}, "spec": spec})
}

#[cfg(test)]
mod tests {
    use super::super::values::read;
    use super::super::values::tests::of_platform;
    use super::*;

    #[test]
    fn the_probe_has_the_fields_of_the_values() {
        let plain = probe("", &read(&[]).unwrap());
        for (name, field) in FIELDS {
            assert!(plain.pointer(field).is_some(), "{name}");
        }
        assert!(plain["spec"].get("priorityClassName").is_none() && plain["spec"].get("hostNetwork").is_none());
        assert!(plain["spec"]["securityContext"].get("runAsUser").is_none(), "the cluster may choose it");
        let eks = probe("system-cluster-critical", &of_platform("eks"));
        assert_eq!(eks["spec"]["hostNetwork"], true);
        assert_eq!(eks["spec"]["priorityClassName"], "system-cluster-critical");
        let gke = probe("", &of_platform("gke"));
        assert_eq!(gke["spec"]["containers"][0]["ports"][0]["containerPort"], 10_250);
    }
}
