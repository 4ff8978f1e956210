//! Decides for one preemptor: from cached results if they suffice, otherwise by a search on the relevant nodes.

use super::request::PreemptionRequest;
use super::unknown::{first_of_class, unknown, unknown_because};
use super::{alike, domains};
use crate::api::{Context, Decision, Preemptor, Shortfall, Unknown};
use crate::filters::{Nodes, Rank};
use crate::index::Prospects;
use crate::model::Cluster;
use crate::problem::{Demand, Elsewhere, InFlight};
use giveway_crds::policy::PreemptionPolicy;

/// Returns the decision for one preemptor: its members fit now, fit after the victims of a plan are evicted, or do not fit, and why. See
/// the [crate] documentation for what it promises.
pub fn plan(cluster: &Cluster, preemptor: &Preemptor, context: &Context) -> Decision {
    let demand = match Demand::of(cluster, preemptor, context) {
        Ok(demand) => demand,
        Err(decision) => return decision,
    };
    if let Some(unknown) = exceeded_bound(cluster, &demand) {
        return undecidable(cluster, &demand, unknown);
    }
    match unknown(cluster, &demand) {
        Some(unknown) => without_eviction(cluster, demand, context, unknown),
        None => decide_by_known(cluster, &demand, context),
    }
}

/// Returns that it is not known where the members fit, because the constraints of a member exceed an upper bound; the first such member and
/// its excess are the reason. `None` if no member's constraints exceed one.
fn exceeded_bound(cluster: &Cluster, demand: &Demand) -> Option<Unknown> {
    let mut pods = first_of_class(cluster, &demand.members).filter_map(|member| cluster.pod_at(member));
    let (pod, excess) = pods.find_map(|pod| Some((pod, pod.constraints.excess()?)))?;
    Some(unknown_because(cluster, demand, vec![format!("pod {} has {excess}", pod.key.name)]))
}

/// Returns the decision for members whose feasible nodes only kube-scheduler can determine: no pod is evicted, and kube-scheduler places
/// the members. A group with a topology constraint is unschedulable instead, because kube-scheduler would not keep its members within one
/// domain.
fn undecidable(cluster: &Cluster, demand: &Demand, unknown: Unknown) -> Decision {
    if demand.domains.is_none() {
        return Decision::Unknown(unknown);
    }
    let (needed, priority, nodes) = (demand.need, demand.priority, cluster.nodes().count());
    unschedulable_because(unknown, Shortfall { needed, priority, nodes, ..Shortfall::default() })
}

/// Returns the decision that the preemptor is unschedulable, with this shortfall and the unknown requirements as its cause.
fn unschedulable_because(unknown: Unknown, shortfall: Shortfall) -> Decision {
    let unknown = Some(unknown.why.join("; ").into());
    Decision::Unschedulable(Shortfall { unknown, ..shortfall })
}

/// Decides for members with unknown requirements, for which no pod is evicted because that might not help. If enough members fit by the
/// known requirements, they are placed; otherwise they are left to kube-scheduler or, with a topology constraint, unschedulable.
fn without_eviction(cluster: &Cluster, demand: Demand, context: &Context, unknown: Unknown) -> Decision {
    let demand = Demand { policy: PreemptionPolicy::Never, ..demand };
    match decide_by_known(cluster, &demand, context) {
        // The scheduler alone would not keep them within one domain.
        Decision::Unschedulable(shortfall) if demand.domains.is_some() => unschedulable_because(unknown, shortfall),
        decision if demand.domains.is_some() => decision,
        // Nothing is ungated because a search ended early.
        Decision::Unschedulable(shortfall) if shortfall.is_exhausted() => Decision::Unschedulable(shortfall),
        Decision::Unschedulable(_) | Decision::Preempt(_) => Decision::Unknown(unknown),
        decision => decision,
    }
}

/// Decides for members by those requirements that the planner knows: from cached capacities if these suffice, otherwise by a search.
fn decide_by_known(cluster: &Cluster, demand: &Demand, context: &Context) -> Decision {
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
    let request = PreemptionRequest::new(cluster, demand, context, &nodes, &in_flight, prospects.as_ref(), &elsewhere);
    let answer = domains::decide(&request).unwrap_or_else(|| decide_on_all_nodes(&request));
    let answer = unknown_unless_evaluated(&request, answer);
    if let Some(prospects) = prospects {
        prospects.return_to_cache(cluster);
    }
    answer
}

/// Returns `decision`, unless it says that the members do not fit although the inter-pod constraints of some were not evaluated: then the
/// decision that it is not known whether they fit.
fn unknown_unless_evaluated(request: &PreemptionRequest<'_>, decision: Decision) -> Decision {
    let Some(why) = request.now.excess() else { return decision };
    match decision {
        Decision::Unschedulable(shortfall) if shortfall.flaw.is_none() => {
            let unknown = unknown_because(request.cluster, request.demand, vec![why.to_owned()]);
            undecidable(request.cluster, request.demand, unknown)
        }
        decision => decision,
    }
}

/// Decides for members that need not be placed within one topology domain, by a search on all nodes.
fn decide_on_all_nodes(request: &PreemptionRequest<'_>) -> Decision {
    let all: Vec<Rank> = (0..request.nodes.len()).collect();
    if let Some(decision) = request.fit_now(&all) {
        return decision;
    }
    let patient = request.waits().then(|| request.fit_then(&all)).flatten();
    match patient.or_else(|| request.preempts().then(|| request.preempt(&all).into_plan(request.context)).flatten()) {
        Some(plan) => Decision::Preempt(Box::new(plan)),
        None => request.shortfall(&all),
    }
}
