//! Pods and budgets as the guard reads them: of each object only the few fields that its decision needs.

use crate::object::MIRROR;
use giveway_crds::condition::Reason;
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::{keys, labels, membership, native, priority};
use giveway_planner::model::{Budget, Labels};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

/// A pod without a node that is neither gated nor terminating, and whose `preemptionPolicy` is not `Never`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPod {
    /// Its UID.
    pub uid: String,
    /// Its own priority.
    pub priority: i32,
    /// Name of its group; for a native group, it begins with the API group.
    pub group: Option<String>,
    /// Name of its scheduler.
    pub scheduler: String,
    /// The node in `status.nominatedNodeName`.
    pub nominated: Option<String>,
    /// True if the scheduler reported it `Unschedulable`.
    pub unschedulable: bool,
}

/// The pod that a scheduler wants to preempt.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedVictim {
    /// Its UID.
    pub uid: String,
    /// The node it is bound to.
    pub node: Option<String>,
    /// Its other fields.
    pub pod: BoundPod,
}

impl Deref for RequestedVictim {
    type Target = BoundPod;

    fn deref(&self) -> &BoundPod {
        &self.pod
    }
}

/// What is stored of each bound member of a group: the fields that decide which budgets count it, and which priority and threshold
/// it has.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundPod {
    /// Its name.
    pub name: Arc<str>,
    /// Its labels, [limited in number](giveway_crds::labels).
    pub labels: Labels,
    /// Name of its group; for a native group, it begins with the API group.
    pub group: Option<Arc<str>>,
    /// Its own priority.
    pub priority: i32,
    /// Priority from which on a preemptor may violate its budgets. An invalid value counts as the highest threshold.
    pub threshold: Option<i32>,
    /// True if it is ready: only ready pods count as healthy for budgets.
    pub ready: bool,
    /// True if it has started and not ended: the Eviction API checks no budget for other pods.
    pub started: bool,
    /// True if it has a deletion timestamp.
    pub deleting: bool,
    /// When it was created.
    pub created: Option<Time>,
}

/// A budget with the fields that decide whether it counts a pod, as in the Eviction API.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowance {
    budget: Budget,
    /// True if `status.observedGeneration` is current.
    processed: bool,
    /// True if the budget wants healthy pods and at least as many are healthy.
    healthy: bool,
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`.
    always: bool,
    /// `status.disruptedPods`: pods already counted as disrupted, by name, with the time.
    disrupted: BTreeMap<String, Time>,
}

/// Maximum number of entries in `status.disruptedPods` of one budget: the limit of the Eviction API.
const MOST_DISRUPTED: usize = 2000;

impl Allowance {
    /// Reads what the guard needs of a PodDisruptionBudget; `None` if it is invalid or has no name.
    pub fn from_object(object: &PodDisruptionBudget) -> Option<Self> {
        let budget = Budget::from_object(object).ok()?;
        let status = object.status.as_ref();
        let (healthy, wanted) = status.map_or((0, 0), |s| (s.current_healthy, s.desired_healthy));
        let policy = object.spec.as_ref().and_then(|spec| spec.unhealthy_pod_eviction_policy.as_deref());
        Some(Self {
            budget,
            processed: status.and_then(|s| s.observed_generation).unwrap_or(0)
                >= object.metadata.generation.unwrap_or(0),
            healthy: wanted > 0 && healthy >= wanted,
            always: policy == Some("AlwaysAllow"),
            disrupted: status.and_then(|s| s.disrupted_pods.clone()).unwrap_or_default(),
        })
    }

    /// Returns the budget's namespace and name as `NAMESPACE/NAME`.
    pub fn name(&self) -> String {
        self.budget.key.to_string()
    }

    /// Returns true if the preemption of this pod uses one of the budget's disruptions: the budget selects the pod, which runs and
    /// is not terminating, and either the pod is ready or the budget also protects pods that are not. (It does not with
    /// `unhealthyPodEvictionPolicy: AlwaysAllow`, or while enough pods are healthy.)
    pub fn counts(&self, pod: &BoundPod) -> bool {
        let lets_go_unhealthy = self.always || self.healthy;
        pod.started && !pod.deleting && self.budget.matches(&pod.labels) && (pod.ready || !lets_go_unhealthy)
    }

    /// Returns true if the budget's `status.disruptedPods` already has this pod, and not only an earlier pod of the same name.
    pub fn has_counted(&self, pod: &BoundPod) -> bool {
        let since = self.disrupted.get(&*pod.name);
        // The API stores times in whole seconds.
        since.is_some_and(|since| pod.created.as_ref().is_none_or(|created| since.0 >= created.0))
    }

    /// Returns the number of further disruptions that the budget allows: 0 while its status is outdated or cannot list more pods.
    pub fn allowed(&self) -> usize {
        if !self.processed || self.disrupted.len() >= MOST_DISRUPTED {
            return 0;
        }
        usize::try_from(self.budget.disruptions_allowed).unwrap_or(0)
    }
}

/// A pod as the API server sends it, with the fields that the guard reads. `MEMBER` distinguishes the two watches.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PodObject<const MEMBER: bool> {
    #[serde(default, deserialize_with = "metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

/// The annotations that the guard reads. The others, up to 256 KiB, are not kept.
#[derive(Debug, Deserialize)]
struct Annotations {
    #[serde(rename = "scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal")]
    threshold: Option<String>,
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<String>,
}

impl Annotations {
    /// Converts the pod's annotations that the guard reads to a map by key; `None` if the pod has none of them.
    fn kept(self) -> Option<BTreeMap<String, String>> {
        let all = [(keys::ANNOTATION_THRESHOLD, self.threshold), (MIRROR, self.mirror)];
        let kept: BTreeMap<String, String> =
            all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
        (!kept.is_empty()).then_some(kept)
    }
}

/// Deserializes only those fields of a pod's metadata that the guard needs. It skips the managed fields, which are the
/// largest part of a pod.
fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct GuardMetadata {
        namespace: Option<String>,
        name: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        #[serde(default, deserialize_with = "labels::deserialize")]
        labels: Option<BTreeMap<String, String>>,
        annotations: Option<Annotations>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
    }

    let GuardMetadata {
        namespace,
        name,
        uid,
        resource_version,
        labels,
        annotations,
        creation_timestamp,
        deletion_timestamp,
    } = GuardMetadata::deserialize(deserializer)?;
    Ok(ObjectMeta {
        namespace,
        name,
        uid,
        resource_version,
        labels,
        annotations: annotations.and_then(Annotations::kept),
        creation_timestamp,
        deletion_timestamp,
        ..ObjectMeta::default()
    })
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
    priority: Option<i32>,
    preemption_policy: Option<String>,
    scheduler_name: Option<String>,
    scheduling_gates: Option<Vec<serde::de::IgnoredAny>>,
    scheduling_group: Option<NativeGroupReference>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NativeGroupReference {
    pod_group_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    nominated_node_name: Option<String>,
    conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: Option<String>,
    message: Option<String>,
}

impl<const MEMBER: bool> PodObject<MEMBER> {
    /// Returns the name of the pod's group: of its native group, with the API group before the name, or else of its PodGroup of
    /// Giveway. `None` if the pod names no group.
    fn group(&self) -> Option<String> {
        let native = self.spec.scheduling_group.as_ref().and_then(|group| group.pod_group_name.as_deref());
        if let Some(native) = native.filter(|name| !name.is_empty()) {
            return Some(native::key_name(native));
        }
        membership::of(self.metadata.labels.as_ref()).ok().flatten().map(|m| m.group)
    }

    /// Returns the UID of the pod; `None` if its metadata has none.
    pub fn uid(&self) -> Option<&String> {
        self.metadata.uid.as_ref()
    }

    /// Returns the name of the pod's node; `None` if it is not bound.
    fn node(&self) -> Option<String> {
        self.spec.node_name.clone().filter(|node| !node.is_empty())
    }

    /// Returns true if the pod is a mirror pod: such a pod counts as no member of the PodGroup that its labels name.
    pub fn is_mirror(&self) -> bool {
        self.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR))
    }

    /// Returns true if the pod has succeeded or failed.
    pub fn ended(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    /// Returns the condition of this type if it has this status; otherwise `None`.
    fn condition(&self, type_: &str, status: &str) -> Option<&Condition> {
        self.status.conditions.iter().flatten().find(|c| c.type_ == type_ && c.status == status)
    }

    /// Returns the name of the scheduler that announced this pod as its victim, from kube-scheduler's condition message
    /// `NAME: preempting to accommodate a higher priority pod`; `None` if none did.
    pub fn announced_by(&self) -> Option<String> {
        let condition = self.condition(giveway_crds::condition::types::DISRUPTION_TARGET, "True")?;
        let (name, _) = condition.message.as_deref()?.split_once(": preempting")?;
        (!name.is_empty() && !name.contains(' ')).then(|| name.to_owned())
    }

    /// Returns true if a scheduler has announced this pod as its victim.
    pub fn is_announced(&self) -> bool {
        let condition = self.condition(giveway_crds::condition::types::DISRUPTION_TARGET, "True");
        condition.is_some_and(|c| c.reason.as_deref() == Some(Reason::PreemptionByScheduler.as_str()))
    }

    /// Returns what the guard needs of this pod as a possible preemptor; `None` if it cannot be one, because it is bound, gated,
    /// terminating or ended, or its preemption policy is `Never`.
    pub fn waiting(&self) -> Option<PendingPod> {
        let gated = self.spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
        let never = self.spec.preemption_policy.as_deref() == Some(PreemptionPolicy::Never.as_str());
        let ended = self.metadata.deletion_timestamp.is_some() || self.ended();
        if gated || never || ended || self.node().is_some() {
            return None;
        }
        let unschedulable = self.condition("PodScheduled", "False");
        Some(PendingPod {
            uid: self.metadata.uid.clone().unwrap_or_default(),
            priority: self.spec.priority.unwrap_or(0),
            group: self.group(),
            scheduler: self.spec.scheduler_name.clone().unwrap_or_else(|| "default-scheduler".to_owned()),
            nominated: self.status.nominated_node_name.clone().filter(|node| !node.is_empty()),
            unschedulable: unschedulable.is_some_and(|c| c.reason.as_deref() == Some("Unschedulable")),
        })
    }

    /// Returns true if the pod is a bound member of a group that has neither ended nor a deletion timestamp.
    pub fn is_bound_member(&self) -> bool {
        self.node().is_some() && self.metadata.deletion_timestamp.is_none() && !self.ended() && !self.is_mirror()
    }

    /// Returns what the guard needs of this pod as a victim.
    pub fn victim(&self) -> RequestedVictim {
        RequestedVictim { uid: self.metadata.uid.clone().unwrap_or_default(), node: self.node(), pod: self.bound() }
    }

    /// Returns what is stored of this pod if it is a member of a group: its priority, its group, and the fields that decide which
    /// budgets count it.
    pub fn bound(&self) -> BoundPod {
        let threshold = self.metadata.annotations.as_ref().and_then(|a| a.get(keys::ANNOTATION_THRESHOLD));
        BoundPod {
            name: self.metadata.name.as_deref().unwrap_or_default().into(),
            labels: self.metadata.labels.clone().unwrap_or_default().into(),
            group: self.group().map(Arc::from),
            priority: self.spec.priority.unwrap_or(0),
            threshold: threshold.map(|text| text.parse().unwrap_or(priority::MAX_THRESHOLD)),
            ready: self.condition("Ready", "True").is_some(),
            started: matches!(self.status.phase.as_deref(), Some("Running" | "Unknown")),
            deleting: self.metadata.deletion_timestamp.is_some(),
            created: self.metadata.creation_timestamp.clone(),
        }
    }
}

impl<const MEMBER: bool> Resource for PodObject<MEMBER> {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
