//! The objects by which a cluster autoscaler is asked for room: pure, from what a member of the gang looks like.

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

/// Volumes that the API server adds to every pod.
const TOKEN_VOLUME: &str = "kube-api-access-";
/// Annotations of placeholders. Autoscalers leave their nodes alone while others of the gang still wait for theirs.
const ANNOTATIONS: [(&str, &str); 3] = [
    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
    ("karpenter.sh/do-not-disrupt", "true"),
    ("sidecar.istio.io/inject", "false"),
];
/// The user of a placeholder: nobody.
const NOBODY: i64 = 65_535;

/// A gang for which an autoscaler is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gang {
    /// Its group.
    pub group: ObjectKey,
    /// UID of the group.
    pub uid: SmolStr,
}

/// A member, as it was when the autoscaler was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The pod.
    pub pod: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
}

/// What is asked of cluster-autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityRequest {
    /// For whom.
    pub gang: Gang,
    /// Name of the ProvisioningRequest.
    pub name: String,
    /// One member of each class of members that are alike, and how many there are.
    pub sets: Vec<(Waiter, i32)>,
}

/// One pod that takes a place until its member can have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// For whose member.
    pub gang: Gang,
    /// The member.
    pub member: Waiter,
    /// What the member asks of a node, in quantities.
    pub requests: BTreeMap<String, String>,
    /// The class of the gang.
    pub class: Option<String>,
    /// The image of a program that does nothing.
    pub image: String,
}

impl Gang {
    /// Its group as the owner of what is made for it.
    fn owner(&self) -> OwnerReference {
        owner(&format!("{GROUP}/v1alpha1"), "PodGroup", &self.group.name, &self.uid)
    }

    fn metadata(&self, name: String, label: &str, owner: OwnerReference) -> ObjectMeta {
        ObjectMeta {
            name: Some(name),
            namespace: Some(self.group.namespace.to_string()),
            labels: Some(BTreeMap::from([(label.to_owned(), self.group.name.to_string())])),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        }
    }
}

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
    /// The request, owned by the group.
    pub fn request(&self) -> ProvisioningRequest {
        let sets = self.sets.iter().enumerate();
        let set = |(at, (_, count)): (usize, &(Waiter, i32))| PodSet {
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

    fn template_name(&self, at: usize) -> String {
        format!("{}-{at}", self.name)
    }

    /// The template of a set, after a member of it; owned by the request with this UID, and so gone with it.
    pub fn template(&self, at: usize, member: &Pod, request: &str) -> PodTemplate {
        let owner = owner("autoscaling.x-k8s.io/v1", "ProvisioningRequest", &self.name, request);
        let labels = member.metadata.labels.clone().unwrap_or_default();
        let labels = labels.into_iter().filter(|(key, _)| !key.starts_with(PREFIX)).collect();
        PodTemplate {
            metadata: self.gang.metadata(self.template_name(at), LABEL_PROVISIONING, owner),
            template: Some(PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                spec: member.spec.as_ref().map(what_matters),
            }),
        }
    }
}

/// As much of a pod as its place depends on; nothing of what it does.
fn what_matters(spec: &PodSpec) -> PodSpec {
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
    /// Its name, after its member: nothing is made twice.
    pub fn name(&self) -> String {
        name_for(&self.member.uid)
    }

    /// A pod that asks for what its member asks for, and does nothing. It has none of the member's labels: no Service and no budget
    /// is to take it for one. So it keeps none of the rules that look at other pods.
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
                // Nothing is lost with it, and its place is needed; yet the next pod must not come before it is gone.
                termination_grace_period_seconds: Some(1),
                security_context: Some(PodSecurityContext {
                    run_as_non_root: Some(true),
                    run_as_user: Some(NOBODY),
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

/// Name of the placeholder for the member with this UID.
pub fn name_for(member: &str) -> String {
    format!("placeholder-{member}")
}
