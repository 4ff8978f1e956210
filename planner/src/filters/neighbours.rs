//! Counts the pods that inter-pod constraints refer to, by constraint and topology domain, so that no filter has to look at other nodes.
//!
//! A count changes when a pod is placed or removed. A nominated pod counts against a member, and never for it: kube-scheduler runs these
//! filters twice, with and without the nominated pods, and both runs must pass.

mod slack;

pub(crate) use slack::Slack;

use super::kinds::InterPodClasses;
use super::labels::SelectorLabels;
use super::nodes::{Nodes, Nomination, Rank};
use super::pod_affinity::{AffinityTerms, affinity_term_matches};
use super::spread;
use crate::limits::{MOST_CLASSES_AROUND, MOST_CLASSES_EXCLUDING, MOST_COUNTERS};
use crate::model::{AffinityTerm, Cluster, Pod, PodIndex, Selector};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of a topology domain among the domains of its topology key; [`NOWHERE`] for a node without the label.
pub(super) type DomainNumber = u32;
/// The domains of a node, one for each topology key.
pub(crate) type NodeDomains = SmallVec<[DomainNumber; 4]>;
/// Stands for the domain of a node that does not have the label.
pub(super) const NOWHERE: DomainNumber = DomainNumber::MAX;

/// The counters that count a pod, as indexes in [`Rules::rules`].
type CounterNumbers = SmallVec<[u16; 4]>;

/// A topology key, with the domain of every node.
struct TopologyKey<'a> {
    name: &'a str,
    /// By position of the node among all nodes: its domain.
    of: Vec<DomainNumber>,
    /// Number of domains.
    domains: usize,
    /// Whether a domain has more than one node.
    shared: bool,
}

/// Which pods a counter counts. Each variant has a pod that stands for a class of members, and some have the index of one of its
/// constraints.
enum CountedPods<'a> {
    /// Pods that this topology spread constraint of the members counts.
    Peers(&'a Pod, usize),
    /// Pods that match all required affinity terms of the members.
    Wanted(&'a Pod),
    /// Pods that match this required anti-affinity term of the members.
    Unwanted(&'a Pod, usize),
    /// Pods with a required anti-affinity term, of the counter's topology key, that matches the members.
    Guards(&'a Pod),
}

/// What a counter counts: by topology domain, the pods to which one inter-pod rule (spread, affinity or anti-affinity) refers. It does not
/// change while members are placed.
struct CounterRule<'a> {
    /// Index in [`Rules::keys`].
    key: usize,
    pods: CountedPods<'a>,
}

/// The nodes and domains that a topology spread constraint counts. Both lists are empty for the counters of affinity and anti-affinity,
/// which count every node.
#[derive(Clone, Default)]
struct SpreadScope {
    /// By position of the node, whether its pods are counted.
    counted: Vec<bool>,
    /// By domain, whether it is one to spread over.
    over: Vec<bool>,
}

/// The inter-pod constraints of a class of members. Each refers to its counter by an index in [`Rules::rules`].
#[derive(Default)]
struct ClassConstraints {
    /// By spread constraint: the counter, `maxSkew`, `minDomains`, and 1 if the selector matches the members themselves, otherwise 0.
    spread: Vec<(usize, usize, usize, usize)>,
    /// By required anti-affinity term of the members: the counter of the pods that match it.
    unwanted: Vec<usize>,
    /// Counters of the pods whose required anti-affinity terms match the members.
    guards: Vec<usize>,
    /// By required affinity term of the members: its counter.
    wanted: Vec<usize>,
    /// Whether all required affinity terms of the members match the members themselves.
    wants_itself: bool,
}

/// The counters and the constraints of all members, which do not change while members are placed.
struct Rules<'a> {
    keys: Vec<TopologyKey<'a>>,
    rules: Vec<CounterRule<'a>>,
    /// By class of members; `None` if its constraints are not evaluated.
    constraints_by_class: Vec<Option<ClassConstraints>>,
    /// Which upper bound the constraints of the members exceed, in words; `None` if all of them are evaluated.
    excess: Option<String>,
    /// By member: the class of its constraints.
    members: BTreeMap<PodIndex, usize>,
    /// By pod: one more than the index in `sets` of the counters that count it; 0 for a bound pod that no counter counts, and for other
    /// pods that were not looked up.
    set_of_pod: Vec<u32>,
    sets: Vec<CounterNumbers>,
    /// By position of the node: nodes of the same number are in the same domains.
    cells: Vec<u32>,
    number_of_cells: usize,
}

/// What one counter has counted, by topology domain.
#[derive(Clone, Default)]
struct Counts {
    /// Pods that are bound or placed there.
    there: Vec<u32>,
    /// Pods that are only nominated to nodes there.
    nominated: Vec<u32>,
    /// Sums over all domains.
    total: u32,
    total_nominated: u32,
    /// In how many domains `there` is not 0.
    taken: u32,
    /// For a spread: how many domains have how many of `there`.
    least: BTreeMap<u32, usize>,
    /// How many domains those are.
    domains: usize,
}

/// The part of a counter's counts that decides about a domain besides the domain's own count. As long as it is unchanged, placing another
/// member makes no domain feasible that the counter rejected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CounterState {
    taken: u32,
    nominated: u32,
    fewest: [u32; 2],
}

/// Counts the pods to which the inter-pod constraints (topology spread, pod affinity and anti-affinity) of the members and against the
/// members refer. There is one counter for each constraint; it counts by topology domain.
#[derive(Clone)]
pub(crate) struct InterPodCounters<'a> {
    rules: Arc<Rules<'a>>,
    /// By counter: which nodes it counts.
    scope: Arc<Vec<SpreadScope>>,
    /// By counter: the counts.
    counts: Vec<Counts>,
}

/// Kind of the inter-pod constraint that makes a node infeasible for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Objection {
    Spread,
    AntiAffinity,
    Affinity,
}

/// The first counter that rejects a member, as an index in [`Rules::rules`]; `None` if the member is rejected because its constraints are
/// not evaluated.
pub(crate) type RejectingCounter = Option<usize>;

impl<'a> InterPodCounters<'a> {
    /// Counts all bound pods for the inter-pod constraints that concern `members`: there is one counter for each spread, affinity or
    /// anti-affinity rule, of the members or of other pods against them. `None` if there is no such rule. `nominated` are the nominated
    /// pods; they are not counted yet.
    pub(super) fn new(
        cluster: &'a Cluster,
        nodes: &Nodes<'a>,
        members: &[PodIndex],
        nominated: &[PodIndex],
    ) -> Option<Self> {
        let others = anti_affinity_terms(cluster, members, nominated);
        let InterPodClasses { examples, of, matched } = InterPodClasses::new(cluster, members, &others);
        let others: Vec<&AffinityTerm> = others.into_iter().collect();
        let terms = AffinityTerms::new(others.iter().copied());
        let mut terms_about: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (example, number) in examples.iter().zip(&matched) {
            terms_about.entry(*number).or_insert_with(|| terms.matching(cluster, example));
        }
        let labels = if terms_about.values().all(Vec::is_empty) { BTreeSet::new() } else { nodes.label_keys() };
        let has_domains = |number: &usize| labels.contains(others[*number].topology_key.as_str());
        terms_about.values_mut().for_each(|numbers| numbers.retain(has_domains));
        let is_constrained =
            |class: &usize| own_counters(examples[*class]) > 0 || !terms_about[&matched[*class]].is_empty();
        let constrained: Vec<usize> = (0..examples.len()).filter(is_constrained).collect();
        let evaluated = constrained.iter().take(MOST_CLASSES_AROUND);
        let about_one: BTreeSet<usize> = evaluated.flat_map(|class| &terms_about[&matched[*class]]).copied().collect();
        let repelling = others.into_iter().enumerate().filter(|(number, _)| about_one.contains(number));
        let repelling: Vec<&AffinityTerm> = repelling.map(|(_, term)| term).collect();
        let mut rules = Rules {
            keys: Vec::new(),
            rules: Vec::new(),
            constraints_by_class: (0..examples.len())
                .map(|class| (!is_constrained(&class)).then(ClassConstraints::default))
                .collect(),
            excess: None,
            members: of,
            set_of_pod: Vec::new(),
            sets: Vec::new(),
            cells: Vec::new(),
            number_of_cells: 0,
        };
        rules.add_classes(cluster, nodes, &examples, &constrained, &repelling);
        if rules.rules.is_empty() && rules.excess.is_none() {
            return None;
        }
        rules.number_cells(nodes.cluster_len());
        rules.index_pods(cluster, members.iter().chain(nominated));
        let scope: Vec<SpreadScope> = rules.rules.iter().map(|rule| rules.scope(nodes, rule)).collect();
        let counts =
            rules.rules.iter().zip(&scope).map(|(rule, scope)| Counts::new(scope, &rules.keys[rule.key])).collect();
        let mut neighbours = Self { rules: Arc::new(rules), scope: Arc::new(scope), counts };
        let bound = neighbours.rules.set_of_pod.iter().enumerate().filter(|(_, set)| **set > 0);
        for (index, _) in bound.map(|(index, set)| (index, *set)).collect::<Vec<_>>() {
            let index = PodIndex::try_from(index).unwrap_or(PodIndex::MAX);
            if let Some(place) = cluster.row(index).node.and_then(|node| cluster.rank_of(node)) {
                neighbours.count(cluster, index, place, true, false);
            }
        }
        Some(neighbours)
    }

    /// Adds a pod to the counts of all inter-pod rules that count it (`more`), or removes it. `place` is the position of its node among all
    /// nodes; `nominated` says that it is only nominated there.
    pub(super) fn count(&mut self, cluster: &Cluster, index: PodIndex, place: Rank, more: bool, nominated: bool) {
        self.count_by(cluster, index, place, more, nominated, |_| true);
    }

    /// Adds a pod to the counts of the inter-pod rules that count it (`more`), or removes it, but only of those for which `by` returns
    /// true, given the number of the rule's counter. `place` is the position of its node among all nodes; `nominated` says that it is only
    /// nominated there.
    fn count_by(
        &mut self,
        cluster: &Cluster,
        index: PodIndex,
        place: Rank,
        more: bool,
        nominated: bool,
        by: impl Fn(usize) -> bool,
    ) {
        let rules = Arc::clone(&self.rules);
        for number in rules.counters_of(cluster, index).iter().map(|number| usize::from(*number)).filter(|n| by(*n)) {
            let domain = rules.keys[rules.rules[number].key].of[place];
            let counted = &self.scope[number].counted;
            if domain != NOWHERE && (counted.is_empty() || counted[place]) {
                self.counts[number].change(domain as usize, more, nominated);
            }
        }
    }

    /// Returns the counts for members that will get a node selector that restricts them to some nodes: kube-scheduler then counts only
    /// these nodes for a spread constraint that honours node affinity. `inside` says for a position among all nodes whether the selector
    /// admits that node; `nominated` are the nominations. Must be called before any pod is removed or placed. `None` if no spread
    /// constraint honours node affinity, so that the counts are the same.
    pub(super) fn within(
        &self,
        cluster: &Cluster,
        nodes: &Nodes<'a>,
        inside: impl Fn(Rank) -> bool,
        nominated: &[Nomination],
    ) -> Option<Self> {
        let honours = |rule: &CounterRule<'_>| match rule.pods {
            CountedPods::Peers(pod, number) => pod.constraints.spread[number].honors_affinity,
            _ => false,
        };
        let narrowed: Vec<bool> = self.rules.rules.iter().map(honours).collect();
        if !narrowed.contains(&true) {
            return None;
        }
        let inside: Vec<bool> = (0..nodes.cluster_len()).map(inside).collect();
        let mut narrow = self.clone();
        let mut scope = (*self.scope).clone();
        for (number, scope) in scope.iter_mut().enumerate().filter(|(number, _)| narrowed[*number]) {
            let key = &self.rules.keys[self.rules.rules[number].key];
            let counted = scope.counted.iter().zip(&inside).map(|(counted, inside)| *counted && *inside);
            *scope = SpreadScope::new(key, counted.collect());
            narrow.counts[number] = Counts::new(scope, key);
        }
        narrow.scope = Arc::new(scope);
        for (place, _) in inside.iter().enumerate().filter(|(_, inside)| **inside) {
            for (index, _) in cluster.rows_at(nodes.index_at_place(place)) {
                narrow.count_by(cluster, index, place, true, false, |number| narrowed[number]);
            }
        }
        for (index, place) in nominated.iter().filter(|(_, place)| inside[*place]) {
            narrow.count_by(cluster, *index, *place, true, true, |number| narrowed[number]);
        }
        Some(narrow)
    }

    /// Returns true if any spread, affinity or anti-affinity rule of the members, or one of the pod against the members, counts the pod, so
    /// that its removal can matter.
    pub(super) fn is_counted(&self, cluster: &Cluster, index: PodIndex) -> bool {
        !self.rules.counters_of(cluster, index).is_empty()
    }

    /// Returns true if a pod can decide whether members fit on other nodes than the pod's own: a spread or affinity constraint counts it,
    /// or an anti-affinity constraint does by a topology key of which a domain has several nodes.
    pub(super) fn matters_on_other_nodes(&self, cluster: &Cluster, index: PodIndex) -> bool {
        self.rules.counters_of(cluster, index).iter().any(|number| {
            let rule = &self.rules.rules[usize::from(*number)];
            matches!(rule.pods, CountedPods::Peers(..) | CountedPods::Wanted(_)) || self.rules.keys[rule.key].shared
        })
    }

    /// Returns, for the placed members, which anti-affinity rules apply to them in which topology domain: the number of the rule's counter
    /// (the pods that it counts), and the domain of the member's node. One more pod counted there would make that member infeasible.
    /// `placed` has the members with the positions of their nodes among all nodes.
    pub(super) fn anti_affinity_counters(
        &self,
        placed: impl Iterator<Item = (PodIndex, Rank)>,
    ) -> BTreeSet<(usize, DomainNumber)> {
        let mut watched = BTreeSet::new();
        for (member, place) in placed {
            let looker =
                self.rules.members.get(&member).and_then(|class| self.rules.constraints_by_class[*class].as_ref());
            let counters = looker.into_iter().flat_map(|looker| looker.unwanted.iter().chain(&looker.guards));
            watched
                .extend(counters.map(|counter| (*counter, self.rules.keys[self.rules.rules[*counter].key].of[place])));
        }
        watched
    }

    /// Returns true if all placed members remain feasible when the pod `index` is put back on its node, at the position `place` among all
    /// nodes, and false if one does not. `watched` is the result of [`Self::anti_affinity_counters`] for these members. `None` if that
    /// cannot be decided from `watched`, because a spread or affinity constraint counts the pod.
    pub(super) fn leaves_in_place(
        &self,
        cluster: &Cluster,
        index: PodIndex,
        place: Rank,
        watched: &BTreeSet<(usize, DomainNumber)>,
    ) -> Option<bool> {
        let (mut leaves, mut sure) = (true, true);
        for number in self.rules.counters_of(cluster, index).iter().map(|number| usize::from(*number)) {
            let rule = &self.rules.rules[number];
            let domain = self.rules.keys[rule.key].of[place];
            match rule.pods {
                CountedPods::Unwanted(..) | CountedPods::Guards(_) => {
                    leaves &= domain == NOWHERE || !watched.contains(&(number, domain));
                }
                CountedPods::Peers(..) | CountedPods::Wanted(_) => sure = false,
            }
        }
        (sure || !leaves).then_some(leaves)
    }

    /// Returns the number of cells. A cell is a set of nodes that are in the same domain of every topology key of an inter-pod rule.
    pub(super) fn cells(&self) -> usize {
        self.rules.number_of_cells
    }

    /// Returns the number of the cell (nodes in the same topology domains), from 0, of the node at this position among all nodes.
    pub(super) fn cell(&self, place: Rank) -> usize {
        self.rules.cells[place] as usize
    }

    /// Returns the number of the class of a member: members of one class are equal for all inter-pod constraints. Pods that are no members
    /// get the number of classes.
    pub(super) fn constraint_class(&self, member: PodIndex) -> usize {
        self.rules.members.get(&member).copied().unwrap_or(self.rules.constraints_by_class.len())
    }

    /// Returns for each of the nodes at these positions among all nodes, in their order: true if the required pod affinity of all `members`
    /// excludes it, and the domains of the node for those topology keys that have at most half as many domains as `places` has nodes. Only
    /// the first [`MOST_CLASSES_EXCLUDING`] classes of members are evaluated.
    pub(super) fn affinity_and_domains(&self, members: &[PodIndex], places: &[Rank]) -> Vec<(bool, NodeDomains)> {
        let mut kinds: BTreeMap<usize, PodIndex> = BTreeMap::new();
        for member in members {
            kinds.entry(self.constraint_class(*member)).or_insert(*member);
        }
        let asked = || kinds.values().take(MOST_CLASSES_EXCLUDING);
        let keys: Vec<&TopologyKey<'_>> =
            self.rules.keys.iter().filter(|key| 2 * key.domains <= places.len()).collect();
        let mut away: BTreeMap<usize, bool> = BTreeMap::new();
        let of_place = |place: &Rank| {
            let kept_away =
                || asked().all(|member| self.violated_constraint(*member, *place) == Some(Objection::Affinity));
            let domains = keys.iter().map(|key| key.of[*place]).collect();
            (*away.entry(self.cell(*place)).or_insert_with(kept_away), domains)
        };
        places.iter().map(of_place).collect()
    }

    /// Returns which upper bound the constraints of the members exceed, in words; `None` if all of them are evaluated.
    pub(super) fn excess(&self) -> Option<&str> {
        self.rules.excess.as_deref()
    }

    /// Returns true if an inter-pod constraint, its own or another pod's, can make a node infeasible for a member.
    pub(super) fn is_constrained(&self, member: PodIndex) -> bool {
        self.rules.members.get(&member).is_some_and(|class| {
            let Some(looker) = &self.rules.constraints_by_class[*class] else { return true };
            let ClassConstraints { spread, unwanted, guards, wanted, .. } = looker;
            !(spread.is_empty() && unwanted.is_empty() && guards.is_empty() && wanted.is_empty())
        })
    }

    /// Returns the kind of inter-pod constraint that makes a node infeasible for a member; `None` if none does. `place` is the position of
    /// the node among all nodes; the result is the same for all nodes of a cell (nodes in the same topology domains).
    pub(super) fn violated_constraint(&self, member: PodIndex, place: Rank) -> Option<Objection> {
        self.first_violated(member, place).map(|(objection, _)| objection)
    }

    /// Returns the first counter (the counted pods of one spread or affinity rule) that makes the node at the position `place` among all
    /// nodes infeasible for a member. The node then stays infeasible for all members of its class until the counter's [`CounterState`]
    /// changes or a pod is removed. `None` if no inter-pod constraint makes it infeasible.
    pub(super) fn rejecting_counter(&self, member: PodIndex, place: Rank) -> Option<RejectingCounter> {
        self.first_violated(member, place).map(|(_, counter)| counter)
    }

    /// Returns the state of a counter (the counted pods of one spread or affinity rule), to be compared with a later one; `None` if
    /// `counter` is `None`.
    pub(super) fn counter_state(&self, counter: RejectingCounter) -> Option<CounterState> {
        counter.map(|counter| {
            let counts = &self.counts[counter];
            let (taken, fewest) = match self.rules.rules[counter].pods {
                CountedPods::Peers(..) => (0, counts.two_fewest()),
                CountedPods::Wanted(_) => (counts.taken, [0; 2]),
                CountedPods::Unwanted(..) | CountedPods::Guards(_) => (0, [0; 2]),
            };
            CounterState { taken, nominated: counts.total_nominated, fewest }
        })
    }

    /// Returns the kind of the first inter-pod constraint that makes the node at the position `place` among all nodes infeasible for a
    /// member, and its counter (the counted pods of one spread or affinity rule); `None` if all constraints admit the member. It must be
    /// admitted both with the nominated pods counted and without them.
    fn first_violated(&self, member: PodIndex, place: Rank) -> Option<(Objection, RejectingCounter)> {
        let Some(looker) = &self.rules.constraints_by_class[*self.rules.members.get(&member)?] else {
            return Some((Objection::Spread, None));
        };
        let objection = |with_nominated| self.violated_of_class(looker, place, with_nominated);
        let found = objection(true).or_else(|| {
            let any_reserved = self.counts.iter().any(|counts| counts.total_nominated > 0);
            any_reserved.then(|| objection(false)).flatten()
        });
        found.map(|(objection, counter)| (objection, Some(counter)))
    }

    /// Returns the kind of the first constraint in `looker`, the constraints of a class of members, that the node at the position `place`
    /// among all nodes violates, and its counter (the counted pods of one spread or affinity rule); `None` if it violates none. Nominated
    /// pods are counted if `with_nominated`.
    fn violated_of_class(
        &self,
        looker: &ClassConstraints,
        place: Rank,
        with_nominated: bool,
    ) -> Option<(Objection, usize)> {
        let domain = |counter: usize| self.rules.keys[self.rules.rules[counter].key].of[place];
        let there = |counter: usize, domain: DomainNumber| match domain {
            NOWHERE => 0,
            domain => self.counts[counter].at(domain as usize, with_nominated),
        };
        for (counter, skew, min_domains, itself) in &looker.spread {
            let domain = domain(*counter);
            if domain == NOWHERE {
                return Some((Objection::Spread, *counter));
            }
            let counts = &self.counts[*counter];
            let here = counts.at(domain as usize, with_nominated);
            let fewest = match counts.domains {
                domains if domains < *min_domains => 0,
                _ if self.scope[*counter].over[domain as usize] => counts.fewest_beside(domain as usize, here),
                _ => counts.fewest(),
            };
            if here as usize + itself > skew.saturating_add(fewest) {
                return Some((Objection::Spread, *counter));
            }
        }
        let mut repelling = looker.unwanted.iter().chain(&looker.guards);
        if let Some(counter) = repelling.find(|counter| there(**counter, domain(**counter)) > 0) {
            return Some((Objection::AntiAffinity, *counter));
        }
        if let Some(counter) = looker.wanted.iter().find(|counter| domain(**counter) == NOWHERE) {
            return Some((Objection::Affinity, *counter));
        }
        let indifferent = looker.wanted.iter().find(|counter| there(**counter, domain(**counter)) == 0)?;
        let none_matches = || {
            let total = |counts: &Counts| counts.total + if with_nominated { counts.total_nominated } else { 0 };
            looker.wanted.iter().all(|counter| total(&self.counts[*counter]) == 0)
        };
        let first = looker.wants_itself && none_matches();
        (!first).then_some((Objection::Affinity, *indifferent))
    }

    /// Returns the topology key of the only required affinity term of a member, if the term matches the member itself and no pod that is
    /// bound or placed: the first member may be placed on any node with that label, and the others must be placed in its domain. Otherwise
    /// `None`.
    pub(crate) fn gathering_key(&self, member: PodIndex) -> Option<&'a str> {
        let looker = self.rules.constraints_by_class[*self.rules.members.get(&member)?].as_ref()?;
        let [counter] = looker.wanted[..] else { return None };
        let alone = looker.wants_itself && self.counts[counter].total == 0;
        alone.then(|| self.rules.keys[self.rules.rules[counter].key].name)
    }
}

/// Returns how many topology spread constraints, required affinity terms and required anti-affinity terms a pod has. The pods of each are
/// counted on their own.
fn own_counters(pod: &Pod) -> usize {
    let constraints = &pod.constraints;
    constraints.spread.len() + constraints.affinity.len() + constraints.anti_affinity.len()
}

/// Returns all different required anti-affinity terms of bound pods, of `members`, and of the `nominated` pods.
fn anti_affinity_terms<'a>(
    cluster: &'a Cluster,
    members: &[PodIndex],
    nominated: &[PodIndex],
) -> BTreeSet<&'a AffinityTerm> {
    let unbound = members.iter().chain(nominated).filter_map(|index| cluster.class(cluster.row(*index).class));
    let unbound: BTreeSet<&AffinityTerm> = unbound.flat_map(|class| &class.constraints.anti_affinity).collect();
    let bound = cluster.repelling().flat_map(|(_, class)| &class.constraints.anti_affinity);
    bound.chain(unbound).collect()
}

impl<'a> Rules<'a> {
    /// Returns the index in `keys` of the topology key with this name. If it is new, it is added, with the domain of every node of the
    /// cluster.
    fn key(&mut self, nodes: &Nodes<'a>, name: &'a str) -> usize {
        if let Some(known) = self.keys.iter().position(|key| key.name == name) {
            return known;
        }
        let mut numbers: BTreeMap<&str, DomainNumber> = BTreeMap::new();
        let mut of = Vec::with_capacity(nodes.cluster_len());
        for place in 0..nodes.cluster_len() {
            let next = DomainNumber::try_from(numbers.len()).unwrap_or(NOWHERE);
            let value = nodes.at_place(place).labels.get(name);
            of.push(value.map_or(NOWHERE, |value| *numbers.entry(value).or_insert(next)));
        }
        let shared = of.iter().filter(|domain| **domain != NOWHERE).count() > numbers.len();
        self.keys.push(TopologyKey { name, of, domains: numbers.len(), shared });
        self.keys.len() - 1
    }

    /// Adds a counter of `pods`, by the domains of a topology key (`key` is an index in `keys`). Returns the number of the counter: its
    /// index in `rules`.
    fn add(&mut self, key: usize, pods: CountedPods<'a>) -> usize {
        self.rules.push(CounterRule { key, pods });
        self.rules.len() - 1
    }

    /// Adds the inter-pod constraints of the classes in `constrained`, which are those that have any, up to the upper bounds on classes and
    /// rules; if these are exceeded, it describes that in `excess`. `examples` has one member of every class, `repelling` the anti-affinity
    /// terms of all pods that match a member.
    fn add_classes(
        &mut self,
        cluster: &Cluster,
        nodes: &Nodes<'a>,
        examples: &[&'a Pod],
        constrained: &[usize],
        repelling: &[&'a AffinityTerm],
    ) {
        let own = |class: &usize| own_counters(examples[*class]);
        for (number, class) in constrained.iter().enumerate() {
            if number >= MOST_CLASSES_AROUND {
                self.excess = Some(format!(
                    "its pods are in {} equivalence classes with rules about other pods, more than the {MOST_CLASSES_AROUND} that Giveway \
                     evaluates",
                    constrained.len()
                ));
                return;
            }
            if self.rules.len() + own(class) > MOST_COUNTERS {
                let count = self.rules.len() + constrained[number..].iter().map(own).sum::<usize>();
                self.excess = Some(format!(
                    "its pods have {count} different rules about other pods, more than the {MOST_COUNTERS} that Giveway evaluates"
                ));
                return;
            }
            let looker = self.class_constraints(cluster, nodes, examples[*class], repelling);
            self.constraints_by_class[*class] = Some(looker);
        }
    }

    /// Adds a counter (of the pods that one spread or affinity rule counts) for each inter-pod rule of a class of members, and returns the
    /// rules with the numbers of their counters. `example` is one of the members; `repelling` are anti-affinity terms of all pods, of which
    /// those that match the class get a counter.
    fn class_constraints(
        &mut self,
        cluster: &Cluster,
        nodes: &Nodes<'a>,
        example: &'a Pod,
        repelling: &[&'a AffinityTerm],
    ) -> ClassConstraints {
        let constraints = &example.constraints;
        let mut looker = ClassConstraints::default();
        let keys: Vec<usize> = constraints.spread.iter().map(|c| self.key(nodes, &c.topology_key)).collect();
        for (number, constraint) in constraints.spread.iter().enumerate() {
            let counter = self.add(keys[number], CountedPods::Peers(example, number));
            looker.spread.push((
                counter,
                constraint.max_skew,
                constraint.min_domains,
                usize::from(constraint.selector.as_ref().is_some_and(|selector| selector.matches(&example.labels))),
            ));
        }
        for (number, term) in constraints.anti_affinity.iter().enumerate() {
            let key = self.key(nodes, &term.topology_key);
            looker.unwanted.push(self.add(key, CountedPods::Unwanted(example, number)));
        }
        let guarding: BTreeSet<&str> = repelling
            .iter()
            .filter(|term| affinity_term_matches(cluster, term, example))
            .map(|term| term.topology_key.as_str())
            .collect();
        for name in guarding {
            let key = self.key(nodes, name);
            looker.guards.push(self.add(key, CountedPods::Guards(example)));
        }
        for term in &constraints.affinity {
            let key = self.key(nodes, &term.topology_key);
            looker.wanted.push(self.add(key, CountedPods::Wanted(example)));
        }
        looker.wants_itself = constraints.affinity.iter().all(|term| affinity_term_matches(cluster, term, example));
        looker
    }

    /// Returns which nodes and domains of the whole cluster the topology spread constraint of `rule` counts, including nodes on which no
    /// member may be placed. Empty for a rule of affinity or anti-affinity, which counts every node.
    fn scope(&self, nodes: &Nodes<'a>, rule: &CounterRule<'a>) -> SpreadScope {
        let CountedPods::Peers(pod, number) = rule.pods else { return SpreadScope::default() };
        let constraints = &pod.constraints.spread;
        let is_asked =
            |key: &&TopologyKey<'_>| constraints.iter().any(|constraint| constraint.topology_key == key.name);
        let keys: Vec<&TopologyKey<'_>> = self.keys.iter().filter(is_asked).collect();
        let all = |place: Rank| keys.iter().all(|key| key.of[place] != NOWHERE);
        let counts = |place| all(place) && spread::counts(pod, &constraints[number], nodes.at_place(place));
        SpreadScope::new(&self.keys[rule.key], (0..nodes.cluster_len()).map(counts).collect())
    }

    /// Divides the nodes of the cluster, of which there are `places`, into cells: nodes that are in the same domain of every topology key
    /// get the same number.
    fn number_cells(&mut self, places: usize) {
        let mut numbers: BTreeMap<Vec<DomainNumber>, u32> = BTreeMap::new();
        for place in 0..places {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            let domains: Vec<DomainNumber> = self.keys.iter().map(|key| key.of[place]).collect();
            self.cells.push(*numbers.entry(domains).or_insert(next));
        }
        self.number_of_cells = numbers.len();
    }

    /// Stores which inter-pod rules count each bound pod and each pod of `others`, because pods are counted many times during a search. Of
    /// the bound pods, only those in the namespaces to which the rules refer and those with anti-affinity are read, unless a rule selects
    /// namespaces by label.
    fn index_pods<'o>(&mut self, cluster: &Cluster, others: impl Iterator<Item = &'o PodIndex>) {
        self.set_of_pod = vec![0; cluster.pod_bound()];
        let mut known: BTreeMap<CounterNumbers, u32> = BTreeMap::new();
        // Pods with equal values of the labels that selectors read are counted by the same counters: many pods, few different sets.
        let labels = SelectorLabels::of(self.selectors());
        let mut alike: BTreeMap<_, u32> = BTreeMap::new();
        let mut note = |rules: &mut Self, index: PodIndex| {
            let Some(pod) = cluster.pod_at(index) else { return };
            let (row, repels) = (cluster.row(index), !pod.constraints.anti_affinity.is_empty());
            let repels = repels.then_some(row.class);
            let kind = (pod.key.namespace.as_str(), labels.of_pod(pod), pod.terminating, repels);
            let number = *alike.entry(kind).or_insert_with(|| {
                let marks = rules.find_counters_of(cluster, index);
                let next = u32::try_from(known.len() + 1).unwrap_or(u32::MAX);
                *known.entry(marks).or_insert_with_key(|marks| {
                    rules.sets.push(marks.clone());
                    next
                })
            });
            let counted = !rules.sets[number as usize - 1].is_empty();
            if counted || row.node.is_none() {
                rules.set_of_pod[index as usize] = number;
            }
        };
        others.for_each(|index| note(self, *index));
        match self.namespaces() {
            Some(namespaces) => {
                for namespace in namespaces {
                    cluster.bound_in(namespace).for_each(|index| note(self, index));
                }
                if self.rules.iter().any(|rule| matches!(rule.pods, CountedPods::Guards(_))) {
                    cluster.repelling_pods().for_each(|(_, index)| note(self, index));
                }
            }
            None => cluster.bound().for_each(|index| note(self, index)),
        }
    }

    /// Returns the label selectors of all inter-pod rules that are counted.
    fn selectors(&self) -> impl Iterator<Item = &'a Selector> {
        let of_rule = |rule: &CounterRule<'a>| -> SmallVec<[&'a Selector; 1]> {
            match &rule.pods {
                CountedPods::Peers(pod, number) => pod.constraints.spread[*number].selector.iter().collect(),
                CountedPods::Wanted(pod) => {
                    pod.constraints.affinity.iter().filter_map(|term| term.selector.as_ref()).collect()
                }
                CountedPods::Unwanted(pod, number) => pod.constraints.anti_affinity[*number].selector.iter().collect(),
                CountedPods::Guards(_) => SmallVec::new(),
            }
        };
        self.rules.iter().flat_map(of_rule).collect::<Vec<_>>().into_iter()
    }

    /// Returns the namespaces of the pods that the inter-pod rules can count; `None` if a rule selects namespaces by label. The pods
    /// counted for their own anti-affinity ([`CountedPods::Guards`]) are not included.
    fn namespaces(&self) -> Option<BTreeSet<&'a str>> {
        let mut list = BTreeSet::new();
        for rule in &self.rules {
            let terms: &'a [AffinityTerm] = match &rule.pods {
                CountedPods::Peers(pod, _) => {
                    list.insert(pod.key.namespace.as_str());
                    continue;
                }
                CountedPods::Wanted(pod) => &pod.constraints.affinity,
                CountedPods::Unwanted(pod, number) => std::slice::from_ref(&pod.constraints.anti_affinity[*number]),
                CountedPods::Guards(_) => continue,
            };
            for term in terms {
                if term.namespaces.selector.is_some() {
                    return None;
                }
                list.extend(term.namespaces.names.iter().map(String::as_str));
            }
        }
        Some(list)
    }

    /// Returns which inter-pod rules count a pod, as indexes in `rules`: as stored by [`Self::index_pods`], or computed for a pod without a
    /// node that is not stored.
    fn counters_of(&self, cluster: &Cluster, index: PodIndex) -> Cow<'_, [u16]> {
        match self.set_of_pod.get(index as usize) {
            Some(set) if *set > 0 => Cow::Borrowed(&self.sets[*set as usize - 1]),
            _ if cluster.row(index).node.is_none() => Cow::Owned(self.find_counters_of(cluster, index).into_vec()),
            _ => Cow::Borrowed(&[]),
        }
    }

    /// Computes which inter-pod rules count a pod, as indexes in `rules`, by comparing it with each rule; none if the pod does not exist.
    fn find_counters_of(&self, cluster: &Cluster, index: PodIndex) -> CounterNumbers {
        let Some(pod) = cluster.pod_at(index) else { return CounterNumbers::new() };
        let counted = |rule: &CounterRule<'_>| match rule.pods {
            CountedPods::Peers(member, number) => spread::is_peer(&member.constraints.spread[number], member, pod),
            CountedPods::Wanted(member) => {
                member.constraints.affinity.iter().all(|term| affinity_term_matches(cluster, term, pod))
            }
            CountedPods::Unwanted(member, number) => {
                affinity_term_matches(cluster, &member.constraints.anti_affinity[number], pod)
            }
            CountedPods::Guards(member) => {
                let mut terms = pod.constraints.anti_affinity.iter();
                terms.any(|term| {
                    term.topology_key == self.keys[rule.key].name && affinity_term_matches(cluster, term, member)
                })
            }
        };
        (0u16..).zip(&self.rules).filter(|(_, rule)| counted(rule)).map(|(number, _)| number).collect()
    }
}

impl SpreadScope {
    /// Creates the scope of a spread constraint of this topology key. `counted` says by position of the node among all nodes whether its
    /// pods are counted; the domains of these nodes are those to spread over.
    fn new(key: &TopologyKey<'_>, counted: Vec<bool>) -> Self {
        let mut over = vec![false; key.domains];
        key.of.iter().zip(&counted).filter(|(_, counted)| **counted).for_each(|(d, _)| over[*d as usize] = true);
        Self { counted, over }
    }
}

impl Counts {
    /// Creates the counts of one inter-pod rule with this scope, all 0, for the domains of its topology key.
    fn new(scope: &SpreadScope, key: &TopologyKey<'_>) -> Self {
        let domains = scope.over.iter().filter(|yes| **yes).count();
        let least = if domains > 0 { BTreeMap::from([(0, domains)]) } else { BTreeMap::new() };
        Self { there: vec![0; key.domains], nominated: vec![0; key.domains], least, domains, ..Self::default() }
    }

    /// Adds a pod to the counted pods of the topology domain with this number (`more`), or removes it; `nominated` says that it is only
    /// nominated there.
    fn change(&mut self, domain: usize, more: bool, nominated: bool) {
        let (count, total) = if nominated {
            (&mut self.nominated[domain], &mut self.total_nominated)
        } else {
            (&mut self.there[domain], &mut self.total)
        };
        let before = *count;
        (*count, *total) =
            if more { (before + 1, *total + 1) } else { (before.saturating_sub(1), total.saturating_sub(1)) };
        let after = *count;
        if !nominated {
            self.taken = self.taken + u32::from(before == 0 && after > 0) - u32::from(before > 0 && after == 0);
        }
        if !nominated && !self.least.is_empty() && before != after {
            *self.least.entry(after).or_default() += 1;
            if let Some(domains) = self.least.get_mut(&before) {
                *domains -= 1;
                if *domains == 0 {
                    self.least.remove(&before);
                }
            }
        }
    }

    /// Returns the number of pods that are counted in a domain; nominated pods are included if `with_nominated`.
    fn at(&self, domain: usize, with_nominated: bool) -> u32 {
        self.there[domain] + if with_nominated { self.nominated[domain] } else { 0 }
    }

    /// Returns the pod counts of the two domains with the fewest pods, for a spread constraint; the lower count comes first. With one
    /// domain, its count is returned twice, and without domains twice 0.
    fn two_fewest(&self) -> [u32; 2] {
        let mut least = self.least.iter();
        match (least.next(), least.next()) {
            (Some((fewest, 1)), next) => [*fewest, next.map_or(*fewest, |(count, _)| *count)],
            (Some((fewest, _)), _) => [*fewest; 2],
            (None, _) => [0; 2],
        }
    }

    /// Returns the number of pods in the domain with the fewest pods (kube-scheduler's global minimum of a spread constraint); `usize::MAX`
    /// if there are no domains.
    fn fewest(&self) -> usize {
        self.least.keys().next().map_or(usize::MAX, |count| *count as usize)
    }

    /// Returns the global minimum of a spread constraint if `domain` had `here` pods, and the other domains their counted pods. Nominated
    /// pods in the other domains do not raise it, because they may never be bound there.
    fn fewest_beside(&self, domain: usize, here: u32) -> usize {
        let own = self.there[domain];
        let mut counts = self.least.iter().filter(|(count, domains)| **count != own || **domains > 1);
        let others = counts.next().map_or(here, |(count, _)| *count);
        others.min(here) as usize
    }
}
