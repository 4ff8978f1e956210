//! What a page tells of a critical add-on: that it is one, what it waits for, and how its place is kept.

use super::Facts;
use super::events::{Happening, age};
use crate::critical;
use crate::world::World;
use giveway_crds::condition::Reason;
use giveway_crds::keys;
use giveway_crds::plan::StoredPlan;
use giveway_planner::model::Pod;
use giveway_planner::rescue::{Step, taint};
use giveway_planner::{ObjectKey, Preemptor};

/// How far a plan goes, as a sentence; `None` when it is for no critical add-on.
pub(super) fn step(plan: &StoredPlan) -> Option<String> {
    let step = Step::of(plan.critical_addon?.step);
    Some(format!("Step {}: {}.", step.number(), step.means()))
}

/// For the list of all who wait.
pub(super) fn short(world: &World, pod: &Pod) -> Option<String> {
    let plan = world.last_plan(&Preemptor::Pod(pod.key.clone()));
    if let Some(plan) = plan.filter(|plan| plan.critical_addon.is_some() && plan.state.in_flight()) {
        return Some(plan.message.clone());
    }
    let text = "kube-scheduler found no place for it; it is a critical add-on, for which the operator makes room.";
    is_addon(world, pod).then(|| text.to_owned())
}

/// By the operator's terms as they usually are, or because it was helped as one.
fn is_addon(world: &World, pod: &Pod) -> bool {
    let helped = |plan: &StoredPlan| plan.critical_addon.is_some() && plan.preemptor.uid == pod.uid.as_str();
    pod.group.is_none() && (critical::usual_terms().is_critical(pod) || world.plans.values().any(helped))
}

impl Facts {
    /// The pod that was asked about, if it is a critical add-on.
    pub(super) fn addon(&self) -> Option<&Pod> {
        let Preemptor::Pod(key) = &self.target else { return None };
        self.world.cluster.pod(key).filter(|pod| is_addon(&self.world, pod))
    }

    /// That the pod is a critical add-on, and what it waits for; each with its label.
    pub(super) fn addon_lines(&self) -> Vec<(&'static str, String)> {
        let Some(pod) = self.addon() else { return Vec::new() };
        let why = match pod.asks_critical {
            true => format!("by its annotation {}", keys::ANNOTATION_CRITICAL),
            false => "by its priority".to_owned(),
        };
        let mut lines = vec![("Critical add-on:", format!("{why}."))];
        let in_flight = self.world.last_plan(&self.target).is_some_and(|plan| plan.state.in_flight());
        if !in_flight && pod.live() && !pod.bound() && !pod.held && !pod.gated_by_others {
            lines.push(("Waits for:", self.waits_for(pod)));
        }
        lines
    }

    fn waits_for(&self, pod: &Pod) -> String {
        if !pod.unschedulable {
            return "kube-scheduler, which has not said yet that it is Unschedulable.".to_owned();
        }
        let told = self.told_addon();
        let since =
            self.unschedulable_since().map(|since| format!(" for {}", age(self.now, since))).unwrap_or_default();
        match (told, &pod.nominated_node) {
            (_, Some(node)) => format!("node {node}, which kube-scheduler nominated for it."),
            (Some(told), None) => {
                let when = told.at.map(|at| format!(" ({} ago)", age(self.now, at))).unwrap_or_default();
                format!("{}{when}: {}", told.reason, told.message)
            }
            (None, None) => format!(
                "the operator's hold-off (--critical-addons-after, usually 30s) or its turn: it is Unschedulable{since}."
            ),
        }
    }

    /// The last thing that the operator said of why nobody is evicted for it, unless it planned something since.
    fn told_addon(&self) -> Option<&Happening> {
        let waits = [Reason::CriticalAddonUnschedulable, Reason::SchedulerSilent];
        let told = self.events.iter().rev().find(|event| waits.iter().any(|reason| event.reason == reason.as_str()))?;
        let planned = self.world.last_plan(&self.target).and_then(|plan| plan.planned_at.as_ref()).map(|time| time.0);
        (planned.is_none() || told.at >= planned).then_some(told)
    }

    fn unschedulable_since(&self) -> Option<k8s_openapi::jiff::Timestamp> {
        let status = self.pod.as_ref()?.status.as_ref()?;
        let told = status.conditions.iter().flatten().find(|condition| condition.type_ == "PodScheduled")?;
        told.last_transition_time.as_ref().map(|time| time.0)
    }

    /// What is special about a plan for a critical add-on; each with its label.
    pub(super) fn rescue_lines(&self, plan: &StoredPlan) -> Vec<(&'static str, String)> {
        let Some(step) = step(plan) else { return Vec::new() };
        let mut lines = vec![("For a critical add-on:", step)];
        if !plan.state.in_flight() {
            return lines;
        }
        let cluster = &self.world.cluster;
        for placement in &plan.placements {
            let (ours, node) = (taint(&placement.uid), &placement.node);
            let tainted = cluster.node(node).is_some_and(|node| node.taints.contains(&ours));
            let pod = cluster.pod(&ObjectKey::new(&plan.preemptor.namespace, &placement.pod));
            let nominated = pod.is_some_and(|pod| pod.nominated_node.as_deref() == Some(node.as_str()));
            let taint = format!("the taint {}={}:{}", ours.key, ours.value, ours.effect);
            let by = match (tainted, nominated) {
                (true, true) => format!("{taint}, and the pod's nomination"),
                (true, false) => taint,
                (false, true) => "the pod's nomination".to_owned(),
                (false, false) => "nothing yet".to_owned(),
            };
            lines.push(("Kept:", format!("node {node}, by {by}.")));
        }
        lines
    }
}
