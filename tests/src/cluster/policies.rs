//! Policies by which the API server refuses requests, as an administrator writes them.

use serde_json::json;

/// What is refused, and in which words.
pub struct Denial<'a> {
    /// Name of policy and binding.
    pub name: &'a str,
    /// The operation that is refused: `CREATE` or `UPDATE`.
    pub operation: &'a str,
    /// API group and resource of its object.
    pub of: (&'a str, &'a str),
    /// A CEL expression; what it does not allow is refused.
    pub unless: &'a str,
    /// What the refusal says.
    pub message: &'a str,
}

impl Denial<'_> {
    /// Policy and binding, to be applied. It takes the API server a moment until they are in force.
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
