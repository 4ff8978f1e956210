//! Rules: which requests are denied, and with which answer.

use crate::audit::{OPERATOR, SCHEDULER};
use giveway_crds::keys;
use serde_json::{Value, json};
use std::time::Duration;

/// Requests for one resource.
#[derive(Clone, Copy, Debug)]
struct Target {
    operation: &'static str,
    groups: &'static [&'static str],
    resource: &'static str,
}

/// What the webhook does with a request that a rule selects.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// It denies the request with this `Status`.
    Deny(Value),
    /// It admits the request after this time.
    Late(Duration),
    /// Nothing listens at its URL.
    Unreachable,
}

/// Selects requests of the operator and says how they are answered. Without further calls every selected request is denied with the code
/// 403 until the rule is ended, dry runs too.
#[derive(Clone, Debug)]
pub struct Rule {
    targets: Vec<Target>,
    users: Option<Vec<String>>,
    namespace: Option<String>,
    prefix: Option<String>,
    dry_run: Option<bool>,
    target_node: Option<String>,
    pub(super) admitted: usize,
    pub(super) most: Option<usize>,
    pub(super) answer: Answer,
    timeout_seconds: u32,
    failure_policy: &'static str,
}

impl Rule {
    /// Selects evictions (`pods/eviction`), by the name of the pod.
    pub fn evictions() -> Self {
        Self::on("CREATE", &[""], "pods/eviction")
    }

    /// Selects updates of pods, such as the removal of a scheduling gate.
    pub fn pod_updates() -> Self {
        Self::on("UPDATE", &[""], "pods")
    }

    /// Selects deletions of pods. An eviction is none.
    pub fn pod_deletions() -> Self {
        Self::on("DELETE", &[""], "pods")
    }

    /// Selects updates of the status of pods, such as nominations.
    pub fn pod_statuses() -> Self {
        Self::on("UPDATE", &[""], "pods/status")
    }

    /// Selects bindings by kube-scheduler (`pods/binding`).
    pub fn bindings() -> Self {
        Self::on("CREATE", &[""], "pods/binding").by(SCHEDULER)
    }

    /// Selects updates of nodes, such as taints.
    pub fn node_updates() -> Self {
        Self::on("UPDATE", &[""], "nodes")
    }

    /// Selects creations of events.
    pub fn events() -> Self {
        Self::on("CREATE", &["", "events.k8s.io"], "events")
    }

    /// Selects creations of `Preemption` objects.
    pub fn preemptions() -> Self {
        Self::on("CREATE", &[keys::GROUP], "preemptions")
    }

    /// Selects updates of the status of `Preemption` objects.
    pub fn preemption_statuses() -> Self {
        Self::on("UPDATE", &[keys::GROUP], "preemptions/status")
    }

    /// Selects updates of the status of PodGroups.
    pub fn pod_group_statuses() -> Self {
        Self::on("UPDATE", &[keys::GROUP], "podgroups/status")
    }

    /// Selects updates of Leases.
    pub fn leases() -> Self {
        Self::on("UPDATE", &["coordination.k8s.io"], "leases")
    }

    fn on(operation: &'static str, groups: &'static [&'static str], resource: &'static str) -> Self {
        Self {
            targets: vec![Target { operation, groups, resource }],
            users: Some(vec![OPERATOR.to_owned()]),
            namespace: None,
            prefix: None,
            dry_run: None,
            target_node: None,
            admitted: 0,
            most: None,
            answer: Answer::Deny(json!({"code": 403})),
            timeout_seconds: 10,
            failure_policy: "Fail",
        }
    }

    /// Also selects the requests of another rule. The other properties of that rule are not used.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.targets.extend(other.targets);
        self
    }

    /// Selects the requests of this user instead of those of the operator.
    #[must_use]
    pub fn by(mut self, user: &str) -> Self {
        self.users = Some(vec![user.to_owned()]);
        self
    }

    /// Selects the requests of all users, also those of the test and of Kubernetes.
    #[must_use]
    pub fn by_all(mut self) -> Self {
        self.users = None;
        self
    }

    /// Selects only objects of this namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Selects only objects whose name begins with `prefix`.
    #[must_use]
    pub fn named(mut self, prefix: &str) -> Self {
        self.prefix = Some(prefix.to_owned());
        self
    }

    /// Selects only dry runs.
    #[must_use]
    pub fn only_dry_runs(mut self) -> Self {
        self.dry_run = Some(true);
        self
    }

    /// Selects no dry runs.
    #[must_use]
    pub fn no_dry_runs(mut self) -> Self {
        self.dry_run = Some(false);
        self
    }

    /// Selects only bindings to this node.
    #[must_use]
    pub fn to_node(mut self, node: &str) -> Self {
        self.target_node = Some(node.to_owned());
        self
    }

    /// Admits the first `admitted` requests, as a policy does that counts.
    #[must_use]
    pub fn after(mut self, admitted: usize) -> Self {
        self.admitted = admitted;
        self
    }

    /// Denies only the first `most` requests and admits all others.
    #[must_use]
    pub fn times(mut self, most: usize) -> Self {
        self.most = Some(most);
        self
    }

    /// Denies with this HTTP code and message.
    #[must_use]
    pub fn saying(self, code: u16, message: &str) -> Self {
        self.with_status(json!({"code": code, "message": message}))
    }

    /// Denies with this `Status`, whose fields the API server passes on.
    #[must_use]
    pub fn with_status(mut self, status: Value) -> Self {
        self.answer = Answer::Deny(status);
        self
    }

    /// Admits the requests after this time. The API server waits for at most `timeout_seconds`, then the request fails.
    #[must_use]
    pub fn late(mut self, by: Duration, timeout_seconds: u32) -> Self {
        self.answer = Answer::Late(by);
        self.timeout_seconds = timeout_seconds;
        self
    }

    /// Admits a request that the webhook does not answer in time.
    #[must_use]
    pub fn ignored(mut self) -> Self {
        self.failure_policy = "Ignore";
        self
    }

    /// Registers a URL where nothing listens: every selected request fails.
    #[must_use]
    pub fn unreachable(mut self) -> Self {
        self.answer = Answer::Unreachable;
        self
    }

    /// Returns the webhook of the rule. The API server selects the requests, so that no other request depends on the test process.
    pub(super) fn webhook(&self, name: &str, client_config: &Value) -> Value {
        let rules: Vec<Value> = self.targets.iter().map(Target::rule).collect();
        let conditions: Vec<Value> = (self.conditions().iter().enumerate())
            .map(|(number, condition)| json!({"name": format!("condition-{number}"), "expression": condition}))
            .collect();
        json!({
            "name": name, "clientConfig": client_config, "rules": rules, "matchConditions": conditions,
            "failurePolicy": self.failure_policy, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "timeoutSeconds": self.timeout_seconds
        })
    }

    /// Returns CEL expressions that are all true for selected requests.
    fn conditions(&self) -> Vec<String> {
        let mut conditions = Vec::new();
        if let Some(users) = &self.users {
            conditions.push(format!("request.userInfo.username in {}", json!(users)));
        }
        if let Some(namespace) = &self.namespace {
            conditions.push(format!("request.namespace == {}", json!(namespace)));
        }
        if let Some(prefix) = &self.prefix {
            conditions.push(format!("request.name.startsWith({})", json!(prefix)));
        }
        if let Some(dry_run) = self.dry_run {
            conditions.push(format!("(has(request.dryRun) && request.dryRun) == {dry_run}"));
        }
        if let Some(node) = &self.target_node {
            conditions.push(format!("object.target.name == {}", json!(node)));
        }
        conditions
    }
}

impl Target {
    fn rule(&self) -> Value {
        json!({
            "operations": [self.operation], "apiGroups": self.groups, "apiVersions": ["*"], "resources": [self.resource],
            "scope": "*"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_selects_the_operator_only_unless_it_says_otherwise() {
        let username = |rule: &Rule| rule.conditions().iter().any(|c| c.contains("request.userInfo.username in ["));
        assert_eq!(Rule::evictions().conditions(), [format!("request.userInfo.username in [\"{OPERATOR}\"]")]);
        assert_eq!(Rule::bindings().conditions(), [format!("request.userInfo.username in [\"{SCHEDULER}\"]")]);
        assert!(!username(&Rule::evictions().by_all()));
        assert_eq!(Rule::bindings().by_all().to_node("n1").conditions(), ["object.target.name == \"n1\""]);
    }

    #[test]
    fn every_property_of_a_rule_is_a_condition_of_the_webhook() {
        let rule = Rule::pod_updates().by_all().in_namespace("team").named("train-1").no_dry_runs().times(2);
        let conditions = [
            "request.namespace == \"team\"",
            "request.name.startsWith(\"train-1\")",
            "(has(request.dryRun) && request.dryRun) == false",
        ];
        assert_eq!(rule.conditions(), conditions);
        assert_eq!(rule.most, Some(2));
        let webhook =
            rule.and(Rule::pod_statuses()).webhook("deny.example.com", &json!({"url": "https://127.0.0.1:1"}));
        let resources = |index: usize| webhook["rules"][index]["resources"][0].clone();
        assert_eq!((resources(0), resources(1)), (json!("pods"), json!("pods/status")));
        assert_eq!(webhook["matchConditions"][2]["name"], json!("condition-2"));
    }
}
