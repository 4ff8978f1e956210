//! Counts the pods that inter-pod constraints refer to, by constraint and topology domain, so that no filter has to look at other nodes.
//!
//! A count changes when a pod is placed or removed. A nominated pod counts against a member, and never for it: kube-scheduler runs these
//! filters twice, with and without the nominated pods, and both runs must pass.

mod slack;

pub(crate) use slack::Slack;

use super::kinds::Kinds;
use super::labels::SelectorLabels;
use super::nodes::{Held, Nodes, Rank};
use super::pod_affinity::{AffinityTerms, about};
use super::spread;
use crate::limits::{MOST_CLASSES_AROUND, MOST_CLASSES_EXCLUDING, MOST_COUNTERS};
use crate::model::{AffinityTerm, Cluster, Pod, PodIndex, Selector};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Number of a domain of a key; [`NOWHERE`] for a node without the label.
pub(super) type DomainNumber = u32;
/// The domains of a node, key by key.
pub(crate) type NodeDomains = SmallVec<[DomainNumber; 4]>;
/// No domain.
pub(super) const NOWHERE: DomainNumber = DomainNumber::MAX;

/// Numbers of the counters that count a pod.
type Marks = SmallVec<[u16; 4]>;

/// A label of nodes that makes domains.
struct TopologyKey<'a> {
    name: &'a str,
    /// By position of the node among all nodes.
    of: Vec<DomainNumber>,
    domains: usize,
    /// Whether a domain has more than one node.
    shared: bool,
}

/// Which pods a counter counts.
enum CountedPods<'a> {
    /// Pods to be spread: of a member, by one of its constraints.
    Peers(&'a Pod, usize),
    /// Pods that all affinity terms of a member are about.
    Wanted(&'a Pod),
    /// Pods that one of a member's anti-affinity terms is about.
    Unwanted(&'a Pod, usize),
    /// Pods with an anti-affinity term of the counter's key that is about a member.
    Guards(&'a Pod),
}

/// What a counter counts: pods, by the domains of a topology key. It does not change while members are placed.
struct CounterRule<'a> {
    /// Index in [`Rules::keys`].
    key: usize,
    pods: CountedPods<'a>,
}

/// Scope of a counter for a spread constraint. It is empty for other counters, which count every node.
#[derive(Clone, Default)]
struct Reach {
    /// By position of the node, whether its pods are counted.
    counted: Vec<bool>,
    /// By domain, whether it is one to spread over.
    over: Vec<bool>,
}

/// The inter-pod constraints of a class of members, each by the numbers of the counters on which it depends.
#[derive(Default)]
struct Looker {
    /// Counter, allowed skew, fewest domains, and whether the member counts itself.
    spread: Vec<(usize, usize, usize, usize)>,
    /// By anti-affinity term of the members: the counter of the pods that it excludes.
    unwanted: Vec<usize>,
    /// Counters of other pods whose anti-affinity terms exclude the members.
    guards: Vec<usize>,
    /// By affinity term the counter.
    wanted: Vec<usize>,
    /// Whether all its affinity terms are about itself.
    wants_itself: bool,
}

/// Counters and constraints, which do not change while members are placed.
struct Rules<'a> {
    keys: Vec<TopologyKey<'a>>,
    rules: Vec<CounterRule<'a>>,
    /// By class of members; `None` if its constraints are not evaluated.
    lookers: Vec<Option<Looker>>,
    /// Which upper bound the constraints of the members exceed, in words; `None` if all of them are evaluated.
    excess: Option<String>,
    /// By member: the class of its constraints.
    members: BTreeMap<PodIndex, usize>,
    /// By pod: its index in `sets` plus one; 0 for a bound pod that no counter counts, and for other pods that were not looked up.
    marks: Vec<u32>,
    sets: Vec<Marks>,
    /// By position of the node: nodes of the same number are in the same domains.
    cells: Vec<u32>,
    number_of_cells: usize,
}

/// What one counter has counted, by domain.
#[derive(Clone, Default)]
struct Counts {
    /// Pods that are bound or placed there.
    there: Vec<u32>,
    /// Pods that are only nominated to nodes there.
    held: Vec<u32>,
    /// Sums over all domains.
    total: u32,
    total_held: u32,
    /// In how many domains `there` is not 0.
    taken: u32,
    /// For a spread: how many domains have how many of `there`.
    least: BTreeMap<u32, usize>,
    /// How many domains those are.
    domains: usize,
}

/// State of a counter, on which its result for a domain depends besides the domain's own count. As long as it is unchanged, placing another
/// member opens no domain that the counter closes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct CounterState {
    taken: u32,
    held: u32,
    fewest: [u32; 2],
}

/// Counters of the pods that inter-pod constraints refer to.
#[derive(Clone)]
pub(crate) struct Neighbours<'a> {
    rules: Arc<Rules<'a>>,
    /// By counter.
    reach: Arc<Vec<Reach>>,
    counts: Vec<Counts>,
}

/// Kind of the inter-pod constraint that makes a node infeasible for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Objection {
    Spread,
    AntiAffinity,
    Affinity,
}

/// The counter that rejects a member: the first one that does, or `None` if the constraints of the member are not evaluated.
pub(crate) type RejectingCounter = Option<usize>;

impl<'a> Neighbours<'a> {
    /// Counts the bound pods for members; `None` if no pod has inter-pod constraints. `held` are the nominated pods.
    pub(super) fn new(
        cluster: &'a Cluster,
        nodes: &Nodes<'a>,
        members: &[PodIndex],
        held: &[PodIndex],
    ) -> Option<Self> {
        let others = repelling(cluster, members, held);
        let Kinds { examples, of, matched } = Kinds::new(cluster, members, &others);
        let others: Vec<&AffinityTerm> = others.into_iter().collect();
        let terms = AffinityTerms::new(others.iter().copied());
        let mut terms_about: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (example, number) in examples.iter().zip(&matched) {
            terms_about.entry(*number).or_insert_with(|| terms.about(cluster, example));
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
            lookers: (0..examples.len()).map(|class| (!is_constrained(&class)).then(Looker::default)).collect(),
            excess: None,
            members: of,
            marks: Vec::new(),
            sets: Vec::new(),
            cells: Vec::new(),
            number_of_cells: 0,
        };
        rules.add_lookers(cluster, nodes, &examples, &constrained, &repelling);
        if rules.rules.is_empty() && rules.excess.is_none() {
            return None;
        }
        rules.number_cells(nodes.everywhere());
        rules.mark(cluster, members.iter().chain(held));
        let reach: Vec<Reach> = rules.rules.iter().map(|rule| rules.reach(nodes, rule)).collect();
        let counts =
            rules.rules.iter().zip(&reach).map(|(rule, reach)| Counts::new(reach, &rules.keys[rule.key])).collect();
        let mut neighbours = Self { rules: Arc::new(rules), reach: Arc::new(reach), counts };
        let bound = neighbours.rules.marks.iter().enumerate().filter(|(_, set)| **set > 0);
        for (index, _) in bound.map(|(index, set)| (index, *set)).collect::<Vec<_>>() {
            let index = PodIndex::try_from(index).unwrap_or(PodIndex::MAX);
            if let Some(place) = cluster.row(index).node.and_then(|node| cluster.rank_of(node)) {
                neighbours.count(cluster, index, place, true, false);
            }
        }
        Some(neighbours)
    }

    /// Adds a pod to the counts (`more`), or removes it. `place` is the position of its node among all nodes; `held` says that it is only
    /// nominated.
    pub(super) fn count(&mut self, cluster: &Cluster, index: PodIndex, place: Rank, more: bool, held: bool) {
        self.count_by(cluster, index, place, more, held, |_| true);
    }

    /// Adds a pod to the counts (`more`), or removes it, but only for the counters for which `by` returns true. `place` is the position of
    /// its node among all nodes; `held` says that it is only nominated.
    fn count_by(
        &mut self,
        cluster: &Cluster,
        index: PodIndex,
        place: Rank,
        more: bool,
        held: bool,
        by: impl Fn(usize) -> bool,
    ) {
        let rules = Arc::clone(&self.rules);
        for number in rules.marks_of(cluster, index).iter().map(|number| usize::from(*number)).filter(|n| by(*n)) {
            let domain = rules.keys[rules.rules[number].key].of[place];
            let counted = &self.reach[number].counted;
            if domain != NOWHERE && (counted.is_empty() || counted[place]) {
                self.counts[number].change(domain as usize, more, held);
            }
        }
    }

    /// Returns counters for members that will get a node selector that restricts them to some of the nodes: for a spread constraint that
    /// honours node affinity, kube-scheduler counts these nodes only. `inside` says which, by position among all nodes, and `held` are the
    /// nominated pods with their nodes. Must be called before any pod is removed or placed. `None` if the counts do not differ.
    pub(super) fn within(
        &self,
        cluster: &Cluster,
        nodes: &Nodes<'a>,
        inside: impl Fn(Rank) -> bool,
        held: &[Held],
    ) -> Option<Self> {
        let honours = |rule: &CounterRule<'_>| match rule.pods {
            CountedPods::Peers(pod, number) => pod.constraints.spread[number].honors_affinity,
            _ => false,
        };
        let narrowed: Vec<bool> = self.rules.rules.iter().map(honours).collect();
        if !narrowed.contains(&true) {
            return None;
        }
        let inside: Vec<bool> = (0..nodes.everywhere()).map(inside).collect();
        let mut narrow = self.clone();
        let mut reach = (*self.reach).clone();
        for (number, reach) in reach.iter_mut().enumerate().filter(|(number, _)| narrowed[*number]) {
            let key = &self.rules.keys[self.rules.rules[number].key];
            let counted = reach.counted.iter().zip(&inside).map(|(counted, inside)| *counted && *inside);
            *reach = Reach::new(key, counted.collect());
            narrow.counts[number] = Counts::new(reach, key);
        }
        narrow.reach = Arc::new(reach);
        for (place, _) in inside.iter().enumerate().filter(|(_, inside)| **inside) {
            for (index, _) in cluster.rows_at(nodes.index_in_place(place)) {
                narrow.count_by(cluster, index, place, true, false, |number| narrowed[number]);
            }
        }
        for (index, place) in held.iter().filter(|(_, place)| inside[*place]) {
            narrow.count_by(cluster, *index, *place, true, true, |number| narrowed[number]);
        }
        Some(narrow)
    }

    /// Returns true if any counter counts the pod, so that its removal can matter for an inter-pod constraint.
    pub(super) fn knows(&self, cluster: &Cluster, index: PodIndex) -> bool {
        !self.rules.marks_of(cluster, index).is_empty()
    }

    /// Returns true if a pod matters for members on other nodes than its own: a counter of it counts by domains of several nodes, or is
    /// compared with other domains.
    pub(super) fn knows_from_afar(&self, cluster: &Cluster, index: PodIndex) -> bool {
        self.rules.marks_of(cluster, index).iter().any(|number| {
            let rule = &self.rules.rules[usize::from(*number)];
            matches!(rule.pods, CountedPods::Peers(..) | CountedPods::Wanted(_)) || self.rules.keys[rule.key].shared
        })
    }

    /// Returns the counters of anti-affinity, each with the domain, that would reject these placed members if a pod that they count were
    /// added to the domain. `placed` has positions among all nodes.
    pub(super) fn watched(&self, placed: impl Iterator<Item = (PodIndex, Rank)>) -> BTreeSet<(usize, DomainNumber)> {
        let mut watched = BTreeSet::new();
        for (member, place) in placed {
            let looker = self.rules.members.get(&member).and_then(|class| self.rules.lookers[*class].as_ref());
            let counters = looker.into_iter().flat_map(|looker| looker.unwanted.iter().chain(&looker.guards));
            watched
                .extend(counters.map(|counter| (*counter, self.rules.keys[self.rules.rules[*counter].key].of[place])));
        }
        watched
    }

    /// Returns whether all members remain feasible on their nodes when a pod is put back on its node; `None` if that cannot be decided from
    /// the pod alone, because counters other than those of anti-affinity count it.
    pub(super) fn leaves_in_place(
        &self,
        cluster: &Cluster,
        index: PodIndex,
        place: Rank,
        watched: &BTreeSet<(usize, DomainNumber)>,
    ) -> Option<bool> {
        let (mut leaves, mut sure) = (true, true);
        for number in self.rules.marks_of(cluster, index).iter().map(|number| usize::from(*number)) {
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

    /// Returns the number of cells. A cell is a set of nodes that are in the same domains of all topology keys.
    pub(super) fn cells(&self) -> usize {
        self.rules.number_of_cells
    }

    /// Returns the number of the cell of the node at this position among all nodes.
    pub(super) fn cell(&self, place: Rank) -> usize {
        self.rules.cells[place] as usize
    }

    /// Returns the class of a member: members of one class are equal for all inter-pod constraints.
    pub(super) fn kind(&self, member: PodIndex) -> usize {
        self.rules.members.get(&member).copied().unwrap_or(self.rules.lookers.len())
    }

    /// Returns for each of these nodes, in order: whether the affinity of all members excludes it, and its domains,
    /// for topology keys with at most half as many domains as these nodes. Only the first [`MOST_CLASSES_EXCLUDING`] classes of
    /// members are evaluated.
    pub(super) fn around(&self, members: &[PodIndex], places: &[Rank]) -> Vec<(bool, NodeDomains)> {
        let mut kinds: BTreeMap<usize, PodIndex> = BTreeMap::new();
        for member in members {
            kinds.entry(self.kind(*member)).or_insert(*member);
        }
        let asked = || kinds.values().take(MOST_CLASSES_EXCLUDING);
        let keys: Vec<&TopologyKey<'_>> =
            self.rules.keys.iter().filter(|key| 2 * key.domains <= places.len()).collect();
        let mut away: BTreeMap<usize, bool> = BTreeMap::new();
        let of_place = |place: &Rank| {
            let kept_away = || asked().all(|member| self.object(*member, *place) == Some(Objection::Affinity));
            let domains = keys.iter().map(|key| key.of[*place]).collect();
            (*away.entry(self.cell(*place)).or_insert_with(kept_away), domains)
        };
        places.iter().map(of_place).collect()
    }

    /// Returns which upper bound the constraints of the members exceed, in words; `None` if all of them are evaluated.
    pub(super) fn excess(&self) -> Option<&str> {
        self.rules.excess.as_deref()
    }

    /// Returns true if an inter-pod constraint can make a node infeasible for a member.
    pub(super) fn concern(&self, member: PodIndex) -> bool {
        self.rules.members.get(&member).is_some_and(|class| {
            let Some(looker) = &self.rules.lookers[*class] else { return true };
            let Looker { spread, unwanted, guards, wanted, .. } = looker;
            !(spread.is_empty() && unwanted.is_empty() && guards.is_empty() && wanted.is_empty())
        })
    }

    /// Returns the kind of inter-pod constraint that makes the node at the position `place` among all nodes infeasible for a member; `None`
    /// if none does. The result is equal for all nodes of a cell.
    pub(super) fn object(&self, member: PodIndex, place: Rank) -> Option<Objection> {
        self.objection(member, place).map(|(objection, _)| objection)
    }

    /// Returns the counter that makes a node infeasible for a member and all members of its class until the counter's [`CounterState`]
    /// changes or a pod is removed; `None` if no constraint makes it infeasible.
    pub(super) fn rejecting_counter(&self, member: PodIndex, place: Rank) -> Option<RejectingCounter> {
        self.objection(member, place).map(|(_, counter)| counter)
    }

    /// Returns the state of a counter on which its results depend besides the counts of its domains; `None` if there is no such counter.
    pub(super) fn counter_state(&self, counter: RejectingCounter) -> Option<CounterState> {
        counter.map(|counter| {
            let counts = &self.counts[counter];
            let (taken, fewest) = match self.rules.rules[counter].pods {
                CountedPods::Peers(..) => (0, counts.two_fewest()),
                CountedPods::Wanted(_) => (counts.taken, [0; 2]),
                CountedPods::Unwanted(..) | CountedPods::Guards(_) => (0, [0; 2]),
            };
            CounterState { taken, held: counts.total_held, fewest }
        })
    }

    /// Returns the first inter-pod constraint that keeps a member off a node, with its counter; `None` if all admit
    /// it. Nominated pods count, and if that admits the member, it must be admitted without them, too.
    fn objection(&self, member: PodIndex, place: Rank) -> Option<(Objection, RejectingCounter)> {
        let Some(looker) = &self.rules.lookers[*self.rules.members.get(&member)?] else {
            return Some((Objection::Spread, None));
        };
        let objection = |held_too| self.object_to(looker, place, held_too);
        let found = objection(true).or_else(|| {
            let any_reserved = self.counts.iter().any(|counts| counts.total_held > 0);
            any_reserved.then(|| objection(false)).flatten()
        });
        found.map(|(objection, counter)| (objection, Some(counter)))
    }

    /// Returns the first constraint of a class of members that the node at the position `place` violates, with its counter; `None` if it
    /// violates none. Nominated pods count if `held_too`.
    fn object_to(&self, looker: &Looker, place: Rank, held_too: bool) -> Option<(Objection, usize)> {
        let domain = |counter: usize| self.rules.keys[self.rules.rules[counter].key].of[place];
        let there = |counter: usize, domain: DomainNumber| match domain {
            NOWHERE => 0,
            domain => self.counts[counter].at(domain as usize, held_too),
        };
        for (counter, skew, min_domains, itself) in &looker.spread {
            let domain = domain(*counter);
            if domain == NOWHERE {
                return Some((Objection::Spread, *counter));
            }
            let counts = &self.counts[*counter];
            let here = counts.at(domain as usize, held_too);
            let fewest = match counts.domains {
                domains if domains < *min_domains => 0,
                _ if self.reach[*counter].over[domain as usize] => counts.fewest_beside(domain as usize, here),
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
            let total = |counts: &Counts| counts.total + if held_too { counts.total_held } else { 0 };
            looker.wanted.iter().all(|counter| total(&self.counts[*counter]) == 0)
        };
        let first = looker.wants_itself && none_matches();
        (!first).then_some((Objection::Affinity, *indifferent))
    }

    /// Returns the topology key of the only affinity term of a member, if the term matches the member itself and no pod that is present:
    /// the first member may be placed on any node with that label, and the others must follow into its domain.
    pub(crate) fn gathers(&self, member: PodIndex) -> Option<&'a str> {
        let looker = self.rules.lookers[*self.rules.members.get(&member)?].as_ref()?;
        let [counter] = looker.wanted[..] else { return None };
        let alone = looker.wants_itself && self.counts[counter].total == 0;
        alone.then(|| self.rules.keys[self.rules.rules[counter].key].name)
    }
}

/// Returns how many counters the constraints of a pod itself need.
fn own_counters(pod: &Pod) -> usize {
    let constraints = &pod.constraints;
    constraints.spread.len() + constraints.affinity.len() + constraints.anti_affinity.len()
}

/// Returns the anti-affinity terms of bound pods, of members, and of nominated pods.
fn repelling<'a>(cluster: &'a Cluster, members: &[PodIndex], held: &[PodIndex]) -> BTreeSet<&'a AffinityTerm> {
    let unbound = members.iter().chain(held).filter_map(|index| cluster.class(cluster.row(*index).class));
    let unbound: BTreeSet<&AffinityTerm> = unbound.flat_map(|class| &class.constraints.anti_affinity).collect();
    let bound = cluster.repelling().flat_map(|(_, class)| &class.constraints.anti_affinity);
    bound.chain(unbound).collect()
}

impl<'a> Rules<'a> {
    /// Returns the number of the topology key with this name. A new key is added, with the domain of every node.
    fn key(&mut self, nodes: &Nodes<'a>, name: &'a str) -> usize {
        if let Some(known) = self.keys.iter().position(|key| key.name == name) {
            return known;
        }
        let mut numbers: BTreeMap<&str, DomainNumber> = BTreeMap::new();
        let mut of = Vec::with_capacity(nodes.everywhere());
        for place in 0..nodes.everywhere() {
            let next = DomainNumber::try_from(numbers.len()).unwrap_or(NOWHERE);
            let value = nodes.in_place(place).labels.get(name);
            of.push(value.map_or(NOWHERE, |value| *numbers.entry(value).or_insert(next)));
        }
        let shared = of.iter().filter(|domain| **domain != NOWHERE).count() > numbers.len();
        self.keys.push(TopologyKey { name, of, domains: numbers.len(), shared });
        self.keys.len() - 1
    }

    /// Adds a counter of `pods` by the domains of the topology key with the number `key`, and returns the counter's number.
    fn add(&mut self, key: usize, pods: CountedPods<'a>) -> usize {
        self.rules.push(CounterRule { key, pods });
        self.rules.len() - 1
    }

    /// Adds the constraints of those classes of members that have any (`constrained`), as far as the upper bounds allow; above these, it
    /// sets `excess`. `examples` has one pod of every class, `repelling` the anti-affinity terms of all pods.
    fn add_lookers(
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
            let looker = self.looker(cluster, nodes, examples[*class], repelling);
            self.lookers[*class] = Some(looker);
        }
    }

    /// Adds the counters that a class of members needs, given one of its pods and the anti-affinity terms of other pods. Returns the
    /// constraints of the class.
    fn looker(
        &mut self,
        cluster: &Cluster,
        nodes: &Nodes<'a>,
        example: &'a Pod,
        repelling: &[&'a AffinityTerm],
    ) -> Looker {
        let constraints = &example.constraints;
        let mut looker = Looker::default();
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
            .filter(|term| about(cluster, term, example))
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
        looker.wants_itself = constraints.affinity.iter().all(|term| about(cluster, term, example));
        looker
    }

    /// Returns which nodes and domains of the whole cluster the topology spread constraint behind `rule` counts, also nodes on which no member
    /// may be placed. A rule of another kind counts every node, and gets an empty value.
    fn reach(&self, nodes: &Nodes<'a>, rule: &CounterRule<'a>) -> Reach {
        let CountedPods::Peers(pod, number) = rule.pods else { return Reach::default() };
        let constraints = &pod.constraints.spread;
        let is_asked =
            |key: &&TopologyKey<'_>| constraints.iter().any(|constraint| constraint.topology_key == key.name);
        let keys: Vec<&TopologyKey<'_>> = self.keys.iter().filter(is_asked).collect();
        let all = |place: Rank| keys.iter().all(|key| key.of[place] != NOWHERE);
        let counts = |place| all(place) && spread::counts(pod, &constraints[number], nodes.in_place(place));
        Reach::new(&self.keys[rule.key], (0..nodes.everywhere()).map(counts).collect())
    }

    /// Numbers the `places` nodes of the cluster such that nodes of one number are in the same domains of all topology keys.
    fn number_cells(&mut self, places: usize) {
        let mut numbers: BTreeMap<Vec<DomainNumber>, u32> = BTreeMap::new();
        for place in 0..places {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            let domains: Vec<DomainNumber> = self.keys.iter().map(|key| key.of[place]).collect();
            self.cells.push(*numbers.entry(domains).or_insert(next));
        }
        self.number_of_cells = numbers.len();
    }

    /// Stores by which counters the bound pods and `others` are counted, because each is counted many times during a search.
    /// Only namespaces to which a constraint refers are read, unless a constraint selects namespaces by label.
    fn mark<'o>(&mut self, cluster: &Cluster, others: impl Iterator<Item = &'o PodIndex>) {
        self.marks = vec![0; cluster.pod_bound()];
        let mut known: BTreeMap<Marks, u32> = BTreeMap::new();
        // Pods with equal values of the labels that selectors read are counted by the same counters: many pods, few different sets.
        let labels = SelectorLabels::of(self.selectors());
        let mut alike: BTreeMap<_, u32> = BTreeMap::new();
        let mut note = |rules: &mut Self, index: PodIndex| {
            let Some(pod) = cluster.pod_at(index) else { return };
            let (row, repels) = (cluster.row(index), !pod.constraints.anti_affinity.is_empty());
            let repels = repels.then_some(row.class);
            let kind = (pod.key.namespace.as_str(), labels.of_pod(pod), pod.terminating, repels);
            let number = *alike.entry(kind).or_insert_with(|| {
                let marks = rules.find_marks(cluster, index);
                let next = u32::try_from(known.len() + 1).unwrap_or(u32::MAX);
                *known.entry(marks).or_insert_with_key(|marks| {
                    rules.sets.push(marks.clone());
                    next
                })
            });
            let counted = !rules.sets[number as usize - 1].is_empty();
            if counted || row.node.is_none() {
                rules.marks[index as usize] = number;
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

    /// Returns the selectors of the pods that the counters count.
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

    /// Returns the namespaces to whose pods the constraints refer; `None` if a constraint selects namespaces by label.
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

    /// Returns which counters count a pod: as stored by [`Self::mark`], or computed for a pod without a node that is not stored.
    fn marks_of(&self, cluster: &Cluster, index: PodIndex) -> Cow<'_, [u16]> {
        match self.marks.get(index as usize) {
            Some(set) if *set > 0 => Cow::Borrowed(&self.sets[*set as usize - 1]),
            _ if cluster.row(index).node.is_none() => Cow::Owned(self.find_marks(cluster, index).into_vec()),
            _ => Cow::Borrowed(&[]),
        }
    }

    /// Computes which counters count a pod, by comparing it with the rule of each; none if the pod does not exist.
    fn find_marks(&self, cluster: &Cluster, index: PodIndex) -> Marks {
        let Some(pod) = cluster.pod_at(index) else { return Marks::new() };
        let counted = |rule: &CounterRule<'_>| match rule.pods {
            CountedPods::Peers(member, number) => spread::is_peer(&member.constraints.spread[number], member, pod),
            CountedPods::Wanted(member) => member.constraints.affinity.iter().all(|term| about(cluster, term, pod)),
            CountedPods::Unwanted(member, number) => about(cluster, &member.constraints.anti_affinity[number], pod),
            CountedPods::Guards(member) => {
                let mut terms = pod.constraints.anti_affinity.iter();
                terms.any(|term| term.topology_key == self.keys[rule.key].name && about(cluster, term, member))
            }
        };
        (0u16..).zip(&self.rules).filter(|(_, rule)| counted(rule)).map(|(number, _)| number).collect()
    }
}

impl Reach {
    /// Creates the scope of a spread constraint; `counted` says by position whether a node's pods are counted.
    fn new(key: &TopologyKey<'_>, counted: Vec<bool>) -> Self {
        let mut over = vec![false; key.domains];
        key.of.iter().zip(&counted).filter(|(_, counted)| **counted).for_each(|(d, _)| over[*d as usize] = true);
        Self { counted, over }
    }
}

impl Counts {
    /// Creates the counts of a counter for the domains of a topology key, all 0.
    fn new(reach: &Reach, key: &TopologyKey<'_>) -> Self {
        let domains = reach.over.iter().filter(|yes| **yes).count();
        let least = if domains > 0 { BTreeMap::from([(0, domains)]) } else { BTreeMap::new() };
        Self { there: vec![0; key.domains], held: vec![0; key.domains], least, domains, ..Self::default() }
    }

    /// Adds a pod to the counts of a domain (`more`), or removes it; `held` says that it is only nominated.
    fn change(&mut self, domain: usize, more: bool, held: bool) {
        let (count, total) = if held {
            (&mut self.held[domain], &mut self.total_held)
        } else {
            (&mut self.there[domain], &mut self.total)
        };
        let before = *count;
        (*count, *total) =
            if more { (before + 1, *total + 1) } else { (before.saturating_sub(1), total.saturating_sub(1)) };
        let after = *count;
        if !held {
            self.taken = self.taken + u32::from(before == 0 && after > 0) - u32::from(before > 0 && after == 0);
        }
        if !held && !self.least.is_empty() && before != after {
            *self.least.entry(after).or_default() += 1;
            if let Some(domains) = self.least.get_mut(&before) {
                *domains -= 1;
                if *domains == 0 {
                    self.least.remove(&before);
                }
            }
        }
    }

    /// Returns the number of pods in a domain, with the nominated ones if `held_too`.
    fn at(&self, domain: usize, held_too: bool) -> u32 {
        self.there[domain] + if held_too { self.held[domain] } else { 0 }
    }

    /// Returns the pod counts of the two domains with the fewest pods, the lower one first; 0 if there are no domains.
    fn two_fewest(&self) -> [u32; 2] {
        let mut least = self.least.iter();
        match (least.next(), least.next()) {
            (Some((fewest, 1)), next) => [*fewest, next.map_or(*fewest, |(count, _)| *count)],
            (Some((fewest, _)), _) => [*fewest; 2],
            (None, _) => [0; 2],
        }
    }

    /// Returns the number of pods in the domain with the fewest pods (the global minimum of a spread constraint); `usize::MAX` if there are
    /// no domains.
    fn fewest(&self) -> usize {
        self.least.keys().next().map_or(usize::MAX, |count| *count as usize)
    }

    /// Returns the global minimum if `domain` has `here` pods and all other domains have theirs. Nominated pods on other nodes do not raise
    /// it, because they may never be bound there.
    fn fewest_beside(&self, domain: usize, here: u32) -> usize {
        let own = self.there[domain];
        let mut counts = self.least.iter().filter(|(count, domains)| **count != own || **domains > 1);
        let others = counts.next().map_or(here, |(count, _)| *count);
        others.min(here) as usize
    }
}
