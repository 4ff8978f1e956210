//! Policies of an administrator: a ValidatingAdmissionPolicy that denies requests, and a MutatingAdmissionPolicy that adds to them.

use serde_json::{Value, json};

/// A policy that denies requests.
pub struct Denial<'a> {
    /// Name of policy and binding.
    pub name: &'a str,
    /// The denied operation: `CREATE` or `UPDATE`.
    pub operation: &'a str,
    /// API group and resource of its object.
    pub of: (&'a str, &'a str),
    /// A CEL expression; requests for which it is false are denied.
    pub unless: &'a str,
    /// The message of the denial.
    pub message: &'a str,
}

impl Denial<'_> {
    /// Returns the manifest of policy and binding. They are in force only a moment after they were applied.
    pub fn manifest(&self) -> String {
        let Self { name, operation, of: (group, resource), unless, message } = self;
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [group], "apiVersions": ["*"], "operations": [operation], "resources": [resource]
                }]},
                "validations": [{"expression": unless, "message": message}]
            }
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}
        });
        format!("{policy}\n---\n{binding}")
    }
}

/// A mutating policy that adds a label and an annotation to each UPDATE by one user, as a service mesh or a policy engine does to all
/// users. It adds them to the writes of one user only, so that no other client's update has added them before.
pub struct Addition<'a> {
    /// Name of policy and binding.
    pub name: &'a str,
    /// The user whose requests it changes.
    pub user: &'a str,
    /// Key of the label, with the value `true`, and of the annotation, whose value is another one in each request.
    pub key: &'a str,
    /// API groups and the resources in them.
    pub of: &'a [(&'a str, &'a [&'a str])],
}

impl Addition<'_> {
    /// Returns the manifest of policy and binding. They are in force only a moment after they were applied.
    pub fn manifest(&self) -> String {
        let Self { name, user, key, of } = self;
        let rules: Vec<Value> = (of.iter())
            .map(|(group, resources)| {
                json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": resources})
            })
            .collect();
        let expression = format!(
            "Object{{metadata: Object.metadata{{labels: {{'{key}': 'true'}}, annotations: {{'{key}': string(object.metadata.resourceVersion)}}}}}}"
        );
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "matchConstraints": {"resourceRules": rules},
                "matchConditions": [{"name": "user", "expression": format!("request.userInfo.username == '{user}'")}],
                "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]
            }
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name}, "spec": {"policyName": name}
        });
        format!("{policy}\n---\n{binding}")
    }
}
