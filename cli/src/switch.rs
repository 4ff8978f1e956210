//! `kubectl giveway pause`, `observe` and `resume`: they write only the ConfigMap that sets the operator's mode. Write
//! access to it is the only permission they need.

use crate::args::SwitchFlags;
use crate::connect::{Api, ClusterConnection, Got, RequestError, block_on};
use crate::error::CliError;
use crate::output;
use crate::role::Role;
use giveway_crds::mode::{CONFIG_MAP, KEY, Mode};
use http::Method;
use serde_json::{Value, json};

/// Name of the operator's Deployment.
const OPERATOR: &str = "giveway-operator";

/// Sets the mode. Returns the exit status.
pub(crate) fn to(mode: Mode, flags: &SwitchFlags, connection: &ClusterConnection) -> Result<u8, CliError> {
    let namespace = &flags.giveway_namespace;
    let known = block_on(async {
        let api = connection.api().await?;
        let known = is_known(namespace, &look(&api, namespace, &flags.lease_name).await)?;
        write(&api, namespace, mode, flags.dry_run).await.map_err(|error| failed(&error, "PATCH", namespace))?;
        Ok(known)
    })?;
    if !known {
        output::note(&unknown(namespace, &flags.lease_name));
    }
    let what = mode.restraint();
    let done = if flags.dry_run { "Nothing was written: it would say" } else { "It says" };
    output::show(&format!(
        "{what}. {done} `{KEY}: {mode}` in ConfigMap {namespace}/{CONFIG_MAP}; `kubectl giveway resume` takes that back.\n"
    ))?;
    Ok(0)
}

/// Deletes the ConfigMap, so that the chart's mode applies again. Returns the exit status.
pub(crate) fn resume(flags: &SwitchFlags, connection: &ClusterConnection) -> Result<u8, CliError> {
    let namespace = &flags.giveway_namespace;
    let (was_there, known) = block_on(async {
        let api = connection.api().await?;
        let was_there =
            remove(&api, namespace, flags.dry_run).await.map_err(|error| failed(&error, "DELETE", namespace))?;
        // A ConfigMap that remains from a deleted installation may be removed.
        Ok((was_there, was_there || is_known(namespace, &look(&api, namespace, &flags.lease_name).await)?))
    })?;
    if !known {
        output::note(&unknown(namespace, &flags.lease_name));
    }
    output::show(&match (was_there, flags.dry_run) {
        (true, false) => {
            format!("ConfigMap {namespace}/{CONFIG_MAP} is deleted: the chart's value `mode` counts again.\n")
        }
        (true, true) => {
            format!(
                "ConfigMap {namespace}/{CONFIG_MAP} would be deleted: the chart's value `mode` would count again.\n"
            )
        }
        (false, _) => {
            format!(
                "Nothing was switched: there is no ConfigMap {namespace}/{CONFIG_MAP}, and the chart's value `mode` counts.\n"
            )
        }
    })?;
    Ok(0)
}

/// Whether an object of an installation exists; `None` if that is unknown.
type Look = Option<bool>;

/// Reads whether Giveway is installed in this namespace: the operator's Deployment, and its Lease, which also exists if
/// the operator runs outside of the cluster. A failed read does not block the switch.
async fn look(api: &Api, namespace: &str, lease: &str) -> [Look; 2] {
    let deployment = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{OPERATOR}");
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lease}");
    let exists = |got| match got {
        Ok(Got::Found(_)) => Some(true),
        Ok(Got::Missing) => Some(false),
        Ok(Got::Forbidden(_)) | Err(_) => None,
    };
    [exists(api.get::<Value>(&deployment).await), exists(api.get::<Value>(&lease).await)]
}

/// Returns true if Giveway is known to be installed in this namespace.
///
/// # Errors
/// Giveway is known not to be installed there.
fn is_known(namespace: &str, looks: &[Look; 2]) -> Result<bool, CliError> {
    if *looks == [Some(false); 2] {
        return Err(CliError::NoSuchObject(format!(
            "--giveway-namespace: {namespace:?}: no Giveway is installed there: it has no Deployment {OPERATOR}"
        )));
    }
    Ok(looks.contains(&Some(true)))
}

fn unknown(namespace: &str, lease: &str) -> String {
    format!(
        "whether Giveway is installed in namespace {namespace} is not known, because you may not read Deployment {OPERATOR} \
         and Lease {lease} there: `kubectl giveway check` says what it does"
    )
}

async fn write(api: &Api, namespace: &str, mode: Mode, dry_run: bool) -> Result<(), RequestError> {
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "giveway"}},
        "data": {KEY: mode.as_str()},
    });
    let path = format!("{}?fieldManager=kubectl-giveway&force=true{}", path(namespace), dry(dry_run));
    api.apply::<Value>(&path, &map).await.map(|_| ())
}

/// Deletes the ConfigMap. Returns true if it existed.
async fn remove(api: &Api, namespace: &str, dry_run: bool) -> Result<bool, RequestError> {
    let path = format!("{}?{}", path(namespace), dry(dry_run).trim_start_matches('&'));
    match api.call::<Value>(Method::DELETE, &path, Vec::new()).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(404) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the path of the ConfigMap.
pub(crate) fn path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{CONFIG_MAP}")
}

fn dry(dry_run: bool) -> &'static str {
    if dry_run { "&dryRun=All" } else { "" }
}

fn failed(error: &RequestError, verb: &str, namespace: &str) -> CliError {
    let problem = match error.code() {
        Some(403) => Role::Switch(namespace).explain(&error.to_string()),
        Some(404) => format!("{error}: --giveway-namespace names the namespace in which Giveway is installed"),
        _ => error.to_string(),
    };
    CliError::Cluster { what: format!("{verb} {}", path(namespace)), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_without_giveway_is_an_error_and_an_unreadable_one_is_not() {
        let (yes, no) = (Some(true), Some(false));
        let said = is_known("team", &[no, no]).unwrap_err();
        let words =
            "--giveway-namespace: \"team\": no Giveway is installed there: it has no Deployment giveway-operator";
        assert_eq!((said.to_string().as_str(), said.exit_status()), (words, 2));
        for (looks, known) in
            [([yes, yes], true), ([no, yes], true), ([yes, None], true), ([None, None], false), ([no, None], false)]
        {
            assert_eq!(is_known("team", &looks).unwrap(), known, "{looks:?}");
        }
    }
}
