//! Decides for one preemptor: from cached results if they suffice, otherwise by a search on the relevant nodes.

use super::question::Question;
use super::unknown::{first_of_class, of_members, unknown};
use super::{alike, domains};
use crate::api::{Context, Decision, Preemptor, Shortfall, Unknown};
use crate::filters::{Nodes, Rank};
use crate::index::Prospects;
use crate::model::Cluster;
use crate::problem::{Demand, Elsewhere, InFlight};
use giveway_crds::policy::PreemptionPolicy;

/// Returns the decision for one preemptor: its members fit, need victims, or do not fit, and why. See the [crate] documentation for what it
/// promises.
pub fn plan(cluster: &Cluster, preemptor: &Preemptor, context: &Context) -> Decision {
    let demand = match Demand::of(cluster, preemptor, context) {
        Ok(demand) => demand,
        Err(decision) => return decision,
    };
    if let Some(unknown) = too_much(cluster, &demand) {
        return unlooked(cluster, &demand, unknown);
    }
    match unknown(cluster, &demand) {
        Some(unknown) => without_eviction(cluster, demand, context, unknown),
        None => by_what_is_known(cluster, &demand, context),
    }
}

/// Returns that it is not known where the members fit, if the constraints of one exceed an upper bound, with the first such member and its
/// excess as the reason; otherwise `None`.
fn too_much(cluster: &Cluster, demand: &Demand) -> Option<Unknown> {
    let mut pods = first_of_class(cluster, &demand.members).filter_map(|member| cluster.pod_at(member));
    let (pod, excess) = pods.find_map(|pod| Some((pod, pod.constraints.excess()?)))?;
    Some(of_members(cluster, demand, vec![format!("pod {} has {excess}", pod.key.name)]))
}

/// Returns the decision for members whose feasible nodes only kube-scheduler can determine: no pod is evicted. A group with a topology
/// constraint is not left to kube-scheduler, which would not keep its members within one domain.
fn unlooked(cluster: &Cluster, demand: &Demand, unknown: Unknown) -> Decision {
    if demand.domains.is_none() {
        return Decision::Unknown(unknown);
    }
    let (needed, priority, nodes) = (demand.need, demand.priority, cluster.nodes().count());
    for_want_of(unknown, Shortfall { needed, priority, nodes, ..Shortfall::default() })
}

/// Returns the decision that the preemptor is unschedulable, with its unknown requirements as the cause.
fn for_want_of(unknown: Unknown, shortfall: Shortfall) -> Decision {
    let unknown = Some(unknown.why.join("; ").into());
    Decision::Unschedulable(Shortfall { unknown, ..shortfall })
}

/// Decides for members with unknown requirements: they are placed where they fit by the known ones; evictions might not help them.
fn without_eviction(cluster: &Cluster, demand: Demand, context: &Context, unknown: Unknown) -> Decision {
    let demand = Demand { policy: PreemptionPolicy::Never, ..demand };
    match by_what_is_known(cluster, &demand, context) {
        // The scheduler alone would not keep them within one domain.
        Decision::Unschedulable(shortfall) if demand.domains.is_some() => for_want_of(unknown, shortfall),
        decision if demand.domains.is_some() => decision,
        // Nothing is ungated because a search ended early.
        Decision::Unschedulable(shortfall) if shortfall.is_exhausted() => Decision::Unschedulable(shortfall),
        Decision::Unschedulable(_) | Decision::Preempt(_) => Decision::Unknown(unknown),
        decision => decision,
    }
}

/// Decides for members whose constraints the planner can evaluate.
fn by_what_is_known(cluster: &Cluster, demand: &Demand, context: &Context) -> Decision {
    if demand.domains.is_none()
        && let Some(decision) = alike::decide(cluster, demand, context)
    {
        return decision;
    }
    let nodes = Nodes::new(cluster);
    let in_flight = InFlight::new(cluster, demand, context);
    let prospects = Prospects::new(cluster, demand, &nodes, &in_flight);
    let leaving = in_flight.leaving(cluster, &nodes);
    let elsewhere = Elsewhere::new(cluster, &nodes, in_flight.reservations(cluster), leaving);
    let question = Question::new(cluster, demand, context, &nodes, &in_flight, prospects.as_ref(), &elsewhere);
    let answer = domains::decide(&question).unwrap_or_else(|| anywhere(&question));
    let answer = as_far_as_evaluated(&question, answer);
    if let Some(prospects) = prospects {
        prospects.return_to_cache(cluster);
    }
    answer
}

/// Returns the decision, or that it is not known whether the members fit: not enough of them were found to fit, and the constraints of some
/// were not evaluated.
fn as_far_as_evaluated(question: &Question<'_>, decision: Decision) -> Decision {
    let Some(why) = question.now.excess() else { return decision };
    match decision {
        Decision::Unschedulable(shortfall) if shortfall.flaw.is_none() => {
            let unknown = of_members(question.cluster, question.demand, vec![why.to_owned()]);
            unlooked(question.cluster, question.demand, unknown)
        }
        decision => decision,
    }
}

/// Decides for members without a topology constraint, on all nodes.
fn anywhere(question: &Question<'_>) -> Decision {
    let all: Vec<Rank> = (0..question.nodes.len()).collect();
    if let Some(decision) = question.fit_now(&all) {
        return decision;
    }
    let patient = question.waits().then(|| question.fit_then(&all)).flatten();
    match patient.or_else(|| question.preempts().then(|| question.preempt(&all).told(question.context)).flatten()) {
        Some(plan) => Decision::Preempt(Box::new(plan)),
        None => question.shortfall(&all),
    }
}
