//! Decides for a group that must be placed within one topology domain (one value of a node label): the domain is chosen by step 9 among
//! all values (design, section 4, "Domains of topology"), then by the least capacity, then by name.
//!
//! Members with pod affinity to each other, none of which has a node yet, must be placed within one domain as well.
//!
//! Domains that are too small whatever is evicted are left out; the others are searched in ascending order of a lower bound, until that is
//! no lower than the cost of the best plan.

use super::request::{ALL_UNITS, Attempt, PreemptionRequest};
use crate::api::{Cost, CostBound, Decision, Domain, NearestDomain, Plan};
use crate::filters::Rank;
use crate::index::When;
use crate::limits::{MOST_DOMAINS_TRIED, ROOMIEST_DOMAINS_TRIED};
use crate::model::PodIndex;
use crate::search::domains::lower_bound;
use giveway_crds::wording::counted;
use smol_str::SmolStr;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A topology domain in which all members could be placed, with its nodes.
pub(super) struct DomainNodes {
    /// Name of the domain in explanations.
    pub(super) name: String,
    /// The domain of the group's topology constraint; `None` if pod affinity keeps the members together.
    domain: Option<Domain>,
    /// The nodes of the domain, by rank.
    pub(super) ranks: Vec<Rank>,
    /// Upper bound on the members that fit after the eviction of all units that may be evicted.
    at_most: u64,
    /// Upper bound on the capacity for members then, summed over classes: less is tighter.
    places: u64,
}

/// Decides for members that must be placed within one topology domain, by a topology constraint of the group or by pod affinity to each
/// other; `None` for all other preemptors.
pub(super) fn decide(request: &PreemptionRequest<'_>) -> Option<Decision> {
    let parts = permitted_domains(request).or_else(|| affinity_domains(request))?;
    if let Some(decision) = fit_now(request, &parts) {
        return Some(decision);
    }
    let patient = request.waits().then(|| fit_then(request, &parts)).flatten();
    let plan = patient.or_else(|| request.preempts().then(|| preempt(request, &parts)).flatten());
    Some(plan.map_or_else(|| shortfall(request, &parts), |plan| Decision::Preempt(Box::new(plan))))
}

/// Returns the topology domains that the group's topology constraint permits, sorted by name; `None` if there is no such constraint.
pub(super) fn permitted_domains(request: &PreemptionRequest<'_>) -> Option<Vec<DomainNodes>> {
    let domains = request.demand.domains.as_ref()?;
    let mut values = by_value(request, &domains.key);
    if let Some(pin) = &domains.pinned {
        values.retain(|value, _| pin.as_deref() == Some(*value));
    }
    let part = |(value, ranks): (&str, Vec<Rank>)| {
        let domain = Domain { key: domains.key.clone(), value: SmolStr::new(value) };
        DomainNodes::new(request, domain.to_string(), Some(domain), ranks)
    };
    Some(values.into_iter().map(part).collect())
}

/// Returns the topology domains, sorted by name, of which pod affinity makes the members choose one: the members are of one class and have
/// affinity to each other, and no pod that is present matches it. `None` for other members.
fn affinity_domains(request: &PreemptionRequest<'_>) -> Option<Vec<DomainNodes>> {
    let (cluster, members) = (request.cluster, &request.demand.members);
    let first = *members.first()?;
    let alike = |member: &PodIndex| cluster.row(*member).class == cluster.row(first).class;
    if request.demand.single || !members.iter().all(alike) {
        return None;
    }
    let key = request.now.inter_pod_counters()?.gathering_key(first)?;
    let part = |(value, ranks): (&str, Vec<Rank>)| DomainNodes::new(request, format!("{key}={value}"), None, ranks);
    Some(by_value(request, key).into_iter().map(part).collect())
}

/// Returns the ranks (indexes in the list of nodes) of the nodes by their value of the label `key`. Nodes without the label are left out.
fn by_value<'q>(request: &PreemptionRequest<'q>, key: &str) -> BTreeMap<&'q str, Vec<Rank>> {
    let mut values: BTreeMap<&str, Vec<Rank>> = BTreeMap::new();
    for rank in 0..request.nodes.len() {
        if let Some(value) = request.nodes.at(rank).labels.get(key) {
            values.entry(value).or_default().push(rank);
        }
    }
    values
}

impl DomainNodes {
    /// Creates a topology domain of the nodes `ranks`, with upper bounds on the members that fit there. `name` is its name in explanations;
    /// `domain` is `None` if pod affinity keeps the members together.
    fn new(request: &PreemptionRequest<'_>, name: String, domain: Option<Domain>, ranks: Vec<Rank>) -> Self {
        let when = When::Without(ALL_UNITS);
        Self {
            name,
            domain,
            at_most: request.prospects.map_or(u64::MAX, |prospects| prospects.at_most(&ranks, when)),
            places: request.prospects.map_or(ranks.len() as u64, |prospects| prospects.capacity(&ranks, when)),
            ranks,
        }
    }
}

/// Returns the decision that enough members fit without evictions in one of the domains `parts`: the one where most of them fit, and of
/// equal ones the one with the least capacity. `None` if enough members fit in no domain.
fn fit_now(request: &PreemptionRequest<'_>, parts: &[DomainNodes]) -> Option<Decision> {
    let mut open: Vec<&DomainNodes> = parts.iter().filter(|part| request.could_fit(&part.ranks, When::Now)).collect();
    let places =
        |part: &DomainNodes| request.prospects.map_or(0, |prospects| prospects.capacity(&part.ranks, When::Now));
    let fit = |part: &DomainNodes| request.prospects.map_or(0, |prospects| prospects.at_most(&part.ranks, When::Now));
    open.sort_by_cached_key(|part| (Reverse(fit(part)), places(part)));
    let mut best: Option<(usize, Decision)> = None;
    for (number, part) in first_and_roomiest(request, open, places).into_iter().enumerate() {
        if number >= MOST_DOMAINS_TRIED && best.is_some() && request.prospects.is_some() {
            break;
        }
        let Some(Decision::Fits { placements, left, .. }) = request.fit_now(&part.ranks) else { continue };
        if best.as_ref().is_none_or(|(least, _)| left < *least) {
            best = Some((left, Decision::Fits { placements, left, domain: part.domain.clone() }));
        }
        if left == 0 {
            break;
        }
    }
    best.map(|(_, decision)| decision)
}

/// Returns a plan without victims in the first of the domains `parts` where enough members fit after the pods that are leaving anyway have
/// terminated; `None` if there is none.
fn fit_then(request: &PreemptionRequest<'_>, parts: &[DomainNodes]) -> Option<Plan> {
    let open = parts.iter().filter(|part| request.could_fit(&part.ranks, When::Then)).collect();
    let places =
        |part: &DomainNodes| request.prospects.map_or(0, |prospects| prospects.capacity(&part.ranks, When::Then));
    let mut tried = first_and_roomiest(request, open, places).into_iter();
    tried.find_map(|part| Some(with_domain(request.fit_then(&part.ranks)?, part.domain.as_ref())))
}

/// Returns the domains that are tried: the first `MOST_DOMAINS_TRIED` of `parts`, and of the others the `ROOMIEST_DOMAINS_TRIED` for which
/// `places` returns the largest capacity; all of `parts` if all nodes are searched anyway, as in a small cluster. This capacity is an upper
/// bound, which ignores ports, inter-pod constraints, and members of other classes.
fn first_and_roomiest<'p>(
    request: &PreemptionRequest<'_>,
    mut parts: Vec<&'p DomainNodes>,
    places: impl Fn(&DomainNodes) -> u64,
) -> Vec<&'p DomainNodes> {
    if request.prospects.is_none() {
        return parts;
    }
    let mut others = parts.split_off(parts.len().min(MOST_DOMAINS_TRIED));
    others.sort_by_cached_key(|part| Reverse(places(part)));
    parts.extend(others.into_iter().take(ROOMIEST_DOMAINS_TRIED));
    parts
}

/// Returns the plan with this topology domain recorded in it; `domain` is `None` if only pod affinity keeps the members together.
fn with_domain(mut plan: Plan, domain: Option<&Domain>) -> Plan {
    plan.domain = domain.cloned();
    plan
}

/// Returns the plan with the cheapest victims in any of the domains `parts`; `None` if no domain has a plan.
fn preempt(request: &PreemptionRequest<'_>, parts: &[DomainNodes]) -> Option<Plan> {
    let when = When::Without(ALL_UNITS);
    let large: Vec<&DomainNodes> = parts.iter().filter(|part| request.could_fit(&part.ranks, when)).collect();
    let mut levels: BTreeMap<Level, Vec<&DomainNodes>> = BTreeMap::new();
    for part in &large {
        levels.entry(level(request, part)).or_default().push(part);
    }
    let mut trace = Vec::new();
    let mut best: Option<(Plan, &DomainNodes)> = None;
    let (mut tried, mut open) = (0, LeastBound::default());
    let most = if request.prospects.is_none() { large.len() } else { MOST_DOMAINS_TRIED };
    // The lower bounds of a level are computed only when the search reaches it.
    for (least, part) in levels.into_iter().flat_map(|(level, parts)| by_lower_bound(request, level, parts)) {
        let dearer = |(plan, _): &(Plan, &DomainNodes)| least.is_some_and(|least| least > plan.cost);
        if best.as_ref().is_some_and(dearer) || tried == most || (best.is_some() && request.effort.spent()) {
            // No bound after this one is lower.
            open.note(least, CostBound::default());
            break;
        }
        tried += 1;
        let Attempt { plan, least: found } = request.preempt(&part.ranks);
        if let Some(found) = found {
            open.note(least, found);
        }
        let Some(plan) = plan else {
            trace.push(format!("{}: not enough members fit, even with every potential victim evicted.", part.name));
            continue;
        };
        let members = counted(plan.placements.len(), "member", "members");
        trace.push(format!("{}: {members}, {}.", part.name, plan.cost));
        let rank = |plan: &Plan, part: &DomainNodes| (plan.cost, Reverse(plan.placements.len()), part.places);
        if best.as_ref().is_none_or(|(known, other)| rank(&plan, part) < rank(known, other)) {
            best = Some((plan, part));
        }
    }
    let (plan, part) = best?;
    let least = open.0.map_or(plan.cost.bound(), |least| least.min(plan.cost.bound()));
    if tried < large.len() {
        let others = counted(large.len() - tried, "other domain was", "other domains were");
        let is_proven = least == plan.cost.bound();
        let why = if is_proven { "no plan there costs less" } else { "too many could cost less" };
        trace.push(format!("{others} not searched: {why}."));
    }
    if large.len() < parts.len() {
        let small = counted(parts.len() - large.len(), "domain is", "domains are");
        trace.push(format!("{small} too small, even with every potential victim evicted."));
    }
    let mut plan = with_domain(plan, part.domain.as_ref());
    plan.trace.splice(0..0, trace);
    Attempt { plan: Some(plan), least: Some(least) }.into_plan(request.context)
}

/// Lower bounds for a domain on the number of budget violations and on the highest priority of a victim ([`Prospects::least`]); `None` if
/// all nodes are searched anyway, as in a small cluster.
///
/// [`Prospects::least`]: crate::index::Prospects::least
type Level = Option<(usize, Option<i32>)>;

/// Returns the lower bounds of a domain by which the domains are sorted first; `None` if all nodes are searched anyway, as in a
/// small cluster.
fn level(request: &PreemptionRequest<'_>, part: &DomainNodes) -> Level {
    request.prospects.map(|prospects| prospects.lower_bounds(&part.ranks))
}

/// Returns a lower bound on the cost of every plan in a domain; `None` if all nodes are searched anyway, as in a small cluster.
#[cfg(test)]
pub(super) fn bound(request: &PreemptionRequest<'_>, part: &DomainNodes) -> Option<Cost> {
    level(request, part).map(|level| lower_bound_on_cost(request, part, level))
}

/// The least of the lower bounds of the domains that were recorded so far: no plan in any of them costs less. `None` before the first
/// domain.
#[derive(Default)]
struct LeastBound(Option<CostBound>);

impl LeastBound {
    /// Includes one more domain in this bound, which is then no higher than the bound of that domain: the higher one of `least` and
    /// `found`, two lower bounds on the cost of its plans. `least` is `None` if only `found` is known.
    fn note(&mut self, least: Option<Cost>, found: CostBound) {
        let least = least.map_or(found, |least| least.bound().max(found));
        self.0 = Some(self.0.map_or(least, |known| known.min(least)));
    }
}

/// Returns the domains `parts`, which have the same [`Level`], each with a lower bound on the cost of its plans, in the order in which they
/// are searched: by ascending bound, then by capacity, then by name.
fn by_lower_bound<'p>(
    request: &PreemptionRequest<'_>,
    level: Level,
    parts: Vec<&'p DomainNodes>,
) -> Vec<(Option<Cost>, &'p DomainNodes)> {
    let mut order: Vec<(Option<Cost>, &DomainNodes)> =
        parts.into_iter().map(|part| (level.map(|level| lower_bound_on_cost(request, part, level)), part)).collect();
    order.sort_by(|(a, part), (b, other)| {
        (a.cmp(b)).then_with(|| part.places.cmp(&other.places)).then_with(|| part.name.cmp(&other.name))
    });
    order
}

/// Returns a lower bound on the cost of every plan in a domain. `violations` and `ceiling` are the bounds of its [`Level`]: on the number
/// of budget violations, and on the highest priority of a victim, which is `None` if that is not bounded.
fn lower_bound_on_cost(
    request: &PreemptionRequest<'_>,
    part: &DomainNodes,
    (violations, ceiling): (usize, Option<i32>),
) -> Cost {
    let &PreemptionRequest { cluster, nodes, in_flight, demand, .. } = request;
    match ceiling {
        Some(ceiling) => Cost {
            budget_violations: violations,
            ..lower_bound(cluster, nodes, in_flight, demand, &part.ranks, ceiling)
        },
        None => Cost { budget_violations: violations, ..Cost::default() },
    }
}

/// Returns the decision that the members are unschedulable, with the numbers of the one of the domains `parts` where the most members fit.
fn shortfall(request: &PreemptionRequest<'_>, parts: &[DomainNodes]) -> Decision {
    let fits = |part: &DomainNodes| match request.shortfall(&part.ranks) {
        Decision::Unschedulable(shortfall) => shortfall.fits_at_most() as u64,
        _ => 0,
    };
    let few = request.prospects.is_none();
    let nearest = parts.iter().min_by_key(|part| Reverse(if few { fits(part) } else { part.at_most }));
    let mut decision = request.shortfall(nearest.map_or(&[], |part| part.ranks.as_slice()));
    let domain = nearest.and_then(|part| part.domain.clone());
    if let (Decision::Unschedulable(shortfall), Some(domain)) = (&mut decision, domain) {
        shortfall.domain = Some(NearestDomain { domain });
    }
    decision
}
