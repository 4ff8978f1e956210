//! Owners that request a gang with one label: the labels that their controllers add to pods, and the PodGroup that Giveway
//! would create.

use super::manifest::Manifest;
use giveway_crds::keys::{ANNOTATION_DISRUPTION_MODE, ANNOTATION_MIN_COUNT, LABEL_GANG};
use giveway_crds::kinds::templates::grouped;
use giveway_crds::kinds::{
    self, GangSettings, KINDS, OwnerKind, OwnerLink, PodOrigin, Sizes, classes, origin, settings,
};
use giveway_crds::policy::SchedulingPolicy;
use giveway_crds::priority::{Class, Classes};
use giveway_crds::{PodGroup, PodGroupSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde_json::{Value, json};

/// The final owner of the pods of a manifest: the object itself, or the object that it creates.
#[derive(Debug)]
pub(super) struct GangOwner {
    row: &'static OwnerKind,
    object: Value,
}

impl GangOwner {
    /// Returns the final owner of the pods of a manifest: the object itself, or the one that it creates. `None` if Giveway does not
    /// know the kind.
    pub(super) fn of(manifest: &Manifest) -> Option<Self> {
        let row = kinds::of_version(manifest.object["apiVersion"].as_str().unwrap_or_default(), &manifest.kind)?;
        let OwnerLink::ByChild(child) = row.owner_link else {
            return Some(Self { row, object: manifest.object.clone() });
        };
        let child = KINDS.iter().find(|other| other.kind == child)?;
        let mut object = manifest.object.clone();
        object["spec"] = manifest.object["spec"]["rayClusterSpec"].clone();
        object["kind"] = json!(child.kind);
        Some(Self { row: child, object })
    }

    /// Returns true if all pods of such an owner belong to one PodGroup, and not to one for each replica.
    pub(super) fn has_one_group(&self) -> bool {
        self.row.replica.is_empty()
    }

    /// Adds the labels to a pod that the controllers of this kind of owners add. `path` is the field path of the pod's template, and
    /// `index` the number of the pod among the `count` pods of the template.
    pub(super) fn add_labels(&self, pod: &mut Pod, path: &str, index: usize, count: usize) {
        let name = self.object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let replica = self.replica(path, index, count);
        let labels = pod.metadata.labels.get_or_insert_default();
        match self.row.owner_link {
            OwnerLink::ByLabel(key) => drop(labels.insert(key.to_owned(), name.clone())),
            OwnerLink::ByLabelWhere(key, other, values) => {
                labels.insert(key.to_owned(), name.clone());
                labels.extend(values.first().map(|value| (other.to_owned(), (*value).to_owned())));
            }
            OwnerLink::ByController | OwnerLink::ByChild(_) => {}
        }
        for (key, value) in self.row.replica.iter().zip(replica) {
            labels.insert((*key).to_owned(), value);
        }
        for owner in pod.metadata.owner_references.iter_mut().flatten() {
            owner.kind = self.row.kind.to_owned();
            owner.name.clone_from(&name);
        }
    }

    /// Returns the values of the labels that identify the replica of a pod: the pod with the number `index` of the `count` pods of the
    /// template at the field path `path`. Empty if the kind has one PodGroup for each object.
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

    /// Returns the PriorityClass with the lowest value among those of the owner's pod templates whose pods share a gang; `None` if
    /// there is none. `known` are all classes.
    fn lowest_class<'c>(&self, known: &'c Classes) -> Option<&'c Class> {
        let asks = self.object["metadata"]["labels"][LABEL_GANG] == "true";
        let templates = grouped(self.row, &self.object, asks, &GangSettings::default());
        let named = classes::named(self.row, &self.object, &templates);
        classes::lowest(named.iter().map(|each| each.name.as_str()), known)
    }

    /// Returns how many pods of the group of `origin` start together. `asked` is the number in the pod's annotation for the minimum, if
    /// set. `None` if the owner asks for no pods.
    fn size(&self, origin: &PodOrigin, asked: Option<i32>) -> Option<i32> {
        Sizes::of(self.row, &self.object).of_group(&origin.replica, asked).map(|size| size.start)
    }
}

/// Returns the PodGroup of this name that Giveway creates for the first pod of it, if the pod asks for a gang. It has the lowest class
/// of that pod and of the templates of `owner`; `known` are all classes. Returns `None` if the pod asks for no gang or the size of the
/// gang is unknown.
pub(super) fn group(pod: &Pod, name: &str, owner: Option<&GangOwner>, known: &Classes) -> Option<PodGroup> {
    let label = |key: &str| pod.labels().get(key).map(String::as_str);
    let annotation = |key: &str| pod.annotations().get(key).map(String::as_str);
    if settings::gang(label(LABEL_GANG)).ok()? != Some(true) {
        return None;
    }
    let origin = origin::of_pod(pod).ok().filter(|origin| origin.group == name)?;
    let min_count = settings::min_count(annotation(ANNOTATION_MIN_COUNT)).ok()?;
    let size = owner.and_then(|owner| owner.size(&origin, min_count)).or(min_count)?;
    let own = pod.spec.as_ref().and_then(|spec| spec.priority_class_name.clone());
    let priority = known.resolve(own.as_deref()).map_or(0, |resolved| resolved.priority);
    let lower = owner.and_then(|owner| owner.lowest_class(known)).filter(|class| class.value < priority);
    let controller = OwnerReference {
        api_version: origin.api_version,
        kind: origin.kind,
        name: origin.owner,
        controller: Some(true),
        ..OwnerReference::default()
    };
    let metadata = ObjectMeta {
        name: Some(origin.group),
        namespace: pod.metadata.namespace.clone(),
        labels: Some([(LABEL_GANG.to_owned(), "true".to_owned())].into()),
        owner_references: Some(vec![controller]),
        ..ObjectMeta::default()
    };
    let spec = PodGroupSpec {
        scheduling_policy: SchedulingPolicy::gang(size),
        disruption_mode: settings::disruption_mode(annotation(ANNOTATION_DISRUPTION_MODE)).ok()?,
        priority_class_name: lower.map(|class| class.name.clone()).or(own),
        ..PodGroupSpec::default()
    };
    Some(PodGroup { metadata, spec, status: None })
}
