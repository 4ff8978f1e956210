//! The victims of the add-on, and the checks of the audit log.

use super::timeline::Timeline;
use super::{HOLD_OFF, SLACK};
use crate::audit::{History, Promises, SCHEDULER, promises};
use crate::world::World;
use anyhow::Result;
use giveway_crds::plan::StoredPlan;
use giveway_crds::{critical, keys};
use giveway_planner::rescue::Step;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use std::collections::{BTreeMap, BTreeSet};

/// Returns all taints, by node.
pub(super) async fn taints(world: &World) -> Result<BTreeMap<String, Vec<Taint>>> {
    let nodes = Api::<Node>::all(world.client()).list(&ListParams::default()).await?;
    let of = |node: Node| (node.name_any(), node.spec.and_then(|spec| spec.taints).unwrap_or_default());
    Ok(nodes.items.into_iter().map(of).collect())
}

/// Prints the victims with their grace periods and budgets.
pub(super) fn print_victims(history: &History, plan: &StoredPlan) {
    let step = Step::of(plan.critical_addon.map_or(1, |addon| addon.step));
    println!("\nVictims, chosen in step {} ({}):", step.number(), step.means());
    for victim in &plan.victims {
        for pod in &victim.pods {
            let own = history.pods.get(&pod.uid).map_or(0, |record| record.grace);
            let grace = match given(history, &pod.uid) {
                Some(given) if given != own => format!("{own} s, shortened to {given} s"),
                _ => format!("{own} s"),
            };
            let budget = if victim.violates_budget { "a budget is violated" } else { "no budget is violated" };
            println!("  pod {:<12} priority {}, grace {grace}; {budget}", pod.name, victim.priority);
        }
    }
}

/// Returns the grace period with which a pod was evicted, in seconds.
fn given(history: &History, uid: &str) -> Option<i64> {
    let removal = history.evicted().into_iter().find(|removal| removal.uid == uid)?;
    Some(removal.grace.map_or_else(|| history.pods.get(uid).map_or(0, |pod| pod.grace), i64::from))
}

/// Prints a summary of the audit log. Returns true if every check passed.
pub(super) async fn prove(
    world: &World,
    timeline: &Timeline,
    plan: &StoredPlan,
    predicted: &BTreeSet<String>,
    before: &BTreeMap<String, Vec<Taint>>,
) -> Result<bool> {
    let history = world.audit().await;
    let mut broken = Promises::new().broken(&history);
    print_victims(&history, plan);

    let removals = history.evicted();
    let pods: BTreeSet<&String> = removals.iter().map(|removal| &removal.uid).collect();
    let names: BTreeSet<String> = removals.iter().map(|r| format!("{}/{}", r.pod.0, r.pod.1)).collect();
    let longest = removals.iter().filter_map(|removal| given(&history, &removal.uid)).max().unwrap_or(0);
    let (after, uid) = (taints(world).await?, plan.preemptor.uid.as_str());
    let ours = |taint: &&Taint| taint.key == keys::TAINT_CRITICAL && taint.value.as_deref() == Some(uid);
    let left = after.values().flatten().filter(ours).count();
    let binding = history.bindings.iter().find(|binding| binding.uid == uid && binding.user == SCHEDULER);
    let since = timeline.seconds("unschedulable", "bound").map(|seconds| seconds - HOLD_OFF.as_secs_f64());
    let limit = f64::from(i32::try_from(longest).unwrap_or(i32::MAX)) + SLACK;

    println!("\nSummary of the API server's audit log:");
    println!("  pods evicted                   {}, each once: {}", pods.len(), pods.len() == removals.len());
    println!("  as predicted                   {}", names == *predicted);
    println!("  evictions without a plan       {}", promises::unplanned_count(&history));
    println!("  groups partially disrupted     {}", promises::partial_disruption_count(&history));
    println!("  longest grace period           {longest} s; {} s is allowed", critical::LONGEST_GRACE);
    println!("  remaining taints of Giveway    {left}");
    println!("  foreign taints unchanged       {} of {}", foreign(before, &after), before.values().flatten().count());
    println!("  bound by kube-scheduler        {}", binding.map_or("nowhere", |binding| &binding.node));
    println!(
        "  from hold-off to bound         {}",
        since.map_or_else(
            || "never".to_owned(),
            |seconds| format!("{seconds:.1} s, of which the victims may take {longest} s")
        )
    );
    let checks = [
        (pods.len() == removals.len(), "a pod was evicted twice"),
        (
            !names.is_empty() && names == *predicted,
            "the victims differ from the prediction of `kubectl giveway plan --critical`",
        ),
        (longest <= critical::LONGEST_GRACE, "a grace period was longer than allowed"),
        (left == 0, "a taint was left behind"),
        (*before == after, "a foreign taint was changed"),
        (
            binding.is_some_and(|b| plan.placements.iter().any(|p| p.node == b.node)),
            "the add-on was not bound to the planned node",
        ),
        (
            since.is_some_and(|seconds| (0.0..=limit).contains(&seconds)),
            "the add-on was bound before the hold-off or too late",
        ),
    ];
    broken.extend(checks.into_iter().filter(|(passed, _)| !passed).map(|(_, what)| what.to_owned()));
    if broken.is_empty() {
        println!("  Every promise was kept.");
    }
    for promise in &broken {
        println!("  BROKEN: {promise}");
    }
    Ok(broken.is_empty())
}

/// Returns the number of earlier taints that are unchanged.
fn foreign(before: &BTreeMap<String, Vec<Taint>>, after: &BTreeMap<String, Vec<Taint>>) -> usize {
    let kept = |(node, taint): &(&String, &Taint)| after.get(*node).is_some_and(|taints| taints.contains(taint));
    before.iter().flat_map(|(node, taints)| taints.iter().map(move |taint| (node, taint))).filter(kept).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_foreign_taint_does_not_count_as_unchanged() {
        let taint = |value: &str| Taint {
            key: keys::TAINT_CRITICAL.to_owned(),
            value: Some(value.to_owned()),
            effect: "NoSchedule".to_owned(),
            time_added: None,
        };
        let nodes = |value: &str| BTreeMap::from([("a".to_owned(), vec![taint(value)]), ("b".to_owned(), Vec::new())]);
        assert_eq!(foreign(&nodes("true"), &nodes("true")), 1);
        assert_eq!(foreign(&nodes("true"), &nodes("uid")), 0);
        assert_eq!(foreign(&nodes("true"), &BTreeMap::new()), 0);
    }
}
