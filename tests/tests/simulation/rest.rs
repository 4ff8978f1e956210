//! What holds at rest: the oracle of the end-to-end tests on the audit log, nothing left behind, and nothing left to do.

use crate::excuses::excuse;
use crate::object::{Kind, Pod, terminating, text};
use crate::owners::Bond;
use crate::process::model;
use crate::server::time_of;
use crate::world::World;
use giveway_crds::keys;
use giveway_operator::half_bound::HalfBound;
use giveway_operator::ledger::Flights;
use giveway_operator::queue;
use giveway_planner::model::ObjectKey;
use giveway_planner::{Context, Decision, Preemptor};
use giveway_tests::audit::promises::{Helped, helped};
use giveway_tests::audit::{self, History, Promises, Removal};
use jiff::Timestamp;
use serde_json::Value;

/// What is not as it has to be, as a sentence each.
pub fn broken(world: &World, history: &History) -> Vec<String> {
    let excused = judged(world, history).into_iter().filter(|(_, excuse)| excuse.is_some());
    let promises = excused.fold(unknown(world), |all, (helped, _)| all.excuse_unbound(&helped.name, usize::MAX));
    let mut broken = protected(world, history, taken_down(world, history, promises)).broken(history);
    broken.extend(too_many(world, history));
    broken.extend(something_to_do(world));
    broken.extend(halves(world));
    broken.extend(pods(world));
    broken.extend(plans(world));
    broken.extend(groups(world));
    broken
}

/// Evictions for plans beyond the limit of a minute, unless they are those of one group that is larger. Ten seconds are for what
/// arrived late: an eviction counts from when the operator heard of it, or gave up waiting. Of a plan whose Preemption was deleted the
/// next leader knows nothing.
fn too_many(world: &World, history: &History) -> Option<String> {
    let most = world.config.evictions_per_minute_per_cluster? as usize;
    let units = history.plans.iter().flat_map(|plan| &plan.plan.victims);
    let largest = units.map(|unit| unit.pods.len()).max().unwrap_or(0).max(most);
    let mut times: Vec<i64> = Vec::new();
    let known = |plan: &String| world.deleted.iter().all(|deleted| deleted.name != *plan);
    let counts = |removal: &Removal| removal.plan.as_ref().is_some_and(known);
    times.extend(history.evicted().iter().filter(|removal| counts(removal)).map(|removal| removal.at.as_millisecond()));
    times.sort_unstable();
    let near = times.windows(largest + 1).find(|pair| pair[largest] - pair[0] < 50_000)?;
    Some(format!("more than {largest} evictions in a minute, where {most} are allowed: {near:?}"))
}

/// A group may be torn when nobody of the operator was there when the stock scheduler took a pod of it, and the pod was gone before
/// the next one looked: nothing in the cluster tells of it then. So it is with a plan that was carried out by nobody when an administrator
/// deleted its Preemption; one of which evictions were asked for and not answered by then goes on.
fn unknown(world: &World) -> Promises {
    let near = |at: u64| world.ended.iter().any(|ended| ended.abs_diff(at) < 60_000);
    let unknown = world.preempted.iter().filter(|(_, at)| near(*at));
    let promises = unknown.fold(Promises::new(), |promises, (group, at)| promises.excuse_torn_at(group, time_of(*at)));
    let deleted = world.deleted.iter().filter(|plan| near(plan.at));
    let groups = deleted.flat_map(|plan| plan.groups.iter().map(move |group| (group, plan)));
    let promises = groups
        .fold(promises, |promises, (group, plan)| promises.excuse_torn_between(group, plan.planned, time_of(plan.at)));
    let thwarted = |pods: &[String]| pods.iter().any(|pod| world.thwarted.contains_key(pod));
    let asked = world.deleted.iter().filter(|plan| plan.unheard || thwarted(&plan.pods));
    asked.fold(promises, |promises, plan| promises.excuse_on_its_way(&plan.name))
}

/// Everybody for whom others went, and what excuses those of whom it is not asked that they are bound in the end.
pub fn judged(world: &World, history: &History) -> Vec<(Helped, Option<String>)> {
    let helped = helped(history).into_iter();
    helped.map(|helped| (excuse(world, history, &helped), helped)).map(|(excuse, helped)| (helped, excuse)).collect()
}

/// Liveness: nobody waits whom a decision could help, by the planner's own word on the cluster as it is.
fn something_to_do(world: &World) -> Vec<String> {
    let model = model(&world.server);
    let (mut broken, unbound) = (Vec::new(), &world.scheduler.unbound);
    for preemptor in queue::preemptors(&model, &Flights::new(), &world.config.scheduler_names) {
        let context = Context { lingering: model.overdue().clone(), ..Context::default() };
        match giveway_planner::plan(&model.cluster, &preemptor, &context) {
            Decision::Fits { .. } => broken.push(format!("{preemptor} has room, and waits")),
            // The scheduler did not bind one of them, and nobody else goes for that in the next ten minutes.
            Decision::Preempt(plan)
                if plan.placements.iter().any(|it| unbound.contains(it.uid.as_str()))
                    || went_in_vain(world, &preemptor) =>
            {
                broken.extend(untold(world, &preemptor))
            }
            Decision::Preempt(plan) => {
                let victims: Vec<String> = plan.victims.iter().map(|unit| unit.key.to_string()).collect();
                broken.push(format!("{preemptor} waits, although {} may go for it", victims.join(", ")));
            }
            Decision::Unschedulable(_) | Decision::Unknown(_) | Decision::WaitingForPods { .. } | Decision::Nothing => {
                broken.extend(untold(world, &preemptor))
            }
        }
    }
    broken
}

/// Whether others went for it, and the scheduler did not bind it then for a reason of its own, such as a pod that hangs where it was to
/// go. (No run is longer than the ten minutes for which that counts.)
fn went_in_vain(world: &World, preemptor: &Preemptor) -> bool {
    world.server.list(Kind::Preemption).any(|plan| {
        let of_it = text(plan, "/spec/preemptor/name") == preemptor.key().name.as_str();
        of_it && text(plan, "/status/message").contains("did not bind every released pod")
    })
}

/// What went because gangs were bound by half goes without a plan. Such a gang may be torn where a budget lets some of it go only,
/// and where an eviction that was on its way for long arrives when the gang is whole again.
fn taken_down(world: &World, history: &History, promises: Promises) -> Promises {
    let evicted = history.evicted();
    let down: Vec<&&Removal> = evicted.iter().filter(|it| world.halves.may_go.contains_key(&it.uid)).collect();
    let promises = promises.allow_taken_down(down.len());
    down.into_iter().fold(promises, |promises, removal| {
        let group = &world.halves.may_go[&removal.uid];
        let late = world.halves.crossed.contains(&removal.uid)
            || world.thwarted.get(&removal.uid).is_some_and(|at| time_of(at + 15_000) >= removal.at);
        let promises = if late { promises.excuse_late(&removal.uid) } else { promises };
        let guarded = world.server.changes(Kind::Budget).iter().any(|budget| budget.name == *group);
        if late || guarded { promises.excuse_torn_at(group, removal.at) } else { promises }
    })
}

/// Whether the budget of an owner refuses the next eviction.
fn is_kept_by_budget(world: &World, owner: &str) -> bool {
    let budget = world.server.get(Kind::Budget, owner);
    budget.is_some_and(|budget| crate::object::number(budget, "/status/disruptionsAllowed") == 0)
}

/// Of whom somebody goes before the namespace is protected, or by the stock scheduler while it is, the others stay. What was on its
/// way then arrives.
fn protected(world: &World, history: &History, promises: Promises) -> Promises {
    let spans = || world.protected.iter().map(|(from, to)| (time_of(from.saturating_sub(20_000)), time_of(*to)));
    let removals =
        history.removals.iter().filter(|it| it.accepted && spans().any(|(from, to)| (from..=to).contains(&it.at)));
    let of = |removal: &Removal| Some((history.pods.get(&removal.uid)?.group.clone()?, removal.at));
    removals.filter_map(of).fold(promises, |promises, (group, at)| promises.excuse_torn_at(&group, at))
}

/// No gang is bound by half, but where a budget does not let it go.
fn halves(world: &World) -> Vec<String> {
    let model = model(&world.server);
    let groups = world.server.list(Kind::Group).map(|group| ObjectKey::new("default", text(group, "/metadata/name")));
    let half = groups.filter_map(|key| Some((HalfBound::of(&model, model.cluster.group(&key)?)?, key)));
    let left = half.filter(|(_, key)| !is_kept_by_budget(world, &key.name));
    left.map(|(half, key)| format!("{} of {} members of {} are bound at rest", half.bound, half.needed, key.name))
        .collect()
}

/// A group that waits says why.
fn untold(world: &World, preemptor: &Preemptor) -> Option<String> {
    let Preemptor::Group(key) = preemptor else { return None };
    let group = world.server.get(Kind::Group, &key.name)?;
    let conditions = group.pointer("/status/conditions").and_then(Value::as_array);
    let told = conditions.into_iter().flatten().any(|condition| !text(condition, "/message").is_empty());
    (!told).then(|| format!("{preemptor} waits and does not say why"))
}

fn pods(world: &World) -> Vec<String> {
    let mut broken = Vec::new();
    for pod in world.server.list(Kind::Pod) {
        let (view, name) = (Pod(pod), Pod(pod).name());
        if view.node().is_none() && view.nominated().is_some() {
            broken.push(format!("{name} is still nominated"));
        }
        if terminating(pod) {
            broken.push(format!("{name} still terminates"));
        }
        let ungated = world.owners.iter().any(|it| it.name == view.owner() && !matches!(it.bond, Bond::Gang { .. }));
        if view.gated() && ungated {
            broken.push(format!("{name} is held, without a gang"));
        }
    }
    broken
}

fn plans(world: &World) -> Vec<String> {
    let over = |plan: &Value| matches!(text(plan, "/status/state"), "Completed" | "Cancelled" | "Failed" | "Observed");
    let left = world.server.list(Kind::Preemption).filter(|plan| !over(plan));
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
        let protected = finalizers.into_iter().flatten().any(|it| it == keys::FINALIZER_PROTECTION);
        if protected != (total > 0) && !terminating(group) {
            broken.push(format!("group {name} of {total} pods has a finalizer: {protected}"));
        }
        if terminating(group) && total == 0 {
            broken.push(format!("group {name} is deleted, and still there"));
        }
        let status = &group["status"];
        if matches!(text(status, "/preemption/state"), "Planned" | "Evicting" | "WaitingForVictims" | "Releasing") {
            broken.push(format!("group {name} says of its plan: {}", text(status, "/preemption/state")));
        }
        let counted = crate::object::number(status, "/pods/scheduled");
        if counted != bound && total > 0 {
            broken.push(format!("group {name} has {bound} bound pods and says {counted}"));
        }
    }
    broken
}

/// The cluster as it is in the end, for the trace.
pub fn picture(world: &World) -> String {
    let place = |node: Option<&str>| {
        let pods = world.server.list(Kind::Pod).map(|pod| Pod(pod)).filter(|pod| pod.node() == node);
        let told = pods.map(|pod| {
            let word = if pod.live() { "" } else { ", going" };
            let held = if pod.gated() { ", held" } else { "" };
            let place = pod.nominated().filter(|_| node.is_none()).map(|node| format!(", to {node}"));
            format!("{} ({} CPUs, {}{word}{held}{})", pod.name(), pod.cpus(), pod.priority(), place.unwrap_or_default())
        });
        told.collect::<Vec<_>>().join("  ")
    };
    let nodes = world.server.list(Kind::Node).map(|node| text(node, "/metadata/name"));
    let lines = nodes.map(|node| format!("{node}: {}\n", place(Some(node))));
    lines.collect::<String>() + &format!("nowhere: {}\n", place(None))
}

/// What the audit log tells. A pod that its owner or somebody else deleted within a minute after its eviction was tried and
/// went wrong counts as preempted: nothing of its group was left for the next try, or for the next leader.
pub fn history(world: &World) -> History {
    let mut history = audit::unanswered::history_of(&world.server.audit);
    for (uid, tried) in &world.thwarted {
        let Some(pod) = history.pods.get_mut(uid) else { continue };
        let tried = crate::server::EPOCH * 1000 + *tried as i64;
        let soon = |at: Timestamp| (0..60_000).contains(&(at.as_millisecond() - tried));
        pod.preempted = pod.preempted.or(pod.removed.filter(|at| soon(*at)));
    }
    history
}
