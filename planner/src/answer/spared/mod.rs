//! Explains which units are not evicted although their priority is below the preemptor's, and why: the counterpart of a plan's explanation.
//!
//! It is computed on request after the plan, from the same cluster, so that it adds no time to decisions. It names the units on the nodes
//! of the placement, which could have been victims, and counts the others. The effort depends on the pods of these nodes, not on the
//! size of the cluster.

mod protected;
mod reason;

use crate::api::{Context, Plan, Preemptor};
use crate::filters::{Nodes, Rank};
use crate::model::{Cluster, ObjectKey, PodIndex, Role, Unit, UnitKind, UnitRef};
use crate::problem::{Demand, InFlight, PotentialVictims, importance};
use giveway_crds::wording::{agree, counted, pods};
use protected::Protected;
use reason::Reasons;
use std::collections::BTreeSet;

/// A unit that is not evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bystander {
    /// A single pod or a whole group.
    pub kind: UnitKind,
    /// Key of the pod or group.
    pub key: ObjectKey,
    /// Its effective priority.
    pub priority: i32,
    /// One sentence that says why it is not evicted.
    pub why: String,
}

/// The units that a plan does not evict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sparing {
    /// The units of a priority below the preemptor's that have a pod on a node of the placement and are not victims, from the most to the
    /// least important. Pods that are leaving anyway are not included.
    pub units: Vec<Bystander>,
    /// The remaining units, counted: one sentence for those on other nodes, and one for those whose priority is not
    /// below the preemptor's. There is no sentence for a count of 0.
    pub others: Vec<String>,
}

/// A plan, and the request that it satisfies, with indexes of the model.
struct PlanContext<'s, 'a> {
    cluster: &'a Cluster,
    nodes: &'s Nodes<'a>,
    demand: &'s Demand,
    context: &'s Context,
    in_flight: &'s InFlight,
    plan: &'s Plan,
    /// The members and the ranks of their nodes.
    placed: Vec<(PodIndex, Rank)>,
    /// The ranks of the nodes of the placement.
    on: BTreeSet<Rank>,
}

impl PlanContext<'_, '_> {
    /// Returns the rank (index in the list of nodes) of the node to which a pod is bound, if members are placed on that node; otherwise
    /// `None`.
    fn rank_of(&self, pod: PodIndex) -> Option<Rank> {
        let rank = self.nodes.rank(self.cluster.row(pod).node?);
        rank.filter(|rank| self.on.contains(rank))
    }

    /// Returns true if a pod is terminating, or another decision in flight evicts it.
    fn leaves(&self, pod: PodIndex) -> bool {
        self.in_flight.leaves(pod, &self.cluster.row(pod))
    }
}

/// Returns the units (single pods or whole groups) of lower priority that the plan does not evict: those with a pod on a node of the
/// placement, each with the reason, and the number of others. `plan` must be the result of [`plan`](super::plan()) for the same arguments.
pub fn spared(cluster: &Cluster, preemptor: &Preemptor, context: &Context, plan: &Plan) -> Sparing {
    let Ok(demand) = Demand::of(cluster, preemptor, context) else { return Sparing::default() };
    let nodes = Nodes::new(cluster);
    let in_flight = InFlight::new(cluster, &demand, context);
    let rank = |node: &str| nodes.rank(cluster.node_index(node)?);
    let placements = plan.placements.iter();
    let placed: Vec<(PodIndex, Rank)> =
        placements.filter_map(|place| Some((cluster.pod_index(&place.pod)?, rank(&place.node)?))).collect();
    let on: BTreeSet<Rank> = placed.iter().map(|(_, rank)| *rank).collect();
    let left = plan.victims.iter().flat_map(|victim| &victim.pods).filter_map(|pod| rank(&pod.node));
    let looked_at: BTreeSet<Rank> = on.iter().copied().chain(left).collect();
    let looked_at = Nodes::some(cluster, looked_at.into_iter().collect());
    let potential = PotentialVictims::new(cluster, &looked_at, &in_flight, demand.priority, i32::MAX);
    let (nodes, demand, in_flight) = (&nodes, &demand, &in_flight);
    let scene = PlanContext { cluster, nodes, demand, context, in_flight, plan, placed, on };

    let victims: BTreeSet<(UnitKind, &ObjectKey)> = plan.victims.iter().map(|v| (v.kind, &v.key)).collect();
    // The units that do not count as being on other nodes.
    let mut here: BTreeSet<UnitRef> = leaving(&scene);
    let (mut going, mut staying) = (Vec::new(), Vec::new());
    for (unit, reference) in potential.units.iter().zip(&potential.refs) {
        if victims.contains(&(unit.kind, unit.key)) {
            going.push(unit);
        } else if unit.pods.iter().any(|pod| scene.rank_of(*pod).is_some()) {
            staying.push(unit);
        } else {
            continue;
        }
        here.insert(*reference);
    }
    let reasons = Reasons::new(&scene, &potential, &going);
    let mut named: Vec<(Unit<'_>, String)> =
        staying.into_iter().map(|unit| (unit.clone(), reasons.why(unit))).collect();
    let Protected { units, above } = Protected::new(&scene);
    for (reference, unit, why) in units {
        here.extend(reference);
        named.push((unit, why));
    }
    named.sort_by(|(a, _), (b, _)| importance::compare(a, b));
    let spared = |(unit, why): (Unit<'_>, String)| Bystander {
        kind: unit.kind,
        key: unit.key.clone(),
        priority: unit.priority,
        why,
    };
    let elsewhere = cluster.units_below(demand.priority).saturating_sub(here.len());
    Sparing { units: named.into_iter().map(spared).collect(), others: others(elsewhere, above, demand.priority) }
}

/// Returns the units (single pods or whole groups) of lower priority that other decisions in flight evict: those of which no pod stays, and
/// those of which an evicted pod runs on a node of the placement.
fn leaving(scene: &PlanContext<'_, '_>) -> BTreeSet<UnitRef> {
    let (cluster, mut units) = (scene.cluster, BTreeSet::new());
    for index in scene.context.departing.iter().filter_map(|uid| cluster.pod_with_uid(uid)) {
        let row = cluster.row(index);
        let Role::Evictable(reference) = row.role else { continue };
        if row.priority >= scene.demand.priority || units.contains(&reference) {
            continue;
        }
        let leaves = |unit: Unit<'_>| unit.pods.iter().all(|pod| scene.leaves(*pod));
        if scene.rank_of(index).is_some() || cluster.unit(reference).is_some_and(leaves) {
            units.insert(reference);
        }
    }
    units
}

/// Returns up to two sentences with counts, without those of a count of 0: `elsewhere` units (single pods or whole groups) of a priority
/// below `priority` have no pod on the nodes of the placement, and `above` pods on these nodes have at least this priority.
fn others(elsewhere: usize, above: usize, priority: i32) -> Vec<String> {
    let mut sentences = Vec::new();
    if elsewhere > 0 {
        sentences.push(format!(
            "{} of a priority below {priority} {} no pod on the nodes of the placement.",
            counted(elsewhere, "other unit", "other units"),
            agree(elsewhere, "has", "have")
        ));
    }
    if above > 0 {
        sentences.push(format!(
            "{} on the nodes of the placement {} a priority of at least {priority} and cannot be evicted for it.",
            pods(above),
            agree(above, "has", "have")
        ));
    }
    sentences
}
