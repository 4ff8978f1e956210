//! What the planner is asked, and what it answers.

use crate::cost::Cost;
use crate::demand::Demand;
use crate::domain::UnitIndex;
use crate::domains;
use crate::explain::{self, Shortfall};
use crate::feasibility::{Nodes, Rank, Room};
use crate::kep5710::{self, Found};
use crate::lean;
use crate::least_cost::{self, packing::try_everything};
use crate::model::{Cluster, ObjectKey, PodIndex};
use crate::overlay::Overlay;
use crate::placement::fill;
use crate::problem::Problem;
use giveway_crds::policy::PreemptionPolicy;
use smallvec::SmallVec;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};

/// Who needs room.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preemptor {
    /// The members of a group that are not bound yet.
    Group(ObjectKey),
    /// A single pod.
    Pod(ObjectKey),
}

impl Preemptor {
    /// Key of the group or pod.
    pub fn key(&self) -> &ObjectKey {
        match self {
            Self::Group(key) | Self::Pod(key) => key,
        }
    }
}

impl std::fmt::Display for Preemptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Group(key) => write!(f, "podgroup/{key}"),
            Self::Pod(key) => write!(f, "pod/{key}"),
        }
    }
}

/// A placement of a decision in flight. It holds its node against preemptors of equal or lower priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// UID of the pod.
    pub uid: SmolStr,
    /// The pod, which is in the model and not bound yet.
    pub pod: ObjectKey,
    /// The node that is held for it.
    pub node: SmolStr,
    /// Priority of the preemptor of that decision.
    pub priority: i32,
}

/// How a plan is searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Chooses victims and placement together; never worse than [`Strategy::Kep5710`].
    #[default]
    LeastCost,
    /// KEP-5710 step by step, with one placement.
    Kep5710,
}

impl Strategy {
    /// Every strategy, the default first.
    pub const ALL: [Self; 2] = [Self::LeastCost, Self::Kep5710];

    /// The name as it is written on the command line and in a stored plan.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LeastCost => "least-cost",
            Self::Kep5710 => "kep5710",
        }
    }

    /// Reads the name; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == text)
    }
}

/// What a decision has to respect besides the cluster itself.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// Placements of the decisions in flight.
    pub reservations: Vec<Reservation>,
    /// UIDs of the pods that decisions in flight evict: they are there now, and will be gone.
    pub departing: BTreeSet<SmolStr>,
    /// UIDs of terminating pods that a critical add-on cannot wait for: they have long to go yet, or are overdue.
    pub lingering: BTreeSet<SmolStr>,
    /// UIDs of pods that must not be victims, nor any unit they belong to.
    pub spared: BTreeSet<SmolStr>,
    /// How to search.
    pub strategy: Strategy,
}

/// What the planner decided.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Enough members fit now, and nobody has to go.
    Fits {
        /// Who goes where.
        placements: Vec<Placement>,
        /// Members without a place; they are the next preemptor.
        left: usize,
        /// The domain that the group is placed in, where it must stay within one.
        domain: Option<Domain>,
    },
    /// Enough members fit when others go first.
    Preempt(Box<Plan>),
    /// No room, and none to be made.
    Unschedulable(Shortfall),
    /// The gang has fewer pods than it needs.
    WaitingForPods {
        /// Members that are bound, or could be placed.
        live: usize,
        /// `minCount` of the gang.
        min_count: usize,
        /// Members beside them that wait and pay for less than the group's priority.
        below: usize,
    },
    /// There is nothing to place: no such group or pod, or no member that waits.
    Nothing,
}

/// A member and its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placement {
    /// The pod.
    pub pod: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
    /// Name of the node.
    pub node: SmolStr,
}

/// Who is placed where, who goes for it, and what that costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name of the strategy that found it.
    pub strategy: &'static str,
    /// The domain that the group is placed in, where it must stay within one.
    pub domain: Option<Domain>,
    /// Who goes where, by pod.
    pub placements: Vec<Placement>,
    /// Who is evicted, from the most to the least important. Empty when the pods of `awaited` leave anyway.
    pub victims: Vec<Victim>,
    /// Pods that are leaving anyway (terminating, or evicted by a decision in flight) and have to be gone first.
    pub awaited: Vec<ObjectKey>,
    /// What it costs.
    pub cost: Cost,
    /// How it was found, a sentence per step.
    pub trace: Vec<String>,
    /// What the members ask for and the planner does not know about; the scheduler has the last word.
    pub not_modeled: Vec<String>,
}

/// A domain of topology: the nodes with this value of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Domain {
    /// Key of the node label.
    pub key: SmolStr,
    /// Its value.
    pub value: SmolStr,
}

impl std::fmt::Display for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// What kind of unit a victim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnitKind {
    /// A pod on its own, also one of a group in mode `Pod`.
    Pod,
    /// A whole group in mode `PodGroup`.
    PodGroup,
}

impl UnitKind {
    /// The kind as Kubernetes writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::PodGroup => "PodGroup",
        }
    }
}

/// A unit that is evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// A single pod or a whole group.
    pub kind: UnitKind,
    /// Key of the pod or group.
    pub key: ObjectKey,
    /// Its effective priority.
    pub priority: i32,
    /// Every pod of it that is evicted, by name.
    pub pods: SmallVec<[VictimPod; 1]>,
    /// Whether evicting it violates a PodDisruptionBudget.
    pub violates_budget: bool,
    /// One sentence that says why it was chosen.
    pub why: SmolStr,
}

/// A pod that is evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VictimPod {
    /// The pod.
    pub key: ObjectKey,
    /// Its UID: only this pod is evicted.
    pub uid: SmolStr,
    /// The node it runs on.
    pub node: SmolStr,
}

/// Decides for one preemptor. See the [crate] documentation for what it promises.
pub fn plan(cluster: &Cluster, preemptor: &Preemptor, context: &Context) -> Decision {
    domains::plan(cluster, preemptor, context).unwrap_or_else(|| plan_anywhere(cluster, preemptor, context))
}

/// Decides for a preemptor whose pods may be anywhere.
pub(crate) fn plan_anywhere(cluster: &Cluster, preemptor: &Preemptor, context: &Context) -> Decision {
    let demand = match Demand::of(cluster, preemptor) {
        Ok(demand) => demand,
        Err(decision) => return decision,
    };
    lean::decide(cluster, &demand, context).unwrap_or_else(|| decide(cluster, &demand, context))
}

/// The general way to decide.
fn decide(cluster: &Cluster, demand: &Demand, context: &Context) -> Decision {
    let nodes = Nodes::new(cluster);
    let overlay = Overlay::new(cluster, &nodes, demand, context);
    let mut problem =
        Problem::new(cluster, &nodes, demand, context, &overlay, Room::new(cluster, &nodes, &demand.members));
    let now = fill(&problem, &problem.now);
    if now.placed.len() >= problem.demand.need {
        let left = problem.demand.members.len() - now.placed.len();
        return Decision::Fits { placements: placements(cluster, &nodes, &now.placed), left, domain: None };
    }
    // The placement is greedy; where there is little to try, everything is tried.
    if let Some(placed) = try_everything(&problem, &problem.now, problem.demand.need) {
        let left = problem.demand.members.len() - placed.len();
        return Decision::Fits { placements: placements(cluster, &nodes, &placed), left, domain: None };
    }
    if problem.demand.policy == PreemptionPolicy::Never {
        return Decision::Unschedulable(Shortfall::of(&problem, &now));
    }
    let room = problem.room_then();
    let then = Some(fill(&problem, &room).placed).filter(|placed| placed.len() >= problem.demand.need);
    let found = if let Some(placed) = then.or_else(|| try_everything(&problem, &room, problem.demand.need)) {
        Some(Found::by_waiting(placed))
    } else {
        problem.consider_victims(i32::MAX);
        match context.strategy {
            Strategy::LeastCost => least_cost::search(&problem, &room),
            Strategy::Kep5710 => kep5710::search(&problem, &room),
        }
    };
    match found {
        Some(found) => Decision::Preempt(Box::new(assemble(&problem, room, found))),
        None => Decision::Unschedulable(Shortfall::of(&problem, &now)),
    }
}

/// Placements in words, by pod.
pub(crate) fn placements(cluster: &Cluster, nodes: &Nodes<'_>, placed: &[(PodIndex, Rank)]) -> Vec<Placement> {
    let placement = |(index, rank): &(PodIndex, Rank)| {
        let pod = cluster.pod_at(*index)?;
        Some(Placement { pod: pod.key.clone(), uid: pod.uid.clone(), node: nodes.at(*rank).name.clone() })
    };
    let mut list: Vec<Placement> = placed.iter().filter_map(placement).collect();
    list.sort();
    list
}

/// The plan in words; `room` has nobody of it gone or placed.
pub(crate) fn assemble(problem: &Problem<'_>, mut room: Room<'_>, found: Found) -> Plan {
    let Found { placed, victims, cost, trace } = found;
    if !problem.leaving.is_empty() {
        victims.iter().for_each(|unit| room.take(&problem.potential.units[*unit].pods));
        placed.iter().for_each(|(pod, rank)| room.add(*pod, *rank));
    }
    let pods = victims.iter().flat_map(|unit| problem.potential.units[*unit].pods.iter().copied());
    let violating: BTreeSet<PodIndex> = problem.budgets.violating(problem.cluster, pods).into_iter().collect();
    let ranks: BTreeSet<Rank> = placed.iter().map(|(_, rank)| *rank).collect();
    let mut reasons = BTreeMap::new();
    let mut list = Vec::with_capacity(victims.len());
    for some in victims.chunks(AHEAD) {
        fetch(problem, some);
        list.extend(some.iter().map(|unit| victim(problem, *unit, &ranks, &violating, &mut reasons)));
    }
    let not_modeled = placed.iter().filter_map(|(index, _)| problem.cluster.pod_at(*index));
    let not_modeled: BTreeSet<String> =
        not_modeled.flat_map(|pod| problem.cluster.not_modeled(pod)).map(str::to_owned).collect();
    Plan {
        strategy: problem.context.strategy.as_str(),
        domain: None,
        placements: placements(problem.cluster, problem.nodes, &placed),
        victims: list,
        awaited: awaited(problem, &mut room, &placed, &ranks),
        cost,
        trace,
        not_modeled: not_modeled.into_iter().collect(),
    }
}

/// So many victims are fetched from memory at once.
const AHEAD: usize = 64;

/// Reads a little of every pod of these units. Sharing a UID waits for its memory, one after the other; here the waits
/// overlap, which saves a fifth of the time that it takes to write a plan with tens of thousands of victims.
fn fetch(problem: &Problem<'_>, units: &[UnitIndex]) {
    let pods = units.iter().flat_map(|unit| problem.potential.units[*unit].pods.iter());
    let bytes = pods.filter_map(|pod| problem.cluster.pod_at(*pod)?.uid.bytes().next());
    std::hint::black_box(bytes.fold(0, |seen, byte| seen ^ byte));
}

/// The pods that leave anyway and without whose leaving the members would not fit.
fn awaited(
    problem: &Problem<'_>,
    room: &mut Room<'_>,
    placed: &[(PodIndex, Rank)],
    ranks: &BTreeSet<Rank>,
) -> Vec<ObjectKey> {
    let (mut list, anywhere) = (Vec::new(), room.wide());
    for (index, rank) in problem.leaving.iter().filter(|(_, rank)| anywhere || ranks.contains(rank)) {
        room.add(*index, *rank);
        if !room.holds(placed, |other| other == *rank) {
            room.remove(*index, *rank);
            list.extend(problem.cluster.pod_at(*index).map(|pod| pod.key.clone()));
        }
    }
    list.sort();
    list
}

/// A unit in words. `reasons` are those of single pods by priority: they are the same for many.
fn victim(
    problem: &Problem<'_>,
    unit: usize,
    ranks: &BTreeSet<Rank>,
    violating: &BTreeSet<PodIndex>,
    reasons: &mut BTreeMap<i32, SmolStr>,
) -> Victim {
    let (unit, preemptor) = (&problem.potential.units[unit], problem.demand.priority);
    let pod = |index: &PodIndex| {
        let pod = problem.cluster.pod_at(*index)?;
        Some(VictimPod { key: pod.key.clone(), uid: pod.uid.clone(), node: pod.node.clone()? })
    };
    let needed = |index: &&PodIndex| {
        let node = problem.cluster.node_index_of(**index).and_then(|node| problem.nodes.rank(node));
        node.is_some_and(|rank| ranks.contains(&rank))
    };
    Victim {
        kind: unit.kind,
        key: unit.key.clone(),
        priority: unit.priority,
        pods: unit.pods.iter().filter_map(pod).collect(),
        violates_budget: !violating.is_empty() && unit.pods.iter().any(|pod| violating.contains(pod)),
        why: match unit.kind {
            UnitKind::Pod => {
                reasons.entry(unit.priority).or_insert_with(|| explain::why(unit, preemptor, 1).into()).clone()
            }
            UnitKind::PodGroup => explain::why(unit, preemptor, unit.pods.iter().filter(needed).count()).into(),
        },
    }
}
