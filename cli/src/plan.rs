//! `kubectl giveway plan`: shows what the planner decides for a preemptor, and changes nothing in the cluster.

use crate::answer::PlanAnswer;
use crate::args::{PlanArgs, Target};
use crate::connect::{ClusterConnection, block_on};
use crate::decide;
use crate::error::CliError;
use crate::world::World;
use crate::{critical, submit};
use std::path::Path;

/// Runs the planner and prints the answer.
pub(crate) fn run(args: &PlanArgs, connection: &ClusterConnection) -> Result<(), CliError> {
    if let (true, Some(Target::Group(name))) = (args.critical, &args.preemptor) {
        return Err(CliError::CriticalGroup(name.clone()));
    }
    if args.snapshot.as_deref() == Some(Path::new("-")) && args.files.iter().any(|file| file == "-") {
        return Err(CliError::StandardInputTwice);
    }
    let (mut world, namespace) = match &args.snapshot {
        Some(file) => (World::of_file(file)?, connection.namespace()),
        None => block_on(async {
            let api = connection.api().await?;
            Ok((World::of_cluster(&api, |_| true).await?, api.namespace.clone()))
        })?,
    };
    let strategy = args.strategy;
    let mut answer = match &args.preemptor {
        Some(target) => {
            let preemptor = target.in_namespace(&namespace);
            if !world.has(&preemptor) {
                return Err(CliError::NoPreemptor { file: world.source, preemptor });
            }
            match args.critical {
                true => critical::plan(&world, preemptor.key())?,
                false => PlanAnswer::new(&world, &decide::once(&world, &preemptor, strategy), strategy.as_str()),
            }
        }
        None => {
            let submission = submit::submit(&mut world, &args.files, &namespace, connection.namespace.as_deref())?;
            let outcomes = decide::in_turn(world.clone(), submission.preemptors, strategy)?;
            let missing = submission.missing_groups.iter().map(|key| PlanAnswer::missing_group(key, strategy.as_str()));
            let decided = outcomes.iter().map(|outcome| PlanAnswer::new(&world, outcome, strategy.as_str()));
            let mut answer = PlanAnswer::merge(decided.chain(missing).collect());
            answer.strategy = strategy.as_str();
            answer.notes.extend(submission.notes);
            answer
        }
    };
    answer.notes.append(&mut world.notes);
    answer.print(args.output, args.explain)
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
