//! The kinds that a cluster may lack.
//!
//! For these kinds, the answer 404 to a list means that there are no objects. For every other kind it is a failure like
//! any other: the objects are unknown then, so operator and webhook keep those that they know, and treat the watch as
//! broken.
//!
//! Native PodGroups are no exception. API servers without them are recognised by
//! [the versions that are served](crate::native::version); a version that is served must answer a list.

/// API group and kind of each optional kind.
const OPTIONAL: [(&str, &str); 4] = [
    // Served since Kubernetes 1.34.
    ("resource.k8s.io", "DeviceClass"),
    ("resource.k8s.io", "ResourceSlice"),
    ("resource.k8s.io", "ResourceClaim"),
    // A CRD of cluster-autoscaler.
    ("autoscaling.x-k8s.io", "ProvisioningRequest"),
];

/// Returns true if the API server of a supported cluster may not serve this kind of this API group.
pub fn is_optional(group: &str, kind: &str) -> bool {
    OPTIONAL.contains(&(group, kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autoscaling::ProvisioningRequest;
    use crate::{PodGroup, Preemption, Workload};
    use k8s_openapi::api::core::v1::{Node, Pod};
    use kube::Resource;

    fn optional<K: Resource<DynamicType = ()>>() -> bool {
        is_optional(&K::group(&()), &K::kind(&()))
    }

    #[test]
    fn kinds_of_kubernetes_and_of_giveway_are_required_and_those_of_other_projects_optional() {
        let required = [
            optional::<Node>(),
            optional::<Pod>(),
            optional::<PodGroup>(),
            optional::<Workload>(),
            optional::<Preemption>(),
        ];
        assert_eq!(required, [false; 5]);
        assert!(optional::<ProvisioningRequest>());
        assert!(is_optional("resource.k8s.io", "DeviceClass"));
        assert!(!is_optional("", "DeviceClass"), "a kind of the same name in another API group");
    }
}
