//! Decides for one preemptor: by answers that are kept where they suffice, else by a search on the nodes that matter.

use super::assembly::{decision, verified};
use super::domains;
use super::shortfall::shortfall;
use crate::api::{Context, Decision, Plan, Preemptor, Shortfall, Strategy, Unknown};
use crate::filters::{Nodes, Occupancy, Rank};
use crate::incremental::{self, Prospects, When};
use crate::model::{Cluster, PodIndex};
use crate::problem::{Demand, Effort, InFlight, Problem, placements};
use crate::search::{Found, fill, kep5710, least_cost, try_everything};
use giveway_crds::policy::PreemptionPolicy;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// A sentence lists no more of what is not known.
const MOST_UNKNOWN: usize = 8;

/// Decides for one preemptor. See the [crate] documentation for what it promises.
pub fn plan(cluster: &Cluster, preemptor: &Preemptor, context: &Context) -> Decision {
    let demand = match Demand::of(cluster, preemptor) {
        Ok(demand) => demand,
        Err(decision) => return decision,
    };
    match unknown(cluster, &demand) {
        Some(unknown) => without_eviction(cluster, demand, context, unknown),
        None => by_what_is_known(cluster, &demand, context),
    }
}

/// What the place of a member depends on and is not known; `None` when all of it is.
fn unknown(cluster: &Cluster, demand: &Demand) -> Option<Unknown> {
    let pods = || demand.members.iter().filter_map(|member| cluster.pod_at(*member));
    let why: BTreeSet<&String> = pods().flat_map(|pod| &pod.unknown).take(MOST_UNKNOWN).collect();
    let members = || pods().map(|pod| pod.key.clone()).collect();
    (!why.is_empty()).then(|| Unknown { members: members(), why: why.into_iter().cloned().collect() })
}

/// Members of which not all is known are placed where there is room by what is known; eviction may not help them.
fn without_eviction(cluster: &Cluster, demand: Demand, context: &Context, unknown: Unknown) -> Decision {
    let demand = Demand { policy: PreemptionPolicy::Never, ..demand };
    match by_what_is_known(cluster, &demand, context) {
        // The scheduler alone would not keep them within one domain.
        decision if demand.domains.is_some() => decision,
        Decision::Unschedulable(_) | Decision::Preempt(_) => Decision::Unknown(unknown),
        decision => decision,
    }
}

fn by_what_is_known(cluster: &Cluster, demand: &Demand, context: &Context) -> Decision {
    if demand.domains.is_none()
        && let Some(decision) = incremental::decide(cluster, demand, context, decision)
    {
        return decision;
    }
    let nodes = Nodes::new(cluster);
    let in_flight = InFlight::new(cluster, &nodes, demand, context);
    let prospects = Prospects::new(cluster, demand, &nodes, &in_flight);
    let question = Question {
        cluster,
        demand,
        context,
        nodes: &nodes,
        in_flight: &in_flight,
        now: Occupancy::new(cluster, &nodes, &demand.members, &in_flight.held),
        prospects: prospects.as_ref(),
        effort: Effort::of_decision(),
        flaw: RefCell::default(),
    };
    let answer = domains::decide(&question).unwrap_or_else(|| anywhere(&question));
    if let Some(prospects) = prospects {
        prospects.keep(cluster);
    }
    answer
}

/// What is asked, and what all the attempts to answer it have in common.
pub(super) struct Question<'q> {
    pub(super) cluster: &'q Cluster,
    pub(super) demand: &'q Demand,
    context: &'q Context,
    /// All nodes.
    pub(super) nodes: &'q Nodes<'q>,
    pub(super) in_flight: &'q InFlight,
    /// The cluster as it is.
    pub(super) now: Occupancy<'q>,
    /// How many members could fit on every node; `None` where all nodes are looked at.
    pub(super) prospects: Option<&'q Prospects>,
    pub(super) effort: Effort,
    /// What was wrong with a plan that was found and dropped.
    flaw: RefCell<Option<String>>,
}

/// Where the members could go with everybody gone who may go; the victims are those of a priority up to some.
const EVERYBODY: i32 = i32::MAX;

impl<'q> Question<'q> {
    /// The question as it is on some nodes.
    pub(super) fn on<'p>(&'p self, nodes: &'p Nodes<'p>) -> Problem<'p> {
        Problem::new(self.cluster, nodes, self.demand, self.context, self.in_flight, self.now.on(nodes), &self.effort)
    }

    /// Those of some nodes that matter; all of them where nothing is known.
    fn useful(&self, ranks: &[Rank], when: When) -> Vec<Rank> {
        self.prospects.map_or_else(|| ranks.to_vec(), |prospects| prospects.useful(ranks, when).0)
    }

    /// Whether it is possible at all that enough members fit on some nodes.
    pub(super) fn could_fit(&self, ranks: &[Rank], when: When) -> bool {
        self.prospects.is_none_or(|prospects| prospects.could_fit(ranks, when))
    }

    /// Members on some of these nodes, where enough fit as it is.
    pub(super) fn fit_now(&self, ranks: &[Rank]) -> Option<Decision> {
        if !self.could_fit(ranks, When::Now) {
            return None;
        }
        let nodes = Nodes::some(self.cluster, self.useful(ranks, When::Now));
        let problem = self.on(&nodes);
        let placed = enough(&problem, &problem.now)?;
        let left = self.demand.members.len() - placed.len();
        Some(Decision::Fits { placements: placements(self.cluster, &nodes, &placed), left, domain: None })
    }

    /// The same once those are gone who leave anyway.
    pub(super) fn fit_then(&self, ranks: &[Rank]) -> Option<Plan> {
        if !self.could_fit(ranks, When::Then) {
            return None;
        }
        let nodes = Nodes::some(self.cluster, self.useful(ranks, When::Then));
        let problem = self.on(&nodes);
        let room = problem.room_then();
        let placed = enough(&problem, &room)?;
        self.checked(&problem, room, Found::by_waiting(placed))
    }

    /// A plan with victims on some of these nodes. It is looked for among the units of the lowest priorities that could be
    /// enough, then among more of them: what violates no budget there has the lowest highest priority there is.
    pub(super) fn preempt(&self, ranks: &[Rank]) -> Option<Plan> {
        if !self.could_fit(ranks, When::Without(EVERYBODY)) {
            return None;
        }
        let mut tried = None;
        let mut best: Option<Plan> = None;
        for ceiling in self.ceilings(ranks) {
            if tried.replace(ceiling) == Some(ceiling) || (best.is_some() && self.effort.spent()) {
                continue;
            }
            let found = self.preempt_up_to(ranks, ceiling);
            if let Some(plan) = found
                && best.as_ref().is_none_or(|best| plan.cost < best.cost)
            {
                best = Some(plan);
            }
            if best.as_ref().is_some_and(|best| best.cost.budget_violations == 0) {
                break;
            }
        }
        best
    }

    /// Priorities, ascending: those up to which units have to go for as many members as needed to have a place, for some times
    /// as many, and everybody.
    fn ceilings(&self, ranks: &[Rank]) -> Vec<i32> {
        let Some(prospects) = self.prospects else { return vec![EVERYBODY] };
        let mut ceilings = prospects.ceilings(ranks, &[1, 2, 6]);
        ceilings.push(EVERYBODY);
        ceilings
    }

    fn preempt_up_to(&self, ranks: &[Rank], ceiling: i32) -> Option<Plan> {
        let nodes = Nodes::some(self.cluster, self.useful(ranks, When::Without(ceiling)));
        let mut problem = self.on(&nodes);
        problem.consider_victims(ceiling);
        let room = problem.room_then();
        let found = match self.context.strategy {
            Strategy::LeastCost => least_cost::search(&problem, &room),
            Strategy::Kep5710 => kep5710::search(&problem, &room),
        };
        self.checked(&problem, room, found?)
    }

    fn checked(&self, problem: &Problem<'_>, room: Occupancy<'_>, found: Found) -> Option<Plan> {
        verified(problem, room, found).map_err(|flaw| self.flaw.borrow_mut().replace(flaw)).ok()
    }

    /// Why there is no room on these nodes.
    pub(super) fn shortfall(&self, ranks: &[Rank]) -> Decision {
        let cut_short = self.effort.spent();
        // What is missing is told also when the search used up what it may look at.
        let effort = Effort::of_words();
        let (cluster, now) = (self.cluster, self.now.on(self.nodes));
        let mut problem = Problem::new(cluster, self.nodes, self.demand, self.context, self.in_flight, now, &effort);
        if ranks.len() < self.nodes.len() {
            problem.leave_out_all_but(ranks);
        }
        let now = fill(&problem, &problem.now);
        let nodes = Nodes::some(cluster, self.useful(ranks, When::Without(EVERYBODY)));
        let room = self.now.on(&nodes);
        let mut victims = Problem::new(cluster, &nodes, self.demand, self.context, self.in_flight, room, &effort);
        if self.demand.policy != PreemptionPolicy::Never {
            victims.consider_victims(EVERYBODY);
        }
        let flaw = self.flaw.borrow().as_deref().map(Into::into);
        Decision::Unschedulable(Shortfall { flaw, cut_short, ..shortfall(&problem, &now, &victims) })
    }
}

/// Members on nodes with room for enough of them: placed greedily, and where there is little to try, by trying everything.
fn enough(problem: &Problem<'_>, room: &Occupancy<'_>) -> Option<Vec<(PodIndex, Rank)>> {
    let placed = fill(problem, room).placed;
    if placed.len() >= problem.demand.need {
        return Some(placed);
    }
    try_everything(problem, room, problem.demand.need)
}

/// Decides for members that may be anywhere.
fn anywhere(question: &Question<'_>) -> Decision {
    let all: Vec<Rank> = (0..question.nodes.len()).collect();
    if let Some(decision) = question.fit_now(&all) {
        return decision;
    }
    if question.demand.policy == PreemptionPolicy::Never {
        return question.shortfall(&all);
    }
    match question.fit_then(&all).or_else(|| question.preempt(&all)) {
        Some(plan) => Decision::Preempt(Box::new(plan)),
        None => question.shortfall(&all),
    }
}
