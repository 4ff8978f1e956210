//! Gangs that a label asked for: what a pod says of its owner, and what the owner says of the group.

use giveway_crds::keys::{ANNOTATION_DISRUPTION_MODE, ANNOTATION_MIN_COUNT, LABEL_GANG, LABEL_POD_GROUP};
use giveway_crds::kinds::{GroupSize, Kind, Origin, Sizes, origin, settings};
use giveway_crds::policy::DisruptionMode;
use giveway_planner::SmolStr;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DynamicObject;

/// What a pod of such a gang says.
#[derive(Clone, Debug, PartialEq)]
pub struct GangPod {
    /// Its owner and its group.
    pub origin: Origin,
    /// How many start together, where an annotation says it.
    pub min_count: Option<i32>,
    /// How many pods its group has, where the controllers of its kind write that on each of them.
    pub size: Option<i32>,
    /// In which unit the gang gives way.
    pub mode: DisruptionMode,
}

impl GangPod {
    /// What this pod says; `None` when it is in no group, or in one that its user chose.
    pub fn of(pod: &Pod) -> Option<Self> {
        let label = |key: &str| pod.labels().get(key).map(String::as_str);
        if label(LABEL_GANG) != Some("true") {
            return None;
        }
        let origin = origin::of_pod(pod).ok()?;
        if label(LABEL_POD_GROUP) != Some(origin.group.as_str()) {
            return None;
        }
        let annotation = |key: &str| pod.annotations().get(key).map(String::as_str);
        Some(Self {
            size: origin.row.and_then(|row| Sizes::of_pod(row, annotation)),
            origin,
            min_count: settings::min_count(annotation(ANNOTATION_MIN_COUNT)).ok().flatten(),
            mode: settings::disruption_mode(annotation(ANNOTATION_DISRUPTION_MODE)).unwrap_or(DisruptionMode::PodGroup),
        })
    }

    /// Whether it can be of the owner with this UID.
    pub fn is_of(&self, uid: &str) -> bool {
        self.origin.uid.as_deref().is_none_or(|own| own == uid)
    }

    /// Where its owner is read; `None` for an owner of a kind that nobody knows.
    pub fn owner(&self, namespace: &str) -> Option<OwnerKey> {
        let row = self.origin.row?;
        let (api_version, name) = (self.origin.api_version.clone(), self.origin.owner.clone());
        Some(OwnerKey { namespace: namespace.into(), api_version, kind: row.kind, name })
    }
}

/// An owner of pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerKey {
    /// Its namespace.
    pub namespace: SmolStr,
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its kind, which is one of the table.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
}

impl OwnerKey {
    /// The row of its kind.
    pub fn row(&self) -> Option<&'static Kind> {
        giveway_crds::kinds::of_version(&self.api_version, self.kind)
    }
}

/// What an owner says of its groups.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerFacts {
    /// Its UID.
    pub uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// How many pods start together, by its fields.
    pub sizes: Sizes,
    /// The same, where its annotation says it.
    pub min_count: Option<i32>,
}

impl OwnerFacts {
    /// What this object says.
    pub fn of(row: &Kind, object: &DynamicObject) -> Self {
        let annotation = object.annotations().get(ANNOTATION_MIN_COUNT).map(String::as_str);
        Self {
            uid: object.uid().unwrap_or_default(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            sizes: Sizes::of(row, &object.data),
            min_count: settings::min_count(annotation).ok().flatten(),
        }
    }

    /// How large the group of a pod is; `None` when it asks for none now.
    pub fn size(&self, pod: &GangPod) -> Option<GroupSize> {
        let asked = self.min_count.or(pod.min_count);
        match pod.size {
            Some(size) => Sizes::every(size).of_group(&[], asked),
            None => self.sizes.of_group(&pod.origin.replica, asked),
        }
    }
}
