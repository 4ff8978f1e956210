//! `kubectl giveway capacity`: how many of the pods of manifests fit now, after terminating pods are removed, and with evictions.
//! Changes nothing in the cluster.

mod answer;
mod gang;

use crate::answer::PlanAnswer;
use crate::args::capacity::CapacityArgs;
use crate::connect::ClusterConnection;
use crate::decide::{self, DecisionOutcome};
use crate::error::CliError;
use crate::world::World;
use crate::{files, submit};
use answer::{CapacityAnswer, Fit, Limit};
use gang::PendingGang;
use giveway_planner::{Preemptor, Strategy};

/// Runs `kubectl giveway capacity`: finds how many of the pending pods fit now, after terminations and after evictions, and prints it.
pub(crate) fn run(args: &CapacityArgs, connection: &ClusterConnection) -> Result<(), CliError> {
    let (mut world, namespace) = World::of_flags(args.snapshot.as_deref(), &args.files, connection)?;
    world.configure_schedulers(&args.scheduler);
    let mut notes = std::mem::take(&mut world.notes);
    let members = args.members.map(|members| usize::try_from(members).unwrap_or(usize::MAX));
    let files = files::read_texts(&args.files)?;
    let submission = submit::submit(&mut world, &files, &namespace, connection.namespace.as_deref(), members)?;
    notes.extend(submission.notes);
    for group in &submission.missing_groups {
        notes.push(PlanAnswer::missing_group(group, Strategy::default().as_str()).message);
    }
    let answer = capacity(world, submission.preemptors, args.max_victims)?;
    CapacityAnswer { notes, ..answer }.print(args.output)
}

/// Returns how many pending pods of these preemptors fit now, after terminations and after evictions. `max_victims` is the limit of
/// evicted pods in `--max-victims`, if it is set.
fn capacity(world: World, preemptors: Vec<Preemptor>, max_victims: Option<usize>) -> Result<CapacityAnswer, CliError> {
    let mut answer = CapacityAnswer {
        preemptor: preemptors.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        priority: preemptors.iter().map(|preemptor| world.priority(preemptor)).max().unwrap_or_default(),
        members: preemptors.iter().map(|preemptor| pending(&world, preemptor)).sum(),
        ..CapacityAnswer::default()
    };
    match preemptors.as_slice() {
        [Preemptor::Group(key)] if !world.is_unserved(&preemptors[0]) => {
            let mut gang = PendingGang::new(world, key);
            answer.fill(max_victims, |limit| gang.largest(limit))?;
            if let Some(more) = gang.decide_one_more(answer.at_all.members)? {
                answer.explain(&gang.world, &more);
            }
        }
        _ => {
            let outcomes = decide::in_turn(world.clone(), preemptors, Strategy::default())?;
            answer.fill(max_victims, |limit| Ok(within(&outcomes, limit)))?;
            if let Some(more) = outcomes.iter().find(|outcome| Fit::of(&outcome.decision).is_none()) {
                answer.explain(&world, more);
            }
        }
    }
    Ok(answer)
}

/// Returns the number of pods of a preemptor that have no node: 1 for a single pod.
fn pending(world: &World, preemptor: &Preemptor) -> usize {
    match preemptor {
        Preemptor::Group(key) => world.pending_members(key),
        Preemptor::Pod(_) => 1,
    }
}

/// Adds up what the decisions place and evict, in their order, up to the first one with which the sum exceeds the limit. Decisions that
/// place no pod are skipped, as by the operator.
fn within(outcomes: &[DecisionOutcome], limit: Limit) -> Fit {
    let mut sum = Fit::default();
    for fit in outcomes.iter().filter_map(|outcome| Fit::of(&outcome.decision)) {
        let next = sum.plus(fit);
        if !limit.allows(&next) {
            break;
        }
        sum = next;
    }
    sum
}
