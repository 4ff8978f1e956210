//! The fields about gangs that are read from pods with the gang label, and from the owners of these pods.

use giveway_crds::keys::{ANNOTATION_DISRUPTION_MODE, ANNOTATION_MIN_COUNT, LABEL_GANG, LABEL_POD_GROUP};
use giveway_crds::kinds::size::Size;
use giveway_crds::kinds::templates::grouped;
use giveway_crds::kinds::{GangSettings, GroupSize, KINDS, OwnerKind, PodOrigin, Sizes, classes, origin, settings};
use giveway_crds::policy::DisruptionMode;
use giveway_planner::SmolStr;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::DynamicObject;

/// The fields of a pod with the gang label.
#[derive(Clone, Debug, PartialEq)]
pub struct GangPod {
    /// Its owner and its group.
    pub origin: PodOrigin,
    /// Number of pods that start together, if an annotation specifies it.
    pub min_count: Option<i32>,
    /// Number of pods in its group, if the controllers of its owner's kind write that to each pod.
    pub size: Option<i32>,
    /// The disruption mode of the gang.
    pub mode: DisruptionMode,
    /// Name and UID of the Job that controls the pod, if the owner creates one for each of its groups.
    job: Option<(String, String)>,
}

impl GangPod {
    /// Reads the gang that a pod asks for by its gang label and annotations; `None` if it asks for none, or if it names another PodGroup
    /// than the one that is created for the gang.
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
            job: job_of(&origin, pod),
            origin,
            min_count: settings::min_count(annotation(ANNOTATION_MIN_COUNT)).ok().flatten(),
            mode: settings::disruption_mode(annotation(ANNOTATION_DISRUPTION_MODE)).unwrap_or(DisruptionMode::PodGroup),
        })
    }

    /// Returns true if the pod belongs to the owner with this UID, or its owner's UID is unknown.
    pub fn is_of(&self, uid: &str) -> bool {
        self.origin.uid.as_deref().is_none_or(|own| own == uid)
    }

    /// Returns true if the Job with this UID controls the pod.
    pub fn is_of_job(&self, uid: &str) -> bool {
        self.job.as_ref().is_some_and(|(_, own)| own == uid)
    }

    /// Returns the key of the Job that controls the pod, if the pod's owner creates a Job for each of its groups, as a JobSet does; `None`
    /// otherwise. Such a Job knows which of its indexes have failed, and counts the pods that have succeeded.
    pub fn job(&self, namespace: &str) -> Option<OwnerKey> {
        let (row, (name, _)) = (jobs()?, self.job.as_ref()?);
        OwnerKey::of(row, row.api_version(), namespace, name)
    }

    /// Returns the key of the pod's owner; `None` if the kind of the owner is not one of the known ones, or the name is invalid.
    pub fn owner(&self, namespace: &str) -> Option<OwnerKey> {
        OwnerKey::of(self.origin.row?, self.origin.api_version.clone(), namespace, &self.origin.owner)
    }
}

/// Returns true if an object can have this name. It is checked because the pod's creator writes the name, and it becomes part of a request
/// path.
fn is_plain(name: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.bytes().next().is_some_and(alphanumeric) && name.bytes().all(|b| alphanumeric(b) || matches!(b, b'-' | b'.'))
}

/// Returns the entry of `batch/v1` Jobs in the table of owner kinds.
fn jobs() -> Option<&'static OwnerKind> {
    KINDS.iter().find(|row| row.size == Size::Job)
}

/// Returns the owner reference with `controller: true`, or `None` if there is none.
pub fn controller(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// Returns name and UID of the Job that controls a pod, if the pod's owner (`origin`) creates a Job for each of its groups, as a JobSet
/// does; `None` otherwise.
fn job_of(origin: &PodOrigin, pod: &Pod) -> Option<(String, String)> {
    origin.row.filter(|row| row.size == Size::ReplicatedJobs)?;
    let (controller, job) = (controller(pod.owner_references())?, jobs()?);
    let is_job = controller.kind == job.kind && controller.api_version == job.api_version();
    is_job.then(|| (controller.name.clone(), controller.uid.clone()))
}

/// An owner of pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnerKey {
    /// Its namespace.
    pub namespace: SmolStr,
    /// Its `apiVersion`.
    pub api_version: String,
    /// Its kind, one of the table of kinds.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
}

impl OwnerKey {
    /// Returns the key of the owner with this name, whose kind is that of `row`; `None` if no object can have this name.
    fn of(row: &'static OwnerKind, api_version: String, namespace: &str, name: &str) -> Option<Self> {
        let (namespace, kind) = (namespace.into(), row.kind);
        is_plain(name).then(|| Self { namespace, api_version, kind, name: name.to_owned() })
    }

    /// Returns the entry of the owner's kind and version in the table of owner kinds; `None` if there is none.
    pub fn row(&self) -> Option<&'static OwnerKind> {
        giveway_crds::kinds::of_version(&self.api_version, self.kind)
    }
}

/// The fields of an owner that concern its groups.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnerFacts {
    /// Its UID.
    pub uid: String,
    /// UID of its controller; its own if it has none.
    pub controller: String,
    /// True if it is being deleted.
    pub deleting: bool,
    /// Number of pods that start together, from the owner's spec.
    pub sizes: Sizes,
    /// The number in the owner's annotation, if it is set.
    pub min_count: Option<i32>,
    /// The priority classes that its pod templates name, if their pods share a gang.
    pub classes: Vec<String>,
}

impl OwnerFacts {
    /// Reads these fields from an owner of pods. `row` is the entry of its kind in the table of owner kinds.
    pub fn of(row: &OwnerKind, object: &DynamicObject) -> Self {
        let annotation = object.annotations().get(ANNOTATION_MIN_COUNT).map(String::as_str);
        let uid = object.uid().unwrap_or_default();
        let above = controller(object.owner_references());
        let templates = grouped(row, &object.data, false, &GangSettings::default());
        let classes = classes::named(row, &object.data, &templates);
        Self {
            controller: above.map_or_else(|| uid.clone(), |above| above.uid.clone()),
            uid,
            deleting: object.metadata.deletion_timestamp.is_some(),
            sizes: Sizes::of(row, &object.data),
            min_count: settings::min_count(annotation).ok().flatten(),
            classes: classes.into_iter().map(|class| class.name).collect(),
        }
    }

    /// Returns how many pods of the gang of `pod` start together, and what its owner specifies and counts about finished ones; `None` if
    /// the owner asks for no gang. `job` is the Job that the owner created for the gang, if it was read.
    pub fn size(&self, pod: &GangPod, job: Option<&Self>) -> Option<GroupSize> {
        let asked = self.min_count.or(pod.min_count);
        let size = match pod.size {
            Some(size) => Sizes::every(size).of_group(&[], asked),
            None => self.sizes.of_group(&pod.origin.replica, asked),
        }?;
        match job {
            Some(job) => job.sizes.of_group(&[], Some(size.start)),
            None => Some(size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_with_a_name_that_would_lead_to_another_object_is_not_read() {
        for name in ["train-w-0", "a.b", "7"] {
            assert!(is_plain(name), "{name}");
        }
        for name in ["", "..", "../x", "../../other/jobs/x", "x/status", "x?labelSelector=", "x#", "x%2Fy", "X"] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
