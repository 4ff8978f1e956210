//! What metrics and a dump of the state show of a departure.

use super::Departures;
use super::departure::Departure;
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_planner::model::ObjectKey;

/// What is shown of a departure.
#[derive(Clone, Debug)]
pub struct DepartureView<'a> {
    /// Its stored form.
    pub plan: &'a StoredPlan,
    /// The PodGroup whose pods it evicts.
    pub group: &'a ObjectKey,
    /// How far it is: the state that a plan would have.
    pub stage: PlanState,
    /// Number of its pods.
    pub pods: usize,
    /// Number of accepted evictions.
    pub evicted: usize,
    /// Number of pods whose last eviction was refused or rejected. It is retried.
    pub refused: usize,
    /// Why the last eviction was refused or rejected.
    pub refusal: Option<String>,
}

impl Departure {
    /// Returns what the dump shows of this departure (evictions of a disrupted PodGroup).
    fn view(&self) -> DepartureView<'_> {
        let pods = self.members.len();
        let evicted = self.members.values().filter(|member| member.accepted).count();
        let stage = match self.stored {
            false => PlanState::Planned,
            true if evicted == pods => PlanState::WaitingForVictims,
            true => PlanState::Evicting,
        };
        DepartureView {
            plan: &self.plan,
            group: &self.group,
            stage,
            pods,
            evicted,
            refused: self.members.values().filter(|member| member.refused).count(),
            refusal: self.refusal.as_ref().map(ToString::to_string),
        }
    }
}

impl Departures {
    /// Returns what the dump shows of each departure in progress (evictions of a disrupted PodGroup).
    pub fn views(&self) -> impl Iterator<Item = DepartureView<'_>> {
        self.all.values().map(Departure::view)
    }
}
