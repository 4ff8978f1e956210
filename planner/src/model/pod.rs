//! A pod, as far as it matters for decisions.

use super::constraints::Constraints;
use super::devices::{self, DeviceClaimRef};
use super::equivalence::EquivalenceClass;
use super::error::ModelError;
use super::features;
use super::labels::Labels;
use super::node::Taint;
use super::origin::Origin;
use super::requests;
use super::resources::ResourceNames;
use super::unit::RescueClass;
use crate::limits::MAX_GRACEFUL_TERMINATION;
use giveway_crds::ObjectKey;
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::{critical, keys, labels, membership, native, priority};
use k8s_openapi::api::core::v1::{Pod as PodObject, PodSpec, PodStatus, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use smol_str::SmolStr;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

/// Annotation of a mirror pod: the kubelet's copy of a static pod, which the API cannot evict.
const ANNOTATION_MIRROR: &str = "kubernetes.io/config.mirror";

/// Grace period in seconds of a pod that specifies none.
const DEFAULT_GRACE: i64 = 30;

/// A pod. The fields that it shares with other pods, those of its [`Origin`], are read as fields of the pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Its key.
    pub key: ObjectKey,
    /// Its UID.
    pub uid: SmolStr,
    /// Its labels.
    pub labels: Labels,
    /// The node it is bound to.
    pub node: Option<SmolStr>,
    /// The node that is nominated for it.
    pub nominated_node: Option<SmolStr>,
    /// Its phase.
    pub phase: PodPhase,
    /// True if it has a `deletionTimestamp`.
    pub terminating: bool,
    /// True if it terminates within [`MAX_GRACEFUL_TERMINATION`]: preemptors wait for its capacity. A pod with a longer grace period counts
    /// as running, and may be evicted with a shorter one like any other.
    pub leaves: bool,
    /// Whether it is ready, which is what budgets call healthy.
    pub ready: bool,
    /// Whether it has Giveway's scheduling gate.
    pub gated: bool,
    /// True if it has a scheduling gate that is not Giveway's.
    pub gated_by_others: bool,
    /// Whether the scheduler reported it `Unschedulable`.
    pub unschedulable: bool,
    /// When it started, in ns since the epoch.
    pub start_time: Option<i64>,
    /// When it was bound, by the API server's clock, in ns since the epoch.
    pub bound_at: Option<i64>,
    /// When it was created, in ns since the epoch.
    pub created: Option<i64>,
    /// Whether it is a mirror pod.
    pub mirror: bool,
    /// The claims of its volumes.
    pub(super) claims: Box<[PodClaim]>,
    /// The claims of devices that it names, while it has no node.
    pub(super) device_claims: Box<[DeviceClaimRef]>,
    /// Reasons why its feasible nodes are not fully known, as text; filled in by the model.
    pub unknown: Box<[String]>,
    /// What it shares with the pods of its owner.
    pub(super) origin: Arc<Origin>,
}

impl Deref for Pod {
    type Target = Origin;

    fn deref(&self) -> &Origin {
        &self.origin
    }
}

/// A PersistentVolumeClaim that a pod uses, in its own namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodClaim {
    pub(super) name: SmolStr,
    /// Whether it is made for an ephemeral volume of the pod, and must belong to the pod.
    pub(super) ephemeral: bool,
}

/// Phase of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodPhase {
    /// Not started.
    Pending,
    /// Started.
    Running,
    /// Finished successfully.
    Succeeded,
    /// Finished with a failure.
    Failed,
    /// Not known, because its node cannot be reached.
    Unknown,
}

impl Pod {
    /// Returns true if the pod has neither finished nor a `deletionTimestamp`.
    pub fn live(&self) -> bool {
        !self.ended() && !self.terminating
    }

    /// Returns the grace period in seconds with which the pod is evicted instead of its own, which is longer than the
    /// maximum; `None` if the pod keeps its own.
    pub fn capped_grace(&self) -> Option<i64> {
        (self.grace > MAX_GRACEFUL_TERMINATION).then_some(MAX_GRACEFUL_TERMINATION)
    }

    /// Returns true if the pod was created at or before this second since the epoch, or its creation time is not known.
    pub fn existed_at(&self, second: i64) -> bool {
        self.created.is_none_or(|created| created / 1_000_000_000 <= second)
    }

    /// Returns true if the pod has a node.
    pub fn bound(&self) -> bool {
        self.node.is_some()
    }

    /// Returns true if the pod has a node and has not started there.
    pub(super) fn unstarted(&self) -> bool {
        self.bound() && self.phase == PodPhase::Pending
    }

    /// Returns true in phase `Succeeded` or `Failed`: the pod uses no capacity any more.
    pub fn ended(&self) -> bool {
        matches!(self.phase, PodPhase::Succeeded | PodPhase::Failed)
    }

    /// Returns true if one of the pod's tolerations tolerates this taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.constraints.tolerations.iter().any(|toleration| toleration.covers(taint))
    }

    /// Returns true if the pod is a critical add-on: by its priority, or because an annotation asks for it and the pod is in one of these
    /// namespaces.
    pub fn is_critical_addon(&self, namespaces: &BTreeSet<String>) -> bool {
        self.priority >= critical::PRIORITY || (self.asks_critical && namespaces.contains(self.key.namespace.as_str()))
    }

    /// Returns how the pod may be evicted when capacity is freed for a critical add-on, as far as that is known from the pod alone.
    pub(super) fn rescue_class(&self) -> RescueClass {
        if self.mirror || self.daemon || self.asks_critical || self.priority >= critical::PRIORITY {
            RescueClass::Special
        } else if self.grace > critical::LONGEST_GRACE {
            RescueClass::Long
        } else {
            RescueClass::Short
        }
    }

    /// Returns the value that the pod's node selector requires for the node label `label`; `None` if it requires none.
    pub fn asks_for(&self, label: &str) -> Option<&str> {
        let mut selector = self.constraints.node_selector.iter();
        selector.find(|(key, _)| key == label).map(|(_, value)| value.as_str())
    }

    /// Returns true if `other`, another version of this pod, has the same UID, requests, constraints, labels, claims and group, so that at
    /// most its progress differs: node, phase, readiness.
    pub(super) fn differs_only_in_progress(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.group == other.group
            && self.labels == other.labels
            && self.class == other.class
            && self.claims == other.claims
    }

    /// Returns true if pods on other nodes can make a node infeasible for this pod: it has required pod affinity, pod anti-affinity or
    /// topology spread constraints.
    pub fn depends_on_other_nodes(&self) -> bool {
        self.constraints.looks_at_other_nodes()
    }

    /// Returns true if the pod has required pod anti-affinity: it can make other nodes than its own infeasible for other pods.
    pub fn repels_from_other_nodes(&self) -> bool {
        !self.constraints.anti_affinity.is_empty()
    }

    /// Returns true if another pod has the same requests, constraints and claims.
    pub fn asks_as(&self, other: &Self) -> bool {
        self.class == other.class && self.claims == other.claims
    }

    /// Returns the requests and constraints of the pod, to change them for this pod only and not for those that share them.
    pub(super) fn class_mut(&mut self) -> &mut EquivalenceClass {
        Arc::make_mut(&mut Arc::make_mut(&mut self.origin).class)
    }

    /// Returns true if the pod is a placeholder, which requests capacity for a gang from a cluster autoscaler.
    pub fn placeholder(&self) -> bool {
        self.labels.contains_key(keys::LABEL_PLACEHOLDER)
    }

    /// Returns true if the pod belongs to a native group (a PodGroup of Kubernetes itself): Giveway does not preempt for it.
    pub fn native(&self) -> bool {
        self.group.as_deref().is_some_and(native::is_native)
    }

    /// Returns the key of the group that the pod names; `None` if it names none.
    pub fn group_key(&self) -> Option<ObjectKey> {
        self.group.as_ref().map(|group| ObjectKey::new(&self.key.namespace, group))
    }

    /// Returns the namespace and name of a pod.
    ///
    /// # Errors
    /// The object has no name.
    pub(super) fn key_of(pod: &PodObject) -> Result<ObjectKey, ModelError> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        match pod.metadata.name.as_deref() {
            Some(name) => Ok(ObjectKey::new(namespace, name)),
            None => Err(ModelError::nameless("Pod", namespace.to_owned(), "metadata.name")),
        }
    }

    /// Reads a pod; `native_group` is the group that it names in `spec.schedulingGroup`. Labels that equal those of `known`, the stored
    /// version of the pod, use the same memory. An error is returned besides the pod if a quantity cannot be read: the requests are then
    /// those that kube-scheduler counts.
    pub(super) fn from_object(
        pod: &PodObject,
        key: ObjectKey,
        native_group: Option<&str>,
        names: &ResourceNames,
        known: Option<&Self>,
    ) -> (Self, Option<ModelError>) {
        let metadata = &pod.metadata;
        let bound = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|node| !node.is_empty());
        let (requests, unreadable) = requests::of(pod, &key, bound, names);
        let (no_spec, no_status) = (PodSpec::default(), PodStatus::default());
        let (spec, status) = (pod.spec.as_ref().unwrap_or(&no_spec), pod.status.as_ref().unwrap_or(&no_status));
        let annotation = |key: &str| metadata.annotations.as_ref().and_then(|a| a.get(key)).map(String::as_str);
        let membership = membership::of(metadata.labels.as_ref()).ok().flatten();
        let (group, template) = match native_group {
            Some(name) => (Some(native::key_name(name)), None),
            None => membership.map(|m| (m.group, m.template)).unzip(),
        };
        let given = metadata.deletion_timestamp.as_ref().and(metadata.deletion_grace_period_seconds);
        let grace = given.or(spec.termination_grace_period_seconds).unwrap_or(DEFAULT_GRACE);
        let gates = spec.scheduling_gates.as_deref().unwrap_or_default();
        let conditions = status.conditions.as_deref().unwrap_or_default();
        let mut owners = metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true));
        let no_labels = BTreeMap::new();
        let own_labels = metadata.labels.as_ref().unwrap_or(&no_labels);
        let constraints = Constraints::from_spec(spec, &key.namespace, own_labels);
        let origin = Origin {
            group,
            priority: spec.priority.unwrap_or(0),
            priority_class_name: spec.priority_class_name.clone(),
            annotation_policy: annotation(keys::ANNOTATION_PREEMPTION_POLICY)
                .map(|text| PreemptionPolicy::parse(text).unwrap_or(PreemptionPolicy::Never)),
            spec_policy: spec
                .preemption_policy
                .as_deref()
                .and_then(PreemptionPolicy::parse)
                .unwrap_or(PreemptionPolicy::PreemptLowerPriority),
            threshold: annotation(keys::ANNOTATION_THRESHOLD).map(|t| t.parse().unwrap_or(priority::MAX_THRESHOLD)),
            daemon: owner.is_some_and(|owner| owner.kind == "DaemonSet" && owner.api_version.starts_with("apps/"))
                && constraints.names_one_node(),
            asks_critical: metadata.annotations.as_ref().is_some_and(critical::asked),
            grace,
            scheduler_name: spec.scheduler_name.clone().unwrap_or_else(|| "default-scheduler".to_owned()),
            owner: owner.cloned(),
            template: template.flatten(),
            spreads_itself: spec.topology_spread_constraints.as_ref().is_some_and(|list| !list.is_empty()),
            features: features::needed(spec),
            class: Arc::new(EquivalenceClass { requests, constraints }),
        };
        let read = Self {
            uid: metadata.uid.as_deref().unwrap_or_default().into(),
            labels: match known.filter(|known| known.labels.equal(own_labels)) {
                Some(known) => known.labels.clone(),
                None => labels::remembered(Some(own_labels)).into(),
            },
            node: spec.node_name.as_deref().filter(|node| !node.is_empty()).map(SmolStr::new),
            nominated_node: status.nominated_node_name.as_deref().filter(|node| !node.is_empty()).map(SmolStr::new),
            phase: match status.phase.as_deref() {
                Some("Running") => PodPhase::Running,
                Some("Succeeded") => PodPhase::Succeeded,
                Some("Failed") => PodPhase::Failed,
                Some("Unknown") => PodPhase::Unknown,
                _ => PodPhase::Pending,
            },
            terminating: metadata.deletion_timestamp.is_some(),
            leaves: metadata.deletion_timestamp.is_some() && grace <= MAX_GRACEFUL_TERMINATION,
            ready: conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"),
            gated: gates.iter().any(|gate| gate.name == keys::GATE),
            gated_by_others: gates.iter().any(|gate| gate.name != keys::GATE),
            unschedulable: conditions.iter().any(|c| {
                c.type_ == "PodScheduled" && c.status == "False" && c.reason.as_deref() == Some("Unschedulable")
            }),
            start_time: status.start_time.as_ref().and_then(nanoseconds),
            bound_at: conditions
                .iter()
                .find(|c| c.type_ == "PodScheduled" && c.status == "True")
                .and_then(|c| c.last_transition_time.as_ref().and_then(nanoseconds)),
            created: metadata.creation_timestamp.as_ref().and_then(nanoseconds),
            mirror: annotation(ANNOTATION_MIRROR).is_some(),
            claims: claims(spec, &key.name),
            device_claims: if bound { Box::default() } else { devices::claims(spec, status) },
            unknown: Box::default(),
            origin: Arc::new(origin),
            key,
        };
        (read, unreadable)
    }
}

/// Returns the claims of a pod's volumes, each once; the claim of an ephemeral volume is named after pod and volume.
fn claims(spec: &PodSpec, pod: &str) -> Box<[PodClaim]> {
    let claim = |volume: &Volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => Some(PodClaim { name: SmolStr::new(&claim.claim_name), ephemeral: false }),
        (None, Some(_)) => Some(PodClaim { name: SmolStr::from(format!("{pod}-{}", volume.name)), ephemeral: true }),
        (None, None) => None,
    };
    let mut names = BTreeSet::new();
    let claims = spec.volumes.iter().flatten().filter_map(claim);
    claims.filter(|claim| names.insert(claim.name.clone())).collect()
}

/// Returns a time in ns since the epoch; `None` if it does not fit into 64 bits, as a time in three centuries.
pub(super) fn nanoseconds(time: &Time) -> Option<i64> {
    i64::try_from(time.0.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_labels_of_a_pod_only_some_are_kept() {
        let mut labels: BTreeMap<String, String> = (0..70_000).map(|n| (format!("a{n}"), "x".to_owned())).collect();
        labels.insert(keys::LABEL_POD_GROUP.to_owned(), "g".to_owned());
        let mut object = PodObject::default();
        object.metadata.name = Some("p".to_owned());
        object.metadata.labels = Some(labels);
        let key = Pod::key_of(&object).unwrap();
        let (pod, _) = Pod::from_object(&object, key, None, &ResourceNames::default(), None);
        assert_eq!((pod.labels.iter().count(), pod.group.as_deref()), (labels::MOST_OTHERS + 1, Some("g")));
    }
}
