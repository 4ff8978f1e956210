//! The kind `ProvisioningRequest` of `autoscaling.x-k8s.io/v1`, with the fields that Giveway uses to request capacity
//! from cluster-autoscaler.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The provisioning class of requests that are fulfilled completely or not at all, with the capacity that the cloud
/// offers now.
pub const ATOMIC_SCALE_UP: &str = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
/// Maximum number of pod sets in a request.
pub const MOST_POD_SETS: usize = 32;

/// The pods for which capacity is requested together. Immutable.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1",
    kind = "ProvisioningRequest",
    namespaced,
    status = "ProvisioningRequestStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningRequestSpec {
    /// Sets of pods that are alike.
    pub pod_sets: Vec<PodSet>,
    /// The provisioning class: which component fulfills the request, and how.
    pub provisioning_class_name: String,
}

/// Pods with the same template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSet {
    /// Their PodTemplate.
    pub pod_template_ref: PodTemplateReference,
    /// Number of pods.
    pub count: i32,
}

/// A PodTemplate of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodTemplateReference {
    /// Its name.
    pub name: String,
}

/// Status that the autoscaler writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProvisioningRequestStatus {
    /// Conditions of the request.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// Progress of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No autoscaler has accepted the request.
    Pending,
    /// The autoscaler is looking for capacity.
    Accepted,
    /// The capacity is available.
    Provisioned,
    /// The capacity is not available, or no longer; the autoscaler's message.
    Failed(String),
}

impl ProvisioningRequest {
    /// Returns the progress of the ProvisioningRequest according to its conditions. Capacity that was revoked, or whose
    /// reservation expired, counts as failed.
    pub fn progress(&self) -> Progress {
        let conditions = self.status.iter().flat_map(|status| &status.conditions);
        let when_true = |type_: &str| conditions.clone().find(|c| c.type_ == type_ && c.status == "True");
        let over = ["Failed", "CapacityRevoked", "BookingExpired"].into_iter().find_map(when_true);
        match over {
            Some(condition) => Progress::Failed(format!("{}: {}", condition.type_, condition.message)),
            None if when_true("Provisioned").is_some() => Progress::Provisioned,
            None if when_true("Accepted").is_some() => Progress::Accepted,
            None => Progress::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn progress(conditions: &[(&str, &str)]) -> Progress {
        let condition = |(type_, status): &(&str, &str)| json!({"type": type_, "status": status, "reason": "R", "message": "no quota", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let conditions: Vec<_> = conditions.iter().map(condition).collect();
        let request = json!({
            "metadata": {"name": "r"}, "spec": {"podSets": [], "provisioningClassName": ATOMIC_SCALE_UP},
            "status": {"conditions": conditions}
        });
        serde_json::from_value::<ProvisioningRequest>(request).unwrap().progress()
    }

    #[test]
    fn a_later_failure_counts_more_than_an_earlier_success() {
        assert_eq!(progress(&[]), Progress::Pending);
        assert_eq!(progress(&[("Accepted", "True"), ("Provisioned", "False")]), Progress::Accepted);
        assert_eq!(progress(&[("Accepted", "True"), ("Provisioned", "True")]), Progress::Provisioned);
        let failed = |type_: &str| Progress::Failed(format!("{type_}: no quota"));
        assert_eq!(progress(&[("Accepted", "True"), ("Failed", "True")]), failed("Failed"));
        for over in ["CapacityRevoked", "BookingExpired"] {
            assert_eq!(progress(&[("Provisioned", "True"), (over, "True")]), failed(over));
        }
    }
}
