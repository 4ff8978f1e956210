//! `kubectl giveway plan`: shows what the planner decides for a preemptor, and changes nothing in the cluster.

use crate::answer::PlanAnswer;
use crate::args::{PlanArgs, Target};
use crate::connect::ClusterConnection;
use crate::decide::{self, DecisionOutcome};
use crate::error::CliError;
use crate::world::World;
use crate::{changes, critical, files, submit};
use giveway_planner::Strategy;

/// Runs `kubectl giveway plan`: decides for an existing preemptor or for manifests as the operator would, and prints the answer.
pub(crate) fn run(args: &PlanArgs, connection: &ClusterConnection) -> Result<(), CliError> {
    if let (true, Some(Target::Group(name))) = (args.critical, &args.preemptor) {
        return Err(CliError::CriticalGroup(name.clone()));
    }
    let (mut world, namespace) = World::of_flags(args.snapshot.as_deref(), &args.files, connection)?;
    world.configure_schedulers(&args.scheduler);
    let strategy = args.strategy;
    let mut answer = match &args.preemptor {
        Some(target) => {
            let preemptor = target.in_namespace(&namespace);
            if !world.has(&preemptor) {
                return Err(CliError::NoPreemptor { file: world.source, preemptor });
            }
            match args.critical {
                true => critical::plan(&world, preemptor.key())?,
                false => {
                    let outcome = decide::once(&world, &preemptor, strategy);
                    let answer = PlanAnswer::new(&world, &outcome, strategy.as_str());
                    PlanAnswer { changes: changes_of(&world, &outcome, args), ..answer }
                }
            }
        }
        None => {
            let files = files::read_texts(&args.files)?;
            let planned = of_manifests(&mut world, &files, &namespace, connection.namespace.as_deref(), strategy)?;
            let mut answer = planned.answer;
            // A later decision includes the effects of the earlier ones, which the world does not contain.
            if let [outcome] = planned.outcomes.as_slice() {
                answer.changes = changes_of(&world, outcome, args);
            }
            answer
        }
    };
    answer.notes.append(&mut world.notes);
    answer.print(args.output, args.explain)
}

/// The answer about manifests, and the decisions that it consists of.
pub(crate) struct ManifestPlan {
    /// The answer.
    pub(crate) answer: PlanAnswer,
    /// The decision for each preemptor that the manifests create.
    pub(crate) outcomes: Vec<DecisionOutcome>,
}

/// Plans for manifests as if they were submitted, and adds their objects to `world`. Each file is its name for messages, and its text.
/// Objects without a namespace get `namespace`; `flag` is the namespace of `-n`, if it is set.
///
/// # Errors
/// A manifest cannot be read, or is rejected as by admission.
pub(crate) fn of_manifests(
    world: &mut World,
    files: &[(String, String)],
    namespace: &str,
    flag: Option<&str>,
    strategy: Strategy,
) -> Result<ManifestPlan, CliError> {
    let submission = submit::submit(world, files, namespace, flag, None)?;
    let outcomes = decide::in_turn(world.clone(), submission.preemptors, strategy)?;
    let missing = submission.missing_groups.iter().map(|key| PlanAnswer::missing_group(key, strategy.as_str()));
    let decided = outcomes.iter().map(|outcome| PlanAnswer::new(world, outcome, strategy.as_str()));
    let mut answer = PlanAnswer::merge(decided.chain(missing).collect());
    answer.strategy = strategy.as_str();
    answer.notes.extend(submission.notes);
    Ok(ManifestPlan { answer, outcomes })
}

/// Returns sentences about changes that would make the preemptor schedulable, if `--explain` is set: finding them takes many decisions.
fn changes_of(world: &World, outcome: &DecisionOutcome, args: &PlanArgs) -> Vec<String> {
    if args.explain { changes::of(world, outcome, args.strategy) } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser;

    #[test]
    fn standard_input_cannot_be_the_manifests_and_the_snapshot() {
        for more in [&[][..], &["-f", "other.yaml"]] {
            let line = [&["kubectl-giveway", "plan", "-f", "-", "--snapshot", "-"], more].concat();
            let args = Args::try_parse_from(line).unwrap();
            let Command::Plan(flags) = &args.command else { panic!("{args:?}") };
            let error = run(flags, &args.connection).unwrap_err();
            let words = "the argument '--filename -' cannot be used with '--snapshot -': standard input can be read only once: \
                         save the manifests or the snapshot to a file, and name that file";
            assert_eq!((error.to_string().as_str(), error.exit_status()), (words, 2));
        }
    }
}
