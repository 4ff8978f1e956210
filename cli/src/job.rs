//! A command as the chart's Jobs run it: it is retried when it fails, and afterwards its account has no rights any more.
//!
//! Helm deletes the account of a hook only if no later hook fails. An account that may patch every node must not outlive its
//! Job. So the command itself deletes the bindings of its account as its last act: after a success, after the last failure, at
//! its time limit, and when it is terminated. The Job and its log stay. Therefore the Job does not retry: the command does.

use crate::args::JobFlags;
use crate::connect::{Api, ClusterConnection, RequestError};
use crate::error::CliError;
use crate::output::note;
use serde_json::json;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Pauses after failed attempts. The account's rights may not be known to every API server at the first one.
const PAUSES: [Duration; 3] = [Duration::from_secs(2), Duration::from_secs(10), Duration::from_secs(30)];
/// Time limit of all attempts. At its own deadline (270 s) a Job deletes its pod, and the log with it.
const LIMIT: Duration = Duration::from_secs(240);
/// Time limit of one deletion of a binding. A terminated pod has 30 s.
const DELETION: Duration = Duration::from_secs(5);
/// Maximum number of attempts to delete a binding.
const DELETIONS: u32 = 3;
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Runs `work` once, unless the flags name the bindings of a Job's service account: then `work` is retried, and the bindings are
/// deleted at the end. `namespace` is that of the account's RoleBinding, if it has one. Returns the exit status.
pub(crate) async fn run(
    flags: &JobFlags,
    namespace: Option<&str>,
    connection: &ClusterConnection,
    work: impl AsyncFn() -> Result<u8, CliError>,
) -> Result<u8, CliError> {
    let Some(name) = &flags.own_binding else { return work().await };
    let mut terminated = signal(SignalKind::terminate()).map_err(|error| failed(error.to_string()))?;
    let ended = tokio::select! {
        ended = within(LIMIT, attempts(&work, &PAUSES)) => ended,
        _ = terminated.recv() => Err(failed("it was terminated before it was done".to_owned())),
    };
    let deleted = delete_bindings(connection, name, namespace).await;
    match (ended, deleted) {
        (ended, Ok(())) => ended,
        (Ok(status), Err(error)) => Ok(status.max(crate::print_error(&error))),
        (Err(ended), Err(error)) => {
            crate::print_error(&error);
            Err(ended)
        }
    }
}

/// Returns the error that this Job failed, because of `problem`.
fn failed(problem: String) -> CliError {
    CliError::Cluster { what: "this Job".to_owned(), problem }
}

/// Returns the result of `work`, or an error if it takes longer than `limit`.
async fn within(limit: Duration, work: impl Future<Output = Result<u8, CliError>>) -> Result<u8, CliError> {
    let late = |_| Err(failed(format!("it was not done within {} s", limit.as_secs())));
    tokio::time::timeout(limit, work).await.unwrap_or_else(late)
}

/// Runs `work` until it succeeds: once, and again after each of these pauses. Returns its last result; earlier errors are printed.
async fn attempts(work: &impl AsyncFn() -> Result<u8, CliError>, pauses: &[Duration]) -> Result<u8, CliError> {
    for pause in pauses {
        match work().await {
            Ok(0) => return Ok(0),
            // Its errors are printed already.
            Ok(_) => {}
            Err(error) => {
                crate::print_error(&error);
            }
        }
        note(&format!("this attempt failed; the next one is in {} s", pause.as_secs()));
        tokio::time::sleep(*pause).await;
    }
    work().await
}

/// Deletes the bindings with this name of the Job's service account: the RoleBinding in `namespace`, if that is set, and then the
/// ClusterRoleBinding, which grants the right to delete itself.
async fn delete_bindings(connection: &ClusterConnection, name: &str, namespace: Option<&str>) -> Result<(), CliError> {
    let api = connection.api().await?;
    let cluster = format!("{RBAC}/clusterrolebindings/{name}");
    let own = namespace.map(|namespace| format!("{RBAC}/namespaces/{namespace}/rolebindings/{name}"));
    let mut result = Ok(());
    for path in own.into_iter().chain([cluster]) {
        match delete(&api, &path).await {
            Ok(()) => note(&format!("deleted {path}: the Job has no rights any more")),
            Err(error) => {
                let problem = format!("{error}: the Job's account keeps its rights until this binding is deleted");
                result = Err(CliError::Cluster { what: format!("DELETE {path}"), problem });
            }
        }
    }
    result
}

/// Deletes the object at this path, in several attempts. It is no error if the object does not exist.
async fn delete(api: &Api, path: &str) -> Result<(), RequestError> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let call = tokio::time::timeout(DELETION, api.delete(path, &json!({}))).await;
        let late = || Err(RequestError::Failed(format!("the API server did not answer within {DELETION:?}")));
        match call.unwrap_or_else(|_| late()) {
            Ok(()) => return Ok(()),
            Err(error) if error.code() == Some(404) => return Ok(()),
            Err(error) if error.may_pass() && attempt < DELETIONS => tokio::time::sleep(PAUSES[0]).await,
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::block_on;
    use std::cell::RefCell;

    const PAUSES: [Duration; 2] = [Duration::ZERO; 2];

    /// Returns the exit status of a command with these results, in order, and the number of its attempts.
    fn tried(results: Vec<Result<u8, CliError>>) -> (Option<u8>, usize) {
        let total = results.len();
        let left = RefCell::new(results.into_iter());
        let work = async || left.borrow_mut().next().unwrap();
        let ended = block_on(attempts(&work, &PAUSES)).ok();
        let attempts = total - left.borrow().len();
        (ended, attempts)
    }

    #[test]
    fn a_failed_command_is_retried_and_its_last_result_counts() {
        let failed = || Err(CliError::Cluster { what: "GET".to_owned(), problem: "no".to_owned() });
        assert_eq!(tried(vec![Ok(0), Ok(1)]), (Some(0), 1));
        assert_eq!(tried(vec![failed(), Ok(1), Ok(0)]), (Some(0), 3));
        assert_eq!(tried(vec![Ok(1), Ok(1), Ok(1), Ok(0)]), (Some(1), 3));
        assert_eq!(tried(vec![failed(), failed(), failed(), Ok(0)]), (None, 3));
    }

    /// Only then the bindings of its account are deleted before the kubelet kills its pod.
    #[test]
    fn a_command_that_does_not_end_is_ended_by_the_time_limit() {
        assert_eq!(LIMIT, Duration::from_secs(240));
        let ended = block_on(within(Duration::from_millis(1), std::future::pending()));
        assert!(ended.unwrap_err().to_string().contains("it was not done within 0 s"));
        assert_eq!(block_on(within(LIMIT, async { Ok(0) })).ok(), Some(0));
    }
}
