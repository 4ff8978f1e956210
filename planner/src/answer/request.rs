//! A preemption request, and the attempts to satisfy it on some of the nodes: as they are, after the pods that are leaving anyway have
//! terminated, with victims; and the explanation if all fail.

use super::assembly::verified;
use super::shortfall::shortfall;
use crate::api::{Context, CostBound, Decision, Plan, Shortfall, Strategy};
use crate::filters::{Nodes, Occupancy, Rank};
use crate::index::{Prospects, When};
use crate::limits::CAREFUL_SHARE;
use crate::model::{Cluster, PodIndex};
use crate::problem::{Demand, Effort, Elsewhere, InFlight, Problem, placements};
use crate::search::{
    Found, count_classes, fill, fill_rest, first_fit, greedy_is_exact, kep5710, least_cost, try_everything,
};
use giveway_crds::policy::PreemptionPolicy;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// A request to find nodes for the members of a preemptor, and the data that all attempts to satisfy it share.
pub(super) struct PreemptionRequest<'q> {
    pub(super) cluster: &'q Cluster,
    pub(super) demand: &'q Demand,
    pub(super) context: &'q Context,
    /// All nodes.
    pub(super) nodes: &'q Nodes<'q>,
    pub(super) in_flight: &'q InFlight,
    /// The cluster as it is.
    pub(super) now: Occupancy<'q>,
    /// Upper bounds on the members that fit on every node; `None` if all nodes are evaluated.
    pub(super) prospects: Option<&'q Prospects>,
    pub(super) effort: Effort,
    /// Where victims fit instead.
    elsewhere: &'q Elsewhere<'q>,
    /// The effort for plain greedy placements.
    plain: Effort,
    /// How many classes the members have.
    kinds: usize,
    /// Why verification rejected a plan, if it rejected one.
    flaw: RefCell<Option<String>>,
}

/// The result of a search for victims on some nodes.
pub(super) struct Attempt {
    /// The plan that was found.
    pub(super) plan: Option<Plan>,
    /// What every plan for as many members costs at least; `None` if it is proven that there is no plan.
    pub(super) least: Option<CostBound>,
}

impl Attempt {
    /// Returns the plan, with the lower bound on the cost of every plan recorded in it; with the strategy `least-cost`, which searches for
    /// that bound, the explanation also says what is proven. `None` if no plan was found.
    pub(super) fn into_plan(self, context: &Context) -> Option<Plan> {
        let mut plan = self.plan?;
        plan.least = self.least.unwrap_or_default();
        if context.strategy == Strategy::LeastCost {
            plan.trace.push(plan.least.sentence(&plan.cost));
        }
        Some(plan)
    }
}

/// As a highest priority of victims: admits all units of lower priority than the preemptor's.
pub(super) const ALL_UNITS: i32 = i32::MAX;

impl<'q> PreemptionRequest<'q> {
    /// Creates the request of the members of `demand`: computes the occupancy of all nodes as it is now, and starts with the full effort of
    /// a decision.
    pub(super) fn new(
        cluster: &'q Cluster,
        demand: &'q Demand,
        context: &'q Context,
        nodes: &'q Nodes<'q>,
        in_flight: &'q InFlight,
        prospects: Option<&'q Prospects>,
        elsewhere: &'q Elsewhere<'q>,
    ) -> Self {
        let now = Occupancy::new(cluster, nodes, &demand.members, in_flight.reservations(cluster));
        let (effort, plain, flaw) = (Effort::of_decision(), Effort::of_plain_placement(), RefCell::default());
        let kinds = count_classes(cluster, demand);
        Self { cluster, demand, context, nodes, in_flight, now, prospects, effort, elsewhere, plain, kinds, flaw }
    }

    /// Returns true if the preemption policy permits evictions for the members.
    pub(super) fn preempts(&self) -> bool {
        self.demand.policy != PreemptionPolicy::Never
    }

    /// Returns true if a plan may be made that waits until pods that are leaving anyway have terminated, and reserves their capacity.
    pub(super) fn waits(&self) -> bool {
        self.preempts() || self.context.waits
    }

    /// Returns the preemption problem on `nodes`, before potential victims are collected; `nodes` are some of the nodes with these `ranks`
    /// (indexes in the list of nodes). If the members must be placed within one domain, `ranks` are all nodes of that domain.
    fn problem_on<'p>(&'p self, nodes: &'p Nodes<'p>, ranks: &[Rank], effort: &Effort) -> Problem<'p> {
        let occupancy = self.occupancy(nodes, ranks);
        let problem = Problem::new(self.cluster, nodes, self.demand, self.context, self.in_flight, occupancy, effort);
        Problem { elsewhere: Some(self.elsewhere), ..problem }
    }

    /// Returns the occupancy of `nodes` as it is now; `nodes` are some of the nodes with these `ranks` (indexes in the list of nodes). If
    /// the members must be placed within one domain, `ranks` are all nodes of that domain, and inter-pod constraints are evaluated as if a
    /// node selector restricted the members to it.
    fn occupancy<'p>(&'p self, nodes: &'p Nodes<'p>, ranks: &[Rank]) -> Occupancy<'p> {
        let occupancy = self.now.on(nodes);
        match (&self.demand.domains, ranks.first()) {
            (Some(domains), Some(first)) => {
                occupancy.within(&domains.key, self.nodes.place(*first), self.in_flight.reservations(self.cluster))
            }
            _ => occupancy,
        }
    }

    /// Places members of several classes, one after the other, each on the first of the nodes `ranks` (indexes in the list of nodes) where
    /// it fits: used if the careful placement finds nothing or would take too much effort. With `leaving`, the pods that are leaving these
    /// nodes count as terminated. Returns the members with the ranks of their nodes; `None` if fewer than the needed number fit, or if all
    /// members are of one class.
    fn first_fit(&self, ranks: &[Rank], leaving: bool) -> Option<Vec<(PodIndex, Rank)>> {
        if self.kinds < 2 {
            return None;
        }
        let nodes = Nodes::some(self.cluster, ranks.to_vec());
        let mut occupancy = self.occupancy(&nodes, ranks);
        if leaving {
            self.in_flight.leaving(self.cluster, &nodes).iter().for_each(|(pod, rank)| occupancy.remove(*pod, *rank));
        }
        let placed = first_fit(self.cluster, &nodes, self.demand, occupancy, &self.plain)?;
        Some(placed.into_iter().map(|(pod, rank)| (pod, nodes.place(rank))).collect())
    }

    /// Returns false if the careful placement on these nodes would take so much effort that little is left for the rest of the decision.
    fn can_place_carefully(&self, nodes: &Nodes<'_>) -> bool {
        self.kinds < 2 || self.kinds.saturating_mul(nodes.len()) <= self.effort.left() / CAREFUL_SHARE
    }

    /// Returns those of the nodes `ranks` (indexes in the list of nodes) on which a member could fit in the state `when`, by upper bounds;
    /// all of them if there are no upper bounds.
    fn useful(&self, ranks: &[Rank], when: When) -> Vec<Rank> {
        self.useful_and_whether_all(ranks, when).0
    }

    /// Returns the nodes of [`Self::useful`], and true if no other node matters for the choice of victims.
    fn useful_and_whether_all(&self, ranks: &[Rank], when: When) -> (Vec<Rank>, bool) {
        let around = |ranks: &[Rank]| self.now.affinity_and_domains(&self.demand.members, ranks);
        let Some(prospects) = self.prospects else { return (ranks.to_vec(), true) };
        let (useful, all) = prospects.promising_nodes(ranks, when, around);
        // Inter-pod constraints can refer to victims on nodes where no member fits.
        let all = all && (useful.len() == ranks.len() || !self.now.has_inter_pod_constraints());
        (useful, all)
    }

    /// Returns false if upper bounds show that not enough members fit on the nodes `ranks` (indexes in the list of nodes) in the state
    /// `when`; otherwise true, also if there are no upper bounds.
    pub(super) fn could_fit(&self, ranks: &[Rank], when: When) -> bool {
        self.prospects.is_none_or(|prospects| prospects.could_fit(ranks, when))
    }

    /// Returns the decision that enough members fit on some of the nodes `ranks` (indexes in the list of nodes) without evictions, with
    /// their placements; `None` if not enough fit.
    pub(super) fn fit_now(&self, ranks: &[Rank]) -> Option<Decision> {
        if !self.could_fit(ranks, When::Now) {
            return None;
        }
        let nodes = Nodes::some(self.cluster, self.useful(ranks, When::Now));
        let careful = self.can_place_carefully(&nodes).then(|| {
            let problem = self.problem_on(&nodes, ranks, &self.effort);
            let everywhere = |(pod, rank): (PodIndex, Rank)| (pod, nodes.place(rank));
            Some(place_needed(&problem, &problem.now)?.into_iter().map(everywhere).collect())
        });
        let placed: Vec<(PodIndex, Rank)> = careful.flatten().or_else(|| self.first_fit(ranks, false))?;
        let left = self.demand.members.len() - placed.len();
        Some(Decision::Fits { placements: placements(self.cluster, self.nodes, &placed), left, domain: None })
    }

    /// Returns a plan without victims on some of the nodes `ranks` (indexes in the list of nodes), if enough members fit there once the
    /// pods that are leaving anyway have terminated; otherwise `None`.
    pub(super) fn fit_then(&self, ranks: &[Rank]) -> Option<Plan> {
        if !self.could_fit(ranks, When::Then) {
            return None;
        }
        let nodes = Nodes::some(self.cluster, self.useful(ranks, When::Then));
        if self.can_place_carefully(&nodes) {
            let problem = self.problem_on(&nodes, ranks, &self.effort);
            let occupancy = problem.occupancy_after_terminations();
            if let Some(placed) = place_needed(&problem, &occupancy) {
                return self.checked(&problem, occupancy, Found::by_waiting(placed));
            }
        }
        if self.in_flight.leaving(self.cluster, self.nodes).is_empty() {
            return None;
        }
        let placed = self.first_fit(ranks, true)?;
        let places: BTreeSet<Rank> = placed.iter().map(|(_, rank)| *rank).collect();
        let nodes = Nodes::some(self.cluster, places.into_iter().collect());
        let problem = self.problem_on(&nodes, ranks, &Effort::of_explanation());
        let placed = placed.into_iter().filter_map(|(pod, rank)| Some((pod, nodes.rank_of_place(rank)?))).collect();
        self.checked(&problem, problem.occupancy_after_terminations(), Found::by_waiting(placed))
    }

    /// Searches a plan with victims on the nodes `ranks` (indexes in the list of nodes). Victims are searched among the units (single pods
    /// or whole groups) of the lowest priorities that could be enough, then among more of them: a plan of the first search without budget
    /// violations has the least possible highest priority. A plan that places more of the wanted members is preferred (design, section 4,
    /// step 4), then one of lower cost.
    pub(super) fn preempt(&self, ranks: &[Rank]) -> Attempt {
        if !self.could_fit(ranks, When::Without(ALL_UNITS)) {
            return Attempt { plan: None, least: None };
        }
        let mut tried = None;
        let mut best = Attempt { plan: None, least: Some(CostBound::default()) };
        let wanted = self.wanted(ranks);
        // Further members are placed on free capacity, and are not compared.
        let placed = |plan: &Plan| plan.placements.len().min(self.demand.wanted);
        let rank = |plan: &Plan| (Reverse(placed(plan)), plan.cost);
        for ceiling in self.ceilings(ranks, wanted) {
            if tried.replace(ceiling) == Some(ceiling) || (best.plan.is_some() && self.effort.spent()) {
                continue;
            }
            let found = self.preempt_up_to(ranks, ceiling);
            match (&best.plan, &found.plan) {
                (Some(known), Some(plan)) if rank(plan) >= rank(known) => {
                    // Nothing is cheaper than the later plan, which is not cheaper than the earlier one.
                    if placed(plan) == placed(known) {
                        best.least = best.least.max(found.least);
                    }
                }
                (Some(_), None) => {}
                _ => best = found,
            }
            let complete = |best: &Plan| best.placements.len() >= wanted && best.cost.budget_violations == 0;
            if best.plan.as_ref().is_some_and(complete) {
                break;
            }
        }
        best
    }

    /// Returns an upper bound on the members for which units (single pods or whole groups) may be evicted and that fit on the nodes `ranks`
    /// (indexes in the list of nodes) after all permitted evictions.
    pub(super) fn wanted(&self, ranks: &[Rank]) -> usize {
        let members = self.demand.wanted;
        let most = self.prospects.map(|prospects| prospects.at_most(ranks, When::Without(ALL_UNITS)));
        most.and_then(|most| usize::try_from(most).ok()).map_or(members, |most| most.min(members))
    }

    /// Returns the highest priorities of victims with which plans are searched one after the other on the nodes `ranks` (indexes in the
    /// list of nodes), in ascending order: the least priorities with which `wanted` members could fit, twice as many, and six times as
    /// many; and finally `ALL_UNITS`, all units (single pods or whole groups) of lower priority.
    fn ceilings(&self, ranks: &[Rank], wanted: usize) -> Vec<i32> {
        let Some(prospects) = self.prospects else { return vec![ALL_UNITS] };
        let mut ceilings = prospects.ceilings(ranks, wanted as u64, &[1, 2, 6]);
        ceilings.push(ALL_UNITS);
        ceilings
    }

    /// Searches a plan on the nodes `ranks` (indexes in the list of nodes) whose victims have at most the priority `ceiling`.
    fn preempt_up_to(&self, ranks: &[Rank], ceiling: i32) -> Attempt {
        let (useful, all) = self.useful_and_whether_all(ranks, When::Without(ceiling));
        let nodes = Nodes::some(self.cluster, useful);
        let mut problem = self.problem_on(&nodes, ranks, &self.effort);
        problem.consider_victims(ceiling);
        let occupancy = problem.occupancy_after_terminations();
        let found = match self.context.strategy {
            Strategy::LeastCost => least_cost::search(&problem, &occupancy),
            Strategy::Kep5710 => kep5710::search(&problem, &occupancy),
        };
        let Some(mut found) = found else {
            // Of members of one class, without guaranteed budgets, it is known how many fit after all evictions.
            let known = greedy_is_exact(&problem) && !problem.budgets.any_guaranteed() && !self.effort.spent();
            let least = (!(all && known && ceiling == ALL_UNITS)).then(CostBound::default);
            return Attempt { plan: None, least };
        };
        // Victims of a higher priority could avoid a budget violation, and nothing else.
        let holds = all && (ceiling == ALL_UNITS || found.cost.budget_violations == 0);
        let least = Some(if holds { found.least } else { CostBound::default() });
        found.placed = fill_rest(&problem, &occupancy, found.placed, &found.victims);
        Attempt { plan: self.checked(&problem, occupancy, found), least }
    }

    /// Returns the plan for a search result if it passes the verification; otherwise stores the reason in `flaw` and returns `None`.
    /// `occupancy` contains neither the evictions nor the placements of the result.
    fn checked(&self, problem: &Problem<'_>, occupancy: Occupancy<'_>, found: Found) -> Option<Plan> {
        verified(problem, occupancy, found).map_err(|flaw| self.flaw.borrow_mut().replace(flaw)).ok()
    }

    /// Returns the decision that the members are unschedulable, and why not enough of them fit on the nodes `ranks` (indexes in the list of
    /// nodes).
    pub(super) fn shortfall(&self, ranks: &[Rank]) -> Decision {
        let when = match (self.preempts(), self.waits()) {
            (true, _) => When::Without(ALL_UNITS),
            (false, true) => When::Then,
            (false, false) => When::Now,
        };
        // What an exhausted search did not find may exist, unless upper bounds exclude it.
        let cut_short = (self.effort.spent() || self.plain.exhausted_times() > 0) && self.could_fit(ranks, when);
        // The shortfall is explained even if the search has used up its effort.
        let effort = Effort::of_explanation();
        let mut problem = self.problem_on(self.nodes, ranks, &effort);
        if ranks.len() < self.nodes.len() {
            problem.restrict_to_nodes(ranks);
        }
        let now = fill(&problem, &problem.now);
        let nodes = Nodes::some(self.cluster, self.useful(ranks, When::Without(ALL_UNITS)));
        let mut victims = self.problem_on(&nodes, ranks, &effort);
        if self.preempts() {
            victims.consider_victims(ALL_UNITS);
        }
        let flaw = self.flaw.borrow().as_deref().map(Into::into);
        Decision::Unschedulable(Shortfall { flaw, cut_short, ..shortfall(&problem, &now, &victims) })
    }
}

/// Places at least the needed number of members in `occupancy` without evictions: greedily or, with few members and nodes, by trying every
/// node for every member. Returns them with the ranks (indexes in the list of nodes) of their nodes; `None` if no such placement is found.
fn place_needed(problem: &Problem<'_>, occupancy: &Occupancy<'_>) -> Option<Vec<(PodIndex, Rank)>> {
    let placed = fill(problem, occupancy).placed;
    if placed.len() >= problem.demand.need {
        return Some(placed);
    }
    try_everything(problem, occupancy, problem.demand.need)
}
