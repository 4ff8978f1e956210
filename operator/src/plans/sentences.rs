//! Texts about a plan: the name of its preemptor, and the message for its victims.

use super::Flight;
use crate::speaker::words::Sentence;
use giveway_crds::critical::LONGEST_GRACE;
use giveway_planner::Preemptor;
use giveway_planner::model::MAX_GRACEFUL_TERMINATION;

/// Returns the name of the preemptor for use within a sentence.
pub fn describe(flight: &Flight) -> Sentence {
    let kind = if matches!(flight.preemptor, Preemptor::Group(_)) { "pod group" } else { "pod" };
    Sentence::default().object(kind, flight.preemptor.key(), &flight.plan.preemptor.uid)
}

/// Returns the message for a victim. `kind` is the kind of its unit; `shortened` is its own grace period in seconds if
/// the eviction shortened it.
pub fn victim_message(flight: &Flight, kind: &str, priority: i32, shortened: Option<i64>) -> Sentence {
    let kind = if kind == "PodGroup" { "group" } else { "pod" };
    let who = Sentence::from("Preempted by ").then(describe(flight));
    let longest = if flight.rescue.is_some() { LONGEST_GRACE } else { MAX_GRACEFUL_TERMINATION };
    let grace =
        shortened.map(|grace| format!(" Its grace of {grace} s is shortened to {longest} s.")).unwrap_or_default();
    if flight.rescue.is_none() {
        return who.text(format!(
            " of priority {} to make room for it; the priority of this {kind} is {priority}.{grace}",
            flight.priority
        ));
    }
    who.text(format!(" of priority {}, a critical add-on, to make room for it.{grace}", flight.own_priority()))
}

/// Returns the name of the preemptor as `podgroup/NAMESPACE/NAME`.
pub fn taker(flight: &Flight) -> Sentence {
    let kind = if matches!(flight.preemptor, Preemptor::Group(_)) { "podgroup" } else { "pod" };
    let (key, uid) = (flight.preemptor.key(), &flight.plan.preemptor.uid);
    let elsewhere = format!("a {kind} of another namespace (UID {uid})");
    Sentence::default().detail(&key.namespace, format!("{kind}/{key}"), elsewhere)
}
