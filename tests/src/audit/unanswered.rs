//! Requests whose client was gone before the answer, as a process that is killed leaves them: the API server may have carried
//! them out, and its log says 504 either way. What happened afterwards tells which.

use super::history::{GATEWAY_TIMEOUT, History, How, NodeWrite, Removal};
use super::log::Line;
use super::{OPERATOR, SCHEDULER};
use std::collections::BTreeSet;

/// The history that these lines tell, with what can be concluded from them about requests that nobody heard the answer of.
pub fn history_of(lines: &[Line]) -> History {
    let mut history = History::new(lines);
    settle_nodes(&mut history);
    settle_removals(&mut history);
    history
}

/// Adds the writes of nodes that were carried out. The operator writes only what is not so yet: when it later asks for the
/// same again, the first request was lost, and when it asks for something else, it was not. When it never asks again, what
/// was to be added was not, and what was to be taken away is gone; what is left at rest is looked up, not concluded.
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

/// Whether nobody heard whether this removal was accepted, and it would be a preemption.
fn is_unanswered(removal: &Removal) -> bool {
    removal.code == GATEWAY_TIMEOUT && !removal.accepted && is_preemption(removal)
}

fn is_preemption(removal: &Removal) -> bool {
    removal.how == How::Evict || matches!(removal.user.as_str(), OPERATOR | SCHEDULER)
}

fn is_by_kubelet(removal: &Removal) -> bool {
    removal.user == "kwok" || removal.user.starts_with("system:node:")
}

/// Whether this removal is why the pod is gone: it was accepted, asked for by somebody else than the kubelet, which only ends what is
/// on its way, and the pod was not on its way before.
fn is_why(removal: &Removal) -> bool {
    removal.accepted && !is_by_kubelet(removal) && !removal.came_late()
}

/// The pods that may have been removed by a request that nobody heard the answer of, by UID: no other removal is known that
/// could be why they are gone.
pub fn perhaps_removed(history: &History) -> BTreeSet<String> {
    let asked = history.removals.iter().filter(|removal| is_unanswered(removal)).map(|removal| removal.uid.clone());
    let known = history.removals.iter().filter(|removal| is_why(removal));
    let known: BTreeSet<&str> = known.map(|removal| removal.uid.as_str()).collect();
    asked.filter(|uid| history.pods.contains_key(uid) && !known.contains(uid.as_str())).collect()
}

/// Takes the first request that nobody heard the answer of as accepted, for each of these pods, which are gone or going.
pub fn accept(history: &mut History, gone: &BTreeSet<String>) {
    for uid in gone {
        let asked = history.removals.iter_mut().find(|removal| removal.uid == *uid && is_unanswered(removal));
        let (Some(asked), Some(pod)) = (asked, history.pods.get_mut(uid)) else { continue };
        asked.accepted = true;
        pod.removed = Some(asked.at);
        pod.preempted = Some(asked.at);
    }
}

/// Takes the removals as accepted after which a kubelet ended the pod, without anybody else having asked for that.
fn settle_removals(history: &mut History) {
    let of = |wanted: &dyn Fn(&Removal) -> bool| -> BTreeSet<String> {
        history.removals.iter().filter(|removal| wanted(removal)).map(|removal| removal.uid.clone()).collect()
    };
    let asked = of(&is_unanswered);
    let ended = of(&|removal| removal.accepted && is_by_kubelet(removal));
    let known = of(&is_why);
    let gone = asked.intersection(&ended).filter(|uid| !known.contains(*uid)).cloned().collect();
    accept(history, &gone);
}

#[cfg(test)]
#[path = "unanswered_tests.rs"]
mod tests;
