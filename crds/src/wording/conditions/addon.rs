//! Critical add-ons: how their plans end, and why no pod is evicted for them, which an event on the pod says.

use crate::object_key::ObjectKey;
use crate::wording::{Sentence, counted, part_of};

/// The evictions of a plan for a critical add-on that has ended.
#[derive(Clone, Copy, Debug)]
pub struct AddonEvictions {
    /// Number of accepted evictions; `None` if none was requested.
    pub accepted: Option<usize>,
    /// Number of victims.
    pub victims: usize,
}

impl AddonEvictions {
    /// Returns the end of the message about an ended plan for a critical add-on: how many pods it had evicted.
    fn words(self) -> String {
        match self.accepted {
            None => "no pod was evicted".to_owned(),
            Some(accepted) => {
                format!("{} evicted", part_of(accepted, self.victims, ("pod", "pods"), ("was", "were")))
            }
        }
    }
}

/// Message of a plan that has been cancelled: the add-on does not exist any more.
pub fn deleted(pod: &ObjectKey, evictions: AddonEvictions) -> String {
    format!("Pod {pod} was deleted or has ended; {}.", evictions.words())
}

/// Message of a plan that has completed: the add-on was bound to the node of the plan.
pub fn bound(node: &str, evictions: AddonEvictions) -> String {
    format!("The critical add-on was bound to node {node}; {}.", evictions.words())
}

/// Message of a plan that has been cancelled: the add-on was bound to this node, which is not that of the plan.
pub fn bound_elsewhere(node: &str, evictions: AddonEvictions) -> String {
    format!(
        "kube-scheduler bound the critical add-on to node {node}, not to the node of the plan; {}.",
        evictions.words()
    )
}

/// Message of a plan that has failed: the add-on was not bound within the time limit, which is longer than a minute.
pub fn not_bound(node: &str, minutes: u64) -> String {
    format!("kube-scheduler did not bind the critical add-on to node {node} within {minutes} minutes.")
}

/// Message of a plan that has failed: the taint that reserves the node could not be added. `tries` is not 0.
pub fn taint_failed(pod: &ObjectKey, uid: &str, tries: u32) -> Sentence {
    Sentence::from("Reserving a node with a taint for ").object("pod", pod, uid).text(format!(
        " failed {}; the operator's log has the answers of the API server.",
        counted(tries, "time", "times")
    ))
}

/// Message of the condition with reason `SchedulerNotResponding`: the add-on has been pending for `seconds`, and kube-scheduler does not
/// renew its Lease.
pub fn scheduler_may_be_down(seconds: u64, lease: &ObjectKey) -> String {
    format!(
        "The critical add-on has been pending for {seconds} s. No pod is evicted for it, because kube-scheduler may be down: its Lease {lease} is not renewed, and it has not decided about any pod since."
    )
}

/// Message of the condition with reason `CriticalAddonFits`: the add-on fits on this node now, and kube-scheduler has not bound it yet.
pub fn fits(node: &str) -> String {
    format!("The pod fits on node {node}; no pod is evicted. kube-scheduler has not bound it there yet.")
}

/// Message of the condition with reason `CriticalAddonFits`: the add-on fits when terminating pods have been deleted.
pub fn fits_after_termination(node: &str) -> String {
    format!("The pod will fit on node {node} when terminating pods there have been deleted; no pod is evicted.")
}

/// Message of the condition with reason `CriticalAddonUnschedulable`: a node still has the taint for another add-on.
pub fn taint_stays(node: &str, uid: &str, error: &str) -> String {
    format!(
        "No pod is evicted for this critical add-on yet: node {node} was kept for an earlier critical add-on, and its taint CriticalAddonsOnly={uid}:NoSchedule cannot be removed: {error}"
    )
}
