//! `kubectl giveway plan`.

use crate::answer::Answer;
use crate::args::{PlanArgs, Target};
use crate::connect::{Connection, block_on};
use crate::decide;
use crate::error::CliError;
use crate::world::World;
use crate::{critical, live, output, snapshot, submit};

/// Plans and prints.
pub(crate) fn run(args: &PlanArgs, connection: &Connection) -> Result<(), CliError> {
    if let (true, Some(Target::Group(name))) = (args.critical, &args.preemptor) {
        return Err(CliError::CriticalGroup(name.clone()));
    }
    let (objects, namespace) = match &args.snapshot {
        Some(file) => (snapshot::read(file)?, connection.namespace()),
        None => block_on(async {
            let api = connection.api().await?;
            Ok((live::read(&api).await?, api.namespace.clone()))
        })?,
    };
    let mut world = World::new(objects)?;
    let strategy = args.strategy;
    let mut answer = match &args.preemptor {
        Some(target) => {
            let preemptor = target.in_namespace(&namespace);
            if !world.has(&preemptor) {
                return Err(CliError::NoPreemptor { file: world.source, preemptor });
            }
            match args.critical {
                true => critical::plan(&world, preemptor.key(), &args.critical_flags.terms())?,
                false => Answer::new(&world, &decide::once(&world, &preemptor, strategy), strategy.as_str()),
            }
        }
        None => {
            let submission = submit::submit(&mut world, &args.files, &namespace, connection.namespace.as_deref())?;
            let outcomes = decide::in_turn(world.clone(), submission.preemptors, strategy)?;
            let missing = submission.missing_groups.iter().map(|key| Answer::missing_group(key, strategy.as_str()));
            let decided = outcomes.iter().map(|outcome| Answer::new(&world, outcome, strategy.as_str()));
            let mut answer = Answer::merge(decided.chain(missing).collect());
            answer.strategy = strategy.as_str();
            answer.notes.extend(submission.notes);
            answer
        }
    };
    answer.notes.append(&mut world.notes);
    output::print(&answer, args.output, args.explain)
}
