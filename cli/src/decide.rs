//! Decisions for several preemptors, one after another as in the operator, each including the effects of the previous
//! ones.

use crate::error::CliError;
use crate::world::World;
use giveway_planner::{
    Context, Decision, ObjectKey, Placement, Preemptor, Reservation, Sparing, Strategy, plan, spared,
};
use std::cmp::Reverse;

/// A preemptor, and what the planner decided for it.
pub(crate) struct DecisionOutcome {
    /// The preemptor.
    pub(crate) preemptor: Preemptor,
    /// Its effective priority.
    pub(crate) priority: i32,
    /// The decision.
    pub(crate) decision: Decision,
    /// Units that a plan does not evict, with reasons.
    pub(crate) sparing: Sparing,
}

impl DecisionOutcome {
    /// Makes the planner's decision for a preemptor and the present objects of the cluster. It is [`Decision::Nothing`] for a group in
    /// a namespace whose groups are not served.
    fn new(world: &World, preemptor: &Preemptor, context: &Context) -> Self {
        let decision = match world.is_unserved(preemptor) {
            true => Decision::Nothing,
            false => plan(&world.cluster, preemptor, context),
        };
        let sparing = match &decision {
            Decision::Preempt(plan) => spared(&world.cluster, preemptor, context, plan),
            _ => Sparing::default(),
        };
        Self { preemptor: preemptor.clone(), priority: world.priority(preemptor), decision, sparing }
    }
}

/// Makes the planner's decision for one preemptor and the present objects of the cluster.
pub(crate) fn once(world: &World, preemptor: &Preemptor, strategy: Strategy) -> DecisionOutcome {
    DecisionOutcome::new(world, preemptor, &world.context(preemptor, strategy))
}

/// Returns the sort key of the order in which the operator decides for preemptors: the highest priority first, then the oldest, then by
/// name.
pub(crate) fn decision_order(world: &World, preemptor: &Preemptor) -> (Reverse<i32>, i64, Preemptor) {
    let created = match preemptor {
        Preemptor::Group(key) => world.cluster.group(key).and_then(|group| group.created),
        Preemptor::Pod(key) => world.cluster.pod(key).and_then(|pod| pod.created),
    };
    (Reverse(world.priority(preemptor)), created.unwrap_or(i64::MAX), preemptor.clone())
}

/// Makes decisions for all preemptors in the operator's order, and returns them. Pods that fit count as bound in the later decisions,
/// and the capacity of a plan as reserved. If not all members of a group fit, another decision is made for the rest.
pub(crate) fn in_turn(
    mut world: World,
    mut preemptors: Vec<Preemptor>,
    strategy: Strategy,
) -> Result<Vec<DecisionOutcome>, CliError> {
    preemptors.sort_by_cached_key(|preemptor| decision_order(&world, preemptor));
    let mut departing = Vec::new();
    let mut outcomes = Vec::new();
    for preemptor in preemptors {
        loop {
            let mut context = world.context(&preemptor, strategy);
            context.departing.extend(departing.iter().cloned());
            let outcome = DecisionOutcome::new(&world, &preemptor, &context);
            let mut again = false;
            match &outcome.decision {
                Decision::Fits { placements, left, .. } => {
                    bind(&mut world, placements)?;
                    again = *left > 0 && !placements.is_empty();
                }
                Decision::Preempt(plan) => {
                    departing.extend(plan.victims.iter().flat_map(|victim| &victim.pods).map(|pod| pod.uid.clone()));
                    for placement in &plan.placements {
                        let reservation = Reservation::Started(outcome.priority);
                        world.cluster.reserve(&placement.uid, &placement.node, reservation);
                    }
                }
                _ => {}
            }
            outcomes.push(outcome);
            if !again {
                break;
            }
        }
    }
    Ok(outcomes)
}

/// Binds the placed pods in `world`, so that later decisions count them.
fn bind(world: &mut World, placements: &[Placement]) -> Result<(), CliError> {
    for placement in placements {
        let key: &ObjectKey = &placement.pod;
        if let Some(mut pod) = world.pending.get(key).cloned() {
            if let Some(spec) = &mut pod.spec {
                spec.node_name = Some(placement.node.to_string());
                spec.scheduling_gates = None;
            }
            world.add_pod(pod)?;
        }
    }
    Ok(())
}
