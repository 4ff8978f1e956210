//! Features of the kubelet that pods need, as kube-scheduler infers them (KEP-5328).

use k8s_openapi::api::core::v1::PodSpec;

/// A container can restart all containers of its pod.
const RESTART_ALL_CONTAINERS: &str = "RestartAllContainersOnContainerExits";
/// A pod in the network of its node can have user namespaces.
const USER_NAMESPACES_WITH_HOST_NETWORK: &str = "UserNamespacesHostNetworkSupport";

/// Returns the names of the kubelet features that a pod with this spec needs; kube-scheduler compares them with the
/// features that a node declares.
pub(super) fn needed(spec: &PodSpec) -> Vec<&'static str> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let mut rules = containers.flat_map(|container| container.restart_policy_rules.iter().flatten());
    let restarts_all = rules.any(|rule| rule.action == "RestartAllContainers");
    let has_users = spec.host_network == Some(true) && spec.host_users == Some(false);
    let all = [(restarts_all, RESTART_ALL_CONTAINERS), (has_users, USER_NAMESPACES_WITH_HOST_NETWORK)];
    all.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, name)| name).collect()
}
