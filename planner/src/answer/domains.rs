//! Decides for a group that must be placed within one topology domain (one value of a node label): the domain is chosen by step 9 among
//! all values (design, section 4, "Domains of topology"), then by the least capacity, then by name.
//!
//! Members with pod affinity to each other, none of which has a node yet, must be placed within one domain as well.
//!
//! Domains that are too small whatever is evicted are left out; the others are searched in ascending order of a lower bound, until that is
//! no lower than the cost of the best plan.

use super::question::{Attempt, EVERYBODY, Question};
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

/// A topology domain with its nodes, as a place for all members.
pub(super) struct DomainNodes {
    /// Name of the domain in explanations.
    pub(super) name: String,
    /// The domain of the group's topology constraint; `None` if pod affinity keeps the members together.
    domain: Option<Domain>,
    pub(super) ranks: Vec<Rank>,
    /// Upper bound on the members that fit after the eviction of all units that may be evicted.
    at_most: u64,
    /// Upper bound on the capacity for members then, summed over classes: less is tighter.
    places: u64,
}

/// Decides for members that must be placed within one domain; `None` for all other preemptors.
pub(super) fn decide(question: &Question<'_>) -> Option<Decision> {
    let parts = parts(question).or_else(|| debounced(question))?;
    if let Some(decision) = fit_now(question, &parts) {
        return Some(decision);
    }
    let patient = question.waits().then(|| fit_then(question, &parts)).flatten();
    let plan = patient.or_else(|| question.preempts().then(|| preempt(question, &parts)).flatten());
    Some(plan.map_or_else(|| shortfall(question, &parts), |plan| Decision::Preempt(Box::new(plan))))
}

/// Returns the domains that the group's topology constraint permits, by name; `None` if there is no such constraint.
pub(super) fn parts(question: &Question<'_>) -> Option<Vec<DomainNodes>> {
    let domains = question.demand.domains.as_ref()?;
    let mut values = by_value(question, &domains.key);
    if let Some(pin) = &domains.pinned {
        values.retain(|value, _| pin.as_deref() == Some(*value));
    }
    let part = |(value, ranks): (&str, Vec<Rank>)| {
        let domain = Domain { key: domains.key.clone(), value: SmolStr::new(value) };
        DomainNodes::new(question, domain.to_string(), Some(domain), ranks)
    };
    Some(values.into_iter().map(part).collect())
}

/// Returns the domains, by name, of which pod affinity makes the members choose one: members of one class with affinity to each other, of
/// which none is bound yet. `None` if the members are not of this kind.
fn debounced(question: &Question<'_>) -> Option<Vec<DomainNodes>> {
    let (cluster, members) = (question.cluster, &question.demand.members);
    let first = *members.first()?;
    let alike = |member: &PodIndex| cluster.row(*member).class == cluster.row(first).class;
    if question.demand.single || !members.iter().all(alike) {
        return None;
    }
    let key = question.now.neighbours()?.gathers(first)?;
    let part = |(value, ranks): (&str, Vec<Rank>)| DomainNodes::new(question, format!("{key}={value}"), None, ranks);
    Some(by_value(question, key).into_iter().map(part).collect())
}

/// Groups the nodes by their value of the label `key`. Nodes without the label are left out.
fn by_value<'q>(question: &Question<'q>, key: &str) -> BTreeMap<&'q str, Vec<Rank>> {
    let mut values: BTreeMap<&str, Vec<Rank>> = BTreeMap::new();
    for rank in 0..question.nodes.len() {
        if let Some(value) = question.nodes.at(rank).labels.get(key) {
            values.entry(value).or_default().push(rank);
        }
    }
    values
}

impl DomainNodes {
    /// Creates a topology domain with upper bounds on the members that fit there.
    fn new(question: &Question<'_>, name: String, domain: Option<Domain>, ranks: Vec<Rank>) -> Self {
        let when = When::Without(EVERYBODY);
        Self {
            name,
            domain,
            at_most: question.prospects.map_or(u64::MAX, |prospects| prospects.at_most(&ranks, when)),
            places: question.prospects.map_or(ranks.len() as u64, |prospects| prospects.capacity(&ranks, when)),
            ranks,
        }
    }
}

/// Returns the placement without evictions in the domain where most members fit; among equal ones in the tightest domain. `None` if enough
/// members fit in no domain.
fn fit_now(question: &Question<'_>, parts: &[DomainNodes]) -> Option<Decision> {
    let mut open: Vec<&DomainNodes> = parts.iter().filter(|part| question.could_fit(&part.ranks, When::Now)).collect();
    let places =
        |part: &DomainNodes| question.prospects.map_or(0, |prospects| prospects.capacity(&part.ranks, When::Now));
    let fit = |part: &DomainNodes| question.prospects.map_or(0, |prospects| prospects.at_most(&part.ranks, When::Now));
    open.sort_by_cached_key(|part| (Reverse(fit(part)), places(part)));
    let mut best: Option<(usize, Decision)> = None;
    for (number, part) in first_and_roomiest(question, open, places).into_iter().enumerate() {
        if number >= MOST_DOMAINS_TRIED && best.is_some() && question.prospects.is_some() {
            break;
        }
        let Some(Decision::Fits { placements, left, .. }) = question.fit_now(&part.ranks) else { continue };
        if best.as_ref().is_none_or(|(least, _)| left < *least) {
            best = Some((left, Decision::Fits { placements, left, domain: part.domain.clone() }));
        }
        if left == 0 {
            break;
        }
    }
    best.map(|(_, decision)| decision)
}

/// Returns a plan without victims in a domain where enough members fit after the pods that are leaving anyway have terminated.
fn fit_then(question: &Question<'_>, parts: &[DomainNodes]) -> Option<Plan> {
    let open = parts.iter().filter(|part| question.could_fit(&part.ranks, When::Then)).collect();
    let places =
        |part: &DomainNodes| question.prospects.map_or(0, |prospects| prospects.capacity(&part.ranks, When::Then));
    let mut tried = first_and_roomiest(question, open, places).into_iter();
    tried.find_map(|part| Some(within(question.fit_then(&part.ranks)?, part.domain.as_ref())))
}

/// Returns the domains that are tried: the first `MOST_DOMAINS_TRIED` of `parts`, and of the others the `ROOMIEST_DOMAINS_TRIED` for which
/// `places` returns the largest capacity. That is an upper bound, which ignores ports, inter-pod constraints, and members of other classes.
fn first_and_roomiest<'p>(
    question: &Question<'_>,
    mut parts: Vec<&'p DomainNodes>,
    places: impl Fn(&DomainNodes) -> u64,
) -> Vec<&'p DomainNodes> {
    if question.prospects.is_none() {
        return parts;
    }
    let mut others = parts.split_off(parts.len().min(MOST_DOMAINS_TRIED));
    others.sort_by_cached_key(|part| Reverse(places(part)));
    parts.extend(others.into_iter().take(ROOMIEST_DOMAINS_TRIED));
    parts
}

/// Returns the plan with this topology domain recorded in it; `None` if only pod affinity keeps the members together.
fn within(mut plan: Plan, domain: Option<&Domain>) -> Plan {
    plan.domain = domain.cloned();
    plan
}

/// Returns the plan with the cheapest victims in any domain; `None` if no domain has a plan.
fn preempt(question: &Question<'_>, parts: &[DomainNodes]) -> Option<Plan> {
    let when = When::Without(EVERYBODY);
    let large: Vec<&DomainNodes> = parts.iter().filter(|part| question.could_fit(&part.ranks, when)).collect();
    let mut levels: BTreeMap<Level, Vec<&DomainNodes>> = BTreeMap::new();
    for part in &large {
        levels.entry(level(question, part)).or_default().push(part);
    }
    let mut trace = Vec::new();
    let mut best: Option<(Plan, &DomainNodes)> = None;
    let (mut tried, mut open) = (0, Open::default());
    let most = if question.prospects.is_none() { large.len() } else { MOST_DOMAINS_TRIED };
    // The lower bounds of a level are computed only when the search reaches it.
    for (least, part) in levels.into_iter().flat_map(|(level, parts)| in_order(question, level, parts)) {
        let dearer = |(plan, _): &(Plan, &DomainNodes)| least.is_some_and(|least| least > plan.cost);
        if best.as_ref().is_some_and(dearer) || tried == most || (best.is_some() && question.effort.spent()) {
            // No bound after this one is lower.
            open.note(least, CostBound::default());
            break;
        }
        tried += 1;
        let Attempt { plan, least: found } = question.preempt(&part.ranks);
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
    let mut plan = within(plan, part.domain.as_ref());
    plan.trace.splice(0..0, trace);
    Attempt { plan: Some(plan), least: Some(least) }.told(question.context)
}

/// Lower bounds on the number of budget violations and on the highest priority of a victim ([`Prospects::least`]); `None` if all nodes are
/// searched anyway.
///
/// [`Prospects::least`]: crate::index::Prospects::least
type Level = Option<(usize, Option<i32>)>;

/// Returns the lower bounds by which the domains are sorted first; `None` if all nodes are searched anyway.
fn level(question: &Question<'_>, part: &DomainNodes) -> Level {
    question.prospects.map(|prospects| prospects.lower_bounds(&part.ranks))
}

/// Returns a lower bound on the cost of victims in a domain; `None` if all nodes are searched anyway.
#[cfg(test)]
pub(super) fn bound(question: &Question<'_>, part: &DomainNodes) -> Option<Cost> {
    level(question, part).map(|level| least(question, part, level))
}

/// Lower bound on the cost of every plan in the domains that were recorded so far; `None` if no domain was.
#[derive(Default)]
struct Open(Option<CostBound>);

impl Open {
    /// Records a domain with two lower bounds on the cost of its plans, of which the higher one counts. `least` is `None` if there is only
    /// `found`.
    fn note(&mut self, least: Option<Cost>, found: CostBound) {
        let least = least.map_or(found, |least| least.bound().max(found));
        self.0 = Some(self.0.map_or(least, |known| known.min(least)));
    }
}

/// Returns the domains of a level with lower bounds on the cost of victims there, in ascending order of that bound; then the tighter domain
/// first, then by name.
fn in_order<'p>(
    question: &Question<'_>,
    level: Level,
    parts: Vec<&'p DomainNodes>,
) -> Vec<(Option<Cost>, &'p DomainNodes)> {
    let mut order: Vec<(Option<Cost>, &DomainNodes)> =
        parts.into_iter().map(|part| (level.map(|level| least(question, part, level)), part)).collect();
    order.sort_by(|(a, part), (b, other)| {
        (a.cmp(b)).then_with(|| part.places.cmp(&other.places)).then_with(|| part.name.cmp(&other.name))
    });
    order
}

/// Returns a lower bound on the cost of victims in a domain, given the lower bounds of its [`Level`]: on the number of budget violations,
/// and on the highest priority of a victim, which is `None` if that is not known.
fn least(question: &Question<'_>, part: &DomainNodes, (violations, ceiling): (usize, Option<i32>)) -> Cost {
    let &Question { cluster, nodes, in_flight, demand, .. } = question;
    match ceiling {
        Some(ceiling) => Cost {
            budget_violations: violations,
            ..lower_bound(cluster, nodes, in_flight, demand, &part.ranks, ceiling)
        },
        None => Cost { budget_violations: violations, ..Cost::default() },
    }
}

/// Explains why not enough members fit, for the topology domain where the most members fit.
fn shortfall(question: &Question<'_>, parts: &[DomainNodes]) -> Decision {
    let fits = |part: &DomainNodes| match question.shortfall(&part.ranks) {
        Decision::Unschedulable(shortfall) => shortfall.fits_at_most() as u64,
        _ => 0,
    };
    let few = question.prospects.is_none();
    let nearest = parts.iter().min_by_key(|part| Reverse(if few { fits(part) } else { part.at_most }));
    let mut decision = question.shortfall(nearest.map_or(&[], |part| part.ranks.as_slice()));
    let domain = nearest.and_then(|part| part.domain.clone());
    if let (Decision::Unschedulable(shortfall), Some(domain)) = (&mut decision, domain) {
        shortfall.domain = Some(NearestDomain { domain });
    }
    decision
}
