//! Requests without a response, as a killed process leaves them. The log has code 504 for them whether or not the API server carried them
//! out; later requests show which were carried out.

use super::history::History;
use super::log::Line;
use super::record::{GATEWAY_TIMEOUT, How, NodeWrite, Removal};
use super::{OPERATOR, SCHEDULER};
use std::collections::BTreeSet;

/// Builds the history of these lines and decides which requests without a response were carried out.
pub fn history_of(lines: &[Line]) -> History {
    let mut history = History::new(lines);
    settle_nodes(&mut history);
    settle_removals(&mut history);
    history
}

/// Adds the node writes that were carried out. The operator writes only changes: if its next write of the node has the same taints,
/// the request was lost, otherwise it was carried out. Without a next write, an added taint counts as lost and a removed taint as
/// removed; [`super::rest`] looks up the taints at rest.
fn settle_nodes(history: &mut History) {
    for (after, asked) in history.nodes_asked.clone().into_iter().rev() {
        let of_node = |write: &&NodeWrite| write.node == asked.node;
        let (before, later) = history.nodes.split_at(after);
        let last = before.iter().rev().find(of_node);
        let carried_out = match later.iter().filter(of_node).find(|write| write.user == OPERATOR) {
            Some(next) => next.taints != asked.taints,
            None => last.is_some_and(|last| last.taints.len() > asked.taints.len()),
        };
        if carried_out {
            let labels = last.map(|last| last.labels.clone()).unwrap_or_default();
            history.nodes.insert(after, NodeWrite { labels, ..asked });
        }
    }
}

/// Returns true for a preemption without a response.
fn is_unanswered(removal: &Removal) -> bool {
    removal.code == GATEWAY_TIMEOUT && !removal.accepted && is_preemption(removal)
}

fn is_preemption(removal: &Removal) -> bool {
    removal.how == How::Evict || matches!(removal.user.as_str(), OPERATOR | SCHEDULER)
}

fn is_by_kubelet(removal: &Removal) -> bool {
    removal.user == "kwok" || removal.user.starts_with("system:node:")
}

/// Returns true if this removal is the cause of the termination: it was accepted, is not by a kubelet, which only completes a
/// termination, and the pod was not terminating before.
fn is_cause(removal: &Removal) -> bool {
    removal.accepted && !is_by_kubelet(removal) && !removal.came_late()
}

/// Returns the UIDs of the pods that a request without a response may have removed: no other removal is the cause.
pub fn perhaps_removed(history: &History) -> BTreeSet<String> {
    let asked = history.removals.iter().filter(|removal| is_unanswered(removal)).map(|removal| removal.uid.clone());
    let known = history.removals.iter().filter(|removal| is_cause(removal));
    let known: BTreeSet<&str> = known.map(|removal| removal.uid.as_str()).collect();
    asked.filter(|uid| history.pods.contains_key(uid) && !known.contains(uid.as_str())).collect()
}

/// Marks the first request without a response as accepted for each of these pods, which are terminating or removed.
pub fn accept(history: &mut History, removed: &BTreeSet<String>) {
    for uid in removed {
        let asked = history.removals.iter_mut().find(|removal| removal.uid == *uid && is_unanswered(removal));
        let (Some(asked), Some(pod)) = (asked, history.pods.get_mut(uid)) else { continue };
        asked.accepted = true;
        pod.removed = Some(asked.at);
        pod.preempted = Some(asked.at);
    }
}

/// Accepts the removals after which a kubelet completed the termination of the pod, if no other removal is the cause.
fn settle_removals(history: &mut History) {
    let of = |wanted: &dyn Fn(&Removal) -> bool| -> BTreeSet<String> {
        history.removals.iter().filter(|removal| wanted(removal)).map(|removal| removal.uid.clone()).collect()
    };
    let asked = of(&is_unanswered);
    let ended = of(&|removal| removal.accepted && is_by_kubelet(removal));
    let known = of(&is_cause);
    let removed = asked.intersection(&ended).filter(|uid| !known.contains(*uid)).cloned().collect();
    accept(history, &removed);
}

#[cfg(test)]
#[path = "unanswered_tests.rs"]
mod tests;
