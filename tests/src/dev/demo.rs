//! `make demo`: preempts for a gang in a full cluster and checks the promises with the audit log.

use super::layout::{self, BUDGET, GPUS, NODES, THRESHOLD};
use super::timeline::Timeline;
use super::up::{fresh_directory, print_usage};
use super::{progress, state};
use crate::audit::budgets::{Judgement, Worst, judge};
use crate::audit::{Chronicler, Promises, promises};
use crate::world::World;
use anyhow::{Context as _, Result, anyhow};
use std::time::Duration;

/// The gang of `examples/demo/gang.yaml`.
const GANG: &str = "llm-train";
/// Number of its pods, each with one GPU.
const SIZE: usize = 64;
/// Deadline for the gang to be bound.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs the demonstration. Returns true if every promise was kept.
///
/// # Errors
/// If a process does not start or the gang is not bound in time.
pub async fn demo(keep: bool) -> Result<bool> {
    let mut builder = World::builder().without_oracle().operator_flag("--lease-duration-seconds=15");
    if keep {
        builder = builder.directory(&fresh_directory().await?);
    }
    progress("starting a Kubernetes control plane and installing Giveway");
    let mut world = builder.try_start().await?;
    progress(&format!("filling {NODES} nodes of {GPUS} GPUs"));
    let layout = layout::build(&world).await;
    let room = layout::count_gpus(&world).await;
    let chronicler = Chronicler::start(world.client()).await;
    println!(
        "\nThe cluster has {} GPUs, {} of them free. Every pod holds one:\n\
         {} training groups of 8 pods on a node each and {} spread over two nodes, each disrupted together;\n\
         {} single pods; and, with the lowest priority of all, a service of {} pods with a budget that allows {} evictions,\n\
         and that is guaranteed against preemptors below priority {THRESHOLD}.\n\
         A gang of {SIZE} pods is created, of which all {SIZE} have to start together:\n",
        room.total, room.free, layout.packed, layout.halved, layout.singles, layout.service, layout.allowed
    );
    let mut timeline = Timeline::new(GANG, SIZE);
    println!("$ kubectl apply -f examples/demo/");
    let output = world.kubectl(&["apply", "-f", "examples/demo/"]).await.map_err(|error| anyhow!(error))?;
    timeline.print("submitted", &output.trim().replace('\n', ", "));
    timeline.follow(&world, LIMIT).await?;

    describe(&world, GANG).await?;
    let plan = timeline.plan().context("the gang was bound without a plan, although the cluster was full")?;
    if let Some(victim) = plan.victims.iter().find(|victim| victim.kind == "PodGroup") {
        describe(&world, &victim.name).await?;
    }
    println!("\n$ kubectl get preemptions");
    print!("{}", world.kubectl(&["get", "preemptions"]).await.map_err(|error| anyhow!(error))?);
    let needed = (SIZE as u64).saturating_sub(room.free);
    let kept = prove(&world, &chronicler, needed, room.largest.max(1)).await;
    if keep {
        state::leave_running(&mut world)?;
        println!("\nThe cluster keeps running:");
        print_usage("  kubectl get gpg -o wide                            # groups with their preemptors\n");
    }
    Ok(kept)
}

/// Prints `kubectl describe` of a group with long lists cut short.
async fn describe(world: &World, group: &str) -> Result<()> {
    let text = world.kubectl(&["describe", "podgroup", group]).await.map_err(|error| anyhow!(error))?;
    println!("\n$ kubectl describe podgroup {group}");
    for line in shorten(&text) {
        println!("{line}");
    }
    Ok(())
}

/// Cuts the lists that have an entry for each pod.
fn shorten(text: &str) -> Vec<String> {
    const SHOWN: usize = 6;
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = Vec::new();
    let mut list: Option<(usize, usize)> = None;
    for line in text.lines() {
        if let Some((depth, count)) = list {
            if indent(line) > depth && !line.trim().is_empty() {
                if count < SHOWN {
                    lines.push(line.to_owned());
                }
                list = Some((depth, count + 1));
                continue;
            }
            if count > SHOWN {
                lines.push(format!("{}  ... and {} lines more", " ".repeat(depth), count - SHOWN));
            }
            list = None;
        }
        if matches!(line.trim(), "Placements:" | "Victims:") {
            list = Some((indent(line), 0));
        }
        lines.push(line.to_owned());
    }
    lines
}

/// Prints a summary of the audit log. Returns true if every promise was kept.
async fn prove(world: &World, chronicler: &Chronicler, needed: u64, largest: u64) -> bool {
    let chronicle = chronicler.read().await;
    let history = world.audit().await;
    let evicted = history.evicted().len();
    let bound =
        history.members(&("default".to_owned(), GANG.to_owned())).filter(|(_, pod)| pod.bound.is_some()).count();
    let partial = promises::partial_disruption_count(&history);
    let fewest = needed.div_ceil(largest);
    let judgement = judge(&chronicle, &history, &Promises::new());
    let mut broken = Promises::new().broken(&history);
    broken.extend(judgement.broken.iter().cloned());
    broken.extend(budget_violation(&judgement));
    broken.extend(chronicle.gap.then(|| "the watch of pods and budgets was interrupted".to_owned()));
    println!("\nSummary of the API server's audit log and a watch of all pods:");
    println!("  pods of the gang bound         {bound} of {SIZE}");
    println!("  pods evicted                   {evicted}");
    println!(
        "  fewest evictions possible      {fewest}   ({needed} GPUs were missing, no pod uses more than {largest})"
    );
    println!("  groups partially disrupted     {partial}");
    println!("  evictions without a plan       {}", promises::unplanned_count(&history));
    if let Some(worst) = judgement.worst.get(&budget()) {
        let Worst { healthy, desired } = worst;
        println!("  healthy pods of the service    never below {healthy}; its guaranteed budget requires {desired}");
    }
    if broken.is_empty() && bound == SIZE {
        println!("  Every promise was kept.");
        return true;
    }
    for promise in &broken {
        println!("  BROKEN: {promise}");
    }
    false
}

/// Returns namespace and name of the guaranteed budget.
fn budget() -> (String, String) {
    ("default".to_owned(), BUDGET.to_owned())
}

/// Returns a message if the service had fewer healthy pods than its budget requires at any time, by the watch of pods and budget.
fn budget_violation(judgement: &Judgement) -> Option<String> {
    match judgement.worst.get(&budget()) {
        Some(worst) if worst.healthy >= worst.desired => None,
        Some(Worst { healthy, desired }) => Some(format!("the service had {healthy} healthy pods of {desired}")),
        None => Some("the budget of the service was never counted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{budget, budget_violation, shorten};
    use crate::audit::budgets::{Judgement, Worst};

    #[test]
    fn a_budget_without_a_status_or_with_too_few_healthy_pods_is_reported() {
        let with = |worst: Option<Worst>| {
            let worst = worst.into_iter().map(|worst| (budget(), worst)).collect();
            budget_violation(&Judgement { worst, ..Judgement::default() })
        };
        assert_eq!(with(Some(Worst { healthy: 7, desired: 7 })), None);
        let few = with(Some(Worst { healthy: 6, desired: 7 }));
        assert_eq!(few.as_deref(), Some("the service had 6 healthy pods of 7"));
        assert_eq!(with(None).as_deref(), Some("the budget of the service was never counted"));
    }

    #[test]
    fn long_lists_are_cut_and_the_following_lines_are_kept() {
        let entries: String = (0..9).map(|index| format!("      Node: n{index}\n")).collect();
        let text = format!("Status:\n    Placements:\n{entries}    State: Completed\n");
        let lines = shorten(&text);
        assert_eq!(lines[7], "      Node: n5");
        assert_eq!(lines[8], "      ... and 3 lines more");
        assert_eq!(lines[9], "    State: Completed");
    }
}
