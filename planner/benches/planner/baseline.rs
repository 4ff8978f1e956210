//! The baseline: preemption by the method of the in-tree scheduler, implemented from its description alone.
//!
//! A gang is placed once, with all pods of lower priority removed; then each unit, the most important first, is put
//! back, and every assignment is checked again: O(victims × gang). A single pod is tried like that on every node. All
//! of it happens in place, on plain arrays, so that the method is measured and not its bookkeeping.

use giveway_crds::policy::DisruptionMode;
use giveway_planner::Cluster;
use giveway_planner::model::Pod;
use std::collections::BTreeMap;

const RESOURCES: usize = 4;
const NAMES: [&str; RESOURCES] = ["cpu", "memory", "nvidia.com/gpu", "pods"];

pub(crate) type Amounts = [i64; RESOURCES];

#[derive(Clone)]
pub(crate) struct Unit {
    pub(crate) priority: i32,
    name: String,
    pub(crate) pods: Vec<(usize, Amounts)>,
}

/// The cluster as plain arrays.
#[derive(Clone)]
pub(crate) struct Baseline {
    pub(crate) free: Vec<Amounts>,
    pub(crate) units: Vec<Unit>,
    pub(crate) on: Vec<Vec<usize>>,
}

pub(crate) fn plus(free: &mut Amounts, amounts: &Amounts, sign: i64) {
    for (free, amount) in free.iter_mut().zip(amounts) {
        *free += sign * amount;
    }
}

pub(crate) fn fits(free: &Amounts, amounts: &Amounts) -> bool {
    free.iter().zip(amounts).all(|(free, amount)| amount <= free)
}

fn amounts(cluster: &Cluster, pod: &Pod) -> Amounts {
    let mut amounts = [0; RESOURCES];
    for (id, amount) in pod.requests.iter() {
        if let Some(at) = NAMES.iter().position(|name| *name == cluster.resource_name(id)) {
            amounts[at] = i64::try_from(amount).unwrap();
        }
    }
    amounts
}

impl Baseline {
    pub(crate) fn new(cluster: &Cluster) -> Self {
        let ranks: BTreeMap<&str, usize> = cluster.nodes().enumerate().map(|(at, n)| (n.name.as_str(), at)).collect();
        let mut free = vec![[96_000, 768 << 30, 8, 110]; ranks.len()];
        let mut units: BTreeMap<String, Unit> = BTreeMap::new();
        for pod in cluster.pods().filter(|pod| pod.bound()) {
            let at = ranks[pod.node.as_deref().unwrap()];
            let amounts = amounts(cluster, pod);
            plus(&mut free[at], &amounts, -1);
            let whole = cluster.group_of(pod).filter(|group| group.mode == DisruptionMode::PodGroup);
            let name = whole.map_or_else(|| pod.key.to_string(), |group| group.key.to_string());
            let priority = cluster.effective_priority(pod);
            let unit = units.entry(name.clone()).or_insert(Unit { priority, name, pods: Vec::new() });
            unit.pods.push((at, amounts));
        }
        let units: Vec<Unit> = units.into_values().collect();
        let mut on = vec![Vec::new(); free.len()];
        for (number, unit) in units.iter().enumerate() {
            for (at, _) in &unit.pods {
                if on[*at].last() != Some(&number) {
                    on[*at].push(number);
                }
            }
        }
        Self { free, units, on }
    }

    fn change(&mut self, unit: usize, sign: i64) {
        for (at, amounts) in &self.units[unit].pods {
            plus(&mut self.free[*at], amounts, sign);
        }
    }

    pub(crate) fn important_first(&self, units: &mut [usize]) {
        units.sort_by(|a, b| {
            let (a, b) = (&self.units[*a], &self.units[*b]);
            let order = b.priority.cmp(&a.priority).then(b.pods.len().cmp(&a.pods.len()));
            order.then_with(|| a.name.cmp(&b.name))
        });
    }

    /// Reprieves the units that still fit; the others are the victims.
    fn reprieve(&mut self, mut units: Vec<usize>, placed: &[usize]) -> Vec<usize> {
        self.important_first(&mut units);
        let mut victims = Vec::new();
        for unit in units {
            self.change(unit, -1);
            if !placed.iter().all(|at| fits(&self.free[*at], &[0; RESOURCES])) {
                self.change(unit, 1);
                victims.push(unit);
            }
        }
        victims
    }

    fn put_back(&mut self, victims: &[usize], placed: &[usize], asks: &Amounts) {
        victims.iter().for_each(|unit| self.change(*unit, -1));
        placed.iter().for_each(|at| plus(&mut self.free[*at], asks, 1));
    }

    /// Returns the number of pods evicted for `members` pods like the one given; `None` if they do not fit whatever is evicted.
    pub(crate) fn gang(&mut self, priority: i32, members: usize, asks: &Amounts, apart: bool) -> Option<usize> {
        let units: Vec<usize> = (0..self.units.len()).filter(|unit| self.units[*unit].priority < priority).collect();
        units.iter().for_each(|unit| self.change(*unit, 1));
        let mut placed: Vec<usize> = Vec::new();
        let mut taken = vec![false; self.free.len()];
        for _ in 0..members {
            // The stock scheduler's scores spread: the node with most GPUs free.
            let nodes = 0..self.free.len();
            let open = nodes.filter(|at| !(apart && taken[*at]) && fits(&self.free[*at], asks));
            let Some(best) = open.max_by_key(|at| (self.free[*at][2], self.free[*at][0])) else { break };
            plus(&mut self.free[best], asks, -1);
            taken[best] = true;
            placed.push(best);
        }
        if placed.len() < members {
            placed.iter().for_each(|at| plus(&mut self.free[*at], asks, 1));
            units.iter().for_each(|unit| self.change(*unit, -1));
            return None;
        }
        let victims = self.reprieve(units, &placed);
        let evicted = victims.iter().map(|unit| self.units[*unit].pods.len()).sum();
        self.put_back(&victims, &placed, asks);
        Some(evicted)
    }

    /// Returns the number of pods evicted for one pod: the best node by highest priority, sum of priorities and number, of the first tenth
    /// of the nodes (at least 100) on which it fits, which is kube-scheduler's default.
    pub(crate) fn single(&mut self, priority: i32, asks: &Amounts) -> Option<usize> {
        let (mut best, mut candidates) = (None, (self.free.len() / 10).max(100));
        for at in 0..self.free.len() {
            let units: Vec<usize> =
                self.on[at].iter().copied().filter(|unit| self.units[*unit].priority < priority).collect();
            units.iter().for_each(|unit| self.change(*unit, 1));
            if !fits(&self.free[at], asks) {
                units.iter().for_each(|unit| self.change(*unit, -1));
                continue;
            }
            plus(&mut self.free[at], asks, -1);
            let victims = self.reprieve(units, &[at]);
            self.put_back(&victims, &[at], asks);
            let units = || victims.iter().map(|unit| &self.units[*unit]);
            let evicted = units().map(|unit| unit.pods.len()).sum::<usize>();
            let sum: i64 =
                units().map(|u| (i64::from(u.priority) + (1 << 31)) * i64::try_from(u.pods.len()).unwrap()).sum();
            let cost = (units().map(|unit| unit.priority).max(), sum, evicted);
            if best.is_none_or(|best| cost < best) {
                best = Some(cost);
            }
            candidates -= 1;
            if candidates == 0 {
                break;
            }
        }
        best.map(|(_, _, evicted)| evicted)
    }
}

/// The requests of a pod.
pub(crate) fn asks(cpus: i64, gpus: i64) -> Amounts {
    [cpus * 1000, 0, gpus, 1]
}
