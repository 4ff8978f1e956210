//! `make demo-critical`: CoreDNS comes back into a full cluster, and the audit log proves what that took.

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

/// How long an add-on waits before somebody goes for it: the chart has 30 s.
const HOLD_OFF: Duration = Duration::from_secs(5);
/// How long everything may take that is neither hold-off nor a victim's grace, in seconds.
const SLACK: f64 = 3.0;
/// How long it may be until the add-on is back.
const LIMIT: Duration = Duration::from_secs(45);

/// Runs the demonstration; returns whether every promise was kept.
///
/// # Errors
/// Something does not start, or CoreDNS does not come back in time.
pub async fn demo(keep: bool) -> Result<bool> {
    let after = format!("--critical-addons-after={}s", HOLD_OFF.as_secs());
    let mut builder = World::builder().unjudged().operator_flag(&after).operator_flag("--lease-duration-seconds=15");
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
    let deleted = layout::take_place(&world, &layout).await;
    timeline.tell("deleted", &deleted);
    let mut predicted = BTreeSet::new();
    let ask = async |pod: &str| {
        let (names, text) = predict(&kubeconfig, &layout.system.namespace, pod).await?;
        predicted = names;
        Ok(text)
    };
    timeline.follow(&world, LIMIT, ask).await?;

    let plan = timeline.plan().context("it came back without a plan, although the cluster was full")?;
    finished(&world, &plan.id).await?;
    let (name, _) = timeline.addon.clone().unwrap_or_default();
    describe(&world, &layout.system.namespace, &name).await?;
    println!("\n$ kubectl get preemptions");
    print!("{}", world.kubectl(&["get", "preemptions"]).await.map_err(|error| anyhow!(error))?);
    let kept = proof::prove(&world, &timeline, plan, &predicted, &before).await?;
    if keep {
        state::leave_running(&mut world)?;
        println!("\nEverything is left running:");
        print_usage("  kubectl giveway history -n kube-system             # who gave way for add-ons\n");
    }
    Ok(kept)
}

fn introduce(nodes: &[String]) {
    println!(
        "\nThe cluster is full. CoreDNS has two pods of 1 CPU in kube-system, and no priority class: every other pod has the\n\
         same priority, 0, so kube-scheduler does nothing for it. Everywhere but on {infra} are pods of half a CPU:\n\
         on {web} a service whose budget allows nobody to go; on {first} and {second} a training group that goes whole or not\n\
         at all; on {notebook} notebooks that ask for an hour to terminate; on {mixed} reports that do, and a cache that asks for\n\
         two seconds. {infra} is a pool with a taint CriticalAddonsOnly of its own, full of pods that are critical themselves.\n\
         Each node has a pod of a DaemonSet. Now a pod of CoreDNS is deleted, and others are in its place when it comes back.\n",
        web = nodes[0],
        first = nodes[1],
        second = nodes[2],
        notebook = nodes[3],
        mixed = nodes[4],
        infra = nodes[5],
    );
}

/// Who would go for a pod, and where it would go: as the command line says, which touches nothing.
async fn predict(kubeconfig: &Path, namespace: &str, pod: &str) -> Result<(BTreeSet<String>, String)> {
    let mut command = Command::new(paths::giveway_program("kubectl-giveway")?);
    command.args(["plan", "--critical", "-o", "json", "-n", namespace, "--for", &format!("pod/{pod}")]);
    let output = command.env("KUBECONFIG", kubeconfig).output().await.context("running kubectl-giveway")?;
    if !output.status.success() {
        bail!("kubectl giveway plan --critical: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let answer: Value = serde_json::from_slice(&output.stdout).context("reading what kubectl giveway plan said")?;
    let pods = answer["victimPods"].as_array().into_iter().flatten();
    let names: BTreeSet<String> = pods.filter_map(|pod| pod.as_str().map(str::to_owned)).collect();
    let list = names.iter().cloned().collect::<Vec<_>>().join(", ");
    let node = answer["placements"][0]["node"].as_str().unwrap_or("none").to_owned();
    Ok((names, format!("by kubectl giveway plan --critical: {list} go, on node {node}")))
}

/// Waits until a plan has told how it ended.
async fn finished(world: &World, plan: &str) -> Result<()> {
    let plans = Api::<Preemption>::all(world.client());
    wait::until("the plan is completed", Duration::from_secs(10), async || {
        let plan = plans.get(plan).await.map_err(|error| error.to_string())?;
        let status = plan.status.unwrap_or_default();
        if status.state == PlanState::Completed { Ok(()) } else { Err(status.message) }
    })
    .await?;
    Ok(())
}

/// The events of `kubectl describe pod`.
async fn describe(world: &World, namespace: &str, pod: &str) -> Result<()> {
    let told = wait::until("the events are written", Duration::from_secs(10), async || {
        let text = world.kubectl(&["describe", "pod", pod, "-n", namespace]).await?;
        if text.contains("Completed") { Ok(text) } else { Err(text) }
    })
    .await?;
    println!("\n$ kubectl describe pod -n {namespace} {pod}    # deployment {ADDON}");
    for line in told.lines().skip_while(|line| !line.starts_with("Events:")) {
        println!("{line}");
    }
    Ok(())
}
