//! Counts victims by budget: which evictions violate a budget (which is avoided if possible), and which ones are not permitted because the
//! budget is guaranteed (KEP-3280).

use super::in_flight::InFlight;
use crate::model::{Budget, BudgetIndex, Cluster, PodIndex, Unit};
use std::collections::{BTreeMap, BTreeSet};

/// The budgets that potential victims are under. They are numbered from 0, in the order of their keys.
#[derive(Default)]
pub(crate) struct Budgets<'a> {
    list: Vec<&'a Budget>,
    /// By budget: pods that plans in flight evict and that its status does not count yet.
    in_flight: Vec<usize>,
    /// Distinct sets of budgets that a pod is under, as numbers.
    sets: Vec<Vec<usize>>,
    /// By pod: its index in `sets`.
    of: BTreeMap<PodIndex, usize>,
    /// By pod, a bit: whether `of` contains it. Most pods that are looked up are under no budget.
    under: Vec<u64>,
    /// Priority of the preemptor: a threshold above it makes a budget guaranteed.
    priority: i32,
    /// True if any budget is guaranteed.
    guarding: bool,
    /// True if a pod is under more than one budget.
    several: bool,
}

/// Victims so far, counted per budget.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    victims: Vec<usize>,
    /// Victims whose threshold is above the preemptor's priority.
    guarded: Vec<usize>,
    /// Budgets that are violated although they are guaranteed.
    breached: usize,
    /// Victims that violated a budget when they were added.
    violations: usize,
}

impl<'a> Budgets<'a> {
    /// Collects the budgets of the pods of these units of eviction (single pods and whole groups). A budget is guaranteed if the threshold
    /// of such a unit is above `priority`, the preemptor's. The pods that plans in flight evict are subtracted from the allowed
    /// disruptions, so that two plans cannot use the same one.
    pub(crate) fn new(cluster: &'a Cluster, units: &[Unit], priority: i32, in_flight: &InFlight) -> Self {
        let budget = |index: BudgetIndex| cluster.budget_at(index).map(|(budget, _)| budget);
        let mut sets: Vec<Vec<BudgetIndex>> = Vec::new();
        let mut of: BTreeMap<PodIndex, usize> = BTreeMap::new();
        // Many pods are under the same budgets; they differ only if the eviction of one of them was granted already.
        let mut alike: BTreeMap<_, (usize, Vec<&Budget>)> = BTreeMap::new();
        let pods = units.iter().flat_map(|unit| {
            let may_start = unit.pods.len() > 1 && unit.threshold.is_some_and(|threshold| threshold > priority);
            unit.pods.iter().map(move |pod| (*pod, may_start))
        });
        for (index, may_start) in pods.filter(|(pod, _)| cluster.row(*pod).budgeted) {
            let (row, matching) = (cluster.row(index), cluster.budgets_at(index));
            // A pod that starts while the others are evicted would be kept by its guaranteed budget, and its group would be partially
            // disrupted: so it counts as if it had started.
            let (unstarted, ready) = if may_start { (false, true) } else { (row.unstarted, row.ready) };
            let (shared, granting) = alike.entry((matching, unstarted, ready)).or_insert_with(|| {
                let counts = |at: &BudgetIndex| budget(*at).is_some_and(|b| !b.exempts(unstarted, ready));
                let set: Vec<BudgetIndex> = matching.iter().copied().filter(counts).collect();
                let granting =
                    set.iter().filter_map(|at| budget(*at)).filter(|budget| !budget.disrupted_pods.is_empty());
                let granting = granting.collect();
                sets.push(set);
                (sets.len() - 1, granting)
            });
            let mut set = *shared;
            if let Some(pod) = cluster.pod_at(index).filter(|_| !granting.is_empty())
                && granting.iter().any(|budget| budget.has_granted(pod))
            {
                let counts = |at: &BudgetIndex| budget(*at).is_some_and(|budget| !budget.has_granted(pod));
                sets.push(sets[set].iter().copied().filter(counts).collect());
                set = sets.len() - 1;
            }
            if !sets[set].is_empty() {
                of.insert(index, set);
            }
        }
        let used: BTreeSet<usize> = of.values().copied().collect();
        let counting: BTreeSet<BudgetIndex> = used.iter().flat_map(|set| &sets[*set]).copied().collect();
        let mut list: Vec<(&Budget, BudgetIndex)> =
            counting.into_iter().filter_map(|i| Some((budget(i)?, i))).collect();
        list.sort_by(|a, b| a.0.key.cmp(&b.0.key));
        let numbers: BTreeMap<BudgetIndex, usize> =
            list.iter().enumerate().map(|(number, (_, i))| (*i, number)).collect();
        let mut under = vec![0; of.keys().next_back().map_or(0, |pod| *pod as usize / 64 + 1)];
        of.keys().for_each(|pod| under[*pod as usize / 64] |= 1 << (pod % 64));
        let mut budgets = Self { priority, under, of, ..Self::default() };
        budgets.sets = sets.iter().map(|set| set.iter().filter_map(|i| numbers.get(i)).copied().collect()).collect();
        budgets.several = used.iter().any(|set| sets[*set].len() > 1);
        budgets.guarding = units.iter().any(|unit| budgets.guards(unit));
        budgets.in_flight = list.iter().map(|(_, index)| in_flight.evicting(*index)).collect();
        budgets.list = list.into_iter().map(|(budget, _)| budget).collect();
        budgets
    }

    /// Returns true if no potential victim is under a budget.
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns true if a potential victim is under a budget that is guaranteed: the victim's threshold is above the preemptor's priority.
    pub(crate) fn any_guaranteed(&self) -> bool {
        self.guarding
    }

    /// Returns an empty tally: no victim is counted for any budget.
    pub(crate) fn tally(&self) -> Tally {
        Tally { victims: vec![0; self.list.len()], guarded: vec![0; self.list.len()], ..Tally::default() }
    }

    /// Counts the pods of a unit of eviction (a single pod or a whole group) as victims in `tally`. Returns how many of these pods violate
    /// a budget when they are counted: one of the pod's budgets allows fewer evictions than were counted.
    pub(crate) fn add(&self, tally: &mut Tally, unit: &Unit) -> usize {
        if self.is_empty() {
            return 0;
        }
        let guarded = self.guards(unit);
        unit.pods.iter().filter(|pod| self.add_pod(tally, **pod, guarded)).count()
    }

    /// Counts a pod as a victim in `tally`; `guarded` says that its threshold is above the preemptor's priority, which makes its budgets
    /// guaranteed. Returns true if one of its budgets allows fewer evictions than are counted then.
    fn add_pod(&self, tally: &mut Tally, pod: PodIndex, guarded: bool) -> bool {
        let mut violates = false;
        for number in self.of_pod(pod) {
            let breached = |tally: &Tally| self.breaches(*number, tally.victims[*number], tally.guarded[*number]);
            let before = breached(tally);
            tally.victims[*number] += 1;
            tally.guarded[*number] += usize::from(guarded);
            tally.breached += usize::from(!before && breached(tally));
            violates |= tally.victims[*number] > self.allowed(*number);
        }
        tally.violations += usize::from(violates);
        violates
    }

    /// Returns true if the budgets of this unit of eviction are guaranteed: its threshold is above the preemptor's priority.
    pub(crate) fn guards(&self, unit: &Unit) -> bool {
        unit.threshold.is_some_and(|threshold| threshold > self.priority)
    }

    /// Returns true if the victims in `tally` violate a budget that is guaranteed for one of them.
    pub(crate) fn is_breached(&self, tally: &Tally) -> bool {
        tally.breached > 0
    }

    /// Returns a lower bound on the number of victims in `tally` that violate a budget: the largest number of them above what one budget
    /// allows.
    pub(crate) fn most_above_allowed(&self, tally: &Tally) -> usize {
        let above = |number: usize| tally.victims[number].saturating_sub(self.allowed(number));
        (0..self.len()).map(above).max().unwrap_or(0)
    }

    /// Returns the number of the first budget, by name, that the victims in `tally` violate although it is guaranteed for one of them;
    /// `None` if there is none.
    pub(crate) fn first_breached(&self, tally: &Tally) -> Option<usize> {
        (0..self.list.len()).find(|b| self.breaches(*b, tally.victims[*b], tally.guarded[*b]))
    }

    /// Returns true if evicting `victims` pods violates the budget with this number although it is guaranteed: `guarded` of these pods have
    /// a threshold above the preemptor's priority.
    fn breaches(&self, number: usize, victims: usize, guarded: usize) -> bool {
        guarded > 0 && victims > self.allowed(number)
    }

    /// Reverts the last [`Self::add`] of this unit (a single pod or a whole group) that is not reverted yet. Units are removed from `tally`
    /// in the reverse order in which they were added.
    pub(crate) fn remove(&self, tally: &mut Tally, unit: &Unit) {
        if self.is_empty() {
            return;
        }
        let guarded = self.guards(unit);
        unit.pods.iter().rev().for_each(|pod| self.remove_pod(tally, *pod, guarded));
    }

    /// Reverts [`Self::add_pod`] for the pod that was added last.
    fn remove_pod(&self, tally: &mut Tally, pod: PodIndex, guarded: bool) {
        let mut violated = false;
        for number in self.of_pod(pod) {
            let breached = |tally: &Tally| self.breaches(*number, tally.victims[*number], tally.guarded[*number]);
            violated |= tally.victims[*number] > self.allowed(*number);
            let before = breached(tally);
            tally.victims[*number] -= 1;
            tally.guarded[*number] -= usize::from(guarded);
            tally.breached -= usize::from(before && !breached(tally));
        }
        tally.violations -= usize::from(violated);
    }

    /// Returns what adding these units of eviction to the victims in `tally` would result in: how many of their pods would violate a
    /// budget, and true if any guaranteed budget would be violated. `tally` is unchanged afterwards.
    pub(crate) fn preview<'u>(
        &self,
        tally: &mut Tally,
        units: impl DoubleEndedIterator<Item = &'u Unit<'u>> + Clone,
    ) -> (usize, bool) {
        let violations = units.clone().map(|unit| self.add(tally, unit)).sum();
        let breached = tally.breached > 0;
        units.rev().for_each(|unit| self.remove(tally, unit));
        (violations, breached)
    }

    /// Returns true if the victims in `tally` and these units of eviction together violate no guaranteed budget.
    /// `tally` is unchanged afterwards.
    pub(crate) fn may_evict<'u>(
        &self,
        tally: &mut Tally,
        units: impl DoubleEndedIterator<Item = &'u Unit<'u>> + Clone,
    ) -> bool {
        !self.guarding || !self.preview(tally, units).1
    }

    /// Returns the number of a budget that the eviction of this unit, in addition to the victims in `tally`, would violate, and true if
    /// that budget is guaranteed. It is the first guaranteed one by name, or else the first one. `None` if no budget would be violated.
    pub(crate) fn first_violated(&self, tally: &Tally, unit: &Unit) -> Option<(usize, bool)> {
        let guarded = self.guards(unit);
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for number in unit.pods.iter().flat_map(|pod| self.of_pod(*pod)) {
            *counts.entry(*number).or_default() += 1;
        }
        let violated =
            counts.into_iter().filter(|(number, pods)| tally.victims[*number] + pods > self.allowed(*number));
        violated
            .map(|(number, _)| (number, guarded || tally.guarded[number] > 0))
            .min_by_key(|(number, guaranteed)| (!guaranteed, *number))
    }

    /// Returns, for each of these units of eviction, true if it violates a budget when the units are evicted in this order; the most
    /// important unit comes first.
    pub(crate) fn violating_in_order<'u>(&self, units: impl Iterator<Item = &'u Unit<'u>>) -> Vec<bool> {
        let mut tally = self.tally();
        units.map(|unit| self.add(&mut tally, unit) > 0).collect()
    }

    /// Returns those of these pods that violate a budget when all of them are evicted in the order of their names. Their number is part of
    /// the cost of a plan: [`Self::violations`].
    pub(crate) fn violating(&self, cluster: &Cluster, pods: impl Iterator<Item = PodIndex>) -> Vec<PodIndex> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut pods: Vec<PodIndex> = pods.filter(|pod| !self.of_pod(*pod).is_empty()).collect();
        pods.sort_by(|a, b| cluster.pod_at(*a).map(|pod| &pod.key).cmp(&cluster.pod_at(*b).map(|pod| &pod.key)));
        let mut tally = self.tally();
        pods.into_iter().filter(|pod| self.add_pod(&mut tally, *pod, false)).collect()
    }

    /// Returns how many of these pods violate a budget when all of them are evicted in the order of their names.
    pub(crate) fn violations(&self, cluster: &Cluster, pods: impl Iterator<Item = PodIndex> + Clone) -> usize {
        if self.is_empty() {
            return 0;
        }
        let mut tally = self.tally();
        for pod in pods.clone() {
            self.add_pod(&mut tally, pod, false);
        }
        self.violations_of(&tally).unwrap_or_else(|| self.violating(cluster, pods).len())
    }

    /// Returns how many of the victims in `tally` violate a budget, as [`Self::violations`] counts; `None` if the tally does not tell,
    /// because pods are under several budgets and the order of the victims matters.
    pub(crate) fn violations_of(&self, tally: &Tally) -> Option<usize> {
        (tally.violations == 0 || !self.several).then_some(tally.violations)
    }

    /// Returns true if a pod of this unit of eviction is under the budget with this number.
    pub(crate) fn covers(&self, number: usize, unit: &Unit) -> bool {
        unit.pods.iter().any(|pod| self.of_pod(*pod).contains(&number))
    }

    /// Returns the guaranteed budgets that do not allow the eviction of all these units, sorted by name; each with the number of evictions
    /// that it allows, and the lowest priority at which a preemptor may violate it.
    pub(crate) fn guaranteed(&self, units: &[Unit]) -> Vec<(&'a Budget, usize, i32)> {
        let mut tally = self.tally();
        for unit in units {
            self.add(&mut tally, unit);
        }
        // The effort depends on the budgets of the pods, not on the number of all budgets.
        let mut thresholds: BTreeMap<usize, i32> = BTreeMap::new();
        for unit in units.iter().filter(|unit| self.guards(unit)) {
            let Some(threshold) = unit.threshold else { continue };
            for number in unit.pods.iter().flat_map(|pod| self.of_pod(*pod)) {
                let known = thresholds.entry(*number).or_insert(threshold);
                *known = threshold.max(*known);
            }
        }
        let scarce = thresholds.into_iter().filter(|(number, _)| tally.victims[*number] > self.allowed(*number));
        let mut list: Vec<(&Budget, usize, i32)> =
            scarce.map(|(number, threshold)| (self.list[number], self.allowed(number), threshold)).collect();
        list.sort_by(|a, b| a.0.key.cmp(&b.0.key));
        list
    }

    /// Returns the number of budgets.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the budget with this number, which must exist; budgets are numbered in the order of their keys.
    pub(crate) fn at(&self, number: usize) -> &'a Budget {
        self.list[number]
    }

    /// Returns the numbers of the budgets that count the eviction of a pod; empty if there is none.
    pub(crate) fn of_pod(&self, pod: PodIndex) -> &[usize] {
        let marked = self.under.get(pod as usize / 64).is_some_and(|bits| bits & (1 << (pod % 64)) != 0);
        if marked { self.of.get(&pod).map_or(&[], |set| &self.sets[*set]) } else { &[] }
    }

    /// Returns how many further pods may be evicted under the budget with this number: its allowed disruptions less the pods that plans in
    /// flight evict.
    pub(crate) fn allowed(&self, number: usize) -> usize {
        let allowed = usize::try_from(self.list[number].disruptions_allowed).unwrap_or(0);
        allowed.saturating_sub(self.in_flight[number])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectKey;
    use crate::model::UnitKind;
    use serde_json::{Value, json};

    fn list(value: &Value) -> Vec<Value> {
        value.as_array().cloned().unwrap_or_default()
    }

    fn upsert_budget(cluster: &mut Cluster, name: usize, data: &Value) {
        let disrupted = list(&data["disruptedPods"]);
        let disrupted = disrupted.iter().map(|pod| (pod.as_str().unwrap().to_owned(), json!("2026-01-01T00:00:00Z")));
        let mut object = json!({
            "metadata": {"namespace": data["namespace"], "name": name.to_string()},
            "status": {"disruptionsAllowed": data["disruptionsAllowed"], "currentHealthy": 0, "desiredHealthy": 0,
                "expectedPods": 0, "disruptedPods": disrupted.collect::<serde_json::Map<_, _>>()}
        });
        if data["matchLabels"].is_object() || data["matchExpressions"].is_array() {
            object["spec"] = json!({"selector": {
                "matchLabels": data.get("matchLabels").cloned().unwrap_or_else(|| json!({})),
                "matchExpressions": list(&data["matchExpressions"])}});
        }
        cluster.upsert_budget(&serde_json::from_value(object).unwrap()).unwrap();
    }

    /// Adds the pods of a victim and returns them as a unit.
    fn unit(cluster: &mut Cluster, victim: &Value) -> Unit<'static> {
        let mut pods = Vec::new();
        for pod in list(&victim["pods"]) {
            let metadata = json!({"namespace": pod["namespace"], "name": pod["name"], "labels": pod["labels"]});
            cluster.upsert_pod(&serde_json::from_value(json!({"metadata": metadata})).unwrap()).unwrap();
            let key = ObjectKey::new(pod["namespace"].as_str().unwrap(), pod["name"].as_str().unwrap());
            pods.push(cluster.pod_index(&key).unwrap());
        }
        let (kind, key) = (UnitKind::Pod, &*Box::leak(Box::new(ObjectKey::default())));
        let pods = pods.into_iter().collect();
        Unit { kind, key, priority: 0, grouped: false, pods, started: None, threshold: None }
    }

    #[test]
    fn pods_of_a_group_that_have_not_started_count_for_its_guaranteed_budget() {
        let mut cluster = Cluster::default();
        let pods = ["a", "b"].map(|name| {
            let pod = json!({"metadata": {"namespace": "default", "name": name, "labels": {"app": "train"}},
                "spec": {"nodeName": "n1"}, "status": {"phase": "Pending"}});
            cluster.upsert_pod(&serde_json::from_value(pod).unwrap()).unwrap();
            cluster.pod_index(&ObjectKey::new("default", name)).unwrap()
        });
        let one = json!({"namespace": "default", "matchLabels": {"app": "train"}, "disruptionsAllowed": 1});
        upsert_budget(&mut cluster, 0, &one);
        let key = ObjectKey::new("default", "train");
        let unit = |pods: &[PodIndex]| {
            let (kind, pods) = (UnitKind::PodGroup, pods.iter().copied().collect());
            Unit { kind, key: &key, priority: 0, grouped: true, pods, started: None, threshold: Some(100) }
        };
        let violated = |pods: &[PodIndex], priority: i32| {
            let units = [unit(pods)];
            let budgets = Budgets::new(&cluster, &units, priority, &InFlight::default());
            (budgets.add(&mut budgets.tally(), &units[0]), budgets.may_evict(&mut budgets.tally(), units.iter()))
        };
        assert_eq!(violated(&pods, 10), (1, false), "they may start between two evictions");
        assert_eq!(violated(&pods, 100), (0, true), "the budget is not guaranteed against this preemptor");
        assert_eq!(violated(&pods[..1], 10), (0, true), "one pod cannot be disrupted partially");
    }

    #[test]
    fn the_split_by_budgets_is_the_one_that_kube_schedulers_tests_expect() {
        let all: Vec<Value> = serde_yaml_ng::from_str(include_str!("../../../tests/cases/units.yaml")).unwrap();
        let cases: Vec<&Value> = all.iter().filter(|case| case["kind"] == "pdb_split").collect();
        assert_eq!(cases.len(), 12);
        for case in cases {
            let mut cluster = Cluster::default();
            for (name, budget) in list(&case["pdbs"]).iter().enumerate() {
                upsert_budget(&mut cluster, name, budget);
            }
            let victims = list(&case["victims"]);
            let units: Vec<Unit> = victims.iter().map(|victim| unit(&mut cluster, victim)).collect();
            let budgets = Budgets::new(&cluster, &units, 0, &InFlight::default());
            let mut tally = budgets.tally();
            let got: Vec<usize> = units.iter().map(|unit| budgets.add(&mut tally, unit)).collect();
            let violating = list(&case["expect"]["violating"]);
            let wanted = victims.iter().map(|victim| {
                let names: Vec<Value> = list(&victim["pods"]).iter().map(|pod| pod["name"].clone()).collect();
                let found = violating.iter().find(|v| list(&v["pods"]) == names);
                found.map_or(0, |v| usize::try_from(v["violateCount"].as_u64().unwrap()).unwrap())
            });
            assert_eq!(got, wanted.collect::<Vec<_>>(), "{}", case["source"]);
        }
    }
}
