//! The state at rest: the promises of the end-to-end tests hold in the audit log, and no plan or pending preemptor is left that could
//! continue.

use crate::simulation::breakers::is_stopped_by_breaker;
use crate::simulation::excuses::Excuses;
use crate::simulation::object::{Kind, Pod, number, terminating, text};
use crate::simulation::owners::Bond;
use crate::simulation::process::model;
use crate::simulation::server::EPOCH;
use crate::simulation::world::World;
use giveway_crds::keys;
use giveway_operator::plans::Flights;
use giveway_operator::preemption::queue::Candidates;
use giveway_planner::{Context, Decision, Plan, Preemptor};
use giveway_tests::audit::{self, History, Promises};
use jiff::Timestamp;
use serde_json::Value;

/// Returns one message for each breach.
pub fn broken(world: &World, history: &History) -> Vec<String> {
    let excuses = Excuses::of(world, history);
    let breaches = Promises::new().breaches(history).into_iter().filter(|breach| !excuses.cover(&breach.kind));
    let mut broken: Vec<String> = breaches.map(|breach| breach.message).collect();
    broken.extend(something_to_do(world));
    broken.extend(halves(world));
    broken.extend(pods(world));
    broken.extend(plans(world));
    broken.extend(groups(world));
    broken
}

/// Liveness: returns a message for each pending preemptor for which the planner has a placement or a plan at rest.
fn something_to_do(world: &World) -> Vec<String> {
    let model = model(&world.server);
    let mut broken = Vec::new();
    for preemptor in Candidates::all(&model).preemptors(&model, &Flights::default(), &world.config.scheduler_names) {
        let context = Context { lingering: model.overdue().clone(), ..Context::default() };
        match giveway_planner::plan(&model.cluster, &preemptor, &context) {
            Decision::Fits { .. } | Decision::Preempt(_)
                if world.denials.hold_back(&preemptor.key().name, world.now) =>
            {
                broken.extend(unexplained(world, &preemptor))
            }
            Decision::Fits { .. } => broken.push(format!("{preemptor} is pending although it fits")),
            // kube-scheduler did not bind one of the members, or a pod of the same controller: no pod is evicted for it in the next hour,
            // on that node or, after a second one, on any node.
            Decision::Preempt(plan)
                if plan.placements.iter().any(|placement| is_of_refused_owner(world, &placement.pod.name))
                    || had_no_effect(world, &preemptor)
                    || is_stopped_by_breaker(world, &preemptor.key().name)
                    || is_kept_by_denial(world, &plan) =>
            {
                broken.extend(unexplained(world, &preemptor))
            }
            Decision::Preempt(plan) => {
                let victims: Vec<String> = plan.victims.iter().map(|unit| unit.key.to_string()).collect();
                broken.push(format!("{preemptor} is pending although {} could be evicted for it", victims.join(", ")));
            }
            Decision::Unschedulable(_) | Decision::Unknown(_) | Decision::WaitingForPods { .. } | Decision::Nothing => {
                broken.extend(unexplained(world, &preemptor))
            }
        }
    }
    broken
}

/// Returns true if kube-scheduler does not bind a pod of this pod's owner, or did not bind one before: the ban is about all pods of a
/// template, also about the replacement pods. A plan that evicts no pod learns it, too, and is not stored.
fn is_of_refused_owner(world: &World, pod: &str) -> bool {
    let Some(pod) = world.server.get(Kind::Pod, pod) else { return false };
    let (owner, scheduler) = (Pod(pod).owner(), &world.scheduler);
    scheduler.refused.contains(owner) || scheduler.unbound.values().any(|of| of == owner)
}

/// Returns true if pods were evicted for a preemptor and kube-scheduler did not bind it afterwards, for example because a pod on its
/// node does not terminate. No run is longer than the hour for which that counts.
fn had_no_effect(world: &World, preemptor: &Preemptor) -> bool {
    world.server.list(Kind::Preemption).any(|plan| {
        let of_it = text(plan, "/spec/preemptor/name") == preemptor.key().name.as_str();
        let message = text(plan, "/status/message");
        of_it && (message.contains("did not bind every ungated pod") || plan.pointer("/status/bans").is_some())
    })
}

/// Returns true if an eviction of the plan is denied, or was denied within the last ten minutes.
fn is_kept_by_denial(world: &World, plan: &Plan) -> bool {
    let mut victims = plan.victims.iter().flat_map(|unit| &unit.pods);
    victims.any(|pod| world.denials.keep(&pod.uid, &pod.key.name, world.now))
}

/// Returns true if the budget of an owner refuses the next eviction.
fn is_kept_by_budget(world: &World, owner: &str) -> bool {
    let budget = world.server.get(Kind::Budget, owner);
    budget.is_some_and(|budget| number(budget, "/status/disruptionsAllowed") == 0)
}

/// Returns a message for each gang that has been partially scheduled for longer than the time limit, unless a budget refuses the evictions.
fn halves(world: &World) -> Vec<String> {
    let denied = |group: &str| world.denials.split().any(|(owner, _)| owner == group);
    let kept = |group: &str| is_kept_by_budget(world, group) || denied(group);
    let left = world.halves.overdue(world.now).filter(|(group, _)| !kept(group));
    left.map(|(group, bound)| format!("PodGroup {group} is partially scheduled at rest: {bound} members are bound"))
        .collect()
}

/// Returns a message for a pending PodGroup without a condition that explains why.
fn unexplained(world: &World, preemptor: &Preemptor) -> Option<String> {
    let Preemptor::Group(key) = preemptor else { return None };
    let group = world.server.get(Kind::Group, &key.name)?;
    let conditions = group.pointer("/status/conditions").and_then(Value::as_array);
    let explained = conditions.into_iter().flatten().any(|condition| !text(condition, "/message").is_empty());
    (!explained).then(|| format!("{preemptor} is pending, and no condition tells why"))
}

fn pods(world: &World) -> Vec<String> {
    let mut broken = Vec::new();
    for pod in world.server.list(Kind::Pod) {
        let (view, name) = (Pod(pod), Pod(pod).name());
        if view.node().is_none() && view.nominated().is_some() {
            broken.push(format!("{name} is still nominated"));
        }
        if terminating(pod) {
            broken.push(format!("{name} is still terminating"));
        }
        let ungated = world.owners.iter().any(|it| it.name == view.owner() && !matches!(it.bond, Bond::Gang { .. }));
        if view.gated() && ungated {
            broken.push(format!("{name} has the scheduling gate without a gang"));
        }
    }
    broken
}

fn plans(world: &World) -> Vec<String> {
    let ended = |plan: &Value| matches!(text(plan, "/status/state"), "Completed" | "Cancelled" | "Failed" | "Observed");
    // A budget may refuse for ever the evictions of a PodGroup that is already partially disrupted.
    let refused = |plan: &Value| text(plan, "/status/message").contains(" was refused and is retried: ");
    let left = world.server.list(Kind::Preemption).filter(|plan| !ended(plan) && !refused(plan));
    left.map(|plan| format!("plan {} is still {:?}", text(plan, "/metadata/name"), text(plan, "/status/state")))
        .collect()
}

fn groups(world: &World) -> Vec<String> {
    let mut broken = Vec::new();
    for group in world.server.list(Kind::Group) {
        let name = text(group, "/metadata/name");
        let members: Vec<Pod<'_>> = world.server.list(Kind::Pod).map(|pod| Pod(pod)).collect();
        let own = members.into_iter().filter(|pod| pod.group() == Some(name));
        let (total, bound) =
            own.fold((0, 0), |(total, bound), pod| (total + 1, bound + i64::from(pod.node().is_some())));
        let finalizers = group.pointer("/metadata/finalizers").and_then(Value::as_array);
        let has_finalizer = finalizers.into_iter().flatten().any(|it| it == keys::FINALIZER_PROTECTION);
        if has_finalizer != (total > 0) && !terminating(group) {
            broken.push(format!("PodGroup {name} with {total} pods has a finalizer: {has_finalizer}"));
        }
        if terminating(group) && total == 0 {
            broken.push(format!("PodGroup {name} was deleted and still exists"));
        }
        let status = &group["status"];
        if matches!(text(status, "/preemption/state"), "Planned" | "Evicting" | "WaitingForVictims" | "Ungating") {
            broken.push(format!(
                "the status of PodGroup {name} has an unfinished plan: {}",
                text(status, "/preemption/state")
            ));
        }
        let counted = number(status, "/pods/scheduled");
        if counted != bound && total > 0 {
            broken.push(format!("PodGroup {name} has {bound} bound pods, and its status has {counted}"));
        }
    }
    broken
}

/// Returns the final state of the cluster, for the trace.
pub fn picture(world: &World) -> String {
    let pods_on = |node: Option<&str>| {
        let pods = world.server.list(Kind::Pod).map(|pod| Pod(pod)).filter(|pod| pod.node() == node);
        let texts = pods.map(|pod| {
            let terminating = if pod.live() { "" } else { ", terminating" };
            let gated = if pod.gated() { ", gated" } else { "" };
            let nominated = pod.nominated().filter(|_| node.is_none()).map(|node| format!(", to {node}"));
            let nominated = nominated.unwrap_or_default();
            format!("{} ({} CPUs, {}{terminating}{gated}{nominated})", pod.name(), pod.cpus(), pod.priority())
        });
        texts.collect::<Vec<_>>().join("  ")
    };
    let nodes = world.server.list(Kind::Node).map(|node| text(node, "/metadata/name"));
    let lines = nodes.map(|node| format!("{node}: {}\n", pods_on(Some(node))));
    lines.collect::<String>() + &format!("unbound: {}\n", pods_on(None))
}

/// Returns the history in the audit log. A pod that another user deleted within a minute after its eviction failed counts as preempted: no
/// pod of its PodGroup was left for the retry, or for the next leader.
pub fn history(world: &World) -> History {
    let mut history = audit::unanswered::history_of(&world.server.audit);
    for (uid, failed) in &world.thwarted {
        let Some(pod) = history.pods.get_mut(uid) else { continue };
        let failed = EPOCH * 1000 + *failed as i64;
        let soon = |at: Timestamp| (0..60_000).contains(&(at.as_millisecond() - failed));
        pod.preempted = pod.preempted.or(pod.removed.filter(|at| soon(*at)));
    }
    history
}
