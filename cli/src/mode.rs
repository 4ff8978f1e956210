//! `kubectl giveway mode`: it writes only the ConfigMap that sets the operator's mode. Write access to it is the only
//! permission it needs.

use crate::args::mode::ModeArgs;
use crate::connect::{Api, ClusterConnection, GetResult, RequestError, block_on};
use crate::error::CliError;
use crate::output;
use crate::role::ChartRole;
use giveway_crds::mode::{CONFIG_MAP, KEY, Mode};
use giveway_crds::names::LEASE;
use http::Method;
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Write as _};

/// Name of the operator's Deployment.
const OPERATOR: &str = "giveway-operator";
/// What `off` does to running workloads and cannot be undone, as two sentences.
const CONSEQUENCE: &str = "Mode off removes Giveway's scheduling gate from every gated pod in all namespaces, so gangs may be partially \
                           scheduled. This cannot be undone: the API server adds no gate to an existing pod";

/// Runs `kubectl giveway mode`: writes the operator's mode to a ConfigMap, or deletes the ConfigMap for `chart`. Returns the exit
/// status.
pub(crate) fn run(args: &ModeArgs, connection: &ClusterConnection) -> Result<u8, CliError> {
    let mode = args.mode.mode();
    if mode == Some(Mode::Off) && !args.yes && !args.dry_run {
        confirm()?;
    }
    match mode {
        Some(mode) => set(mode, args, connection),
        None => reset(args, connection),
    }
}

/// Asks on the terminal whether Giveway is to be switched off.
///
/// # Errors
/// The answer is not yes, or standard input is not a terminal.
fn confirm() -> Result<(), CliError> {
    if !std::io::stdin().is_terminal() {
        return Err(CliError::NoConfirmation(CONSEQUENCE));
    }
    // If standard error is closed, the question is not seen, and the answer is not yes.
    let mut terminal = anstream::stderr();
    let _ = write!(terminal, "{CONSEQUENCE}. Switch Giveway off? [y/N] ").and_then(|()| terminal.flush());
    let mut answer = String::new();
    let read = std::io::stdin().read_line(&mut answer);
    if read.is_ok() && is_yes(&answer) { Ok(()) } else { Err(CliError::NotConfirmed) }
}

/// Returns true if the user's answer means yes.
fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Writes the mode to the ConfigMap of the mode, and prints what that means. Returns the exit status.
fn set(mode: Mode, args: &ModeArgs, connection: &ClusterConnection) -> Result<u8, CliError> {
    let (namespace, known) = block_on(async {
        let api = connection.api().await?;
        let namespace = api.giveway_namespace().await;
        let known = is_installed(&namespace, &find_installation(&api, &namespace).await)?;
        write(&api, &namespace, mode, args.dry_run).await.map_err(|error| failed(&error, "PATCH", &namespace))?;
        Ok((namespace, known))
    })?;
    if !known {
        output::note(&not_known_note(&namespace));
    }
    let what = mode.restraint();
    let done = if args.dry_run { "Nothing was written: it would say" } else { "It says" };
    output::show(&format!(
        "{what}. {done} `{KEY}: {mode}` in ConfigMap {namespace}/{CONFIG_MAP}; `kubectl giveway mode chart` takes that back.\n"
    ))?;
    Ok(0)
}

/// Deletes the ConfigMap of the mode, so that the chart's mode applies again, and prints that. Returns the exit status.
fn reset(args: &ModeArgs, connection: &ClusterConnection) -> Result<u8, CliError> {
    let (namespace, was_there, known) = block_on(async {
        let api = connection.api().await?;
        let namespace = api.giveway_namespace().await;
        let was_there =
            remove(&api, &namespace, args.dry_run).await.map_err(|error| failed(&error, "DELETE", &namespace))?;
        // A ConfigMap that remains from a deleted installation may be removed.
        let known = was_there || is_installed(&namespace, &find_installation(&api, &namespace).await)?;
        Ok((namespace, was_there, known))
    })?;
    if !known {
        output::note(&not_known_note(&namespace));
    }
    output::show(&match (was_there, args.dry_run) {
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
type Exists = Option<bool>;

/// Reads whether the operator's Deployment and its Lease exist in this namespace. The Lease also exists if the operator runs outside of
/// the cluster. A failed read is `None`.
async fn find_installation(api: &Api, namespace: &str) -> [Exists; 2] {
    let deployment = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{OPERATOR}");
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE}");
    let exists = |got| match got {
        Ok(GetResult::Found(_)) => Some(true),
        Ok(GetResult::Missing) => Some(false),
        Ok(GetResult::Forbidden(_)) | Err(_) => None,
    };
    [exists(api.get::<Value>(&deployment).await), exists(api.get::<Value>(&lease).await)]
}

/// Returns true if the operator's Deployment or Lease was found in this namespace, and false if that is not known.
///
/// # Errors
/// Neither of them exists.
fn is_installed(namespace: &str, found: &[Exists; 2]) -> Result<bool, CliError> {
    if *found == [Some(false); 2] {
        return Err(CliError::NoSuchObject(format!(
            "--giveway-namespace: {namespace:?}: no Giveway is installed there: it has no Deployment {OPERATOR}"
        )));
    }
    Ok(found.contains(&Some(true)))
}

/// Returns the note that it is not known whether Giveway is installed in this namespace, for lack of rights.
fn not_known_note(namespace: &str) -> String {
    format!(
        "whether Giveway is installed in namespace {namespace} is not known, because you may not read Deployment {OPERATOR} \
         and Lease {LEASE} there: `kubectl giveway check` says what it does"
    )
}

/// Writes the mode into the ConfigMap of the mode, which is created if it does not exist; a dry run changes nothing.
async fn write(api: &Api, namespace: &str, mode: Mode, dry_run: bool) -> Result<(), RequestError> {
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "giveway"}},
        "data": {KEY: mode.as_str()},
    });
    let path =
        format!("{}?fieldManager=kubectl-giveway&force=true{}", config_map_path(namespace), dry_run_query(dry_run));
    api.apply::<Value>(&path, &map).await.map(|_| ())
}

/// Deletes the ConfigMap of the mode; a dry run changes nothing. Returns true if the ConfigMap existed.
async fn remove(api: &Api, namespace: &str, dry_run: bool) -> Result<bool, RequestError> {
    let path = format!("{}?{}", config_map_path(namespace), dry_run_query(dry_run).trim_start_matches('&'));
    match api.call::<Value>(Method::DELETE, &path, Vec::new()).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(404) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the API path of the ConfigMap that sets the operator's mode.
pub(crate) fn config_map_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{CONFIG_MAP}")
}

/// Returns the query parameter that makes a request a dry run, with `&` in front; an empty string without a dry run.
fn dry_run_query(dry_run: bool) -> &'static str {
    if dry_run { "&dryRun=All" } else { "" }
}

/// Returns the error of a failed call for the ConfigMap of the mode, with what the user can do. `verb` is the HTTP method, such as
/// `PATCH`.
fn failed(error: &RequestError, verb: &str, namespace: &str) -> CliError {
    let problem = match error.code() {
        Some(403) => ChartRole::Switch(namespace).explain(&error.to_string()),
        Some(404) => format!("{error}: set --giveway-namespace to the namespace in which Giveway is installed"),
        _ => error.to_string(),
    };
    CliError::Cluster { what: format!("{verb} {}", config_map_path(namespace)), problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_confirms() {
        for answer in ["y\n", "YES\n", " yes \r\n"] {
            assert!(is_yes(answer), "{answer:?}");
        }
        for answer in ["", "\n", "n\n", "ye\n", "yes please\n"] {
            assert!(!is_yes(answer), "{answer:?}");
        }
    }

    #[test]
    fn a_namespace_without_giveway_is_an_error_and_an_unreadable_one_is_not() {
        let (yes, no) = (Some(true), Some(false));
        let said = is_installed("team", &[no, no]).unwrap_err();
        let words =
            "--giveway-namespace: \"team\": no Giveway is installed there: it has no Deployment giveway-operator";
        assert_eq!((said.to_string().as_str(), said.exit_status()), (words, 2));
        for (found, known) in
            [([yes, yes], true), ([no, yes], true), ([yes, None], true), ([None, None], false), ([no, None], false)]
        {
            assert_eq!(is_installed("team", &found).unwrap(), known, "{found:?}");
        }
    }
}
