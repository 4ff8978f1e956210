//! Messages of events that are not messages of conditions, too.

use super::conditions::disruption::others_are;
use super::conditions::plan::NamedPreemptor;
use super::conditions::pod_group::within;
use super::{Sentence, agree, counted, pods};
use crate::mode::{KEY, Mode, UnknownMode};
use crate::object_key::ObjectKey;
use crate::plan::StoredDomain;

/// Message of the event with reason `Evicting`, on the preemptor: the dry run of a plan's evictions has succeeded, and
/// `victims` pods are evicted now for `members` pods. Neither is 0.
pub fn evicting(victims: usize, members: usize) -> String {
    format!("Evicting {}, so that {}.", pods(victims), counted(members, "pod fits", "pods fit"))
}

/// Message of the event with reason `Ungating`, on the preemptor: its `members`, at least one, fit now.
pub fn members_start(members: usize, domain: Option<&StoredDomain>) -> String {
    let (fit, start) = (counted(members, "pod fits", "pods fit"), agree(members, "starts", "start"));
    format!("{fit}{} and {start}.", within(domain))
}

/// Message of an event on gated pods of the PodGroup `group` and on their owner: why the PodGroup is pending. `why` is the message of the
/// PodGroup's condition.
pub fn group_pending(group: &str, why: &str) -> String {
    format!("Pod group {group} is pending: {why}")
}

/// Message of the event with reason `PodGroupNotFound`, on a pod of a gang that a label requests: its PodGroup could not be created.
pub fn group_not_created(group: &str, why: &str) -> String {
    format!("Pod group {group} cannot be created: {why}. The pod stays gated until its pod group exists.")
}

/// Message of the event with reason `PodGroupNotFound`, on a pod that names a template which does not exist.
pub fn template_not_found(group: &ObjectKey, workload: &str, template: &str) -> String {
    let ObjectKey { namespace, name } = group;
    format!(
        "Pod group {name} does not exist and cannot be created: workload {workload} with a template {template} was not found in namespace {namespace}. The pod waits until there is such a Workload."
    )
}

/// Message of the event with reason `PodGroupNotFound`, on a pod that names a PodGroup which does not exist.
pub fn group_not_found(group: &ObjectKey) -> String {
    let ObjectKey { namespace, name } = group;
    format!("Pod group {name} does not exist in namespace {namespace}. The pod waits until that pod group is created.")
}

/// Clause that says why the PodGroup of a gang that a label requests cannot be created: the owner of its pods does not exist.
pub fn owner_not_found(kind: &str, name: &str, namespace: &str) -> String {
    format!("{kind} {name} was not found in namespace {namespace}")
}

/// Clause that says why the PodGroup of a gang that a label requests cannot be created: the owner of its pods cannot be read. `why` has the
/// words of the API server.
pub fn owner_not_read(kind: &str, name: &str, why: &str) -> String {
    format!("{kind} {name} cannot be read: {why}")
}

/// Message of the event with reason `GuaranteedBudget`, on a budget that prevents a preemption: `withheld` of the `needed` members would
/// fit only after evictions that it does not allow. `budget` is the planner's name for it.
pub fn budget_prevents_preemption(
    preemptor: NamedPreemptor<'_>,
    priority: i32,
    withheld: usize,
    needed: usize,
    budget: &str,
) -> Sentence {
    let needed = pods(needed);
    Sentence::about(preemptor.kind(), preemptor.key, preemptor.uid).text(format!(
        " of priority {priority} is pending: {withheld} of {needed} would fit only after evictions of pods of {budget}."
    ))
}

/// Message of the event with reason `EvictionRefused`, on a victim and its budgets. `why` is the answer of the API server.
pub fn eviction_refused(pod: &ObjectKey, why: &str) -> String {
    format!("The eviction of pod {pod} was refused: {why}")
}

/// Message of an event on a PodGroup in mode `PodGroup` of which kube-scheduler preempted `pod`: why its other pods, `others` in number and
/// at least one, are not evicted.
pub fn others_not_evicted(pod: &str, others: usize, why: &str) -> String {
    let others_are = others_are(others);
    format!("kube-scheduler preempted pod {pod}. The {others_are} not evicted: {why}.")
}

/// Message of the event with reason `EvictionsLimited`, on a partially scheduled gang. `limit` is the
/// [sentence](super::conditions::progress::limit_reached) about the limit.
pub fn partial_gang_evicted_later(limit: Sentence) -> Sentence {
    Sentence::from("The gang is partially scheduled, and its pods are evicted later: ").then(limit)
}

/// Returns the part of a sentence that names the critical add-on; without its name for `None`.
fn addon(addon: Option<NamedPreemptor<'_>>) -> Sentence {
    match addon {
        Some(addon) => addon.after(Sentence::default()).text(", a critical add-on,"),
        None => "the critical add-on".into(),
    }
}

/// Message of the event with reason `ReservedForCriticalAddon`, on a node: it has the taint. `preemptor` is `None` if its plan has ended.
pub fn node_reserved(uid: &str, preemptor: Option<NamedPreemptor<'_>>) -> Sentence {
    Sentence::from(format!("The taint CriticalAddonsOnly={uid}:NoSchedule keeps the node for "))
        .then(addon(preemptor))
        .text(" until it is bound, for ten minutes at most.")
}

/// Message of the event with reason `ReservationEnded`, on a node: the taint was removed.
pub fn node_released(uid: &str, preemptor: Option<NamedPreemptor<'_>>) -> Sentence {
    Sentence::from(format!("The taint CriticalAddonsOnly={uid}:NoSchedule for "))
        .then(addon(preemptor))
        .text(" was removed.")
}

/// Clause for [`mode_unknown`]: the ConfigMap that sets Giveway's mode is invalid, because its value is unknown.
pub fn mode_invalid(error: &UnknownMode) -> String {
    format!("data.{KEY}: {error}")
}

/// Clause for [`mode_unknown`]: the ConfigMap that sets Giveway's mode is invalid, because it has no value.
pub fn mode_missing() -> String {
    format!("data.{KEY}: must be set, to enforce, observe or off")
}

/// Message of the event with reason `ModeUnknown`, on the ConfigMap that sets Giveway's mode. `why` is [`mode_invalid`] or
/// [`mode_missing`].
pub fn mode_unknown(why: &str, mode: Mode) -> String {
    format!("{why}. The mode is {mode} until then.")
}

/// Why annotations of a pod were corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorrectedPod<'a> {
    /// It has no priority class, and had annotations that only a class gives.
    WithoutClass,
    /// It had a value that this class does not give.
    WrongValue(&'a str),
    /// The webhook did not see it, and it had no annotation of this class.
    NotSeen(&'a str),
}

/// Message of the event with reason `BackFilled`, on a pod: annotations were set (key and value) or removed (key), at least one of them.
pub fn annotations_corrected(pod: CorrectedPod<'_>, set: &[(&str, &str)], removed: &[&str]) -> String {
    let set: Vec<String> = set.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let (set, removed) = (set.join(" and "), removed.join(" and "));
    let done = match (set.as_str(), removed.as_str()) {
        (set, "") => format!("Set {set}"),
        ("", removed) => format!("Removed {removed}"),
        (set, removed) => format!("Set {set} and removed {removed}"),
    };
    match pod {
        CorrectedPod::WithoutClass => {
            format!("{done}: the pod has no priority class, and only a class gives these annotations.")
        }
        CorrectedPod::WrongValue(class) => {
            format!("{done}: the pod had a value that priority class {class} does not give.")
        }
        CorrectedPod::NotSeen(class) => {
            format!(
                "Added {set} from priority class {class}: Giveway's webhook did not see the pod when it was created."
            )
        }
    }
}

/// Message of the event with reason `AuthorityCreated`, on a Secret: the first certificate authority of the webhook.
pub fn authority_created(why: &str) -> String {
    format!("A certificate authority was created for the webhook: {why}.")
}

/// Message of the event with reason `AuthorityCreated`, on a Secret: the next certificate authority, which signs after `seconds`.
pub fn next_authority_created(why: &str, seconds: i64) -> String {
    format!(
        "A new certificate authority was created for the webhook: {why}. The operator adds it to the webhooks' caBundle, and signs certificates with it {seconds} s later, when all API servers trust it."
    )
}

/// Message of the event with reason `CertificateUnusable`, on a Secret: API servers trust another certificate authority than the stored
/// one.
pub fn authority_not_trusted() -> &'static str {
    "The stored certificate authority is not in the webhooks' caBundle, so API servers do not trust it. The operator adds it there before it signs certificates with it."
}

/// Message of the event with reason `AuthorityChanged`, on a Secret: the next certificate authority signs the webhook's certificates now.
pub fn authority_signs() -> &'static str {
    "The new certificate authority signs the webhook's certificates from now on."
}

/// Message of the event with reason `CertificateRenewed`, on a Secret: the webhook has a new certificate, because of `why`.
pub fn certificate_renewed(why: &str) -> String {
    format!("The webhook's certificate was renewed: {why}.")
}

/// Message of the event with reason `CertificateUnusable`, on a Secret: `certificate` names what it holds.
pub fn certificate_unusable(certificate: &str, why: &str) -> String {
    format!("{certificate} cannot be used: {why}")
}
