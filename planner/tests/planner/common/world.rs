//! Random small worlds in plain numbers, the objects they stand for, and the oracle: every choice of victims with every
//! placement, tried one by one, with arithmetic of its own.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use proptest::{bool, option};
use std::cell::Cell;
use std::cmp::Reverse;

/// A pod that runs.
#[derive(Clone, Debug)]
pub struct Low {
    pub name: String,
    pub node: usize,
    pub cpus: usize,
    pub priority: i32,
    pub group: Option<usize>,
    pub app: usize,
    pub guarded: bool,
    pub leaving: bool,
    pub start: i64,
}

/// Nodes, pods, and a preemptor of priority 50. Budget `b` covers the pods of app `b`, the last one also those of
/// app 1, which are under two budgets.
#[derive(Clone, Debug)]
pub struct World {
    pub nodes: Vec<usize>,
    pub pods: Vec<Low>,
    /// Priority, and whether the group is disrupted together.
    pub groups: Vec<(i32, bool)>,
    pub budgets: Vec<usize>,
    /// CPUs of each member.
    pub members: Vec<usize>,
    pub need: usize,
    /// True if units are evicted for all members, and not only for those that are needed.
    pub for_all: bool,
    /// True if at most one member may run on a node.
    pub apart: bool,
    /// True if the preemptor is a single pod.
    pub single: bool,
    /// The inter-pod constraints of the members.
    pub around: Around,
    /// Further nodes, which are cordoned: with them the cluster is too large for every node to be evaluated.
    pub cordoned: usize,
}

/// Inter-pod constraints of members. Node `n` is in zone `n % 3`, and the pods of app 3 are peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Around {
    /// Nothing.
    Nothing,
    /// At most so many more of them and their peers in a zone than in the one that has least.
    Spread(usize),
    /// A zone with one of them or a peer in it, unless there is none anywhere.
    Together,
    /// One zone for all of them, by the topology constraint of the group.
    Domain,
    /// The zone of its volume: member `m`'s is in zone `m % 3`.
    Volumes,
}

const ZONES: usize = 3;
/// 2026-01-01T00:00:00Z, from which the starts of pods are counted, in seconds.
const START: i64 = 1_767_225_600;

/// What plans are compared by, without ties: violations, highest priority, sum of priorities, pods.
pub type MainCost = (usize, Option<i32>, u64, usize);

/// What plans for a single pod are compared by, up to their number of pods.
pub type Losses = ((usize, Option<i32>, u64), usize, u64, usize);

/// How large worlds get.
#[derive(Clone, Copy)]
pub struct Size {
    pub nodes: usize,
    pub cpus: usize,
    pub pods: usize,
    pub groups: usize,
    pub members: usize,
}

pub const TINY: Size = Size { nodes: 4, cpus: 4, pods: 8, groups: 3, members: 4 };
pub const RACKS: Size = Size { nodes: 7, cpus: 4, pods: 11, groups: 3, members: 3 };
/// More nodes than the planner evaluates one by one.
pub const MANY_NODES: usize = 70;
pub const LARGER: Size = Size { nodes: 14, cpus: 8, pods: 60, groups: 12, members: 9 };

fn priorities() -> impl Strategy<Value = i32> {
    (0..7).prop_map(|tens| tens * 10)
}

fn lows(size: Size) -> impl Strategy<Value = Vec<Low>> {
    let one = (
        (0..size.nodes, 1..=2usize, priorities(), option::of(0..size.groups)),
        (0..4usize, bool::weighted(1.0 / 6.0), bool::weighted(1.0 / 12.0), 0..3i64),
    );
    let low = |((node, cpus, priority, group), (app, guarded, leaving, start))| Low {
        name: String::new(),
        node,
        cpus,
        priority,
        group,
        app,
        guarded,
        leaving,
        start,
    };
    vec(one.prop_map(low), size.pods / 4..=size.pods)
}

/// Random worlds up to this size.
pub fn worlds(size: Size) -> impl Strategy<Value = World> {
    let nodes = vec(1..=size.cpus, 1..=size.nodes);
    let groups = vec((priorities(), bool::weighted(2.0 / 3.0)), size.groups);
    let budgets = option::weighted(2.0 / 3.0, vec(0..3usize, 3)).prop_map(Option::unwrap_or_default);
    let alike = (1..=2usize, 1..=size.members).prop_map(|(cpus, count)| vec![cpus; count]);
    let members = prop_oneof![alike, vec(1..=3usize, 1..=size.members)];
    let preemptor = (members, 0..size.members, bool::weighted(0.2), bool::weighted(0.25), bool::ANY);
    (nodes, groups, budgets, lows(size), preemptor).prop_map(
        |(nodes, groups, budgets, lows, (mut members, need, apart, single, for_all))| {
            members.truncate(if single { 1 } else { members.len() });
            let need = 1 + need % members.len();
            World {
                pods: running(&nodes, lows),
                nodes,
                groups,
                budgets,
                members,
                need,
                for_all,
                apart,
                single,
                around: Around::Nothing,
                cordoned: 0,
            }
        },
    )
}

/// Random worlds with inter-pod constraints; the members are equal except for their requests.
pub fn worlds_around(size: Size) -> impl Strategy<Value = World> {
    let around = prop_oneof![
        (1..=2usize).prop_map(Around::Spread),
        Just(Around::Together),
        Just(Around::Domain),
        Just(Around::Volumes)
    ];
    (worlds(size), around).prop_map(|(world, around)| {
        let single = world.single && around != Around::Domain;
        let mut members = world.members.clone();
        if matches!(around, Around::Spread(_)) {
            members = vec![members[0]; members.len()];
        }
        World { apart: false, single, around, members, ..world }
    })
}

/// Random worlds with budgets over several racks, priorities and whole groups, in a cluster with many cordoned nodes: for a gang in one
/// rack, or anywhere.
pub fn worlds_of_racks(size: Size, around: Around) -> impl Strategy<Value = World> {
    let budgets = vec(0..4usize, 3);
    (worlds(size), budgets, 1..=4usize, prop_oneof![Just(0), Just(MANY_NODES)]).prop_map(
        move |(world, budgets, apps, cordoned)| {
            let pods = world.pods.iter().map(|low| Low { app: low.app % apps, ..low.clone() }).collect();
            let single = world.single && around == Around::Nothing;
            let alike = || vec![world.members[0]; world.members.len()];
            let members = if matches!(around, Around::Spread(_)) { alike() } else { world.members.clone() };
            let apart = world.apart && around == Around::Nothing;
            World { apart, single, pods, members, around, budgets, cordoned, ..world }
        },
    )
}

/// Those of the pods that fit, each on its node.
fn running(nodes: &[usize], lows: Vec<Low>) -> Vec<Low> {
    let mut free = nodes.to_vec();
    let mut pods = Vec::new();
    for (p, low) in lows.into_iter().enumerate() {
        let node = low.node % nodes.len();
        if free[node] >= low.cpus {
            free[node] -= low.cpus;
            pods.push(Low { name: format!("p-{p:02}"), node, ..low });
        }
    }
    pods
}

/// A number from outside, such as `SEED=7`.
fn outside(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a whole number is expected")))
}

/// The same cases on every machine, and nothing written beside the tests. `SEED` in the environment gives other ones, `CASES`
/// so many times as many.
pub fn runner(cases: u32, seed: u64) -> TestRunner {
    let outside_seed = outside("SEED").unwrap_or_default();
    let cases = cases * u32::try_from(outside("CASES").unwrap_or(1)).unwrap();
    println!("SEED={outside_seed}: {cases} cases");
    let rng_seed = RngSeed::Fixed(seed ^ outside_seed << 8);
    TestRunner::new(ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() })
}

/// Checks a property of random values; what fails is shrunk. The property says whether the case was one that it is
/// about; returns how many were.
pub fn for_all<S: Strategy>(
    cases: u32,
    seed: u64,
    values: S,
    property: impl Fn(S::Value) -> Result<bool, TestCaseError>,
) -> usize {
    let meant = Cell::new(0);
    let outcome = runner(cases, seed).run(&values, |value| {
        meant.set(meant.get() + usize::from(property(value)?));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    println!("the slowest decision of this process so far took {:?}", slowest());
    meant.get()
}

impl World {
    pub fn preemptor(&self) -> Preemptor {
        if self.single { for_pod("g-0") } else { for_group("g") }
    }

    /// The objects of this world.
    pub fn objects(&self) -> Vec<Built> {
        let mut all: Vec<Built> = self.nodes.iter().enumerate().map(|(n, cpus)| self.node(n, *cpus)).collect();
        let cordoned = |n: usize| node(&format!("closed-{n:02}"), 4).set("/spec/unschedulable", json!(true));
        all.extend(
            (0..self.cordoned).map(|n| cordoned(n).label("zone", &format!("z{}", n % self.nodes.len().min(ZONES)))),
        );
        for (g, (priority, whole)) in self.groups.iter().enumerate() {
            let built = gang(&format!("low-{g:02}"), *priority, 1);
            all.push(if *whole { built.whole() } else { built });
        }
        for (b, allowed) in self.budgets.iter().enumerate() {
            let allowed = i32::try_from(*allowed).unwrap();
            let built = budget(&format!("budget-{b}"), &b.to_string(), allowed);
            let both = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["1", "2"]}]});
            all.push(if b + 1 == self.budgets.len() { built.set("/spec/selector", both) } else { built });
        }
        for low in &self.pods {
            let built = pod(&low.name).asks("cpu", &low.cpus.to_string()).on(&format!("node-{:02}", low.node));
            let built = built.label("app", &low.app.to_string());
            let built = if self.is_peer(low) { built.label("team", "g") } else { built };
            let built = built.set("/status/startTime", json!(format!("2026-01-01T00:00:0{}Z", low.start)));
            let built = low.group.iter().fold(built, |built, g| built.group(&format!("low-{g:02}")));
            let built = built.priority(self.own_priority(low));
            let built = if low.guarded { built.threshold(55) } else { built };
            all.push(if low.leaving { built.terminating() } else { built });
        }
        if !self.single {
            let topology = json!({"topology": [{"key": "zone"}]});
            let built = gang("g", 50, self.need);
            let built = if self.for_all { built.for_all() } else { built };
            all.push(match self.around {
                Around::Domain => built.set("/spec/schedulingConstraints", topology),
                _ => built,
            });
        }
        let term = json!({"topologyKey": "hostname", "labelSelector": {"matchLabels": {"team": "g"}}});
        let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        for (m, cpus) in self.members.iter().enumerate() {
            let built = pod(&format!("g-{m}")).asks("cpu", &cpus.to_string()).priority(50).label("team", "g");
            let built = if self.single { built } else { built.group("g") };
            let built = if self.apart { built.set("/spec/affinity", apart.clone()) } else { built };
            let like = json!({"matchLabels": {"team": "g"}});
            if self.around == Around::Volumes {
                let (claim, volume) = (format!("claim-{m}"), format!("volume-{m}"));
                all.extend([bound_claim(&claim, &volume), pinned_volume(&volume, &claim, &format!("z{}", m % ZONES))]);
            }
            all.push(match self.around {
                Around::Spread(skew) => built.set(
                    "/spec/topologySpreadConstraints",
                    json!([{"maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": like}]),
                ),
                Around::Together => built.set(
                    "/spec/affinity",
                    json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                        {"topologyKey": "zone", "labelSelector": like}]}}),
                ),
                Around::Volumes => {
                    let claim = json!({"claimName": format!("claim-{m}")});
                    built.set("/spec/volumes", json!([{"name": "data", "persistentVolumeClaim": claim}]))
                }
                Around::Nothing | Around::Domain => built,
            });
        }
        all
    }

    fn node(&self, number: usize, cpus: usize) -> Built {
        let built = node(&format!("node-{number:02}"), cpus);
        if self.around == Around::Nothing { built } else { built.label("zone", &format!("z{}", number % ZONES)) }
    }

    fn is_peer(&self, pod: &Low) -> bool {
        matches!(self.around, Around::Spread(_) | Around::Together) && pod.app == 3 && !pod.leaving
    }

    /// Pods of groups that are disrupted together have at least the group's priority, as admission ensures; among the others are some with
    /// less.
    fn own_priority(&self, pod: &Low) -> i32 {
        let whole = pod.group.map(|group| self.groups[group]).filter(|(_, whole)| *whole);
        whole.map_or(pod.priority, |(priority, _)| pod.priority.max(priority))
    }

    fn priority_of(&self, pod: &Low) -> i32 {
        pod.group.map_or(i32::MAX, |group| self.groups[group].0).min(self.own_priority(pod))
    }

    /// The units of eviction that are available to the preemptor: indexes of pods.
    pub fn units(&self) -> Vec<Vec<usize>> {
        self.units_below().into_iter().filter(|unit| !self.is_barred(unit)).collect()
    }

    /// The units of eviction of lower priority.
    pub fn units_below(&self) -> Vec<Vec<usize>> {
        let below = |p: &usize| !self.pods[*p].leaving && self.priority_of(&self.pods[*p]) < 50;
        let whole = |p: &usize| self.pods[*p].group.filter(|group| self.groups[*group].1);
        let candidates: Vec<usize> = (0..self.pods.len()).filter(below).collect();
        let mut units: Vec<Vec<usize>> = candidates.iter().filter(|p| whole(p).is_none()).map(|p| vec![*p]).collect();
        for group in 0..self.groups.len() {
            units.push(candidates.iter().copied().filter(|p| whole(p) == Some(group)).collect());
        }
        units.retain(|unit| !unit.is_empty());
        units
    }

    /// Returns true if a unit is guarded, and the Eviction API rejects one of its pods because two budgets select it.
    pub fn is_barred(&self, unit: &[usize]) -> bool {
        let budgets = |pod: usize| (0..self.budgets.len()).filter(|budget| self.under(*budget, pod)).count();
        unit.iter().any(|pod| self.pods[*pod].guarded) && unit.iter().any(|pod| budgets(*pod) > 1)
    }

    /// The units that these victims are.
    pub fn chosen(&self, uids: &BTreeSet<SmolStr>) -> Vec<Vec<usize>> {
        let is_chosen = |unit: &Vec<usize>| uids.contains(format!("uid-{}", self.pods[unit[0]].name).as_str());
        self.units().into_iter().filter(is_chosen).collect()
    }

    fn under(&self, budget: usize, pod: usize) -> bool {
        let app = self.pods[pod].app;
        app == budget || (app == 1 && budget + 1 == self.budgets.len())
    }

    /// Returns true if these victims violate no guaranteed budget.
    pub fn guarantees_hold(&self, victims: &[&Vec<usize>]) -> bool {
        (0..self.budgets.len()).all(|budget| {
            let count = victims.iter().flat_map(|unit| unit.iter()).filter(|p| self.under(budget, **p)).count();
            let guards = |unit: &&&Vec<usize>| {
                unit.iter().any(|p| self.pods[*p].guarded) && unit.iter().any(|p| self.under(budget, *p))
            };
            count <= self.budgets[budget] || !victims.iter().any(|unit| guards(&unit))
        })
    }

    /// The order of step 9: violations, highest priority, sum, pods; then the start (later is better).
    pub fn cost(&self, victims: &[&Vec<usize>]) -> (usize, Option<i32>, u64, usize, Reverse<i64>) {
        let mut pods: Vec<usize> = victims.iter().flat_map(|unit| unit.iter().copied()).collect();
        pods.sort_by(|a, b| self.pods[*a].name.cmp(&self.pods[*b].name));
        let mut left: Vec<i64> = self.budgets.iter().map(|allowed| i64::try_from(*allowed).unwrap()).collect();
        let mut violations = 0;
        for pod in &pods {
            let mut violates = false;
            for (budget, left) in left.iter_mut().enumerate().filter(|(budget, _)| self.under(*budget, *pod)) {
                let _ = budget;
                *left -= 1;
                violates |= *left < 0;
            }
            violations += usize::from(violates);
        }
        let priorities = || pods.iter().map(|pod| self.priority_of(&self.pods[*pod]));
        let highest = priorities().max();
        let top = pods.iter().filter(|pod| Some(self.priority_of(&self.pods[**pod])) == highest);
        let start = top.map(|pod| self.pods[*pod].start).min().unwrap_or(i64::MAX);
        let sum = priorities().map(|priority| u64::try_from(i64::from(priority) + (1 << 31)).unwrap()).sum();
        (violations, highest, sum, pods.len(), Reverse(start))
    }

    /// The most members that fit together without these pods and those that are leaving, at most `enough`.
    pub fn most(&self, gone: &[&Vec<usize>], only: Option<usize>, enough: usize) -> usize {
        self.most_in(gone, only, None, enough)
    }

    /// The same within one domain, if there is a domain.
    fn most_in(&self, gone: &[&Vec<usize>], only: Option<usize>, within: Option<usize>, enough: usize) -> usize {
        let mut free: Vec<i64> = self.nodes.iter().map(|cpus| i64::try_from(*cpus).unwrap()).collect();
        for (p, pod) in self.pods.iter().enumerate() {
            if !pod.leaving && !gone.iter().any(|unit| unit.contains(&p)) {
                free[pod.node] -= i64::try_from(pod.cpus).unwrap();
            }
        }
        let mut here = vec![0; free.len()];
        let stays = |p: &usize| !self.pods[*p].leaving && !gone.iter().any(|unit| unit.contains(p));
        let mut zones = vec![0; self.nodes.len().min(ZONES)];
        (0..self.pods.len())
            .filter(|p| stays(p) && self.is_peer(&self.pods[*p]))
            .for_each(|p| zones[self.pods[p].node % ZONES] += 1);
        let mut state = (free, std::mem::take(&mut here), zones);
        let zones = self.domains().into_iter().filter(|zone| within.is_none() || *zone == within);
        zones.map(|zone| self.place(&self.members, &mut state, only, zone, enough)).max().unwrap_or(0)
    }

    /// The domains, in one of which all members must be placed; `None` stands for the whole cluster.
    pub fn domains(&self) -> Vec<Option<usize>> {
        match self.around {
            Around::Domain => (0..self.nodes.len().min(ZONES)).map(Some).collect(),
            _ => vec![None],
        }
    }

    /// For how many members units are evicted.
    pub fn wanted(&self) -> usize {
        if self.for_all { self.members.len() } else { self.need }
    }

    /// The least cost of a plan, without ties: of those that place as many wanted members in a domain as any permitted evictions allow,
    /// at least as many as are needed.
    pub fn least_cost(&self) -> Option<MainCost> {
        let choices = self.choices();
        self.domains().into_iter().filter_map(|domain| self.least_cost_in(&choices, domain)).min()
    }

    /// The same in one domain; `choices` are all of them, the cheapest first.
    pub fn least_cost_in(&self, choices: &[Vec<Vec<usize>>], domain: Option<usize>) -> Option<MainCost> {
        let wanted = self.wanted();
        let fits = |victims: &Vec<Vec<usize>>| self.most_in(&victims.iter().collect::<Vec<_>>(), None, domain, wanted);
        let reach: Vec<usize> = choices.iter().map(fits).collect();
        let most = reach.iter().copied().max().filter(|most| *most >= self.need)?;
        let victims = &choices[reach.iter().position(|count| *count == most)?];
        let cost = self.cost(&victims.iter().collect::<Vec<_>>());
        Some((cost.0, cost.1, cost.2, cost.3))
    }

    /// The costs of all choices with which a single pod fits on a node, with the start and the number of whole groups.
    pub fn costs_on(&self, node: usize) -> Vec<(MainCost, Option<i64>, usize)> {
        let touches = |unit: &&Vec<usize>| unit.iter().any(|p| self.pods[*p].node == node);
        let fits = |victims: &&Vec<Vec<usize>>| {
            let units: Vec<&Vec<usize>> = victims.iter().collect();
            units.iter().all(touches) && self.most(&units, Some(node), 1) > 0
        };
        let cost = |victims: &Vec<Vec<usize>>| {
            let cost = self.cost(&victims.iter().collect::<Vec<_>>());
            let whole = |unit: &&Vec<usize>| self.pods[unit[0]].group.is_some_and(|group| self.groups[group].1);
            let start = (!victims.is_empty()).then_some((START + cost.4.0) * 1_000_000_000);
            ((cost.0, cost.1, cost.2, cost.3), start, victims.iter().filter(whole).count())
        };
        self.choices().iter().filter(fits).map(cost).collect()
    }

    /// The same for a single pod.
    pub fn least_cost_of_one(&self) -> Option<MainCost> {
        let cost = |victims: &Vec<Vec<usize>>| self.cost(&victims.iter().collect::<Vec<_>>());
        let found = self.choices().into_iter().find(|victims| self.fits(victims, 1));
        found.map(|victims| cost(&victims)).map(|cost| (cost.0, cost.1, cost.2, cost.3))
    }

    /// The time until which the work of victims counts: later than all starts, in ns.
    pub fn now(&self) -> i64 {
        (START + 100) * 1_000_000_000
    }

    /// The order of step 9 for a single pod on a node: the steps before ties, then the victims that fit on no other node, the work that they
    /// lose, and their number.
    pub fn losses(&self, victims: &[Vec<usize>], node: usize) -> Losses {
        let (violations, highest, sum, count, _) = self.cost(&victims.iter().collect::<Vec<_>>());
        let gone = |p: &usize| self.pods[*p].leaving || victims.iter().any(|unit| unit.contains(p));
        let mut free: Vec<i64> = self.nodes.iter().map(|cpus| i64::try_from(*cpus).unwrap()).collect();
        free[node] -= i64::try_from(self.members[0]).unwrap();
        for low in (0..self.pods.len()).filter(|p| !gone(p)).map(|p| &self.pods[p]) {
            free[low.node] -= i64::try_from(low.cpus).unwrap();
        }
        let pods = || victims.iter().flatten().map(|p| &self.pods[*p]);
        let fits = |low: &Low| (0..free.len()).any(|n| n != low.node && free[n] >= i64::try_from(low.cpus).unwrap());
        let work = |low: &Low| u64::try_from(100 - low.start).unwrap() * 1000 * low.cpus as u64;
        ((violations, highest, sum), pods().filter(|low| !fits(low)).count(), pods().map(work).sum(), count)
    }

    /// The least of all of them.
    pub fn least_losses_of_one(&self) -> Option<Losses> {
        let nodes = |victims: &Vec<Vec<usize>>| {
            let touches = |node: usize| victims.iter().all(|unit| unit.iter().any(|p| self.pods[*p].node == node));
            let evicted: Vec<&Vec<usize>> = victims.iter().collect();
            let fits = (0..self.nodes.len()).filter(|node| touches(*node) && self.most(&evicted, Some(*node), 1) > 0);
            fits.map(|node| self.losses(victims, node)).min()
        };
        self.choices().iter().filter_map(nodes).min()
    }

    /// Returns true if inter-pod constraints, or the volume of the member, admit it to a zone; `rest` are the members after it.
    fn lets_in(&self, zones: &[usize], zone: usize, rest: &[usize]) -> bool {
        match self.around {
            Around::Nothing | Around::Domain => true,
            Around::Volumes => (self.members.len() - rest.len() - 1) % ZONES == zone,
            Around::Spread(skew) => zones[zone] < skew + zones.iter().min().unwrap(),
            Around::Together => zones[zone] > 0 || zones.iter().all(|count| *count == 0),
        }
    }

    /// `state` is what is free on every node, the members there, and the peers in every zone.
    fn place(
        &self,
        members: &[usize],
        state: &mut (Vec<i64>, Vec<usize>, Vec<usize>),
        only: Option<usize>,
        within: Option<usize>,
        enough: usize,
    ) -> usize {
        let Some((first, rest)) = members.split_first() else { return 0 };
        let cpus = i64::try_from(*first).unwrap();
        let mut most = 0;
        for node in 0..state.0.len() {
            let zone = node % ZONES;
            if state.0[node] >= cpus
                && !(self.apart && state.1[node] > 0)
                && only.is_none_or(|only| only == node)
                && within.is_none_or(|within| within == zone)
                && self.lets_in(&state.2, zone, rest)
            {
                state.0[node] -= cpus;
                state.1[node] += 1;
                state.2[zone] += 1;
                most = most.max(1 + self.place(rest, state, only, within, enough.saturating_sub(1)));
                state.0[node] += cpus;
                state.1[node] -= 1;
                state.2[zone] -= 1;
                if most >= enough {
                    return most;
                }
            }
        }
        most.max(self.place(rest, state, only, within, enough))
    }

    /// Every set of units that may be evicted together, with its cost, the cheapest first.
    pub fn choices(&self) -> Vec<Vec<Vec<usize>>> {
        let units = self.units();
        let subset = |mask: usize| -> Vec<Vec<usize>> {
            units.iter().enumerate().filter(|(u, _)| mask & (1 << u) != 0).map(|(_, unit)| unit.clone()).collect()
        };
        let mut all: Vec<Vec<Vec<usize>>> = (0..1usize << units.len()).map(subset).collect();
        all.retain(|victims| self.guarantees_hold(&victims.iter().collect::<Vec<_>>()));
        all.sort_by_cached_key(|victims| self.cost(&victims.iter().collect::<Vec<_>>()));
        all
    }

    /// Returns true if `count` members fit with these victims; for a single pod each victim must have a pod on its node.
    pub fn fits(&self, victims: &[Vec<usize>], count: usize) -> bool {
        let evicted: Vec<&Vec<usize>> = victims.iter().collect();
        if !self.single {
            return self.most(&evicted, None, count) >= count;
        }
        (0..self.nodes.len()).any(|node| {
            let touches = victims.iter().all(|unit| unit.iter().any(|p| self.pods[*p].node == node));
            touches && self.most(&evicted, Some(node), count) >= count
        })
    }
}
