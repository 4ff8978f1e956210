//! Lines about a critical add-on: that it is one, why it is pending, and how its capacity is reserved.

use super::Evidence;
use super::events::{OPERATOR, ObservedEvent, age};
use crate::world::World;
use giveway_crds::condition::Reason;
use giveway_crds::keys;
use giveway_crds::plan::StoredPlan;
use giveway_planner::model::Pod;
use giveway_planner::rescue::{Step, taint};
use giveway_planner::{ObjectKey, Preemptor};

/// Returns the escalation step of a plan for a critical add-on as a sentence; `None` for any other plan.
pub(super) fn step(plan: &StoredPlan) -> Option<String> {
    let step = Step::of(plan.critical_addon?.step);
    Some(format!("Step {}: {}.", step.number(), step.means()))
}

/// Returns what a pending critical add-on waits for, as sentences; `None` for any other pod.
pub(super) fn waiting_reason(world: &World, pod: &Pod) -> Option<String> {
    let plan = world.last_plan(&Preemptor::Pod(pod.key.clone()));
    if let Some(plan) = plan.filter(|plan| plan.critical_addon.is_some() && plan.state.in_flight()) {
        return Some(plan.message.clone());
    }
    let text =
        "kube-scheduler found no feasible node for it. It is a critical add-on, for which the operator frees a node.";
    is_addon(world, pod).then(|| text.to_owned())
}

/// Returns true if the pod is a critical add-on by the chart's settings, or a plan for it as a critical add-on is stored.
fn is_addon(world: &World, pod: &Pod) -> bool {
    let helped = |plan: &StoredPlan| plan.critical_addon.is_some() && plan.preemptor.uid == pod.uid.as_str();
    pod.group.is_none() && (world.addons.evicts_for(pod) || world.plans.values().any(helped))
}

/// Returns the pod `target` if it exists and is a critical add-on; otherwise `None`.
pub(super) fn of<'w>(world: &'w World, target: &Preemptor) -> Option<&'w Pod> {
    let Preemptor::Pod(key) = target else { return None };
    world.cluster.pod(key).filter(|pod| is_addon(world, pod))
}

impl Evidence {
    /// Returns lines for the page, each with its label: that the pod is a critical add-on, and what it waits for. Empty for any other
    /// target.
    pub(super) fn addon_lines(&self) -> Vec<(&'static str, String)> {
        let Some(pod) = of(&self.world, &self.target) else { return Vec::new() };
        let has =
            |key: &&str| self.pod.iter().flat_map(|pod| &pod.metadata.annotations).any(|all| all.contains_key(*key));
        let annotation = [keys::ANNOTATION_CRITICAL, keys::ANNOTATION_CRITICAL_POD].into_iter().find(has);
        let why = match annotation.filter(|_| pod.asks_critical) {
            Some(key) => format!("by its annotation {key}"),
            None => "by its priority".to_owned(),
        };
        let mut lines = vec![("Critical add-on:", format!("{why}."))];
        let in_flight = self.world.last_plan(&self.target).is_some_and(|plan| plan.state.in_flight());
        if !in_flight && pod.live() && !pod.bound() && !pod.gated && !pod.gated_by_others {
            lines.push(("Waits for:", self.waits_for(pod)));
        }
        lines
    }

    /// Returns what a pending critical add-on waits for, as the end of a sentence: kube-scheduler, a nominated node, or the operator.
    fn waits_for(&self, pod: &Pod) -> String {
        if !pod.unschedulable {
            return "kube-scheduler, which has not said yet that it is Unschedulable.".to_owned();
        }
        let event = self.last_event();
        let since =
            self.unschedulable_since().map(|since| format!(" for {}", age(self.now, since))).unwrap_or_default();
        match (event, &pod.nominated_node) {
            (_, Some(node)) => format!("node {node}, which is nominated for it."),
            (Some(event), None) => {
                let when = event.at.map(|at| format!(" ({} ago)", age(self.now, at))).unwrap_or_default();
                format!("{}{when}: {}", event.reason, event.message)
            }
            (None, None) => format!(
                "the operator's hold-off (--critical-addons-after, usually 30s) or its turn: it is Unschedulable{since}."
            ),
        }
    }

    /// Returns the operator's last event that says why no pod is evicted for the critical add-on; `None` if there is none, or a plan
    /// was made since.
    fn last_event(&self) -> Option<&ObservedEvent> {
        let waits = [Reason::CriticalAddonUnschedulable, Reason::CriticalAddonFits, Reason::SchedulerNotResponding];
        let last = self
            .events
            .iter()
            .rev()
            .filter(|event| event.by == OPERATOR)
            .find(|event| waits.iter().any(|reason| event.reason == reason.as_str()))?;
        let planned = self.world.last_plan(&self.target).and_then(|plan| plan.planned_at.as_ref()).map(|time| time.0);
        (planned.is_none() || last.at >= planned).then_some(last)
    }

    /// Returns since when kube-scheduler has found no feasible node for the pod; `None` if that is unknown.
    fn unschedulable_since(&self) -> Option<k8s_openapi::jiff::Timestamp> {
        let status = self.pod.as_ref()?.status.as_ref()?;
        let condition = status.conditions.iter().flatten().find(|condition| condition.type_ == "PodScheduled")?;
        condition.last_transition_time.as_ref().map(|time| time.0)
    }

    /// Returns lines for the page, each with its label, about the step of a plan for a critical add-on and how its capacity is
    /// reserved. Empty for any other plan.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Objects;
    use serde_json::{Value, json};

    const NOW: &str = "2026-11-22T12:00:00Z";

    fn pod(more: &Value) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "dns", "namespace": "kube-system", "uid": "u-dns", "annotations": {keys::ANNOTATION_CRITICAL: "true"}},
            "spec": {"containers": [{"name": "c"}]},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "lastTransitionTime": "2026-11-22T11:59:48Z"}]}
        });
        pod["status"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        pod
    }

    fn plan(state: &str, planned_at: &str) -> Value {
        json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": "a-1"},
            "spec": {
                "preemptor": {"kind": "Pod", "namespace": "kube-system", "name": "dns", "uid": "u-dns", "priority": 0},
                "strategy": "critical-addon", "placements": [{"pod": "dns", "uid": "u-dns", "node": "n1"}],
                "criticalAddon": {"step": 3, "taint": true}
            },
            "status": {"state": state, "plannedAt": planned_at}
        })
    }

    fn node(taints: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"taints": taints}})
    }

    fn facts(pod: &Value, events: &[(&str, &str)], others: &[Value]) -> Evidence {
        let items = [std::slice::from_ref(pod), others].concat();
        let happened = |(at, reason): &(&str, &str)| ObservedEvent {
            at: Some(at.parse().unwrap()),
            type_: "Warning".to_owned(),
            reason: (*reason).to_owned(),
            by: OPERATOR.to_owned(),
            message: format!("{reason} says why."),
        };
        Evidence {
            target: Preemptor::Pod(ObjectKey::new("kube-system", "dns")),
            world: World::new(Objects { source: "test".to_owned(), items, ..Objects::default() }, false).unwrap(),
            group: None,
            pod: Some(serde_json::from_value(pod.clone()).unwrap()),
            events: events.iter().map(happened).collect(),
            failed: None,
            answer: None,
            changes: Vec::new(),
            now: NOW.parse().unwrap(),
        }
    }

    fn waits(pod: &Value, events: &[(&str, &str)], others: &[Value]) -> Option<String> {
        let lines = facts(pod, events, others).addon_lines();
        lines.into_iter().find(|(label, _)| *label == "Waits for:").map(|(_, text)| text)
    }

    #[test]
    fn the_last_event_of_the_operator_is_the_reason_for_waiting() {
        let hold_off =
            "the operator's hold-off (--critical-addons-after, usually 30s) or its turn: it is Unschedulable for 12s.";
        let unschedulable = pod(&json!({}));
        assert_eq!(waits(&unschedulable, &[], &[]).as_deref(), Some(hold_off));
        let events = [
            ("2026-11-22T11:59:50Z", "CriticalAddonUnschedulable"),
            ("2026-11-22T11:59:55Z", "SchedulerNotResponding"),
            ("2026-11-22T11:59:59Z", "FailedScheduling"),
        ];
        let silent = "SchedulerNotResponding (5s ago): SchedulerNotResponding says why.";
        assert_eq!(waits(&unschedulable, &events, &[]).as_deref(), Some(silent));
        // A plan was made since: the earlier event does not apply.
        let dropped = plan("Cancelled", "2026-11-22T11:59:57Z");
        assert_eq!(waits(&unschedulable, &events, &[dropped]).as_deref(), Some(hold_off));
        let in_flight = plan("Evicting", "2026-11-22T11:59:57Z");
        assert_eq!(waits(&unschedulable, &events, &[in_flight]), None, "the plan says it");
    }

    #[test]
    fn without_an_event_of_the_operator_the_add_on_waits_for_the_scheduler() {
        let fresh = waits(&pod(&json!({"conditions": []})), &[], &[]);
        assert_eq!(fresh.as_deref(), Some("kube-scheduler, which has not said yet that it is Unschedulable."));
        let nominated = waits(&pod(&json!({"nominatedNodeName": "n1"})), &[], &[]);
        assert_eq!(nominated.as_deref(), Some("node n1, which is nominated for it."));
    }

    #[test]
    fn a_pod_without_the_annotation_is_a_critical_add_on_only_if_a_plan_treated_it_as_one() {
        let mut other = pod(&json!({}));
        other["metadata"]["annotations"] = json!({});
        assert!(facts(&other, &[], &[]).addon_lines().is_empty());
        let by = facts(&other, &[], &[plan("Cancelled", NOW)]).addon_lines();
        assert_eq!(by[0].0, "Critical add-on:");
    }

    #[test]
    fn the_reservation_of_a_node_is_read_from_its_taint_and_nomination() {
        let ours = json!([{"key": "CriticalAddonsOnly", "value": "u-dns", "effect": "NoSchedule"}]);
        let foreign = json!([{"key": "CriticalAddonsOnly", "value": "true", "effect": "NoSchedule"}]);
        let (free, nominated) = (pod(&json!({})), pod(&json!({"nominatedNodeName": "n1"})));
        let taint = "the taint CriticalAddonsOnly=u-dns:NoSchedule";
        for (pod, taints, by) in [
            (&free, &foreign, "nothing yet".to_owned()),
            (&free, &ours, taint.to_owned()),
            (&nominated, &ours, format!("{taint}, and the pod's nomination")),
            (&nominated, &foreign, "the pod's nomination".to_owned()),
        ] {
            let facts = facts(pod, &[], &[plan("Evicting", NOW), node(taints)]);
            let plan = facts.world.plans["a-1"].clone();
            let step = "Step 3: PodDisruptionBudgets that are not guaranteed may be violated, and longer grace periods are shortened to 10 s.";
            let lines = [("For a critical add-on:", step.to_owned()), ("Kept:", format!("node n1, by {by}."))];
            assert_eq!(facts.rescue_lines(&plan), lines);
        }
    }
}
