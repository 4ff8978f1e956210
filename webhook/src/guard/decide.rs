//! Whether a scheduler may take this victim: the pure part of the guard.
//!
//! Nobody tells the guard for whom a victim is taken. So it asks whether anybody could be meant: the *possible
//! preemptors* are the pending, ungated pods of the scheduler that may preempt and whose effective priority is above
//! the victim's. Where there is none the victim stays. Where the victim carries a threshold (KEP-3280) that none of
//! them reaches, it goes only as far as every budget that selects it allows it.
//!
//! The *effective priority* of a pod is the lower one of its group's and its own: a group [lends
//! none](giveway_crds::lending), and kube-scheduler acts on the pod's own. So who opens a budget reaches its threshold by
//! both. For native groups kube-scheduler acts on the group's priority, whatever the pod's own: so it counts here, but for
//! thresholds, for which the lower one counts as for everybody. A victim that goes with its group counts as the cheapest pod of it, as for Giveway itself.

use super::facts::{Allowance, Bound, Waiting};
use super::hold::Whom;
use crate::view::View;
use giveway_crds::condition::Reason;
use giveway_crds::{lending, native};
use giveway_planner::model::ObjectKey;
use giveway_planner::sentence::Sentence;
use std::cmp::Reverse;

/// How many possible preemptors are told why they wait.
const TOLD: usize = 3;

/// At how many pairs of a budget and a pod that goes with the victim the guard looks. Nobody has so many but on purpose, and who has them
/// protects his pods by a threshold anyway.
const MOST_LOOKS: usize = 200_000;

/// The most budgets that count one pod as gone, one after the other: the eviction API itself serves no pod that two of them select.
pub const MOST_CLAIMS: usize = 8;

/// How far a scheduler is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It announces the victim. Nothing proves yet that it is really about to delete it.
    Announces,
    /// It deletes the victim, whose stored status has the announcement.
    Deletes,
}

/// What a scheduler wants to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// How far it is.
    pub step: Step,
    /// Namespace of the victim.
    pub namespace: String,
    /// Name of the scheduler, as pods name it, where it is known: only its pods can be meant.
    pub scheduler: Option<String>,
    /// The victim.
    pub victim: Bound,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The victim may go.
    Permitted(Permit),
    /// The victim stays.
    Refused(Refusal),
}

/// What belongs to a permission.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Permit {
    /// Names of the budgets that have to count this pod as gone, by name: at most [`MOST_CLAIMS`].
    pub budgets: Vec<String>,
    /// Set when these budgets are guaranteed: the victim stays after all when one of them cannot count it any more.
    pub guaranteed: Option<Guarantee>,
}

/// A threshold that no possible preemptor reaches.
#[derive(Clone, Debug, PartialEq)]
pub struct Guarantee {
    threshold: i32,
    highest: Sentence,
    told: Vec<Preemptor>,
}

/// Why a victim stays, and who should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// [`Reason::NoPreemptor`] or [`Reason::GuaranteedBudget`].
    pub reason: Reason,
    /// The reason as a sentence, with names and numbers.
    pub message: Sentence,
    /// The pods that the scheduler most probably acts for.
    pub preemptors: Vec<Preemptor>,
}

/// A pending pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preemptor {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// A pending pod with its effective priority.
struct Candidate<'a> {
    namespace: &'a str,
    name: &'a str,
    pod: &'a Waiting,
    priority: i32,
    /// What counts for thresholds: no group lends its pods more than they pay for.
    paid: i32,
}

impl Candidate<'_> {
    fn named(&self) -> Sentence {
        Sentence::default().object("pod", &ObjectKey::new(self.namespace, self.name), &self.pod.uid)
    }
}

/// Decides.
pub fn decide(view: &View, asked: &Asked) -> Verdict {
    let victim = &asked.victim;
    if victim.deleting {
        return Verdict::Permitted(Permit::default());
    }
    let unit = unit(view, asked);
    let priority = worth(view, asked, &unit);
    let pending = pending(view, asked);
    let possible: Vec<&Candidate<'_>> = pending.iter().filter(|candidate| candidate.priority > priority).collect();
    let Some(highest) = possible.iter().max_by_key(|c| (c.paid, c.priority, Reverse((c.namespace, c.name)))) else {
        return Verdict::Refused(no_preemptor(asked, priority, &pending));
    };
    let threshold = unit.iter().filter_map(|pod| pod.threshold).max().filter(|threshold| highest.paid < *threshold);
    let guaranteed = threshold.map(|threshold| Guarantee {
        threshold,
        highest: highest.named().text(format!(" with priority {}", highest.paid)),
        told: likely(possible, victim),
    });
    let budgets = || view.facts.budgets.get(&asked.namespace).into_iter().flatten();
    if let Some(guarantee) = &guaranteed {
        let count = budgets().count();
        if count.saturating_mul(unit.len()) > MOST_LOOKS {
            let cause = format!("{count} budgets over {} pods are more than can be judged in time", unit.len());
            return Verdict::Refused(guarantee.refuse_because(view, asked, cause.into()));
        }
        for (_, budget) in budgets() {
            let needed = unit.iter().filter(|pod| budget.counts(pod) && !budget.has_counted(pod)).count();
            if needed > budget.allowed() {
                return Verdict::Refused(guarantee.refuse(view, asked, budget, needed));
            }
        }
    }
    let mut counting: Vec<String> = budgets()
        .filter(|(_, budget)| budget.counts(victim))
        .map(|(name, _)| name.clone())
        .take(MOST_CLAIMS + 1)
        .collect();
    if let Some(guarantee) = guaranteed.as_ref().filter(|_| counting.len() > MOST_CLAIMS) {
        let cause =
            format!("more than {MOST_CLAIMS} budgets select it, which are too many to count it as gone: leave one");
        return Verdict::Refused(guarantee.refuse_because(view, asked, cause.into()));
    }
    // A budget that is no more than a preference holds nobody up.
    counting.truncate(MOST_CLAIMS);
    Verdict::Permitted(Permit { budgets: counting, guaranteed })
}

/// The pods that go with the victim: its whole group when that gives way as one, otherwise the victim alone.
fn unit<'a>(view: &'a View, asked: &'a Asked) -> Vec<&'a Bound> {
    let mut unit = vec![&asked.victim];
    let group = asked.victim.group.as_deref();
    if group.and_then(|group| view.group(&asked.namespace, group)).is_some_and(|group| group.whole) {
        let members = view.facts.members.get(&asked.namespace).into_iter().flat_map(|members| members.values());
        unit.extend(members.filter(|pod| pod.group.as_deref() == group && pod.name != asked.victim.name));
    }
    unit
}

/// Every pending pod that the scheduler may preempt for, whatever its priority.
fn pending<'a>(view: &'a View, asked: &'a Asked) -> Vec<Candidate<'a>> {
    let mut pending = Vec::new();
    for (namespace, pods) in &view.facts.waiting {
        for (name, pod) in pods {
            if asked.scheduler.as_ref().is_none_or(|scheduler| *scheduler == pod.scheduler) {
                let priority = effective(view, namespace, pod.group.as_deref(), pod.priority);
                pending.push(Candidate {
                    namespace,
                    name,
                    pod,
                    priority,
                    paid: lending::counting(pod.priority, priority),
                });
            }
        }
    }
    pending
}

/// Whom an answer can be for: pods of the scheduler that it nominated for a node. Who is refused stays nominated.
pub fn whom(view: &View, asked: &Asked) -> Whom {
    let pods = pending(view, asked).iter().filter(|candidate| candidate.pod.nominated.is_some()).count();
    Whom { scheduler: asked.scheduler.clone(), pods }
}

/// The lower one of a pod's own priority and its group's, where it has a group whose priority is known; that of a native
/// group as it is.
fn effective(view: &View, namespace: &str, group: Option<&str>, own: i32) -> i32 {
    let Some((name, group)) = group.and_then(|name| Some((name, view.group(namespace, name)?))) else { return own };
    let class = || view.classes.resolve(group.class_name.as_deref()).ok().map(|class| class.priority);
    match group.priority.or_else(class) {
        None => own,
        Some(priority) if native::is_native(name) => priority,
        Some(priority) => lending::counting(own, priority),
    }
}

/// The priority that a unit counts with: that of the cheapest pod of it.
fn worth(view: &View, asked: &Asked, unit: &[&Bound]) -> i32 {
    let each = unit.iter().map(|pod| effective(view, &asked.namespace, pod.group.as_deref(), pod.priority));
    each.min().unwrap_or(asked.victim.priority)
}

/// The pods that the scheduler most probably acts for: those it nominated for the victim's node, then those it could
/// not place, then the most important.
fn likely<'a, 'b: 'a>(candidates: impl IntoIterator<Item = &'a Candidate<'b>>, victim: &Bound) -> Vec<Preemptor> {
    let mut candidates: Vec<&Candidate<'_>> = candidates.into_iter().collect();
    candidates.sort_by_key(|c| {
        let nominated = c.pod.nominated.is_some() && c.pod.nominated == victim.node;
        (!nominated, !c.pod.unschedulable, Reverse(c.priority), c.namespace, c.name)
    });
    let told = candidates.into_iter().take(TOLD);
    told.map(|c| Preemptor { namespace: c.namespace.to_owned(), name: c.name.to_owned(), uid: c.pod.uid.clone() })
        .collect()
}

/// How every refusal begins.
fn refused(asked: &Asked, priority: i32) -> Sentence {
    let victim = ObjectKey::new(&asked.namespace, &asked.victim.name);
    let sentence = Sentence::from("Preemption of ").object("pod", &victim, &asked.victim.uid);
    sentence.text(format!(" (priority {priority}) is refused: "))
}

fn no_preemptor(asked: &Asked, priority: i32, pending: &[Candidate<'_>]) -> Refusal {
    // For the scheduler a pod's own priority counts: it acts for one of these.
    let meant = || pending.iter().filter(|candidate| candidate.pod.priority > asked.victim.priority);
    let highest = meant().max_by_key(|c| (c.priority, Reverse((c.namespace, c.name))));
    let highest = highest.map_or_else(Sentence::default, |c| {
        let counts = format!(", counts as {} by its pod group", c.priority);
        Sentence::from("; the highest, ").then(c.named()).text(counts)
    });
    let none = format!("no pending pod that may preempt has a priority above {priority}");
    Refusal {
        reason: Reason::NoPreemptor,
        message: refused(asked, priority).text(none).then(highest).text("."),
        preemptors: likely(meant(), &asked.victim),
    }
}

impl Guarantee {
    /// The refusal because of this budget, which would have to allow `needed` more disruptions.
    pub fn refuse(&self, view: &View, asked: &Asked, budget: &Allowance, needed: usize) -> Refusal {
        let allowed = budget.allowed();
        let disruptions = if allowed == 1 { "disruption" } else { "disruptions" };
        let whole = match &asked.victim.group {
            Some(group) if needed > 1 => {
                let whole = |group: &str| format!("; {needed} pods of {group}, which gives way whole, are under it");
                let named = whole(&format!("pod group {}/{group}", asked.namespace));
                Sentence::default().detail(&asked.namespace, named, whole("its pod group"))
            }
            _ => Sentence::default(),
        };
        let allows = format!(" allows {allowed} more {disruptions} to preemptors below {}", self.threshold);
        let cause = Sentence::default().detail(&asked.namespace, format!("budget {}", budget.name()), "its budget");
        let cause = cause.text(allows).then(whole).text("; the highest pending preemptor is ");
        self.refuse_because(view, asked, cause.then(self.highest.clone()))
    }

    /// The refusal because of something else.
    pub fn refuse_because(&self, view: &View, asked: &Asked, cause: Sentence) -> Refusal {
        let priority = worth(view, asked, &unit(view, asked));
        Refusal {
            reason: Reason::GuaranteedBudget,
            message: refused(asked, priority).then(cause).text("."),
            preemptors: self.told.clone(),
        }
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
