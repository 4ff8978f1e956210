//! The API server's handling of evictions, budgets and deletions of pods, and the disruption controller.

use crate::simulation::object::{Kind, Pod, set_condition, terminating, text, uid};
use crate::simulation::server::{EPOCH, Request, Server, answered, refusal};
use giveway_crds::keys;
use jiff::Timestamp;
use kube::core::Status;
use serde_json::{Value, json};

/// The message with which the Eviction API refuses an eviction because of a budget.
const BUDGET: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Returns true if an eviction was refused because of a budget.
pub fn is_for_budget(status: &Status) -> bool {
    status.message == BUDGET
}

impl Server {
    /// The Eviction API: deletes the pod if its UID, and its version if one is given, match and its budget permits it. `grace` replaces the grace period of the pod, in
    /// seconds. With `dry` nothing is written.
    pub fn evict(
        &mut self,
        user: &str,
        (name, insisted, version): (&str, &str, Option<&str>),
        grace: Option<i64>,
        plan: Option<&str>,
        dry: bool,
    ) -> Result<(), Box<Status>> {
        let found = self.pod_to_remove(name, insisted, version);
        let result = found.and_then(|pod| self.ask_budget(&pod, dry));
        if dry {
            return result;
        }
        let annotations = plan.map(|plan| json!({ keys::ANNOTATION_PLAN: plan })).unwrap_or_default();
        let options = delete_options(insisted, grace);
        let body = json!({"metadata": {"annotations": annotations}, "deleteOptions": options});
        if result.is_ok() {
            let time = self.time();
            self.change(Kind::Pod, name, |pod| {
                let message = "Eviction API: evicting";
                set_condition(
                    pod,
                    json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                        "message": message, "lastTransitionTime": time}),
                );
            });
            self.terminate(name, grace);
        }
        let request = Request { user, verb: "create", kind: Kind::Pod, name, subresource: "eviction", body };
        self.log_answer(request, answered(&result, 201), None);
        result
    }

    /// DELETE of a pod; the UID, if given, is a precondition.
    pub fn delete_pod(&mut self, user: &str, name: &str, insisted: &str) -> Result<(), Box<Status>> {
        self.delete_pod_within(user, (name, insisted, None), None)
    }

    /// DELETE of a pod with this grace period instead of its own, in seconds.
    pub fn delete_pod_within(
        &mut self,
        user: &str,
        (name, insisted, version): (&str, &str, Option<&str>),
        grace: Option<i64>,
    ) -> Result<(), Box<Status>> {
        let found = self.pod_to_remove(name, insisted, version);
        let body = delete_options(found.as_ref().map_or(insisted, uid), grace);
        if found.is_ok() {
            self.terminate(name, grace);
        }
        let request = Request { user, verb: "delete", kind: Kind::Pod, name, subresource: "", body };
        self.log_answer(request, answered(&found, 200), found.as_ref().ok());
        found.map(drop)
    }

    fn pod_to_remove(&self, name: &str, insisted: &str, version: Option<&str>) -> Result<Value, Box<Status>> {
        let pod = self.get(Kind::Pod, name).ok_or_else(|| refusal(404, format!("pods \"{name}\" not found")))?;
        if !insisted.is_empty() && insisted != uid(pod) {
            return Err(refusal(409, "Precondition failed: UID in precondition: another pod has the name"));
        }
        if version.is_some_and(|version| version != text(pod, "/metadata/resourceVersion")) {
            return Err(refusal(409, "Precondition failed: ResourceVersion in precondition: the pod has changed"));
        }
        Ok(Value::clone(pod))
    }

    /// Deletes a pod. If it is bound, it terminates until its kubelet removes it; otherwise it is removed at once.
    fn terminate(&mut self, name: &str, grace: Option<i64>) {
        let Some(pod) = self.get(Kind::Pod, name) else { return };
        if terminating(pod) {
            return;
        }
        if Pod(pod).node().is_none() {
            return self.remove(Kind::Pod, name);
        }
        let grace = grace.or_else(|| pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(30);
        let deadline = Timestamp::from_second(self.second() + grace).expect("a time").to_string();
        self.change(Kind::Pod, name, |pod| {
            pod["metadata"]["deletionTimestamp"] = json!(deadline);
            pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        });
    }

    /// Checks that the budget that selects the pod permits its eviction, and subtracts the eviction from it.
    fn ask_budget(&mut self, pod: &Value, dry: bool) -> Result<(), Box<Status>> {
        let (view, name) = (Pod(pod), text(pod, "/metadata/name"));
        if terminating(pod) || text(pod, "/status/phase") != "Running" {
            return Ok(());
        }
        let selecting = self.list(Kind::Budget).find(|budget| app_of(budget) == view.app());
        let Some(budget) = selecting.map(|budget| text(budget, "/metadata/name").to_owned()) else { return Ok(()) };
        let allowed =
            self.get(Kind::Budget, &budget).map_or(0, |b| b["status"]["disruptionsAllowed"].as_i64().unwrap_or(0));
        if allowed <= 0 {
            return Err(refusal(429, BUDGET));
        }
        if !dry {
            let time = self.time();
            self.change(Kind::Budget, &budget, |budget| {
                budget["status"]["disruptionsAllowed"] = json!(allowed - 1);
                budget["status"]["disruptedPods"][name] = json!(time);
            });
        }
        Ok(())
    }

    /// The disruption controller: counts the healthy pods of every budget.
    pub fn count_for_budgets(&mut self) {
        let names: Vec<String> = self.list(Kind::Budget).map(|b| text(b, "/metadata/name").to_owned()).collect();
        for name in names {
            let Some(budget) = self.get(Kind::Budget, &name).cloned() else { continue };
            let pods: Vec<_> = self.list(Kind::Pod).filter(|pod| Pod(pod).app() == app_of(&budget)).collect();
            let mut disrupted = budget["status"]["disruptedPods"].as_object().cloned().unwrap_or_default();
            let late = |since: &Value| {
                let since: Option<Timestamp> = since.as_str().and_then(|time| time.parse().ok());
                since.is_none_or(|since| self.second() - since.as_second() > 120)
            };
            disrupted.retain(|name, since| {
                !late(since) && pods.iter().any(|pod| Pod(pod).name() == name && !terminating(pod))
            });
            let healthy =
                pods.iter().filter(|pod| Pod(pod).ready() && !disrupted.contains_key(Pod(pod).name())).count();
            let desired = budget["spec"]["minAvailable"].as_i64().unwrap_or(0);
            let status = json!({
                "disruptionsAllowed": (healthy as i64 - desired).max(0), "currentHealthy": healthy,
                "desiredHealthy": desired, "expectedPods": pods.len(), "disruptedPods": disrupted,
                "observedGeneration": 1
            });
            if budget["status"] != status {
                self.change(Kind::Budget, &name, |budget| budget["status"] = status);
            }
        }
    }
}

/// Returns the options of a request to delete a pod with this UID.
fn delete_options(uid: &str, grace: Option<i64>) -> Value {
    let mut options = json!({"preconditions": {"uid": uid}});
    if let Some(grace) = grace {
        options["gracePeriodSeconds"] = json!(grace);
    }
    options
}

/// Returns the value of the label by which a budget selects pods.
pub fn app_of(budget: &Value) -> &str {
    text(budget, "/spec/selector/matchLabels/app")
}

/// Returns the end of the grace period of a terminating pod, in seconds since the epoch.
pub fn deadline(pod: &Value) -> i64 {
    let time: Option<Timestamp> = text(pod, "/metadata/deletionTimestamp").parse().ok();
    time.map_or(EPOCH, Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_tests::audit::{OPERATOR, unanswered};

    #[test]
    fn the_audit_log_shows_that_a_budget_refused_an_eviction() {
        let mut server = Server::default();
        let labels = json!({"app": "low"});
        let pod = json!({"metadata": {"name": "low-0", "labels": labels}, "spec": {"nodeName": "n1"},
            "status": {"phase": "Running", "conditions": []}});
        server.create(OPERATOR, Kind::Pod, pod).unwrap();
        let budget = json!({"metadata": {"name": "low"}, "spec": {"selector": {"matchLabels": labels}},
            "status": {"disruptionsAllowed": 0}});
        server.create(OPERATOR, Kind::Budget, budget).unwrap();
        let insisted = uid(server.get(Kind::Pod, "low-0").unwrap()).to_owned();
        let refused = server.evict(OPERATOR, ("low-0", &insisted, None), None, Some("plan"), false).unwrap_err();
        assert!(is_for_budget(&refused));
        server.delete_pod(OPERATOR, "low-0", &insisted).unwrap();
        let history = unanswered::history_of(&server.audit);
        let refusals: Vec<bool> = history.removals.iter().map(|removal| removal.refused_for_budget()).collect();
        assert_eq!(refusals, [true, false]);
    }
}
