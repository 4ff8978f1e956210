//! The objects that request capacity from a cluster autoscaler, computed from a member of the gang. Pure.

use giveway_crds::autoscaling::{
    ATOMIC_SCALE_UP, PodSet, PodTemplateReference, ProvisioningRequest, ProvisioningRequestSpec,
};
use giveway_crds::keys::{GROUP, LABEL_PLACEHOLDER, LABEL_PROVISIONING, PREFIX};
use giveway_planner::SmolStr;
use giveway_planner::model::ObjectKey;
use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, Container, Pod, PodSecurityContext, PodSpec, PodTemplate, PodTemplateSpec,
    ResourceRequirements, SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use std::collections::BTreeMap;

/// Prefix of the names of the volumes that the API server adds to every pod.
const TOKEN_VOLUME: &str = "kube-api-access-";
/// Annotations of placeholders. They prevent that autoscalers remove their nodes while other placeholders of the gang
/// are still pending.
const ANNOTATIONS: [(&str, &str); 3] = [
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    ("karpenter.sh/do-not-disrupt", "true"),
    ("sidecar.istio.io/inject", "false"),
];

/// The PodGroup of a gang for which capacity is requested, or a member, as it was then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The object.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
}

/// Content of a ProvisioningRequest for cluster-autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityRequest {
    /// The gang for which capacity is requested.
    pub gang: Identity,
    /// Name of the ProvisioningRequest.
    pub name: String,
    /// One member of each set of members with the same requirements, and the number of members in the set.
    pub sets: Vec<(Identity, i32)>,
}

/// A placeholder pod, which uses capacity until its member can be scheduled there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// The gang of the member.
    pub gang: Identity,
    /// The member.
    pub member: Identity,
    /// The resource requests of the member, as quantities.
    pub requests: BTreeMap<String, String>,
    /// The PriorityClass of the gang.
    pub class: Option<String>,
    /// The container image, a program that does nothing.
    pub image: String,
}

impl Identity {
    /// Returns the reference with which created objects name this PodGroup as their owner.
    fn owner(&self) -> OwnerReference {
        owner(&format!("{GROUP}/v1alpha1"), "PodGroup", &self.key.name, &self.uid)
    }

    /// Returns the metadata of an object that is created for this PodGroup: `name`, the namespace of the PodGroup, the label `label` with
    /// the name of the PodGroup, and this owner.
    fn metadata(&self, name: String, label: &str, owner: OwnerReference) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.key.namespace.to_string()),
            labels: Some(BTreeMap::from([(label.to_owned(), self.key.name.to_string())])),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        }
    }
}

/// Returns the owner reference, as controller, to the object of this kind, name and UID.
fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

impl CapacityRequest {
    /// Returns the ProvisioningRequest to create: the PodGroup owns it, and it has a pod set for each template.
    pub fn request(&self) -> ProvisioningRequest {
        let sets = self.sets.iter().enumerate();
        let set = |(at, (_, count)): (usize, &(Identity, i32))| PodSet {
            pod_template_ref: PodTemplateReference { name: self.template_name(at) },
            count: *count,
        };
        let spec = ProvisioningRequestSpec {
            pod_sets: sets.map(set).collect(),
            provisioning_class_name: ATOMIC_SCALE_UP.to_owned(),
        };
        let metadata = self.gang.metadata(self.name.clone(), LABEL_PROVISIONING, self.gang.owner());
        ProvisioningRequest { metadata, spec, status: None }
    }

    /// Returns the name of the PodTemplate for the set at this index in `sets`.
    fn template_name(&self, at: usize) -> String {
        format!("{}-{at}", self.name)
    }

    /// Returns the PodTemplate for the set at index `at` in `sets`, derived from `member`, one of its pods. It is owned by the
    /// ProvisioningRequest with the UID `request`, and so garbage-collected with it.
    pub fn template(&self, at: usize, member: &Pod, request: &str) -> PodTemplate {
        let owner = owner("autoscaling.x-k8s.io/v1", "ProvisioningRequest", &self.name, request);
        let labels = member.metadata.labels.clone().unwrap_or_default();
        let labels = labels.into_iter().filter(|(key, _)| !key.starts_with(PREFIX)).collect();
        PodTemplate {
            metadata: self.gang.metadata(self.template_name(at), LABEL_PROVISIONING, owner),
            template: Some(PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: member.spec.as_ref().map(scheduling_fields),
            }),
        }
    }
}

/// Returns the part of a pod's spec that affects scheduling: without commands, environment variables and mounts.
fn scheduling_fields(spec: &PodSpec) -> PodSpec {
    let container = |container: &Container| Container {
        name: container.name.clone(),
        image: container.image.clone(),
        resources: container.resources.clone(),
        ports: container.ports.clone(),
        restart_policy: container.restart_policy.clone(),
        ..Container::default()
    };
    let all = |list: &Vec<Container>| list.iter().map(container).collect::<Vec<_>>();
    let volumes = spec.volumes.iter().flatten().filter(|volume| !volume.name.starts_with(TOKEN_VOLUME));
    PodSpec {
        containers: all(&spec.containers),
        init_containers: spec.init_containers.as_ref().map(all),
        volumes: Some(volumes.cloned().collect()),
        resources: spec.resources.clone(),
        resource_claims: spec.resource_claims.clone(),
        overhead: spec.overhead.clone(),
        runtime_class_name: spec.runtime_class_name.clone(),
        node_selector: spec.node_selector.clone(),
        affinity: spec.affinity.clone(),
        tolerations: spec.tolerations.clone(),
        topology_spread_constraints: spec.topology_spread_constraints.clone(),
        host_network: spec.host_network,
        priority_class_name: spec.priority_class_name.clone(),
        scheduler_name: spec.scheduler_name.clone(),
        restart_policy: spec.restart_policy.clone(),
        ..PodSpec::default()
    }
}

impl Placeholder {
    /// Returns the name of the placeholder pod. It is derived from the UID of its member, so that no placeholder is created twice.
    pub fn name(&self) -> String {
        name_for(&self.member.uid)
    }

    /// Returns the placeholder pod to create, with the resource requests of `member` and a container that does nothing. It has none of the
    /// member's labels, so that no Service and no PodDisruptionBudget selects it. Therefore it has no pod affinity, pod anti-affinity or
    /// topology spread constraints either.
    pub fn pod(&self, member: &Pod) -> Pod {
        let spec = member.spec.clone().unwrap_or_default();
        let amounts: BTreeMap<String, Quantity> =
            self.requests.iter().map(|(name, amount)| (name.clone(), Quantity(amount.clone()))).collect();
        let resources =
            ResourceRequirements { requests: Some(amounts.clone()), limits: Some(amounts), ..Default::default() };
        let container = Container {
            name: "placeholder".to_owned(),
            image: Some(self.image.clone()),
            resources: Some(resources),
            security_context: Some(SecurityContext {
                allow_privilege_escalation: Some(false),
                capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
                ..SecurityContext::default()
            }),
            ..Container::default()
        };
        let mut metadata = self.gang.metadata(self.name(), LABEL_PLACEHOLDER, self.gang.owner());
        let annotations = ANNOTATIONS.map(|(key, value)| (key.to_owned(), value.to_owned()));
        metadata.annotations = Some(BTreeMap::from(annotations));
        Pod {
            metadata,
            spec: Some(PodSpec {
                containers: vec![container],
                priority_class_name: self.class.clone(),
                preemption_policy: Some("Never".to_owned()),
                scheduler_name: spec.scheduler_name,
                node_selector: spec.node_selector,
                affinity: spec
                    .affinity
                    .and_then(|affinity| affinity.node_affinity)
                    .map(|node_affinity| Affinity { node_affinity: Some(node_affinity), ..Affinity::default() }),
                tolerations: spec.tolerations,
                automount_service_account_token: Some(false),
                enable_service_links: Some(false),
                // Short, because the container does nothing and its capacity is needed. Not 0, because the capacity
                // must not be used before the kubelet has stopped the pod.
                termination_grace_period_seconds: Some(1),
                // Without a user: that of the image, or the one that the cluster chooses in this namespace, as OpenShift does.
                security_context: Some(PodSecurityContext {
                    run_as_non_root: Some(true),
                    seccomp_profile: Some(SeccompProfile {
                        type_: "RuntimeDefault".to_owned(),
                        ..SeccompProfile::default()
                    }),
                    ..PodSecurityContext::default()
                }),
                ..PodSpec::default()
            }),
            status: None,
        }
    }
}

/// Returns the name of the placeholder pod for the member with this UID.
pub fn name_for(member: &str) -> String {
    format!("placeholder-{member}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_may_choose_the_user_of_a_placeholder() {
        let gang =
            Identity { key: ObjectKey::new("default", "train"), uid: "6d1d7a05-0000-4000-8000-000000000001".into() };
        let uid = "6d1d7a05-0000-4000-8000-000000000002".into();
        let placeholder = Placeholder {
            gang,
            member: Identity { key: ObjectKey::new("default", "train-0"), uid },
            requests: BTreeMap::new(),
            class: None,
            image: "registry.k8s.io/pause:3.10".to_owned(),
        };
        let security = placeholder.pod(&Pod::default()).spec.and_then(|spec| spec.security_context).unwrap_or_default();
        assert_eq!((security.run_as_non_root, security.run_as_user), (Some(true), None));
    }
}
