//! The promises about PodDisruptionBudgets (KEP-3280), checked over time: for every pod that was removed, by which user, how, for which
//! preemptor, and how many healthy pods each of its budgets had left at that revision.
//!
//! The threshold of a pod (in a PodGroup in mode `PodGroup`: the highest threshold of its pods) *applies* to a preemptor if it is above the
//! priority of the preemptor. The promises:
//! 1. a pod with a budget is not deleted for a preemptor to which its threshold applies, but evicted, so that the API server checks the
//!    budget;
//! 2. no eviction by any user leaves a budget with fewer healthy pods than it desires;
//! 3. a pod with a budget is deleted only after a budget refused its eviction for the same plan;
//! 4. no other pod is evicted for a plan before all its victims whose threshold applies are terminating;
//! 5. kube-scheduler, which checks no budget, removes a pod with a threshold only if its budgets allow it, or while a pod is pending that
//!    reaches the threshold (the request does not name the preemptor).
//!
//! Pods that became unready, or that another user deleted without a check of the budget, count as healthy for promise 2 until the
//! disruption controller has updated the budget. The relevant time is that of the grant of an eviction, which is in the status of the
//! budget before the pod terminates.

use super::chronicle::{BudgetVersion, Chronicle, PodVersion, Seen};
use super::history::History;
use super::record::{How, Key, Removal};
use super::{OPERATOR, Promises, SCHEDULER};
use giveway_crds::keys;
use kube::core::SelectorExt as _;
use std::collections::BTreeMap;

/// The first accepted removal of a pod.
#[derive(Clone, Debug)]
pub struct Act {
    /// Namespace and name of the pod.
    pub pod: Key,
    /// The user.
    pub user: String,
    /// The kind of request.
    pub how: How,
    /// The budgets that selected the pod.
    pub budgets: Vec<Key>,
    /// True if its threshold applies to the preemptor.
    pub guarded: bool,
}

/// The state of a budget with the fewest healthy pods in proportion to the desired number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worst {
    /// The number of healthy pods.
    pub healthy: i64,
    /// The desired number of healthy pods at that time.
    pub desired: i64,
}

/// The result of checking the audit log together with the watch of pods and budgets.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// One message for each breach.
    pub broken: Vec<String>,
    /// The removals.
    pub acts: Vec<Act>,
    /// Evictions of pods whose threshold applies that the API server refused for a budget.
    pub refused: Vec<Removal>,
    /// The worst state of each budget.
    pub worst: BTreeMap<Key, Worst>,
}

/// Checks all promises about budgets, except for the excuses in `promises`.
pub fn judge(chronicle: &Chronicle, history: &History, promises: &Promises) -> Judgement {
    let mut oracle = BudgetOracle::new(chronicle, history, promises);
    for seen in chronicle.events.values() {
        oracle.take(seen);
    }
    oracle.refusals();
    oracle.judgement
}

struct BudgetOracle<'a> {
    history: &'a History,
    promises: &'a Promises,
    pods: BTreeMap<&'a str, &'a PodVersion>,
    budgets: BTreeMap<&'a Key, Watched<'a>>,
    /// The last state of every pod.
    all_pods: BTreeMap<&'a str, &'a PodVersion>,
    judgement: Judgement,
}

struct Watched<'a> {
    seen: &'a BudgetVersion,
    /// The number of pods that became unhealthy without an eviction.
    sickened: i64,
    /// The number of them that the disruption controller has observed.
    known: i64,
    /// The value of `known` when the eviction of a pod was granted, by the name of the pod: the pod terminates a moment later.
    granted: BTreeMap<&'a str, i64>,
}

impl<'a> BudgetOracle<'a> {
    fn new(chronicle: &'a Chronicle, history: &'a History, promises: &'a Promises) -> Self {
        let mut all_pods = BTreeMap::new();
        for seen in chronicle.events.values() {
            if let Seen::Pod(pod) = seen {
                all_pods.insert(pod.uid.as_str(), pod);
            }
        }
        let (pods, budgets, judgement) = (BTreeMap::new(), BTreeMap::new(), Judgement::default());
        Self { history, promises, pods, budgets, all_pods, judgement }
    }

    fn take(&mut self, seen: &'a Seen) {
        match seen {
            Seen::Pod(pod) => {
                if let Some(before) = self.pods.insert(&pod.uid, pod) {
                    if pod.terminating && !before.terminating {
                        self.removed(before);
                    } else if before.healthy && !pod.healthy {
                        self.sickened(before);
                    }
                }
            }
            Seen::PodRemoved(uid) => {
                if let Some(before) = self.pods.remove(uid.as_str()).filter(|before| !before.terminating) {
                    self.removed(before);
                }
            }
            Seen::Budget(budget) => self.counted(budget),
            Seen::BudgetRemoved(key) => drop(self.budgets.remove(key)),
        }
        let namespace = match seen {
            Seen::Pod(pod) => Some(&pod.key.0),
            Seen::Budget(budget) => Some(&budget.key.0),
            Seen::PodRemoved(uid) => self.all_pods.get(uid.as_str()).map(|pod| &pod.key.0),
            Seen::BudgetRemoved(_) => None,
        };
        if let Some(namespace) = namespace {
            self.note_worst(namespace);
        }
    }

    /// Handles a write of the status of a budget. If it counts no more pods than exist, the controller has observed all removals.
    fn counted(&mut self, budget: &'a BudgetVersion) {
        let known = budget.status.as_ref().is_some_and(|status| {
            let healthy = self.healthy(budget).filter(|pod| !status.disrupted.contains(&pod.key.1)).count();
            status.healthy <= healthy as i64
        });
        let new = || Watched { seen: budget, sickened: 0, known: 0, granted: BTreeMap::new() };
        let watched = self.budgets.entry(&budget.key).or_insert_with(new);
        watched.seen = budget;
        for pod in budget.status.iter().flat_map(|status| &status.disrupted) {
            watched.granted.entry(pod).or_insert(watched.known);
        }
        if known {
            watched.known = watched.sickened;
        }
    }

    fn healthy(&self, budget: &'a BudgetVersion) -> impl Iterator<Item = &'a PodVersion> {
        self.pods.values().copied().filter(|pod| pod.healthy && selects(budget, pod))
    }

    fn sickened(&mut self, pod: &PodVersion) {
        for budget in self.budgets.values_mut().filter(|budget| selects(budget.seen, pod)) {
            budget.sickened += 1;
        }
    }

    /// Handles the removal of a pod; `pod` is its last state.
    fn removed(&mut self, pod: &'a PodVersion) {
        let budgets: Vec<&'a BudgetVersion> =
            self.budgets.values().map(|budget| budget.seen).filter(|budget| selects(budget, pod)).collect();
        let Some(act) = self.history.first_accepted(&pod.uid) else {
            // Another user removed the pod whose requests the audit policy leaves out, such as the fake kubelet.
            if pod.healthy {
                self.sickened(pod);
            }
            return;
        };
        let guarded = self.guarded_against(pod, act).is_some();
        let keys = budgets.iter().map(|budget| budget.key.clone()).collect();
        let (user, how) = (act.user.clone(), act.how);
        self.judgement.acts.push(Act { pod: pod.key.clone(), user, how, budgets: keys, guarded });
        if act.user == OPERATOR && !guarded {
            self.guarded_first(pod, act);
        }
        if act.how == How::Evict {
            if pod.healthy {
                self.healthy_enough(pod, act, &budgets);
            }
            return;
        }
        if act.user == SCHEDULER && pod.healthy && self.guarded_against_scheduler(pod, act) {
            let honoured: Vec<&BudgetVersion> =
                budgets.iter().copied().filter(|budget| self.promises.guards(&budget.key.1)).collect();
            self.healthy_enough(pod, act, &honoured);
        }
        if pod.healthy {
            self.sickened(pod);
        }
        if let Some(budget) = budgets.first().filter(|_| act.user == OPERATOR) {
            self.deleted(pod, act, budget);
        }
    }

    /// Checks promise 2.
    fn healthy_enough(&mut self, pod: &PodVersion, act: &Removal, budgets: &[&'a BudgetVersion]) {
        for budget in budgets {
            let Some(desired) = budget.status.as_ref().map(|status| status.desired) else { continue };
            let left = self.healthy(budget).count() as i64;
            let unobserved = self.budgets.get(&budget.key).map_or(0, |watched| {
                let known = watched.granted.get(pod.key.1.as_str()).copied();
                watched.sickened - known.unwrap_or(watched.known)
            });
            let removed = if act.how == How::Evict { "evicted" } else { "deleted" };
            if left + unobserved < desired {
                self.judgement.broken.push(format!(
                    "pod {} was {removed} by {} and left budget {} with {left} of {desired} desired healthy pods",
                    pod.key.1,
                    self.actor(act),
                    budget.key.1
                ));
            }
        }
    }

    /// Checks promises 1 and 3.
    fn deleted(&mut self, pod: &PodVersion, act: &Removal, budget: &BudgetVersion) {
        let (name, actor, budget) = (&pod.key.1, self.actor(act), &budget.key.1);
        if let Some(threshold) = self.guarded_against(pod, act) {
            let text = format!("pod {name} of budget {budget} was deleted by {actor}, below its threshold {threshold}");
            self.judgement.broken.push(text);
        }
        if !self.history.refused_before(act) {
            let text =
                format!("pod {name} of budget {budget} was deleted by {actor} without a refused eviction before");
            self.judgement.broken.push(text);
        }
    }

    /// Collects the evictions that the API server refused for preemptors to which the threshold applies.
    fn refusals(&mut self) {
        let asked = self.history.removals.iter().filter(|removal| removal.user == OPERATOR);
        let refused = asked.filter(|removal| removal.refused_for_budget()).filter(|removal| {
            let pod = self.all_pods.get(removal.uid.as_str());
            pod.is_some_and(|pod| self.guarded_against(pod, removal).is_some())
        });
        self.judgement.refused = refused.cloned().collect();
    }

    /// Checks promise 4: a pod that may be deleted is removed only when all pods that must be evicted are terminating.
    fn guarded_first(&mut self, pod: &PodVersion, act: &Removal) {
        let Some(record) = self.history.plan_of(act) else { return };
        let preemptor = record.preemptor.as_ref();
        let Some(priority) = preemptor.and_then(|preemptor| self.history.priority_of(preemptor)) else { return };
        let victims = record.plan.victims.iter().flat_map(|victim| &victim.pods);
        let existing = victims.filter_map(|victim| self.pods.get(victim.uid.as_str()).copied());
        let guarded =
            existing.filter(|other| !other.terminating && self.threshold(other).is_some_and(|it| it > priority));
        let has_budget = |other: &&PodVersion| self.budgets.values().any(|budget| selects(budget.seen, other));
        let broken: Vec<String> = guarded
            .filter(has_budget)
            .map(|other| {
                let (name, other) = (&pod.key.1, &other.key.1);
                format!("pod {name} was removed by {} before pod {other}, whose budget is guaranteed", self.actor(act))
            })
            .collect();
        self.judgement.broken.extend(broken);
    }

    /// Returns the threshold of the pod, if it applies to the preemptor of a removal by the operator, also to the preemptor of the cancelled
    /// plan that the removal continues. Without a preemptor every threshold applies.
    fn guarded_against(&self, pod: &PodVersion, removal: &Removal) -> Option<i32> {
        let threshold = self.threshold(pod).filter(|_| removal.user == OPERATOR)?;
        let Some(record) = self.history.ruling_plan(removal) else { return Some(threshold) };
        let Some(preemptor) = &record.preemptor else { return Some(threshold) };
        let priority = self.history.priority_of(preemptor).unwrap_or(record.plan.preemptor.priority);
        Some(threshold).filter(|threshold| *threshold > priority)
    }

    /// Returns true if no pending pod for which kube-scheduler preempts reaches the threshold.
    fn guarded_against_scheduler(&self, pod: &PodVersion, act: &Removal) -> bool {
        let Some(threshold) = self.threshold(pod) else { return false };
        !self.history.pods.iter().any(|(uid, other)| {
            let pending = other.released.is_some_and(|since| since <= act.at)
                && other.bound.as_ref().is_none_or(|(at, _)| *at > act.at)
                && other.removed.is_none_or(|at| at > act.at);
            let priority = self.history.effective_priority(uid);
            pending && !other.never && priority.is_some_and(|priority| priority >= threshold)
        })
    }

    /// Returns the threshold of a pod: in a PodGroup in mode `PodGroup` the highest one of its pods.
    fn threshold(&self, pod: &PodVersion) -> Option<i32> {
        let label = |pod: &'a PodVersion| pod.labels.get(keys::LABEL_POD_GROUP);
        let whole = pod.labels.get(keys::LABEL_POD_GROUP).filter(|group| {
            let key = (pod.key.0.clone(), (*group).clone());
            self.history.groups.get(&key).is_some_and(|group| group.whole)
        });
        let Some(group) = whole else { return pod.threshold };
        let all = self.all_pods.values().copied();
        all.filter(|other| other.key.0 == pod.key.0 && label(other) == Some(group)).filter_map(|p| p.threshold).max()
    }

    fn actor(&self, removal: &Removal) -> String {
        let record = (removal.user == OPERATOR).then(|| self.history.plan_of(removal)).flatten();
        let Some(record) = record else {
            return if removal.user == OPERATOR { "Giveway (without a plan)".to_owned() } else { removal.user.clone() };
        };
        let Some(preemptor) = &record.preemptor else { return format!("Giveway ({})", record.plan.cause.as_str()) };
        let priority = self.history.priority_of(preemptor);
        let priority = priority.map_or_else(|| "unknown".to_owned(), |priority| priority.to_string());
        format!("Giveway for {} of priority {priority}", self.history.name_of(preemptor))
    }

    fn note_worst(&mut self, namespace: &str) {
        for watched in self.budgets.values().filter(|watched| watched.seen.key.0 == namespace) {
            let Some(desired) = watched.seen.status.as_ref().map(|status| status.desired) else { continue };
            let now = Worst { healthy: self.healthy(watched.seen).count() as i64, desired };
            let worst = self.judgement.worst.entry(watched.seen.key.clone()).or_insert(now);
            if now.healthy - now.desired < worst.healthy - worst.desired {
                *worst = now;
            }
        }
    }
}

fn selects(budget: &BudgetVersion, pod: &PodVersion) -> bool {
    budget.key.0 == pod.key.0 && budget.selector.matches(&pod.labels)
}

#[cfg(test)]
#[path = "budgets_tests.rs"]
mod tests;
