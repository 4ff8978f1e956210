//! How many calls are made at the same time, in lanes that do not wait for each other.
//!
//! * Evictions. Each of them mostly waits: the API server lists the budgets anew for it, and a list is answered when the
//!   server has heard from etcd how far it is, up to a tenth of a second later. So there may be more of them.
//! * Plans. There are few, one call at a time for each, and everything else of a plan waits for them.
//! * Groups that are made for pods, and owners that are read for that: any tenant can ask for thousands of both.
//! * All other calls, among them the nominations of a large gang.
//!
//! In each lane calls are ordered by priority, then by age.

use super::lane::{Lane, Turn};
use crate::command::Command;

/// How many evictions there may be for each other call.
const EVICTIONS: usize = 3;
/// How many groups are made, or owners read, at the same time.
const GROUPS: usize = 4;

/// The lanes. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    evictions: Lane,
    plans: Lane,
    groups: Lane,
    others: Lane,
}

impl Lanes {
    /// Lanes for this many calls at the same time, evictions apart.
    pub(super) fn new(calls: usize) -> Self {
        let plans = (calls / 4).max(1);
        Self {
            evictions: Lane::new(calls.saturating_mul(EVICTIONS)),
            plans: Lane::new(plans),
            groups: Lane::new(GROUPS),
            others: Lane::new(calls.saturating_sub(plans).max(1)),
        }
    }

    /// Waits for a command's turn.
    pub(super) async fn turn(&self, command: &Command) -> Turn {
        let lane = match command {
            Command::Evict(_) => &self.evictions,
            Command::StorePlan { .. } | Command::WritePlan { .. } => &self.plans,
            Command::CreateGroup(_) | Command::ReadOwner(_) | Command::SetMinCount { .. } => &self.groups,
            _ => &self.others,
        };
        lane.take(command.priority()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use giveway_planner::model::ObjectKey;

    fn other() -> Command {
        Command::ReadPulse(ObjectKey::new("kube-system", "kube-scheduler"))
    }

    #[test]
    fn a_plan_is_written_although_all_other_turns_are_taken_and_their_number_is_bounded() {
        let lanes = Lanes::new(4);
        let turn = |command: &Command| lanes.turn(command).now_or_never();
        let taken: Vec<_> = std::iter::from_fn(|| turn(&other())).take(10).collect();
        assert_eq!(taken.len(), 3, "one of four is kept for plans");
        let plan = turn(&Command::WritePlan { plan: "p-1".to_owned(), priority: 0, status: Box::default() });
        assert!(plan.is_some());
        drop(taken);
        assert!(turn(&other()).is_some());
    }
}
