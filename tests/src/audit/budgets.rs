//! The promises about budgets (KEP-3280), checked over time: for every pod that went, who took it, how, for whom, and how
//! many healthy pods each of its budgets had left at that very revision.
//!
//! A pod is *guarded* against a preemptor when its threshold (in a group of mode `PodGroup`: the highest of the group's) is
//! above the preemptor's priority. The promises:
//! 1. a guarded pod that a budget selects is never deleted for such a preemptor, it is evicted: the API server asks;
//! 2. no eviction leaves a budget with fewer healthy pods than it desires, whoever asked for it;
//! 3. a pod that a budget selects is deleted only after its eviction was refused for a budget, for the same plan;
//! 4. nobody else goes for a plan before every guarded victim of it is on its way;
//! 5. kube-scheduler, which asks no budget, takes a guarded pod only where its budgets allow it, or while a pod waits that
//!    reaches the threshold (whom it acts for, it does not say).
//!
//! What the API server cannot know is held against nobody: pods that became unready, or that were deleted by somebody who
//! asks no budget, count as healthy for promise 2 until the disruption controller has counted them out. What counts is the
//! time at which the eviction was granted, which is in the budget's status before the pod goes.

use super::chronicle::{BudgetSeen, Chronicle, PodSeen, Seen};
use super::history::{History, How, Key, Removal};
use super::{OPERATOR, Promises, SCHEDULER};
use giveway_crds::keys;
use kube::core::SelectorExt as _;
use std::collections::BTreeMap;

/// A pod that was made to go, by the first request for it that was accepted.
#[derive(Clone, Debug)]
pub struct Act {
    /// Namespace and name of the pod.
    pub pod: Key,
    /// Who asked.
    pub user: String,
    /// How.
    pub how: How,
    /// The budgets that selected the pod.
    pub budgets: Vec<Key>,
    /// Whether it went for a preemptor that its threshold guards it against.
    pub guarded: bool,
}

/// The health of a budget when it was at its worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worst {
    /// Healthy pods.
    pub healthy: i64,
    /// Those that the budget desired then.
    pub desired: i64,
}

/// What the two witnesses prove together.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// Every promise that was broken, as a sentence each.
    pub broken: Vec<String>,
    /// Everybody who was made to go.
    pub acts: Vec<Act>,
    /// Evictions of guarded pods that the API server refused for a budget.
    pub refused: Vec<Removal>,
    /// By budget, the moment with the fewest healthy pods in proportion to what was desired.
    pub worst: BTreeMap<Key, Worst>,
}

/// Judges everything that happened, but for what the promises leave out.
pub fn judge(chronicle: &Chronicle, history: &History, promises: &Promises) -> Judgement {
    let mut court = Court::new(chronicle, history, promises);
    for seen in chronicle.events.values() {
        court.take(seen);
    }
    court.refusals();
    court.judgement
}

struct Court<'a> {
    history: &'a History,
    promises: &'a Promises,
    pods: BTreeMap<&'a str, &'a PodSeen>,
    budgets: BTreeMap<&'a Key, Watched<'a>>,
    /// Every pod that ever was, as it was last.
    all_pods: BTreeMap<&'a str, &'a PodSeen>,
    judgement: Judgement,
}

struct Watched<'a> {
    seen: &'a BudgetSeen,
    /// How many pods became unhealthy by nobody's eviction.
    sickened: i64,
    /// How many of them the controller has counted out.
    known: i64,
    /// The same at the time at which the eviction of a pod was granted, by name: the pod itself goes a moment later.
    granted: BTreeMap<&'a str, i64>,
}

impl<'a> Court<'a> {
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
                    if pod.leaving && !before.leaving {
                        self.left(before);
                    } else if before.healthy && !pod.healthy {
                        self.sickened(before);
                    }
                }
            }
            Seen::PodGone(uid) => {
                if let Some(before) = self.pods.remove(uid.as_str()).filter(|before| !before.leaving) {
                    self.left(before);
                }
            }
            Seen::Budget(budget) => self.counted(budget),
            Seen::BudgetGone(key) => drop(self.budgets.remove(key)),
        }
        let namespace = match seen {
            Seen::Pod(pod) => Some(&pod.key.0),
            Seen::Budget(budget) => Some(&budget.key.0),
            Seen::PodGone(uid) => self.all_pods.get(uid.as_str()).map(|pod| &pod.key.0),
            Seen::BudgetGone(_) => None,
        };
        if let Some(namespace) = namespace {
            self.note_worst(namespace);
        }
    }

    /// The status of a budget was written. Where it counts no more pods than there are, it knows of all that went.
    fn counted(&mut self, budget: &'a BudgetSeen) {
        let known = budget.status.as_ref().is_some_and(|status| {
            let there = self.healthy(budget).filter(|pod| !status.disrupted.contains(&pod.key.1)).count();
            status.healthy <= there as i64
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

    fn healthy(&self, budget: &'a BudgetSeen) -> impl Iterator<Item = &'a PodSeen> {
        self.pods.values().copied().filter(|pod| pod.healthy && selects(budget, pod))
    }

    fn sickened(&mut self, pod: &PodSeen) {
        for budget in self.budgets.values_mut().filter(|budget| selects(budget.seen, pod)) {
            budget.sickened += 1;
        }
    }

    /// A pod was made to go; `pod` is what it was before.
    fn left(&mut self, pod: &'a PodSeen) {
        let budgets: Vec<&'a BudgetSeen> =
            self.budgets.values().map(|budget| budget.seen).filter(|budget| selects(budget, pod)).collect();
        let Some(act) = first_accepted(self.history, &pod.uid) else {
            // By somebody whom the log leaves out, such as the fake kubelet.
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
            let held: Vec<&BudgetSeen> =
                budgets.iter().copied().filter(|budget| self.promises.guards(&budget.key.1)).collect();
            self.healthy_enough(pod, act, &held);
        }
        if pod.healthy {
            self.sickened(pod);
        }
        if let Some(budget) = budgets.first().filter(|_| act.user == OPERATOR) {
            self.deleted(pod, act, budget);
        }
    }

    /// Promise 2.
    fn healthy_enough(&mut self, pod: &PodSeen, act: &Removal, budgets: &[&'a BudgetSeen]) {
        for budget in budgets {
            let Some(desired) = budget.status.as_ref().map(|status| status.desired) else { continue };
            let left = self.healthy(budget).count() as i64;
            let unknown = self.budgets.get(&budget.key).map_or(0, |watched| {
                let known = watched.granted.get(pod.key.1.as_str()).copied();
                watched.sickened - known.unwrap_or(watched.known)
            });
            let went = if act.how == How::Evict { "evicted" } else { "deleted" };
            if left + unknown < desired {
                self.judgement.broken.push(format!(
                    "{} was {went} by {} and left budget {} with {left} healthy pods of the {desired} that it desires",
                    pod.key.1,
                    self.told(act),
                    budget.key.1
                ));
            }
        }
    }

    /// Promises 1 and 3.
    fn deleted(&mut self, pod: &PodSeen, act: &Removal, budget: &BudgetSeen) {
        let (name, taker, budget) = (&pod.key.1, self.told(act), &budget.key.1);
        if let Some(threshold) = self.guarded_against(pod, act) {
            let text = format!("{name} was deleted by {taker}, below its threshold {threshold}, under budget {budget}");
            self.judgement.broken.push(text);
        }
        if !refused_before(self.history, act) {
            let text = format!("{name} was deleted by {taker}, without asking budget {budget} before");
            self.judgement.broken.push(text);
        }
    }

    /// Evictions that the API server refused to preemptors below the threshold.
    fn refusals(&mut self) {
        let asked = self.history.removals.iter().filter(|removal| removal.user == OPERATOR);
        let refused = asked.filter(|removal| removal.refused_for_budget()).filter(|removal| {
            let pod = self.all_pods.get(removal.uid.as_str());
            pod.is_some_and(|pod| self.guarded_against(pod, removal).is_some())
        });
        self.judgement.refused = refused.cloned().collect();
    }

    /// Promise 4: whoever may be deleted goes only when all who must be asked are on their way.
    fn guarded_first(&mut self, pod: &PodSeen, act: &Removal) {
        let Some(record) = self.history.plan_of(act) else { return };
        let Some(priority) = self.history.priority_of(&record.preemptor) else { return };
        let victims = record.plan.victims.iter().flat_map(|victim| &victim.pods);
        let there = victims.filter_map(|victim| self.pods.get(victim.uid.as_str()).copied());
        let guarded = there.filter(|other| !other.leaving && self.threshold(other).is_some_and(|it| it > priority));
        let stays = |other: &&PodSeen| self.budgets.values().any(|budget| selects(budget.seen, other));
        let told: Vec<String> = guarded
            .filter(stays)
            .map(|other| {
                let (name, other) = (&pod.key.1, &other.key.1);
                format!("{name} was taken by {} before {other}, which a budget guards", self.told(act))
            })
            .collect();
        self.judgement.broken.extend(told);
    }

    /// The threshold, if it is above the priority of the preemptor that the operator asked for. Without a plan nobody knows who
    /// takes the place: every threshold guards.
    fn guarded_against(&self, pod: &PodSeen, removal: &Removal) -> Option<i32> {
        let threshold = self.threshold(pod).filter(|_| removal.user == OPERATOR)?;
        let Some(record) = self.history.plan_of(removal) else { return Some(threshold) };
        let priority = self.history.priority_of(&record.preemptor).unwrap_or(record.plan.preemptor.priority);
        Some(threshold).filter(|threshold| *threshold > priority)
    }

    /// Whether no pod that waits, and for which kube-scheduler preempts, reaches the threshold.
    fn guarded_against_scheduler(&self, pod: &PodSeen, act: &Removal) -> bool {
        let Some(threshold) = self.threshold(pod) else { return false };
        !self.history.pods.iter().any(|(uid, other)| {
            let waits = other.released.is_some_and(|since| since <= act.at)
                && other.bound.as_ref().is_none_or(|(at, _)| *at > act.at)
                && other.removed.is_none_or(|at| at > act.at);
            let priority = self.history.effective_priority(uid);
            waits && !other.never && priority.is_some_and(|priority| priority >= threshold)
        })
    }

    /// The threshold that guards a pod: the highest of its group where that goes whole.
    fn threshold(&self, pod: &PodSeen) -> Option<i32> {
        let label = |pod: &'a PodSeen| pod.labels.get(keys::LABEL_POD_GROUP);
        let whole = pod.labels.get(keys::LABEL_POD_GROUP).filter(|group| {
            let key = (pod.key.0.clone(), (*group).clone());
            self.history.groups.get(&key).is_some_and(|group| group.whole)
        });
        let Some(group) = whole else { return pod.threshold };
        let all = self.all_pods.values().copied();
        all.filter(|other| other.key.0 == pod.key.0 && label(other) == Some(group)).filter_map(|p| p.threshold).max()
    }

    fn told(&self, removal: &Removal) -> String {
        let record = (removal.user == OPERATOR).then(|| self.history.plan_of(removal)).flatten();
        let Some(record) = record else {
            return if removal.user == OPERATOR { "Giveway without a plan".to_owned() } else { removal.user.clone() };
        };
        let priority = self.history.priority_of(&record.preemptor);
        let priority = priority.map_or_else(|| "unknown".to_owned(), |priority| priority.to_string());
        format!("Giveway for {} of priority {priority}", self.history.name_of(&record.preemptor))
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

fn selects(budget: &BudgetSeen, pod: &PodSeen) -> bool {
    budget.key.0 == pod.key.0 && budget.selector.matches(&pod.labels)
}

/// Whether the API server refused, for a budget, to evict this pod for the same plan before.
pub(super) fn refused_before(history: &History, removal: &Removal) -> bool {
    let plan = |removal: &Removal| history.plan_of(removal).map(|record| record.plan.id.as_str());
    let earlier = |other: &&Removal| other.uid == removal.uid && other.user == removal.user && other.at <= removal.at;
    let mut refused = history.removals.iter().filter(earlier).filter(|other| other.refused_for_budget());
    refused.any(|other| plan(other) == plan(removal))
}

/// The request that made a pod go.
fn first_accepted<'a>(history: &'a History, uid: &str) -> Option<&'a Removal> {
    history.removals.iter().find(|removal| removal.accepted && removal.uid == uid)
}

#[cfg(test)]
#[path = "budgets_tests.rs"]
mod tests;
