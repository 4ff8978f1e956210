//! Owners that ask for a gang by one label: what admission carries into their templates, the labels that their controllers
//! give to pods, and the group that Giveway would make.

use super::manifest::Manifest;
use giveway_crds::keys::{
    ANNOTATION_DISRUPTION_MODE, ANNOTATION_MIN_COUNT, LABEL_GANG, LABEL_POD_GROUP, LABEL_WORKLOAD,
};
use giveway_crds::kinds::{self, KINDS, Kind, Origin, Sizes, Told, origin, settings};
use giveway_crds::policy::{DisruptionMode, SchedulingPolicy};
use giveway_crds::{PodGroup, PodGroupSpec};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

/// The owner that the pods of a manifest have in the end: the object itself, or what it makes.
#[derive(Debug)]
pub(super) struct Owner {
    row: &'static Kind,
    object: Value,
}

impl Owner {
    /// `None` for a kind that is not in the table.
    pub(super) fn of(manifest: &Manifest) -> Option<Self> {
        let row = kinds::of_version(manifest.object["apiVersion"].as_str().unwrap_or_default(), &manifest.kind)?;
        let Told::ByChild(child) = row.told else { return Some(Self { row, object: manifest.object.clone() }) };
        let child = KINDS.iter().find(|other| other.kind == child)?;
        let mut object = manifest.object.clone();
        object["spec"] = manifest.object["spec"]["rayClusterSpec"].clone();
        object["kind"] = json!(child.kind);
        Some(Self { row: child, object })
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.object["metadata"]["annotations"][key].as_str()
    }

    /// Gives a pod the labels that the controllers of this kind give, and the label of a gang where the owner asks for one.
    /// `path` is that of its template, `index` the number of the pod among the `count` that are made from it.
    pub(super) fn dress(&self, pod: &mut Pod, path: &str, index: usize, count: usize) {
        let name = self.object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if self.object["metadata"]["labels"][LABEL_GANG] == "true" {
            let labels = pod.metadata.labels.get_or_insert_default();
            if ![LABEL_GANG, LABEL_POD_GROUP, LABEL_WORKLOAD].iter().any(|key| labels.contains_key(*key)) {
                labels.insert(LABEL_GANG.to_owned(), "true".to_owned());
                for key in [ANNOTATION_MIN_COUNT, ANNOTATION_DISRUPTION_MODE] {
                    if let Some(value) = self.annotation(key) {
                        let annotations = pod.metadata.annotations.get_or_insert_default();
                        annotations.entry(key.to_owned()).or_insert_with(|| value.to_owned());
                    }
                }
            }
        }
        let replica = self.replica(path, index, count);
        let labels = pod.metadata.labels.get_or_insert_default();
        match self.row.told {
            Told::ByLabel(key) => drop(labels.insert(key.to_owned(), name.clone())),
            Told::ByLabelWhere(key, other, values) => {
                labels.insert(key.to_owned(), name.clone());
                labels.extend(values.first().map(|value| (other.to_owned(), (*value).to_owned())));
            }
            Told::ByController | Told::ByChild(_) => {}
        }
        for (key, value) in self.row.replica.iter().zip(replica) {
            labels.insert((*key).to_owned(), value);
        }
        for owner in pod.metadata.owner_references.iter_mut().flatten() {
            owner.kind = self.row.kind.to_owned();
            owner.name.clone_from(&name);
        }
    }

    /// What tells the replica of a pod, in the order of the row's labels.
    fn replica(&self, path: &str, index: usize, count: usize) -> Vec<String> {
        let spec = &self.object["spec"];
        let (part, replicas) = match self.row.replica.len() {
            0 => return Vec::new(),
            1 => (None, &spec["replicas"]),
            _ => {
                let number = path.split(['[', ']']).nth(1).and_then(|number| number.parse::<usize>().ok());
                let job = &spec["replicatedJobs"][number.unwrap_or_default()];
                (job["name"].as_str().map(str::to_owned), &job["replicas"])
            }
        };
        let replicas = replicas.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(1).max(1);
        let each = (count / replicas).max(1);
        part.into_iter().chain([(index / each).to_string()]).collect()
    }

    /// How many pods of a group start together, where an annotation may say it; `None` when the owner asks for none.
    fn size(&self, origin: &Origin, asked: Option<i32>) -> Option<i32> {
        Sizes::of(self.row, &self.object).of_group(&origin.replica, asked).map(|size| size.start)
    }
}

/// A member of a gang that is named after its owner: where it comes from, and what it says of the gang.
pub(super) struct Member {
    /// Where it comes from.
    pub(super) origin: Origin,
    min_count: Option<i32>,
    mode: DisruptionMode,
}

/// What a pod says that asks for a gang; `None` when it does not.
///
/// # Errors
/// A value that cannot be, a pod of nobody, or a kind of which nobody knows how many start together, in the words of admission.
pub(super) fn member(pod: &Pod) -> Result<Option<Member>, String> {
    let label = |key: &str| pod.labels().get(key).map(String::as_str);
    let annotation = |key: &str| pod.annotations().get(key).map(String::as_str);
    if settings::gang(label(LABEL_GANG)).map_err(|error| error.to_string())? != Some(true) {
        return Ok(None);
    }
    let min_count = settings::min_count(annotation(ANNOTATION_MIN_COUNT)).map_err(|error| error.to_string())?;
    let mode = settings::disruption_mode(annotation(ANNOTATION_DISRUPTION_MODE)).map_err(|error| error.to_string())?;
    let origin = origin::of_pod(pod).map_err(|error| error.to_string())?;
    if origin.row.is_none() && min_count.is_none() {
        return Err(format!(
            "metadata.annotations[{ANNOTATION_MIN_COUNT}]: Required value: how many pods of {} {:?} start together? Giveway does \
             not know that kind: say it here, on the pod template",
            origin.kind, origin.owner
        ));
    }
    Ok(Some(Member { origin, min_count, mode }))
}

/// The group that Giveway would make for the first member; `None` when nothing says how large it is.
pub(super) fn group(pod: &Pod, member: &Member, owner: Option<&Owner>) -> Option<PodGroup> {
    let origin = &member.origin;
    let size = owner.and_then(|owner| owner.size(origin, member.min_count)).or(member.min_count)?;
    let metadata = ObjectMeta {
        name: Some(origin.group.clone()),
        namespace: pod.metadata.namespace.clone(),
        labels: Some([(LABEL_GANG.to_owned(), "true".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let spec = PodGroupSpec {
        scheduling_policy: SchedulingPolicy::gang(size),
        disruption_mode: member.mode,
        priority_class_name: pod.spec.as_ref().and_then(|spec| spec.priority_class_name.clone()),
        ..PodGroupSpec::default()
    };
    Some(PodGroup { metadata, spec, status: None })
}
