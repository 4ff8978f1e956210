//! `make demo-critical`: preempts for a pod of CoreDNS in a full cluster and checks the promises with the audit log.

mod layout;
mod proof;
mod timeline;

use super::up::{fresh_directory, print_usage};
use super::{progress, state};
use crate::world::World;
use crate::{paths, wait};
use anyhow::{Context as _, Result, anyhow, bail};
use giveway_crds::Preemption;
use giveway_crds::plan::PlanState;
use kube::Api;
use layout::ADDON;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use timeline::Timeline;
use tokio::process::Command;

/// Hold-off before the operator preempts for an add-on; the chart's default is 30 s.
const HOLD_OFF: Duration = Duration::from_secs(5);
/// Permitted seconds beyond the hold-off and the grace periods of the victims.
const SLACK: f64 = 3.0;
/// Deadline for the add-on to be bound.
const LIMIT: Duration = Duration::from_secs(45);

/// Runs the demonstration. Returns true if every promise was kept.
///
/// # Errors
/// If a process does not start or the pod of CoreDNS is not bound in time.
pub async fn demo(keep: bool) -> Result<bool> {
    let after = format!("--critical-addons-after={}s", HOLD_OFF.as_secs());
    let mut builder =
        World::builder().without_oracle().operator_flag(&after).operator_flag("--lease-duration-seconds=15");
    if keep {
        builder = builder.directory(&fresh_directory().await?);
    }
    progress("starting a Kubernetes control plane and installing Giveway");
    let mut world = builder.try_start().await?;
    let kubeconfig = world.plane().kubeconfig();
    progress("filling 8 nodes");
    let layout = layout::build(&world).await;
    let before = proof::taints(&world).await?;
    introduce(&layout.nodes);

    let mut timeline = Timeline::new(layout.addons.iter().map(|pod| pod.uid.clone()));
    let deleted = layout::delete_add_on(&world, &layout).await;
    timeline.print("deleted", &deleted);
    let mut predicted = BTreeSet::new();
    let ask = async |pod: &str| {
        let (names, text) = predict(&kubeconfig, &layout.system.namespace, pod).await?;
        predicted = names;
        Ok(text)
    };
    timeline.follow(&world, LIMIT, ask).await?;

    let plan = timeline.plan().context("the add-on was bound without a plan, although the cluster was full")?;
    wait_completed(&world, &plan.id).await?;
    let (name, _) = timeline.addon.clone().unwrap_or_default();
    describe(&world, &layout.system.namespace, &name).await?;
    println!("\n$ kubectl get preemptions");
    print!("{}", world.kubectl(&["get", "preemptions"]).await.map_err(|error| anyhow!(error))?);
    let kept = proof::prove(&world, &timeline, plan, &predicted, &before).await?;
    if keep {
        state::leave_running(&mut world)?;
        println!("\nThe cluster keeps running:");
        print_usage("  kubectl giveway history -n kube-system             # plans for add-ons with their victims\n");
    }
    Ok(kept)
}

fn introduce(nodes: &[String]) {
    println!(
        "\nThe cluster is full. CoreDNS has two pods of 1 CPU in kube-system and no priority class. All other pods have the same\n\
        priority, 0, so kube-scheduler does not preempt for CoreDNS. All nodes except {infra} have pods of half a CPU:\n\
        {web} a service whose budget allows no disruption; {first} and {second} a training group in mode PodGroup;\n\
        {notebook} notebooks with a grace period of an hour; {mixed} reports with the same grace period and a cache with two\n\
        seconds. {infra} belongs to a node pool with its own taint CriticalAddonsOnly and is full of critical pods. Each node has\n\
        a pod of a DaemonSet. Now a pod of CoreDNS is deleted, and other pods use its capacity before its replacement exists.\n",
        web = nodes[0],
        first = nodes[1],
        second = nodes[2],
        notebook = nodes[3],
        mixed = nodes[4],
        infra = nodes[5],
    );
}

/// Returns the predicted victims of an add-on and a description, by `kubectl giveway plan --critical`.
async fn predict(kubeconfig: &Path, namespace: &str, pod: &str) -> Result<(BTreeSet<String>, String)> {
    let mut command = Command::new(paths::giveway_program("kubectl-giveway")?);
    command.args(["plan", "--critical", "-o", "json", "-n", namespace, "--for", &format!("pod/{pod}")]);
    let output = command.env("KUBECONFIG", kubeconfig).output().await.context("running kubectl-giveway")?;
    if !output.status.success() {
        bail!("kubectl giveway plan --critical: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let answer: Value = serde_json::from_slice(&output.stdout).context("parsing the output of kubectl giveway plan")?;
    let pods = answer["victimPods"].as_array().into_iter().flatten();
    let names: BTreeSet<String> = pods.filter_map(|pod| pod.as_str().map(str::to_owned)).collect();
    let list = names.iter().cloned().collect::<Vec<_>>().join(", ");
    let node = answer["placements"][0]["node"].as_str().unwrap_or("none").to_owned();
    Ok((names, format!("by kubectl giveway plan --critical: victims {list} on node {node}")))
}

/// Waits until a plan is completed.
async fn wait_completed(world: &World, plan: &str) -> Result<()> {
    let plans = Api::<Preemption>::all(world.client());
    wait::until("the plan is completed", Duration::from_secs(10), async || {
        let plan = plans.get(plan).await.map_err(|error| error.to_string())?;
        let status = plan.status.unwrap_or_default();
        if status.state == PlanState::Completed { Ok(()) } else { Err(status.message) }
    })
    .await?;
    Ok(())
}

/// Prints the events of `kubectl describe pod`.
async fn describe(world: &World, namespace: &str, pod: &str) -> Result<()> {
    let text = wait::until("the events are written", Duration::from_secs(10), async || {
        let text = world.kubectl(&["describe", "pod", pod, "-n", namespace]).await?;
        if text.contains("Completed") { Ok(text) } else { Err(text) }
    })
    .await?;
    println!("\n$ kubectl describe pod -n {namespace} {pod}    # deployment {ADDON}");
    for line in text.lines().skip_while(|line| !line.starts_with("Events:")) {
        println!("{line}");
    }
    Ok(())
}
