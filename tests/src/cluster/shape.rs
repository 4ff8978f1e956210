//! Properties of pods that the builders of single pods, groups and full nodes share.

use k8s_openapi::api::core::v1::{
    Container, PersistentVolumeClaimVolumeSource, Pod, PodResourceClaim, PodSpec, ResourceRequirements, Toleration,
    Volume,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use std::collections::BTreeMap;

/// Annotation with the number of seconds that a fake pod takes to terminate.
pub const GRACE_SECONDS: &str = "kwok.giveway.dev/grace-seconds";

/// All properties of a pod except its name.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// Its priority class, if it has one.
    pub priority_class: Option<String>,
    /// Requests and limits by resource.
    pub resources: BTreeMap<String, Quantity>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// The node to which it is bound at creation; without it kube-scheduler schedules the pod.
    pub node: Option<String>,
    /// Its node selector.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Seconds that it takes to terminate.
    pub grace_seconds: Option<u32>,
    /// Volumes of PersistentVolumeClaims, by name of the claim.
    pub claims: Vec<String>,
    /// ResourceClaims (dynamic resource allocation), by name.
    pub device_claims: Vec<String>,
    /// A merge patch of its spec.
    pub spec: Option<serde_json::Value>,
}

impl Shape {
    /// Returns the pod with this name.
    pub fn pod(&self, name: &str) -> Pod {
        let mut annotations = self.annotations.clone();
        if let Some(seconds) = self.grace_seconds {
            annotations.entry(GRACE_SECONDS.to_owned()).or_insert_with(|| seconds.to_string());
        }
        let resources = ResourceRequirements {
            requests: Some(self.resources.clone()),
            limits: Some(self.resources.clone()),
            ..ResourceRequirements::default()
        };
        let pod = Pod {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                labels: (!self.labels.is_empty()).then(|| self.labels.clone()),
                annotations: (!annotations.is_empty()).then_some(annotations),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec {
                containers: vec![Container {
                    name: "main".to_owned(),
                    image: Some("registry.example/fake:1".to_owned()),
                    resources: Some(resources),
                    ..Container::default()
                }],
                automount_service_account_token: Some(false),
                priority_class_name: self.priority_class.clone(),
                node_name: self.node.clone(),
                node_selector: (!self.node_selector.is_empty()).then(|| self.node_selector.clone()),
                tolerations: (!self.tolerations.is_empty()).then(|| self.tolerations.clone()),
                termination_grace_period_seconds: self.grace_seconds.map(i64::from),
                volumes: (!self.claims.is_empty()).then(|| self.claims.iter().map(|name| volume(name)).collect()),
                resource_claims: (!self.device_claims.is_empty())
                    .then(|| self.device_claims.iter().map(|name| device_claim(name)).collect()),
                ..PodSpec::default()
            }),
            status: None,
        };
        match &self.spec {
            Some(spec) => merged(pod, spec),
            None => pod,
        }
    }
}

fn merged(pod: Pod, spec: &serde_json::Value) -> Pod {
    let mut object = serde_json::to_value(pod).expect("a pod is an object");
    json_patch::merge(&mut object["spec"], spec);
    serde_json::from_value(object).expect("the merge patch keeps a valid spec")
}

fn volume(claim: &str) -> Volume {
    let source = PersistentVolumeClaimVolumeSource { claim_name: claim.to_owned(), read_only: None };
    Volume { name: claim.to_owned(), persistent_volume_claim: Some(source), ..Volume::default() }
}

fn device_claim(name: &str) -> PodResourceClaim {
    PodResourceClaim {
        name: name.to_owned(),
        resource_claim_name: Some(name.to_owned()),
        ..PodResourceClaim::default()
    }
}

/// A builder of objects with pods; sets the properties of these pods.
pub trait Shaped: Sized {
    /// Returns the shape of the pods.
    fn shape(&mut self) -> &mut Shape;

    /// Sets the priority class, for a group also that of the group.
    #[must_use]
    fn priority(mut self, class: &str) -> Self {
        self.shape().priority_class = Some(class.to_owned());
        self
    }

    /// Sets the CPU request of each pod.
    #[must_use]
    fn cpu(self, cpus: u32) -> Self {
        self.resource("cpu", &cpus.to_string())
    }

    /// Sets the number of GPUs (`nvidia.com/gpu`) of each pod.
    #[must_use]
    fn gpu(self, gpus: u32) -> Self {
        self.resource("nvidia.com/gpu", &gpus.to_string())
    }

    /// Sets the request of another resource of each pod.
    #[must_use]
    fn resource(mut self, name: &str, quantity: &str) -> Self {
        self.shape().resources.insert(name.to_owned(), Quantity(quantity.to_owned()));
        self
    }

    /// Adds a volume with this PersistentVolumeClaim to each pod.
    #[must_use]
    fn claim(mut self, name: &str) -> Self {
        self.shape().claims.push(name.to_owned());
        self
    }

    /// Adds this ResourceClaim (dynamic resource allocation) to each pod.
    #[must_use]
    fn device_claim(mut self, name: &str) -> Self {
        self.shape().device_claims.push(name.to_owned());
        self
    }

    /// Sets a label of each pod.
    #[must_use]
    fn label(mut self, key: &str, value: &str) -> Self {
        self.shape().labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets an annotation of each pod.
    #[must_use]
    fn annotation(mut self, key: &str, value: &str) -> Self {
        self.shape().annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a label to the node selector of each pod.
    #[must_use]
    fn node_selector(mut self, key: &str, value: &str) -> Self {
        self.shape().node_selector.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets a merge patch of the spec of each pod.
    #[must_use]
    fn pod_spec(mut self, spec: serde_json::Value) -> Self {
        self.shape().spec = Some(spec);
        self
    }

    /// Adds a toleration of all taints with this key to each pod.
    #[must_use]
    fn tolerate(mut self, key: &str) -> Self {
        let toleration =
            Toleration { key: Some(key.to_owned()), operator: Some("Exists".to_owned()), ..Toleration::default() };
        self.shape().tolerations.push(toleration);
        self
    }

    /// Sets the termination grace period of each pod and the seconds that it takes to terminate; without this call pods terminate
    /// immediately. If the annotation [`GRACE_SECONDS`] is set too, it determines how long the pod takes.
    #[must_use]
    fn grace_seconds(mut self, seconds: u32) -> Self {
        self.shape().grace_seconds = Some(seconds);
        self
    }
}
