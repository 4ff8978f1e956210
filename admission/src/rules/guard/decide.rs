//! Decides whether a scheduler may preempt a victim: the pure part of the guard.
//!
//! The request does not name the preemptor, so the guard looks for *possible preemptors*: the pending, ungated pods of
//! the scheduler that may preempt and whose effective priority is above the victim's. If there is none, the preemption
//! is rejected. If the victim has a threshold (KEP-3280) that no possible preemptor reaches, the preemption is
//! permitted only as far as every budget that selects the victim allows it.
//!
//! The *effective priority* of a pod is the lower of its PodGroup's priority and its own: a PodGroup [does not raise
//! the priority of its pods](giveway_crds::lending), and kube-scheduler uses the pod's own. A pod therefore reaches a
//! threshold only if both priorities do. For native PodGroups kube-scheduler uses the group's priority and ignores the
//! pod's own, so the group's priority counts here; for thresholds the lower one counts, as for all other pods. A victim
//! that is disrupted together with its group counts with the lowest priority in the group, as in Giveway's own planner.

use super::facts::{Allowance, BoundPod, PendingPod, PodObject, RequestedVictim};
use super::objects::GuardView;
use crate::object;
use crate::request::{Operation, Request};
use crate::verdict::Denial;
use crate::wording::guard::{self as wording, RankedPod};
use giveway_crds::condition::Reason;
use giveway_crds::wording::Sentence;
use giveway_crds::{lending, native};
use giveway_planner::model::ObjectKey;
use std::cmp::Reverse;

/// Maximum number of possible preemptors that get an event about a rejected preemption.
const MOST_PREEMPTORS: usize = 3;

/// Maximum number of pairs of a budget and a pod (of the victim's unit) that the guard compares. Above it, a preemption
/// below the threshold is rejected. Only a deliberately large number of budgets reaches it.
const MOST_LOOKS: usize = 200_000;

/// Maximum number of budgets that count one pod as disrupted. The Eviction API itself refuses a pod that two budgets
/// select.
pub const MOST_CLAIMS: usize = 8;

/// The step of a preemption that the scheduler requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardStep {
    /// The scheduler announces the victim in `pods/status`. The deletion may or may not follow.
    Announces,
    /// The scheduler deletes the victim, whose stored status has the announcement.
    Deletes,
}

/// The preemption that a scheduler requests.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardRequest {
    /// The requested step.
    pub step: GuardStep,
    /// Namespace of the victim.
    pub namespace: String,
    /// Name of the scheduler as in `spec.schedulerName` of pods, if it is known: then only its pods are possible
    /// preemptors.
    pub scheduler: Option<String>,
    /// The pod to preempt.
    pub victim: RequestedVictim,
}

impl GuardRequest {
    /// Returns the preemption that an admission request asks for: the announcement of a victim, or its deletion. `None` for any
    /// other request, which the guard allows.
    ///
    /// # Errors
    /// The pod cannot be read (422).
    pub fn of(request: &Request<'_>) -> Result<Option<Self>, Denial> {
        let is_pod = request.resource.group.is_empty() && &*request.resource.resource == "pods";
        let (step, announcement) = match (request.operation, request.sub_resource()) {
            (Operation::Update, "status") => (GuardStep::Announces, request.object),
            (Operation::Delete, "") => (GuardStep::Deletes, request.old_object),
            _ => return Ok(None),
        };
        if !is_pod {
            return Ok(None);
        }
        let stored: PodObject<true> = object::read("Pod", request.old_object)?;
        let announced: PodObject<true> = object::read("Pod", announcement)?;
        let namespace = request.namespace().to_owned();
        Ok(Some(Self { step, namespace, scheduler: announced.announced_by(), victim: stored.victim() }))
    }
}

/// The pods for which a scheduler may have asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PossiblePreemptors {
    /// Name of the scheduler, if it is known.
    pub scheduler: Option<String>,
    /// Number of its pods that can be the preemptor: those that it nominated for a node.
    pub pods: usize,
}

/// The decision about a requested preemption.
#[derive(Clone, Debug, PartialEq)]
pub enum GuardDecision {
    /// The victim may be preempted.
    Permitted(Permit),
    /// The preemption is rejected.
    Rejected(Rejection),
}

/// The conditions of a permission.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Permit {
    /// Names of the budgets that have to count this pod as disrupted, sorted by name: at most [`MOST_CLAIMS`].
    pub budgets: Vec<String>,
    /// Set if these budgets are guaranteed: the preemption is rejected if one of them has no disruption left.
    pub guaranteed: Option<Guarantee>,
}

/// A threshold that no possible preemptor reaches.
#[derive(Clone, Debug, PartialEq)]
pub struct Guarantee {
    threshold: i32,
    /// The pending pod that comes closest, with the priority that counts for thresholds.
    highest: RankedPod,
    preemptors: Vec<EventPod>,
}

/// Why a preemption is rejected, and the pods that get an event about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// [`Reason::NoPreemptor`] or [`Reason::GuaranteedBudget`].
    pub reason: Reason,
    /// The reason as a sentence, with names and numbers.
    pub message: Sentence,
    /// The most likely preemptors of the scheduler.
    pub preemptors: Vec<EventPod>,
}

/// A pod that an event is about or names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// A pending pod with its effective priority.
struct PreemptorCandidate<'a> {
    namespace: &'a str,
    name: &'a str,
    pod: &'a PendingPod,
    priority: i32,
    /// Priority that counts for thresholds: a PodGroup cannot raise it above the pod's own priority.
    paid: i32,
}

impl PreemptorCandidate<'_> {
    /// Returns this pod's name and UID with the priority that a message states for it.
    fn ranked(&self, priority: i32) -> RankedPod {
        RankedPod { key: ObjectKey::new(self.namespace, self.name), uid: self.pod.uid.clone(), priority }
    }
}

/// Decides whether a scheduler may preempt the victim that it asked for. The preemption is rejected if no pending pod of the
/// scheduler has a higher effective priority, or if a guaranteed budget does not allow it. Otherwise it is permitted, and the
/// result names the budgets that must count the victim as disrupted.
pub fn decide(view: &dyn GuardView, asked: &GuardRequest) -> GuardDecision {
    let victim = &asked.victim;
    if victim.deleting {
        return GuardDecision::Permitted(Permit::default());
    }
    let unit = pods_disrupted_together(view, asked);
    let priority = victim_priority(view, asked, &unit);
    let pending = pods_of_scheduler(view, asked);
    let possible: Vec<&PreemptorCandidate<'_>> =
        pending.iter().filter(|candidate| candidate.priority > priority).collect();
    let Some(highest) = possible.iter().max_by_key(|c| (c.paid, c.priority, Reverse((c.namespace, c.name)))) else {
        return GuardDecision::Rejected(reject_without_preemptor(asked, priority, &pending));
    };
    let threshold = unit.iter().filter_map(|pod| pod.threshold).max().filter(|threshold| highest.paid < *threshold);
    let guaranteed = threshold.map(|threshold| Guarantee {
        threshold,
        highest: highest.ranked(highest.paid),
        preemptors: likely_preemptors(possible, victim),
    });
    let budgets = || view.guard_objects().budgets.get(&asked.namespace).into_iter().flatten();
    if let Some(guarantee) = &guaranteed {
        let count = budgets().count();
        if count.saturating_mul(unit.len()) > MOST_LOOKS {
            let cause = wording::too_many_budgets_to_compare(count, unit.len());
            return GuardDecision::Rejected(guarantee.refuse_because(view, asked, cause));
        }
        for (_, budget) in budgets() {
            let needed = unit.iter().filter(|pod| budget.counts(pod) && !budget.has_counted(pod)).count();
            if needed > budget.allowed() {
                return GuardDecision::Rejected(guarantee.refuse(view, asked, budget, needed));
            }
        }
    }
    let mut counting: Vec<String> = budgets()
        .filter(|(_, budget)| budget.counts(victim))
        .map(|(name, _)| name.to_string())
        .take(MOST_CLAIMS + 1)
        .collect();
    if let Some(guarantee) = guaranteed.as_ref().filter(|_| counting.len() > MOST_CLAIMS) {
        let cause = wording::too_many_budgets_to_update(MOST_CLAIMS);
        return GuardDecision::Rejected(guarantee.refuse_because(view, asked, cause));
    }
    // Budgets that are only preferred, not guaranteed, do not block a preemption.
    counting.truncate(MOST_CLAIMS);
    GuardDecision::Permitted(Permit { budgets: counting, guaranteed })
}

/// Returns the victim, and all other bound pods of its group if the group has disruption mode `PodGroup`.
fn pods_disrupted_together<'a>(view: &'a dyn GuardView, asked: &'a GuardRequest) -> Vec<&'a BoundPod> {
    let mut unit = vec![&asked.victim.pod];
    let group = asked.victim.group.as_deref();
    if group.and_then(|group| view.group(&asked.namespace, group)).is_some_and(|group| group.whole) {
        let members = view.guard_objects().members.of_namespace(&asked.namespace);
        unit.extend(members.filter(|pod| pod.group.as_deref() == group && pod.name != asked.victim.name));
    }
    unit
}

/// Returns every pending pod of the requesting scheduler (of all schedulers if it is unknown) whose preemption policy is not
/// `Never`, regardless of its priority.
fn pods_of_scheduler<'a>(view: &'a dyn GuardView, asked: &'a GuardRequest) -> Vec<PreemptorCandidate<'a>> {
    let mut pending = Vec::new();
    for (namespace, pods) in &view.guard_objects().waiting {
        for (name, pod) in pods {
            if asked.scheduler.as_ref().is_none_or(|scheduler| *scheduler == pod.scheduler) {
                let priority = effective_priority(view, namespace, pod.group.as_deref(), pod.priority);
                pending.push(PreemptorCandidate {
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

/// Returns the scheduler that requests the preemption, and how many of its pending pods can be the preemptor: those that it
/// nominated for a node. A pod stays nominated when the preemption is rejected.
pub fn possible_preemptors(view: &dyn GuardView, asked: &GuardRequest) -> PossiblePreemptors {
    let pods = pods_of_scheduler(view, asked).iter().filter(|candidate| candidate.pod.nominated.is_some()).count();
    PossiblePreemptors { scheduler: asked.scheduler.clone(), pods }
}

/// Returns the effective priority of a pod with priority `own` in the group of this name: the priority of a native group, or
/// the lower one of `own` and the priority of a PodGroup of Giveway. It is `own` if the group or its priority is unknown.
fn effective_priority(view: &dyn GuardView, namespace: &str, group: Option<&str>, own: i32) -> i32 {
    let Some((name, group)) = group.and_then(|name| Some((name, view.group(namespace, name)?))) else { return own };
    let class = || view.classes().resolve(group.class_name.as_deref()).ok().map(|class| class.priority);
    match group.priority.or_else(class) {
        None => own,
        Some(priority) if native::is_native(name) => priority,
        Some(priority) => lending::counting(own, priority),
    }
}

/// Returns the priority that a preemptor must exceed: the lowest effective priority among `unit`, the pods disrupted together.
fn victim_priority(view: &dyn GuardView, asked: &GuardRequest, unit: &[&BoundPod]) -> i32 {
    let each = unit.iter().map(|pod| effective_priority(view, &asked.namespace, pod.group.as_deref(), pod.priority));
    each.min().unwrap_or(asked.victim.priority)
}

/// Returns those of the candidates that are most likely the preemptor, at most [`MOST_PREEMPTORS`]: pods nominated for the
/// victim's node before others, then unschedulable pods before others, then pods of higher priority.
fn likely_preemptors<'a, 'b: 'a>(
    candidates: impl IntoIterator<Item = &'a PreemptorCandidate<'b>>,
    victim: &RequestedVictim,
) -> Vec<EventPod> {
    let mut candidates: Vec<&PreemptorCandidate<'_>> = candidates.into_iter().collect();
    candidates.sort_by_key(|c| {
        let nominated = c.pod.nominated.is_some() && c.pod.nominated == victim.node;
        (!nominated, !c.pod.unschedulable, Reverse(c.priority), c.namespace, c.name)
    });
    let named = candidates.into_iter().take(MOST_PREEMPTORS);
    named
        .map(|c| EventPod { namespace: c.namespace.to_owned(), name: c.name.to_owned(), uid: c.pod.uid.clone() })
        .collect()
}

/// Returns the message of the rejection of this preemption: the victim with its effective `priority`, and the cause.
fn rejection_message(asked: &GuardRequest, priority: i32, cause: Sentence) -> Sentence {
    let key = ObjectKey::new(&*asked.namespace, &*asked.victim.name);
    wording::refused(&RankedPod { key, uid: asked.victim.uid.clone(), priority }, cause)
}

/// Returns the rejection of a preemption because none of the `pending` pods of the scheduler has an effective priority above
/// `priority`, that of the victim.
fn reject_without_preemptor(asked: &GuardRequest, priority: i32, pending: &[PreemptorCandidate<'_>]) -> Rejection {
    // kube-scheduler compares the pods' own priorities, so the preemptor is one of these.
    let meant = || pending.iter().filter(|candidate| candidate.pod.priority > asked.victim.priority);
    let highest = meant().max_by_key(|c| (c.priority, Reverse((c.namespace, c.name))));
    let highest = highest.map(|candidate| candidate.ranked(candidate.priority));
    Rejection {
        reason: Reason::NoPreemptor,
        message: rejection_message(asked, priority, wording::no_preemptor(priority, highest.as_ref())),
        preemptors: likely_preemptors(meant(), &asked.victim),
    }
}

impl Guarantee {
    /// Returns the rejection of the preemption because `budget`, a guaranteed budget, allows fewer than `needed` disruptions.
    pub fn refuse(&self, view: &dyn GuardView, asked: &GuardRequest, budget: &Allowance, needed: usize) -> Rejection {
        let group = asked.victim.group.as_deref().filter(|_| needed > 1).map(|group| (group, needed));
        let (namespace, budget, allowed) = (&asked.namespace, budget.name(), budget.allowed());
        let cause = wording::budget_spent(namespace, &budget, allowed, self.threshold, group, &self.highest);
        self.refuse_because(view, asked, cause)
    }

    /// Returns the rejection of the preemption, with `cause` in its message, because no possible preemptor reaches the victim's
    /// threshold, so that its budgets are guaranteed.
    pub fn refuse_because(&self, view: &dyn GuardView, asked: &GuardRequest, cause: Sentence) -> Rejection {
        let priority = victim_priority(view, asked, &pods_disrupted_together(view, asked));
        Rejection {
            reason: Reason::GuaranteedBudget,
            message: rejection_message(asked, priority, cause),
            preemptors: self.preemptors.clone(),
        }
    }
}
