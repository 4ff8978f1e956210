//! Runs the Jobs of the chart's hooks on a control plane without kubelets.

use super::NAMESPACE;
use crate::World;
use crate::attack::Call;
use crate::wait::wait_for;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use tokio::process::Command;

const LIMIT: Duration = Duration::from_secs(60);

/// Runs the command of this Job with the rights of its ServiceAccount and sets the Job's pod to `Succeeded`. `find` returns the
/// path of a program. Returns the output of the command.
///
/// # Panics
/// If the Job does not exist or its command fails for a minute.
pub async fn run_hook(world: &mut World, job: &str, find: impl Fn(&str) -> PathBuf) -> String {
    let admin = world.client();
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let selected = Call::get(&format!("{pods}?labelSelector=job-name%3D{job}"));
    let pod = wait_for(&format!("the Job {job} has a pod that runs"), LIMIT, async || {
        let pods = selected.make(&admin).await?;
        let mut all = pods["items"].as_array().into_iter().flatten();
        all.find(|pod| pod["status"]["phase"] == "Running").cloned().ok_or_else(|| pods.to_string())
    })
    .await;
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap();
    let file = world.account(NAMESPACE, account).await;
    let command = pod["spec"]["containers"][0]["command"].as_array().unwrap().iter();
    let command: Vec<&str> = command.map(|word| word.as_str().unwrap()).collect();
    let (program, args) = command.split_first().unwrap();
    let program = find(program);
    // RBAC observes the rights of the hook with a delay, so the command is retried, as a Job does. The effects of a failed
    // attempt remain.
    let mut printed = String::new();
    wait_for(&format!("{command:?} succeeds"), LIMIT, async || {
        let mut process = Command::new(&program);
        process.args(args).env("KUBECONFIG", &file).env_remove("COLUMNS").env("HOME", "/nonexistent");
        let output = process.output().await.map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        printed.push_str(&text(&output.stdout));
        if output.status.success() { Ok(()) } else { Err(text(&output.stderr)) }
    })
    .await;
    let status = format!("{pods}/{}/status", pod["metadata"]["name"].as_str().unwrap());
    Call::merge(&status, &json!({"status": {"phase": "Succeeded"}}))
        .allowed(&admin, "the status of a succeeded pod")
        .await;
    printed
}
