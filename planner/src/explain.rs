//! Why there is no room, and why somebody has to go, as sentences with numbers.

use crate::feasibility::{Rank, Refusal};
use crate::kep5710;
use crate::model::{Budget, Cluster, ObjectKey, Pod, PodIndex, ResourceId, Unit};
use crate::placement::{Layout, fill};
use crate::plan::{Domain, UnitKind};
use crate::problem::Problem;
use crate::quantity;
use giveway_crds::policy::PreemptionPolicy;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Why a preemptor is unschedulable. `Display` is the sentence for a condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shortfall {
    /// Pods that have to be placed together.
    pub needed: usize,
    /// How many of them fit now.
    pub fit_now: usize,
    /// What those that do not fit are missing.
    pub missing: Vec<Missing>,
    /// How many nodes are out, and why, for reasons other than resources; the most frequent first.
    pub refusals: Vec<(usize, Refusal)>,
    /// How many nodes there are.
    pub nodes: usize,
    /// Whether no node that could be used is large enough for one of the pods, even when it is empty.
    pub too_small: bool,
    /// Priority of the preemptor.
    pub priority: i32,
    /// What preemption could do.
    pub help: Help,
    /// Places that could be made only by violating a budget that is guaranteed against this preemptor (KEP-3280).
    pub withheld: usize,
    /// Those budgets, by name.
    pub guaranteed: Box<[GuaranteedBudget]>,
    /// The domain that comes nearest, where a group must stay within one; the numbers are those of this domain.
    pub domain: Option<NearestDomain>,
}

/// The domain in which a group lacks least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearestDomain {
    /// The domain.
    pub domain: Domain,
}

/// A budget that is guaranteed against a preemptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuaranteedBudget {
    /// The budget; empty where its name is not to be told.
    pub key: ObjectKey,
    /// How many more of its pods may go now.
    pub allowed: usize,
    /// The priority from which on a preemptor may violate it.
    pub threshold: i32,
}

/// As in "budget web/api, which allows 1 more disruption to preemptors below 5000".
impl fmt::Display for GuaranteedBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, allowed, threshold } = self;
        let plural = if *allowed == 1 { "" } else { "s" };
        if key.name.is_empty() {
            f.write_str("a budget of another namespace")?;
        } else {
            write!(f, "budget {key}")?;
        }
        write!(f, ", which allows {allowed} more disruption{plural} to preemptors below {threshold}")
    }
}

/// A resource of which there is too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Name of the resource.
    pub resource: String,
    /// What the pods that do not fit ask for, in the scheduler's unit (`cpu` in thousandths).
    pub amount: i128,
    /// What evicting everybody of lower priority would free on nodes that can be used.
    pub freed: i128,
}

/// What preemption could do for a preemptor that does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Help {
    /// Its policy is `Never`.
    #[default]
    NotAllowed,
    /// Nobody has a lower priority.
    NobodyBelow,
    /// There are workloads of lower priority, and none of them may go now.
    NobodyMayGo,
    /// With everybody of lower priority gone, this many pods would fit.
    NotEnough(usize),
}

impl Shortfall {
    /// Explains why not enough members fit; `now` is how far the room goes as it is.
    pub(crate) fn of(problem: &Problem<'_>, now: &Layout<'_>) -> Self {
        let demand = problem.demand;
        let placed: BTreeSet<PodIndex> = now.placed.iter().map(|(pod, _)| *pod).collect();
        let short = demand.need.saturating_sub(placed.len());
        // The smallest of those without a place: what is missing at least.
        let in_order = problem.shapes.iter().rev().flat_map(|shape| shape.members.iter().map(move |m| (shape, *m)));
        let unplaced: Vec<_> = in_order.filter(|(_, member)| !placed.contains(member)).take(short).collect();
        let mut refusals: BTreeMap<Refusal, usize> = BTreeMap::new();
        let mut usable: BTreeSet<Rank> = BTreeSet::new();
        let example = unplaced.first().and_then(|(shape, member)| Some((shape, problem.cluster.pod_at(*member)?)));
        if let Some((shape, pod)) = example {
            for rank in 0..problem.nodes.len() {
                match shape.unsuitable[rank].clone().or_else(|| now.room.refuse(pod, rank)) {
                    Some(Refusal::Insufficient(_)) | None => drop(usable.insert(rank)),
                    Some(refusal) => *refusals.entry(refusal).or_default() += 1,
                }
            }
        }
        let large = |rank: &Rank| {
            example
                .is_some_and(|(_, pod)| pod.requests.iter().all(|(id, n)| problem.nodes.at(*rank).allocatable(id) >= n))
        };
        let too_small = !usable.is_empty() && !usable.iter().any(large);
        if !too_small {
            usable.retain(large);
        }
        let lacking = example.map(|(_, pod)| lacking(now, pod, &usable)).unwrap_or_default();
        let amount = |id: ResourceId| {
            let pods = unplaced.iter().filter_map(|(_, member)| problem.cluster.pod_at(*member));
            pods.map(|pod| pod.requests.get(id)).sum()
        };
        let help = help(problem);
        let (withheld, guaranteed) = withheld(problem, help);
        let mut refusals: Vec<(usize, Refusal)> = refusals.into_iter().map(|(refusal, n)| (n, refusal)).collect();
        refusals.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        Self {
            needed: demand.need,
            fit_now: placed.len().min(demand.need),
            missing: problem
                .cluster
                .in_order(lacking.into_iter().collect())
                .into_iter()
                .map(|id| Missing {
                    resource: problem.cluster.resource_name(id).to_owned(),
                    amount: amount(id),
                    freed: freed(problem, id, &usable),
                })
                .collect(),
            refusals,
            nodes: problem.nodes.len(),
            too_small,
            priority: demand.priority,
            help,
            withheld,
            guaranteed,
            domain: None,
        }
    }

    /// How many would fit with everybody gone who may go.
    pub(crate) fn fits_at_most(&self) -> usize {
        match self.help {
            Help::NotEnough(fit) => fit.max(self.fit_now),
            _ => self.fit_now,
        }
    }

    /// Whether guaranteed budgets are the reason: without them there would be a plan.
    pub fn is_for_budgets(&self) -> bool {
        self.withheld > 0
    }
}

/// The guaranteed budgets that stand between a preemptor and its places, and how many places those are.
fn withheld(problem: &Problem<'_>, help: Help) -> (usize, Box<[GuaranteedBudget]>) {
    let (units, need) = (&problem.potential.units, problem.demand.need);
    let budgets = problem.budgets.guaranteed(units);
    if budgets.is_empty() || help != Help::NotEnough(need) {
        return (0, Box::default());
    }
    let kept = kep5710::reach(problem, &problem.room_then(), &vec![true; units.len()]);
    let named = |(budget, allowed, threshold): (&Budget, usize, i32)| GuaranteedBudget {
        key: budget.key.clone(),
        allowed,
        threshold,
    };
    (need.saturating_sub(kept).max(1), budgets.into_iter().map(named).collect())
}

/// The resources of which there is too little: on the nodes that lack the fewest.
fn lacking(now: &Layout<'_>, pod: &Pod, usable: &BTreeSet<Rank>) -> BTreeSet<ResourceId> {
    let lacks: Vec<Vec<ResourceId>> = usable.iter().map(|rank| now.room.lacks(pod, *rank)).collect();
    let fewest = lacks.iter().map(Vec::len).filter(|count| *count > 0).min();
    lacks.into_iter().filter(|list| Some(list.len()) == fewest).flatten().collect()
}

fn freed(problem: &Problem<'_>, id: ResourceId, usable: &BTreeSet<Rank>) -> i128 {
    let pods = problem.potential.units.iter().flat_map(|unit| &unit.pods);
    let on_usable = |index: &&PodIndex| problem.now.rank_of(**index).is_some_and(|rank| usable.contains(&rank));
    let pods = pods.filter(on_usable).filter_map(|index| problem.cluster.pod_at(*index));
    pods.map(|pod| pod.requests.get(id)).sum()
}

fn help(problem: &Problem<'_>) -> Help {
    if problem.demand.policy == PreemptionPolicy::Never {
        return Help::NotAllowed;
    }
    if !problem.potential.units.is_empty() {
        let mut room = problem.room_then();
        problem.potential.units.iter().for_each(|unit| room.take(&unit.pods));
        return Help::NotEnough(fill(problem, &room).placed.len().min(problem.demand.need));
    }
    Help::of_nobody(problem.cluster, problem.demand.priority)
}

impl Help {
    /// When there are no units to evict.
    pub(crate) fn of_nobody(cluster: &Cluster, priority: i32) -> Self {
        if cluster.anybody_below(priority) { Self::NobodyMayGo } else { Self::NobodyBelow }
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} needed, {} fit now.", pods(self.needed), self.fit_now)?;
        if self.nodes == 0 {
            f.write_str(" There is no node.")?;
        }
        if !self.missing.is_empty() {
            write!(f, " Missing {}.", self.amounts(|missing| missing.amount, true))?;
        }
        if self.too_small {
            f.write_str(" No node offers as much as one pod asks for.")?;
        }
        if !self.refusals.is_empty() {
            let list: Vec<String> = self.refusals.iter().map(|(n, refusal)| format!("{n} {refusal}")).collect();
            write!(f, " {}.", list.join(", "))?;
        }
        self.write_help(f)?;
        match &self.domain {
            Some(nearest) => write!(f, " This is said of {}, which comes nearest.", nearest.domain),
            None => Ok(()),
        }
    }
}

impl Shortfall {
    fn write_help(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fit = match self.help {
            Help::NotAllowed => return f.write_str(" preemptionPolicy Never: nobody is evicted for it."),
            Help::NobodyBelow => return write!(f, " No workload has a priority below {}.", self.priority),
            Help::NobodyMayGo => {
                return write!(f, " No workload below priority {} may be evicted now.", self.priority);
            }
            Help::NotEnough(fit) => fit,
        };
        let nothing_freed = self.too_small || self.missing.iter().all(|missing| missing.freed == 0);
        if nothing_freed && self.is_for_budgets() {
            return self.write_budgets(f);
        }
        write!(f, " Evicting every workload below priority {} would ", self.priority)?;
        if nothing_freed {
            return f.write_str("not help.");
        }
        write!(f, "free {}", self.amounts(|missing| missing.freed, self.missing.len() > 1))?;
        if fit < self.needed && self.missing.iter().all(|missing| missing.freed >= missing.amount) {
            write!(f, ", but only {fit} would fit then")?;
        }
        f.write_str(".")?;
        self.write_budgets(f)
    }

    fn write_budgets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_for_budgets() {
            return Ok(());
        }
        let list: Vec<String> = self.guaranteed.iter().map(ToString::to_string).collect();
        write!(f, " {} of {} places would need pods of {}.", self.withheld, self.needed, list.join(", or of "))
    }

    fn amounts(&self, amount: impl Fn(&Missing) -> i128, named: bool) -> String {
        let text = |missing: &Missing| {
            let amount = quantity::format(&missing.resource, amount(missing));
            if named { format!("{amount} {}", missing.resource) } else { amount }
        };
        self.missing.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}

fn pods(count: usize) -> String {
    if count == 1 { "1 pod".to_owned() } else { format!("{count} pods") }
}

/// Why a unit was chosen; `needed` of its pods run on nodes of the placement.
pub(crate) fn why(unit: &Unit, preemptor: i32, needed: usize) -> String {
    let below = format!("Its priority {} is below {preemptor}", unit.priority);
    match unit.kind {
        UnitKind::Pod => format!("{below}, and its place is needed."),
        UnitKind::PodGroup => format!(
            "{below}, and the place of {needed} of its {} is needed; the group goes whole.",
            pods(unit.pods.len())
        ),
    }
}
