//! Random small worlds in plain numbers, the objects they stand for, and the oracle: every choice of victims with every
//! placement, tried one by one, with arithmetic of its own.

use super::*;
use std::cmp::Reverse;

/// A small generator of our own: the same numbers on every machine.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn priority(&mut self) -> i32 {
        i32::try_from(self.below(7) * 10).unwrap()
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            let other = self.below(last + 1);
            list.swap(last, other);
        }
    }
}

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

/// Nodes, pods, and a preemptor of priority 50. Budget `b` covers the pods of app `b`, the last one those of apps 0 and 1.
#[derive(Clone, Debug)]
pub struct World {
    pub nodes: Vec<usize>,
    pub pods: Vec<Low>,
    /// Priority, and whether the group goes whole.
    pub groups: Vec<(i32, bool)>,
    pub budgets: Vec<usize>,
    /// CPUs of each member.
    pub members: Vec<usize>,
    pub need: usize,
    /// Whether at most one member may run on a node.
    pub apart: bool,
    /// Whether the preemptor is a pod of its own.
    pub single: bool,
}

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
pub const LARGER: Size = Size { nodes: 14, cpus: 8, pods: 60, groups: 12, members: 9 };

impl World {
    pub fn random(numbers: &mut Numbers, size: Size) -> Self {
        let nodes: Vec<usize> = (0..1 + numbers.below(size.nodes)).map(|_| 1 + numbers.below(size.cpus)).collect();
        let groups: Vec<(i32, bool)> = (0..size.groups).map(|_| (numbers.priority(), !numbers.one_in(3))).collect();
        let budgets = if numbers.one_in(3) { vec![] } else { (0..3).map(|_| numbers.below(3)).collect() };
        let mut free = nodes.clone();
        let mut pods = Vec::new();
        for p in 0..size.pods / 4 + numbers.below(size.pods - size.pods / 4 + 1) {
            let (node, cpus) = (numbers.below(nodes.len()), 1 + numbers.below(2));
            if free[node] < cpus {
                continue;
            }
            free[node] -= cpus;
            pods.push(Low {
                name: format!("p-{p:02}"),
                node,
                cpus,
                priority: numbers.priority(),
                group: if numbers.one_in(2) { Some(numbers.below(groups.len())) } else { None },
                app: numbers.below(4),
                guarded: numbers.one_in(6),
                leaving: numbers.one_in(12),
                start: i64::try_from(numbers.below(3)).unwrap(),
            });
        }
        let single = numbers.one_in(4);
        let count = if single { 1 } else { 1 + numbers.below(size.members) };
        let (alike, cpus) = (numbers.one_in(2), 1 + numbers.below(2));
        let members: Vec<usize> = (0..count).map(|_| if alike { cpus } else { 1 + numbers.below(3) }).collect();
        Self {
            nodes,
            pods,
            groups,
            budgets,
            need: 1 + numbers.below(members.len()),
            members,
            apart: numbers.one_in(5),
            single,
        }
    }

    pub fn preemptor(&self) -> Preemptor {
        if self.single { for_pod("g-0") } else { for_group("g") }
    }

    /// The objects of this world.
    pub fn objects(&self) -> Vec<Built> {
        let mut all: Vec<Built> =
            self.nodes.iter().enumerate().map(|(n, cpus)| node(&format!("node-{n:02}"), *cpus)).collect();
        for (g, (priority, whole)) in self.groups.iter().enumerate() {
            let built = gang(&format!("low-{g:02}"), *priority, 1);
            all.push(if *whole { built.whole() } else { built });
        }
        for (b, allowed) in self.budgets.iter().enumerate() {
            let allowed = i32::try_from(*allowed).unwrap();
            let built = budget(&format!("budget-{b}"), &b.to_string(), allowed);
            let both = json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["0", "1"]}]});
            all.push(if b + 1 == self.budgets.len() { built.set("/spec/selector", both) } else { built });
        }
        for low in &self.pods {
            let built = pod(&low.name).asks("cpu", &low.cpus.to_string()).on(&format!("node-{:02}", low.node));
            let built = built.priority(low.priority).label("app", &low.app.to_string());
            let built = built.set("/status/startTime", json!(format!("2026-01-01T00:00:0{}Z", low.start)));
            let built = low.group.iter().fold(built, |built, g| built.group(&format!("low-{g:02}")));
            let built = if low.guarded { built.threshold(55) } else { built };
            all.push(if low.leaving { built.terminating() } else { built });
        }
        if !self.single {
            all.push(gang("g", 50, self.need));
        }
        let term = json!({"topologyKey": "hostname", "labelSelector": {"matchLabels": {"team": "g"}}});
        let apart = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        for (m, cpus) in self.members.iter().enumerate() {
            let built = pod(&format!("g-{m}")).asks("cpu", &cpus.to_string()).priority(50).label("team", "g");
            let built = if self.single { built } else { built.group("g") };
            all.push(if self.apart { built.set("/spec/affinity", apart.clone()) } else { built });
        }
        all
    }

    fn priority_of(&self, pod: &Low) -> i32 {
        pod.group.map_or(pod.priority, |group| self.groups[group].0)
    }

    /// Who can be evicted together: indexes of pods.
    pub fn units(&self) -> Vec<Vec<usize>> {
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

    fn under(&self, budget: usize, pod: usize) -> bool {
        let app = self.pods[pod].app;
        if budget + 1 == self.budgets.len() { app < 2 } else { app == budget }
    }

    /// Whether no guaranteed budget is violated by these victims.
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

    /// The most members that fit together once these pods and those that leave are gone, at most `enough`.
    pub fn most(&self, gone: &[&Vec<usize>], only: Option<usize>, enough: usize) -> usize {
        let mut free: Vec<i64> = self.nodes.iter().map(|cpus| i64::try_from(*cpus).unwrap()).collect();
        for (p, pod) in self.pods.iter().enumerate() {
            if !pod.leaving && !gone.iter().any(|unit| unit.contains(&p)) {
                free[pod.node] -= i64::try_from(pod.cpus).unwrap();
            }
        }
        let mut here = vec![0; free.len()];
        self.place(&self.members, &mut free, &mut here, only, enough)
    }

    fn place(
        &self,
        members: &[usize],
        free: &mut [i64],
        here: &mut [usize],
        only: Option<usize>,
        enough: usize,
    ) -> usize {
        let Some((first, rest)) = members.split_first() else { return 0 };
        let cpus = i64::try_from(*first).unwrap();
        let mut most = 0;
        for node in 0..free.len() {
            if free[node] >= cpus && !(self.apart && here[node] > 0) && only.is_none_or(|only| only == node) {
                free[node] -= cpus;
                here[node] += 1;
                most = most.max(1 + self.place(rest, free, here, only, enough.saturating_sub(1)));
                free[node] += cpus;
                here[node] -= 1;
                if most >= enough {
                    return most;
                }
            }
        }
        most.max(self.place(rest, free, here, only, enough))
    }

    /// Every set of units that may go together, with its cost, the cheapest first.
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

    /// Whether `count` members fit with these victims; for a pod of its own they must have a pod on its node.
    pub fn fits(&self, victims: &[Vec<usize>], count: usize) -> bool {
        let gone: Vec<&Vec<usize>> = victims.iter().collect();
        if !self.single {
            return self.most(&gone, None, count) >= count;
        }
        (0..self.nodes.len()).any(|node| {
            let touches = victims.iter().all(|unit| unit.iter().any(|p| self.pods[*p].node == node));
            touches && self.most(&gone, Some(node), count) >= count
        })
    }
}
