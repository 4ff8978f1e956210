//! `kubectl giveway pause`, `observe` and `resume`: the ConfigMap by which the operator is switched, and nothing else. Who may write
//! it may switch.

use crate::args::SwitchFlags;
use crate::connect::{Api, CallError, Connection, block_on};
use crate::error::CliError;
use crate::output;
use crate::role::Role;
use giveway_crds::mode::{CONFIG_MAP, KEY, Mode};
use http::Method;
use serde_json::{Value, json};

/// Switches. Returns the exit status.
pub(crate) fn to(mode: Mode, flags: &SwitchFlags, connection: &Connection) -> Result<u8, CliError> {
    let namespace = &flags.giveway_namespace;
    block_on(async {
        let api = connection.api().await?;
        write(&api, namespace, mode, flags.dry_run).await.map_err(|error| failed(&error, "PATCH", namespace))
    })?;
    let what = mode.restraint();
    let done = if flags.dry_run { "Nothing was written: it would say" } else { "It says" };
    output::show(&format!(
        "{what}. {done} `{KEY}: {mode}` in ConfigMap {namespace}/{CONFIG_MAP}; `kubectl giveway resume` takes that back.\n"
    ))?;
    Ok(0)
}

/// Takes back what was switched. Returns the exit status.
pub(crate) fn resume(flags: &SwitchFlags, connection: &Connection) -> Result<u8, CliError> {
    let namespace = &flags.giveway_namespace;
    let was_there = block_on(async {
        let api = connection.api().await?;
        remove(&api, namespace, flags.dry_run).await.map_err(|error| failed(&error, "DELETE", namespace))
    })?;
    output::show(&match (was_there, flags.dry_run) {
        (true, false) => {
            format!("ConfigMap {namespace}/{CONFIG_MAP} is gone: the chart's value `mode` counts again.\n")
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

async fn write(api: &Api, namespace: &str, mode: Mode, dry_run: bool) -> Result<(), CallError> {
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "giveway"}},
        "data": {KEY: mode.as_str()},
    });
    let path = format!("{}?fieldManager=kubectl-giveway&force=true{}", path(namespace), dry(dry_run));
    api.apply::<Value>(&path, &map).await.map(|_| ())
}

/// Whether it was there.
async fn remove(api: &Api, namespace: &str, dry_run: bool) -> Result<bool, CallError> {
    let path = format!("{}?{}", path(namespace), dry(dry_run).trim_start_matches('&'));
    match api.call::<Value>(Method::DELETE, &path, Vec::new()).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(404) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Path of the ConfigMap.
pub(crate) fn path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{CONFIG_MAP}")
}

fn dry(dry_run: bool) -> &'static str {
    if dry_run { "&dryRun=All" } else { "" }
}

fn failed(error: &CallError, verb: &str, namespace: &str) -> CliError {
    let problem = match error.code() {
        Some(403) => Role::Switch(namespace).explain(&error.to_string()),
        Some(404) => format!("{error}: --giveway-namespace names the namespace in which Giveway is installed"),
        _ => error.to_string(),
    };
    CliError::Cluster { what: format!("{verb} {}", path(namespace)), problem }
}
