//! Audit logs written by hand, for the tests of the oracle.

use super::history::History;
use super::log::Line;
use super::{OPERATOR, Promises, SCHEDULER, unanswered};
use serde_json::{Value, json};

/// An audit log with one line for each second.
#[derive(Default)]
pub struct Log(Vec<Line>);

/// Returns a log with a PodGroup in mode `PodGroup` with two bound pods, and a pending gang of two.
pub fn two_gangs() -> Log {
    let mut log = Log::default();
    log.group("low", 1, "PodGroup", Value::Null);
    log.group("high", 9, "Pod", Value::Null);
    log.pod("low-0", "low", "n");
    log.pod("low-1", "low", "n");
    log.pod("high-0", "high", "");
    log.pod("high-1", "high", "");
    log
}

/// Returns the promises that a log breaks, without excuses.
pub fn broken(log: &Log) -> Vec<String> {
    Promises::new().broken(&log.history())
}

impl Log {
    pub fn line(&mut self, user: &str, verb: &str, object: Value, bodies: (Value, Value), code: u16) {
        let message = match code {
            429 => "Cannot evict pod as it would violate the pod's disruption budget.",
            500 => "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            _ => "",
        };
        self.answered(user, verb, object, bodies, (code, message));
    }

    /// Writes a request whose response has this code and message.
    pub fn answered(
        &mut self,
        user: &str,
        verb: &str,
        object: Value,
        bodies: (Value, Value),
        (code, message): (u16, &str),
    ) {
        let at = format!("2026-01-01T00:{:02}:{:02}.000000Z", self.0.len() / 60, self.0.len() % 60);
        let line = json!({
            "verb": verb, "user": {"username": user}, "requestURI": "/", "objectRef": object,
            "responseStatus": {"code": code, "message": message}, "requestObject": bodies.0, "responseObject": bodies.1,
            "requestReceivedTimestamp": at, "stageTimestamp": at
        });
        self.0.push(serde_json::from_value(line).unwrap());
    }

    pub fn group(&mut self, name: &str, priority: i32, mode: &str, status: Value) {
        let object = json!({
            "kind": "PodGroup", "metadata": {"namespace": "default", "name": name, "uid": name}, "status": status,
            "spec": {"priority": priority, "disruptionMode": mode, "schedulingPolicy": {"gang": {"minCount": 2}}}
        });
        self.group_as("patch", object);
    }

    /// Recreates a gang of this name, of priority 9, with this preemption policy.
    pub fn another_group(&mut self, name: &str, uid: &str, policy: &str) {
        let object = json!({
            "kind": "PodGroup", "metadata": {"namespace": "default", "name": name, "uid": uid},
            "spec": {"priority": 9, "disruptionMode": "Pod", "preemptionPolicy": policy,
                "schedulingPolicy": {"gang": {"minCount": 2}}}
        });
        self.group_as("create", object);
    }

    fn group_as(&mut self, verb: &str, object: Value) {
        let name = &object["metadata"]["name"];
        let reference = json!({"apiGroup": "scheduling.giveway.dev", "resource": "podgroups", "namespace": "default", "name": name});
        self.line(OPERATOR, verb, reference, (Value::Null, object), 200);
    }

    /// Deletes a plan as the test.
    pub fn delete_plan(&mut self, plan: &str) {
        let reference = json!({"apiGroup": "scheduling.giveway.dev", "resource": "preemptions", "name": plan});
        self.line("admin", "delete", reference, (Value::Null, Value::Null), 200);
    }

    /// Lets some seconds pass: the holder renews the Lease.
    pub fn pass(&mut self, holder: &str, seconds: usize) {
        for _ in 0..seconds {
            self.lease(holder);
        }
    }

    /// Writes a namespace with these annotations.
    pub fn annotate_namespace(&mut self, name: &str, annotations: Value) {
        let object = json!({"kind": "Namespace", "metadata": {"name": name, "annotations": annotations}});
        self.line("admin", "patch", json!({"resource": "namespaces", "name": name}), (Value::Null, object), 200);
    }

    /// The time of the next line minus some seconds.
    pub fn time(&self, earlier: usize) -> String {
        let second = self.0.len() - earlier;
        format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60)
    }

    /// Creates a pod of a PodGroup, bound if `node` is not empty. Its UID is its name, and its priority is above that of every PodGroup.
    pub fn pod(&mut self, name: &str, group: &str, node: &str) {
        let object = json!({
            "kind": "Pod",
            "metadata": {
                "namespace": "default", "name": name, "uid": name,
                "labels": {"scheduling.giveway.dev/pod-group": group}
            },
            "spec": {"nodeName": node, "priority": 100}
        });
        self.line("admin", "create", reference("", name), (Value::Null, object), 201);
    }

    pub fn plan(&mut self, victims: &[&str]) {
        self.plan_for("high", 9, "Planned", victims);
    }

    /// Stores a plan of a gang in this state.
    pub fn plan_for(&mut self, gang: &str, priority: i32, state: &str, victims: &[&str]) {
        self.plan_placing(gang, priority, state, victims, &[]);
    }

    /// Stores a plan with placements for these members.
    pub fn plan_placing(&mut self, gang: &str, priority: i32, state: &str, victims: &[&str], members: &[&str]) {
        let pods: Vec<Value> = victims.iter().map(|v| json!({"name": v, "uid": v, "node": "n"})).collect();
        let victim = json!({"kind": "PodGroup", "namespace": "default", "name": "low", "priority": 1, "pods": pods});
        self.group(gang, priority, "Pod", Value::Null);
        let placements: Vec<Value> = members.iter().map(|m| json!({"pod": m, "uid": m, "node": "n"})).collect();
        let preemptor =
            json!({"kind": "PodGroup", "namespace": "default", "name": gang, "uid": gang, "priority": priority});
        let object = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": gang},
            "spec": {"preemptor": preemptor, "strategy": "kep5710", "victims": [victim], "placements": placements},
            "status": {"state": state, "term": "t"}
        });
        let reference = json!({"apiGroup": "scheduling.giveway.dev", "resource": "preemptions", "name": gang});
        let request = json!({"status": object["status"]});
        self.line(OPERATOR, "create", reference, (request, object), 201);
    }

    /// Stores a plan for a single pod, with the name of the pod.
    pub fn plan_for_pod(&mut self, pod: &str, priority: i32, victims: &[&str]) {
        let pods: Vec<Value> = victims.iter().map(|v| json!({"name": v, "uid": v, "node": "n"})).collect();
        let victim = json!({"kind": "Pod", "namespace": "default", "name": "v", "priority": 1, "pods": pods});
        let preemptor = json!({"kind": "Pod", "namespace": "default", "name": pod, "uid": pod, "priority": priority});
        let object = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": pod},
            "spec": {"preemptor": preemptor, "strategy": "least-cost", "victims": [victim],
                "placements": [{"pod": pod, "uid": pod, "node": "n"}]},
            "status": {"state": "Evicting", "term": "t"}
        });
        let reference = json!({"apiGroup": "scheduling.giveway.dev", "resource": "preemptions", "name": pod});
        self.line(OPERATOR, "create", reference, (Value::Null, object), 201);
    }

    /// Stores a departure of pods of PodGroup `low`.
    pub fn departure(&mut self, name: &str, cause: &str, victims: &[&str]) {
        self.store_departure(name, cause, &Value::Null, victims);
    }

    /// Stores the departure of pods of PodGroup `low` after the plan of this preemptor, whose UID is its name, was cancelled.
    pub fn departure_after(&mut self, name: &str, preemptor: &str, victims: &[&str]) {
        let preemptor =
            json!({"kind": "PodGroup", "namespace": "default", "name": preemptor, "uid": preemptor, "priority": 9});
        self.store_departure(name, "PartiallyDisrupted", &preemptor, victims);
    }

    fn store_departure(&mut self, name: &str, cause: &str, preemptor: &Value, victims: &[&str]) {
        let pods: Vec<Value> = victims.iter().map(|v| json!({"name": v, "uid": v, "node": "n"})).collect();
        let victim = json!({"kind": "PodGroup", "namespace": "default", "name": "low", "priority": 1, "pods": pods});
        let object = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": name},
            "spec": {"cause": cause, "preemptor": preemptor, "victims": [victim],
                "reason": "Preempted by kube-scheduler."},
            "status": {"state": "Evicting", "term": "t"}
        });
        let reference = json!({"apiGroup": "scheduling.giveway.dev", "resource": "preemptions", "name": name});
        self.line(OPERATOR, "create", reference, (Value::Null, object), 201);
    }

    /// Creates a pod of priority 0 without a PodGroup. Its UID is its name.
    pub fn single(&mut self, namespace: &str, name: &str, more: Value) {
        let mut object = json!({
            "kind": "Pod", "metadata": {"namespace": namespace, "name": name, "uid": name}, "spec": {"priority": 0}
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            object[field].as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        }
        let object_ref = json!({"resource": "pods", "namespace": namespace, "name": name});
        self.line("admin", "create", object_ref, (Value::Null, object), 201);
    }

    /// Stores a plan of this step for critical add-on `dns` with these victims and a taint for node `n`.
    pub fn rescue(&mut self, step: i32, victims: &[&str]) {
        let victim = |name: &&str| {
            let pods = [json!({"name": name, "uid": name, "node": "n"})];
            json!({"kind": "Pod", "namespace": "default", "name": name, "priority": 0, "pods": pods})
        };
        let victims: Vec<Value> = victims.iter().map(victim).collect();
        let preemptor = json!({"kind": "Pod", "namespace": "kube-system", "name": "dns", "uid": "dns", "priority": 0});
        let object = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Preemption", "metadata": {"name": "rescue"},
            "spec": {"preemptor": preemptor, "strategy": "critical-addon", "victims": victims,
                "placements": [{"pod": "dns", "uid": "dns", "node": "n"}],
                "criticalAddon": {"step": step, "taint": true}},
            "status": {"state": "Evicting", "term": "t"}
        });
        let reference = json!({"apiGroup": "scheduling.giveway.dev", "resource": "preemptions", "name": "rescue"});
        self.line(OPERATOR, "create", reference, (Value::Null, object), 201);
    }

    /// Writes a node with these values of the taint `CriticalAddonsOnly`.
    pub fn taint(&mut self, user: &str, node: &str, values: &[&str]) {
        let taint = |value: &&str| json!({"key": "CriticalAddonsOnly", "value": value, "effect": "NoSchedule"});
        let taints: Vec<Value> = values.iter().map(taint).collect();
        let object = json!({"kind": "Node", "metadata": {"name": node}, "spec": {"taints": taints}});
        self.line(user, "patch", json!({"resource": "nodes", "name": node}), (Value::Null, object), 200);
    }

    /// Writes the condition of a victim with this gang as the preemptor.
    pub fn mark(&mut self, pod: &str, gang: &str, priority: i32) {
        let message =
            format!("Preempted by pod group default/{gang} of priority {priority}, which needs its capacity.");
        let request =
            json!({"status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "message": message}]}});
        self.line(OPERATOR, "patch", reference("status", pod), (request, Value::Null), 200);
    }

    pub fn evict(&mut self, user: &str, pod: &str, code: u16) {
        let request = json!({"deleteOptions": {"preconditions": {"uid": pod}}});
        self.line(user, "create", reference("eviction", pod), (request, Value::Null), code);
    }

    /// Evicts a pod for the plan in the annotation.
    pub fn evict_for(&mut self, pod: &str, plan: &str, code: u16) {
        let metadata = json!({"annotations": {"scheduling.giveway.dev/preemption-plan": plan}});
        let request = json!({"metadata": metadata, "deleteOptions": {"preconditions": {"uid": pod}}});
        self.line(OPERATOR, "create", reference("eviction", pod), (request, Value::Null), code);
    }

    /// Evicts a pod with this grace period.
    pub fn evict_within(&mut self, pod: &str, seconds: i64, code: u16) {
        let request = json!({"deleteOptions": {"preconditions": {"uid": pod}, "gracePeriodSeconds": seconds}});
        self.line(OPERATOR, "create", reference("eviction", pod), (request, Value::Null), code);
    }

    /// Deletes a pod.
    pub fn delete(&mut self, user: &str, pod: &str) {
        let request = json!({"preconditions": {"uid": pod}});
        self.line(user, "delete", reference("", pod), (request, Value::Null), 200);
    }

    /// Deletes a pod that has been terminating since this time, with a grace period of 30 s.
    pub fn delete_answered(&mut self, user: &str, pod: &str, since: &str) {
        let ends: jiff::Timestamp = since.parse().unwrap();
        let ends = ends + jiff::SignedDuration::from_secs(30);
        let metadata =
            json!({"name": pod, "uid": pod, "deletionTimestamp": ends.to_string(), "deletionGracePeriodSeconds": 30});
        let answer = json!({"kind": "Pod", "metadata": metadata});
        self.line(user, "delete", reference("", pod), (json!({}), answer), 200);
    }

    /// Writes the operator's Lease with this holder.
    pub fn lease(&mut self, holder: &str) {
        let object = json!({"apiGroup": "coordination.k8s.io", "resource": "leases", "name": "giveway-operator"});
        let lease = json!({"kind": "Lease", "spec": {"holderIdentity": holder}});
        self.line(OPERATOR, "update", object, (Value::Null, lease), 200);
    }

    /// Marks namespace `default` as at rest.
    pub fn rest(&mut self) {
        let object = json!({"resource": "configmaps", "namespace": "rest-of-default", "name": "giveway-audit-mark"});
        self.line("admin", "get", object, (Value::Null, Value::Null), 404);
    }

    /// Deletes a PodGroup.
    pub fn delete_group(&mut self, name: &str) {
        let group = json!({"apiGroup": "scheduling.giveway.dev", "resource": "podgroups", "namespace": "default", "name": name});
        self.line("admin", "delete", group, (Value::Null, Value::Null), 200);
    }

    pub fn bind(&mut self, pod: &str) {
        let request = json!({"target": {"name": "n"}});
        self.line(SCHEDULER, "create", reference("binding", pod), (request, Value::Null), 201);
    }

    /// Returns the history of the log.
    pub fn history(&self) -> History {
        unanswered::history_of(&self.0)
    }
}

/// Returns a reference to a pod, or to a subresource of it.
pub fn reference(subresource: &str, name: &str) -> Value {
    json!({"resource": "pods", "subresource": subresource, "namespace": "default", "name": name})
}
