//! How many disruptions of its budgets a plan leaves to plans of higher priority.
//!
//! A plan does not count the victims of plans of lower priority that have not been evicted, because it takes precedence over them. So before
//! its first eviction a plan must leave the plans of strictly higher priority the disruptions that they need: otherwise it would use up a
//! budget on which one of them relies, perhaps after that one has evicted other pods. After its first eviction it is not cancelled for that,
//! because then its own evictions would be unnecessary.

use super::{Flight, Flights, current};
use crate::model::Model;
use giveway_crds::plan::PlanState;
use giveway_planner::model::{Budget, ObjectKey, Pod};
use giveway_planner::{Preemptor, SmolStr};
use std::collections::{BTreeMap, BTreeSet};

impl Flights {
    /// Returns how many healthy pods plans of strictly higher priority evict from each budget that can refuse an eviction of this
    /// preemptor's plan. The victims of this plan do not count. The result is empty unless the next eviction of this plan is its first one.
    ///
    /// It visits only the pods of these budgets and the plans that evict some of them.
    pub fn claimed_by_higher_plans(&self, preemptor: &Preemptor, model: &Model) -> BTreeMap<ObjectKey, usize> {
        let mut claimed = BTreeMap::new();
        let Some(flight) = self.all.get(preemptor).filter(|flight| flight.is_before_first_eviction()) else {
            return claimed;
        };
        if self.count_with_victims(flight.priority.saturating_add(1)) == 0 {
            return claimed;
        }
        let (cluster, units) = (&model.cluster, flight.refusable_units(model));
        let victims = flight.victims.iter().filter(|victim| units.contains(&victim.unit));
        let pods = victims.filter_map(|victim| current(cluster, &victim.pod, &victim.uid));
        let budgets: BTreeMap<&ObjectKey, &Budget> =
            pods.flat_map(|pod| cluster.budgets_of(pod)).map(|budget| (&budget.key, budget)).collect();
        let own: BTreeSet<&SmolStr> = flight.victims.iter().map(|victim| &victim.uid).collect();
        let healthy = budgets
            .into_values()
            .flat_map(|budget| cluster.healthy_under(budget).map(move |pod| (budget, pod)))
            .filter(|(_, pod)| !own.contains(&pod.uid))
            .collect::<Vec<(&Budget, &Pod)>>();
        let plans = healthy.iter().flat_map(|(_, pod)| self.with_pod(&pod.uid));
        let higher = plans.filter(|other| other.priority > flight.priority);
        let higher: BTreeMap<&Preemptor, &Flight> = higher.map(|other| (&other.preemptor, other)).collect();
        let evicted: BTreeSet<&SmolStr> =
            higher.into_values().flat_map(|other| other.departing_for(flight.priority)).collect();
        for (budget, _) in healthy.iter().filter(|(_, pod)| evicted.contains(&pod.uid)) {
            *claimed.entry(budget.key.clone()).or_default() += 1;
        }
        claimed
    }
}

impl Flight {
    /// Returns true if the plan is in state `Evicting`, is not ending, and has not requested an eviction yet.
    fn is_before_first_eviction(&self) -> bool {
        self.plan.state == PlanState::Evicting && self.ending.is_none() && !self.may_have_evicted()
    }
}
