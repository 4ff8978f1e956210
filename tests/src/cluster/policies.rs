//! ValidatingAdmissionPolicies that deny requests, as an administrator could create them.

use serde_json::json;

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
