//! Explains from the sums over all nodes why not enough members fit.

use super::CachedDecision;
use crate::api::{Decision, Help, Missing, Shortfall};
use giveway_crds::policy::PreemptionPolicy;

impl CachedDecision<'_> {
    /// Explains from the cached capacities why not enough members fit. `None`, which leaves it to the general algorithm, if no node is
    /// large enough for a member, or if at most one member may be placed on a node.
    pub(super) fn shortfall(&self) -> Option<Decision> {
        let (demand, totals, scale) = (self.alike.demand, &self.capacities.totals, &self.capacities.scale);
        if (totals.usable > 0 && totals.large == 0) || scale.cap == 1 {
            return None;
        }
        let never = demand.policy == PreemptionPolicy::Never;
        let fit_now = usize::try_from(totals.now).unwrap_or(usize::MAX).min(demand.need);
        let short = (demand.need - fit_now) as i128;
        let fewest = totals.lacks.keys().map(|lacks| lacks.count_ones()).min();
        let lacking = totals.lacks.keys().filter(|lacks| Some(lacks.count_ones()) == fewest);
        let lacking = lacking.fold(0, |all, lacks| all | lacks);
        let missing = (0..scale.ids.len()).filter(|at| lacking & (1 << at) != 0).map(|at| Missing {
            resource: self.alike.cluster.resource_name(scale.ids[at]).to_owned(),
            amount: short * i128::from(scale.each[at]),
            freed: if never { 0 } else { totals.freed.get(at).copied().unwrap_or(0) },
        });
        let mut refusals: Vec<_> = totals.refusals.iter().map(|(refusal, nodes)| (*nodes, refusal.clone())).collect();
        refusals.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let help = if never {
            Help::without_preemption(demand.optional)
        } else if totals.movable > 0 {
            Help::NotEnough(usize::try_from(totals.most).unwrap_or(usize::MAX).min(demand.need))
        } else {
            Help::without_victims(self.alike.cluster, demand.priority)
        };
        Some(Decision::Unschedulable(Shortfall {
            needed: demand.need,
            fit_now,
            missing: missing.collect(),
            refusals,
            nodes: self.alike.nodes.len(),
            too_small: false,
            priority: demand.priority,
            help,
            // Not enough members fit even with all evictions: no budget is the reason.
            withheld: 0,
            guaranteed: Box::default(),
            protected: if never { 0 } else { self.alike.cluster.protected_below(demand.priority) },
            critical: if never { 0 } else { self.alike.cluster.critical_below(demand.priority) },
            barred: if never { 0 } else { self.alike.cluster.barred_below(demand.priority) },
            domain: None,
            cut_short: false,
            flaw: None,
            unknown: None,
        }))
    }
}
