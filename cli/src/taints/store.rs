//! API calls of `cleanup taints`: nodes, and the plans that identify Giveway's taints.

use super::node::NodeClient;
use super::own;
use crate::connect::{Api, GetResult, RequestError, page_of};
use crate::error::CliError;
use crate::output;
use giveway_cluster::objects::fields::keep_only;
use giveway_crds::critical;
use giveway_crds::preemption::PreemptionSpec;
use http::Method;
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::BTreeSet;

/// Path of all nodes.
const NODES: &str = "/api/v1/nodes";
/// Path of all plans.
const PREEMPTIONS: &str = "/apis/scheduling.giveway.dev/v1alpha1/preemptions";
/// Objects per page.
const PAGE: usize = 500;

/// The cluster's nodes and plans.
pub(super) struct TaintStore {
    pub(super) api: Api,
}

impl TaintStore {
    /// Returns all nodes, each only with its name, UID, resource version and taints.
    pub(super) async fn nodes(&self) -> Result<Vec<Value>, CliError> {
        // Keeps only the fields that are needed; a whole node is a hundred times as large.
        let taints = |mut node: Value| {
            keep_only(&mut node, "metadata(name uid resourceVersion) spec(taints)");
            Some(node)
        };
        let nodes = list_of(&self.api, NODES, taints).await?;
        nodes.ok_or_else(|| failed(NODES, "the API server does not know this kind".to_owned()))
    }

    /// Returns the UIDs of pods for which a stored plan may have tainted a node, or `None` if the kind `Preemption` is not installed.
    pub(super) async fn tainted_pod_uids(&self) -> Result<Option<BTreeSet<String>>, CliError> {
        let Some(plans) = list(&self.api, PREEMPTIONS).await? else { return Ok(None) };
        let mut uids = BTreeSet::new();
        for plan in &plans {
            match PreemptionSpec::deserialize(&plan["spec"]) {
                Ok(spec) => uids.extend(critical::tainted_for(&spec).map(str::to_owned)),
                // A plan that cannot be parsed, for example of another version, does not prevent the removal of other
                // taints.
                Err(error) => output::note(&format!(
                    "Preemption {} cannot be read, so a taint for its pod stays: {error}",
                    own::name(plan)
                )),
            }
        }
        Ok(Some(uids))
    }
}

/// Returns all objects at this path of the API server, read page by page, or `None` if the kind is not installed. The path may contain
/// a query.
pub(crate) async fn list(api: &Api, path: &str) -> Result<Option<Vec<Value>>, CliError> {
    list_of(api, path, Some).await
}

/// Returns for each object at this path of the API server what `keep` returns for it, or `None` if the kind is not installed. Objects
/// are read page by page: all those of a large cluster do not fit into a Job's memory.
pub(crate) async fn list_of(
    api: &Api,
    path: &str,
    mut keep: impl FnMut(Value) -> Option<Value>,
) -> Result<Option<Vec<Value>>, CliError> {
    let (mut items, mut next) = (Vec::new(), String::new());
    loop {
        let mut page: Value = match api.get(&page_of(path, PAGE, &next)).await? {
            GetResult::Found(page) => page,
            GetResult::Missing => return Ok(None),
            GetResult::Forbidden(said) => return Err(failed(path, said)),
        };
        if let Value::Array(found) = page["items"].take() {
            items.extend(found.into_iter().filter_map(&mut keep));
        }
        next = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if next.is_empty() {
            return Ok(Some(items));
        }
    }
}

impl NodeClient for TaintStore {
    /// Reads the node `name`; `None` if it does not exist.
    async fn get(&self, name: &str) -> Result<Option<Value>, RequestError> {
        match self.api.call(Method::GET, &format!("{NODES}/{name}"), Vec::new()).await {
            Ok(node) => Ok(Some(node)),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Changes the node `name` by a JSON merge patch.
    async fn merge(&self, name: &str, patch: &Value) -> Result<(), RequestError> {
        let path = format!("{NODES}/{name}?fieldManager=kubectl-giveway");
        self.api.merge::<Value>(&path, patch).await.map(|_| ())
    }
}

/// Returns the error that the objects at this path of the API server could not be read, because of `problem`.
fn failed(path: &str, problem: String) -> CliError {
    CliError::Cluster { what: format!("GET {path}"), problem }
}
