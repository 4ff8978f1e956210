//! What the planner decides for the current state, and what would change it.

use super::addon;
use crate::answer::PlanAnswer;
use crate::world::World;
use crate::{changes, critical, decide};
use giveway_planner::{Decision, Preemptor, Strategy};

/// The decision for the current state.
#[derive(Debug, Default)]
pub(crate) struct CurrentDecision {
    /// The answer; `None` if the target has no pending pods, a plan is in progress, or the user may not see what the planner needs.
    pub(crate) answer: Option<PlanAnswer>,
    /// Changes that would change the decision, as sentences.
    pub(crate) changes: Vec<String>,
}

/// Returns what the operator decides for if the user asks about `target`: the group of a pod, or else the group or pod itself.
pub(crate) fn preemptor(world: &World, target: &Preemptor) -> Preemptor {
    if let Preemptor::Pod(key) = target
        && let Some(pod) = world.cluster.pod(key)
        && let Some(group) = world.cluster.group_of(pod)
    {
        return Preemptor::Group(group.key.clone());
    }
    target.clone()
}

/// Decides for `target`, a group or pod, as the operator would now. The decision is empty while a plan is in progress, if the target
/// does not exist, or if the user may not see what the planner needs.
pub(crate) fn decide(world: &World, target: &Preemptor) -> CurrentDecision {
    let mut current = CurrentDecision::default();
    let preemptor = preemptor(world, target);
    let in_flight = world.last_plan(&preemptor).is_some_and(|plan| plan.state.in_flight());
    if world.blind || in_flight || !world.has(&preemptor) {
        return current;
    }
    if let Some(pod) = addon::of(world, target) {
        current.answer = (!pod.bound() && pod.live()).then(|| critical::decide(world, pod));
        return current;
    }
    let strategy = Strategy::default();
    let outcome = decide::once(world, &preemptor, strategy);
    if outcome.decision != Decision::Nothing {
        current.changes = changes::of(world, &outcome, strategy);
        current.answer = Some(PlanAnswer::new(world, &outcome, strategy.as_str()));
    }
    current
}
