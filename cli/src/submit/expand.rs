//! Creates the pods that the controller of an object with pod templates would create.
//!
//! A template is any `…emplate` field whose `spec` has containers; `parallelism`, `completions` and `replicas` beside
//! it and above it are the number of its pods. This covers the kinds of Kubernetes, and other kinds such as
//! LeaderWorkerSet, JobSet, PyTorchJob and RayCluster. The names of the pods are invented.

use super::gang::GangOwner;
use super::manifest::Manifest;
use crate::error::CliError;
use giveway_crds::native;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::Value;

/// Maximum number of pods of one template; more are an error.
const MOST: u64 = 100_000;

/// Prefix of the invented UIDs of planned pods.
pub(super) const PLANNED: &str = "planned/";

/// A pod template of a submitted object, and the number of pods that are created from it.
#[derive(Debug)]
pub(super) struct PodSource {
    /// Path of the template in its object; empty for a pod.
    pub(super) path: String,
    /// Number of pods.
    pub(super) count: usize,
    /// True if the object is itself the pod.
    pub(super) is_pod: bool,
    /// True if it is the only template of its object.
    pub(super) alone: bool,
    /// Kind of the pods' owner; empty without one.
    pub(super) owner_kind: String,
    /// Name of the pods' owner.
    pub(super) owner_name: String,
    /// A note, as a sentence.
    pub(super) note: Option<String>,
    /// The final owner of the pods, if its kind is in the table.
    pub(super) owner: Option<GangOwner>,
    /// Name of the native group that its pods belong to.
    pub(super) native_group: Option<String>,
    base: String,
    template: Pod,
}

impl PodSource {
    /// Returns the pod number `index` (from 0) that the controller would create in the namespace from the template.
    pub(super) fn pod(&self, namespace: &str, index: usize) -> Pod {
        let mut pod = self.template.clone();
        let name = if self.is_pod { self.base.clone() } else { format!("{}-{index}", self.base) };
        pod.metadata.uid = Some(format!("{PLANNED}{namespace}/{name}"));
        pod.metadata.name = Some(name);
        pod.metadata.namespace = Some(namespace.to_owned());
        // No controller makes claims of devices for it, so it is not known what they will ask for.
        let claims = pod.spec.iter_mut().flat_map(|spec| spec.resource_claims.iter_mut().flatten());
        claims.for_each(|claim| claim.resource_claim_template_name = None);
        if let Some(owner) = &self.owner {
            owner.add_labels(&mut pod, &self.path, index, self.count);
        }
        pod
    }

    /// Returns true if the number of pods can be replaced by another one: they come from a template, and belong to one PodGroup at
    /// most.
    pub(super) fn is_scalable(&self) -> bool {
        !self.is_pod && self.owner.as_ref().is_none_or(GangOwner::has_one_group)
    }

    /// Takes a text that begins with a field of the pod, and returns it with the path of that field in the object that the user wrote.
    pub(super) fn field_in_object(&self, problem: &str) -> String {
        if self.is_pod { problem.to_owned() } else { format!("{}.{problem}", self.path) }
    }
}

/// Returns the pod templates of an object, each with the number of its pods; a pod is its own template. The list is empty if the object
/// has none.
///
/// # Errors
/// A DaemonSet, an invalid template, or an invalid number.
pub(super) fn expand(manifest: &Manifest) -> Result<Vec<PodSource>, CliError> {
    let object = &manifest.object;
    if manifest.kind == "DaemonSet" {
        return Err(manifest.refused(
            "kind: Invalid value: \"DaemonSet\": its pods are not placed: each node that suits gets one, and what one \
             of them evicts there is not a choice; plan for a Pod with the same spec and a nodeName affinity instead",
        ));
    }
    if manifest.kind == "Pod" {
        let pod = template(manifest, object, "")?;
        let (base, owner_kind, owner_name) = (name(object), String::new(), String::new());
        return Ok(vec![PodSource {
            path: String::new(),
            count: 1,
            is_pod: true,
            alone: true,
            owner_kind,
            owner_name,
            note: None,
            owner: None,
            native_group: native::group_of(object).map(str::to_owned),
            base,
            template: pod,
        }]);
    }
    let mut finder = Finder { manifest, found: Vec::new() };
    finder.find_templates(&object["spec"], "spec", 1, "")?;
    let several = finder.found.len() > 1;
    let mut sources = Vec::new();
    for found in finder.found {
        let mut template = template(manifest, found.template, &format!("{}.", found.path))?;
        add_controller_metadata(manifest, &mut template);
        let part = if several && !found.part.is_empty() { format!("-{}", found.part) } else { String::new() };
        sources.push(PodSource {
            count: usize::try_from(found.count).unwrap_or(usize::MAX),
            is_pod: false,
            alone: !several,
            owner_kind: manifest.kind.clone(),
            owner_name: name(object),
            note: note(manifest),
            owner: GangOwner::of(manifest),
            native_group: native::group_of(found.template).map(str::to_owned),
            base: format!("{}{}", name(object), part.to_lowercase()),
            path: found.path,
            template,
        });
    }
    Ok(sources)
}

/// Returns a note if the plan is for something else than the object: for one run of a CronJob, or for a suspended object as if it were
/// resumed; otherwise `None`.
fn note(manifest: &Manifest) -> Option<String> {
    match manifest.title() {
        name if manifest.is_run() => Some(format!("{name} is planned as one run of it.")),
        name if manifest.object["spec"]["suspend"] == true => {
            Some(format!("{name} is suspended; it is planned as if it were resumed."))
        }
        _ => None,
    }
}

/// Adds to a pod the labels and the owner reference that the controller of the object in `manifest` would add.
fn add_controller_metadata(manifest: &Manifest, pod: &mut Pod) {
    let name = name(&manifest.object);
    let labels = pod.metadata.labels.get_or_insert_default();
    match manifest.kind.as_str() {
        "Job" => {
            labels.insert("job-name".to_owned(), name.clone());
            labels.insert("batch.kubernetes.io/job-name".to_owned(), name.clone());
        }
        "Deployment" => drop(labels.insert("pod-template-hash".to_owned(), "planned".to_owned())),
        _ => {}
    }
    let (kind, name) = match manifest.kind.as_str() {
        "Deployment" => ("ReplicaSet".to_owned(), format!("{name}-planned")),
        kind => (kind.to_owned(), name),
    };
    let api_version = manifest.object["apiVersion"].as_str().unwrap_or_default().to_owned();
    pod.metadata.owner_references =
        Some(vec![OwnerReference { api_version, kind, name, controller: Some(true), ..OwnerReference::default() }]);
}

/// Returns the name in an object's metadata; an empty string if it has none.
fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Decodes a pod template or a pod from `from`, the part of the object at the field path `path`. The error names the field that is
/// wrong.
fn template(manifest: &Manifest, from: &Value, path: &str) -> Result<Pod, CliError> {
    /// Decodes a value at the field path `path`. The error names the field that is wrong.
    fn read<T: serde::de::DeserializeOwned>(value: &Value, path: &str) -> Result<T, String> {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let at = error.path().to_string();
            format!("{path}{}: {}", if at == "." { String::new() } else { format!(".{at}") }, error.into_inner())
        })
    }
    let refused = |problem: String| manifest.refused(problem);
    let none = Value::Object(serde_json::Map::new());
    let metadata = from.get("metadata").unwrap_or(&none);
    let metadata: ObjectMeta = read(metadata, &format!("{path}metadata")).map_err(refused)?;
    let spec: PodSpec = read(from.get("spec").unwrap_or(&none), &format!("{path}spec")).map_err(refused)?;
    if spec.containers.is_empty() {
        return Err(refused(format!("{path}spec.containers: Required value: a pod has at least one")));
    }
    let metadata = ObjectMeta {
        labels: metadata.labels,
        annotations: metadata.annotations,
        owner_references: metadata.owner_references,
        ..ObjectMeta::default()
    };
    Ok(Pod { metadata, spec: Some(spec), status: None })
}

/// A pod template in an object, its field path, and how many pods are created from it.
struct FoundTemplate<'a> {
    path: String,
    count: u64,
    part: String,
    template: &'a Value,
}

/// Searches an object of any kind for pod templates.
struct Finder<'a> {
    manifest: &'a Manifest,
    found: Vec<FoundTemplate<'a>>,
}

impl<'a> Finder<'a> {
    /// Finds the pod templates at or below `value`, a part of the object at the field path `path` that exists `times` times. `part` is
    /// the name that distinguishes the pods of this part from others; empty for none.
    fn find_templates(&mut self, value: &'a Value, path: &str, times: u64, part: &str) -> Result<(), CliError> {
        if let Some(items) = value.as_array() {
            for (index, item) in items.iter().enumerate() {
                let part = item["name"].as_str().or(item["groupName"].as_str()).unwrap_or(part);
                self.find_templates(item, &format!("{path}[{index}]"), times, part)?;
            }
            return Ok(());
        }
        let Some(fields) = value.as_object() else { return Ok(()) };
        let count = self.pod_count(times, self.replicas(value, path)?, path)?;
        for (key, inner) in fields {
            let path = format!("{path}.{key}");
            let is_template = key.ends_with("emplate") && inner.pointer("/spec/containers").is_some();
            if is_template {
                let share = if is_sized_worker_template(value, key) { self.workers(value, &path)? } else { 1 };
                let (count, part) = (self.pod_count(count, share, &path)?, name_part(key, part));
                self.found.push(FoundTemplate { path, count, part, template: inner });
            } else if key == "leaderWorkerTemplate" {
                self.find_templates(inner, &path, count, part)?;
            } else if inner.is_object() || inner.is_array() {
                let named = inner.get("template").is_some().then_some(key.as_str());
                let part = named.filter(|key| !key.ends_with("emplate") && *key != "spec").unwrap_or(part);
                self.find_templates(inner, &path, count, part)?;
            }
        }
        Ok(())
    }

    /// Returns `times` multiplied by `count`, a number of pods. It is an error at the field path `path` if there are more than
    /// [`MOST`].
    fn pod_count(&self, times: u64, count: u64, path: &str) -> Result<u64, CliError> {
        times.checked_mul(count).filter(|count| *count <= MOST).ok_or_else(|| {
            self.manifest
                .refused(format!("{path}: Invalid value: it asks for more than {MOST} pods: use fewer replicas"))
        })
    }

    /// Returns how many instances there are of the templates below `value`, by its fields `replicas`, `parallelism` and `completions`;
    /// 1 without these fields. `path` is the field path for errors.
    fn replicas(&self, value: &Value, path: &str) -> Result<u64, CliError> {
        let replicas = self.number(value, "replicas", path)?;
        let parallelism = self.number(value, "parallelism", path)?;
        let completions = self.number(value, "completions", path)?;
        Ok(match (replicas, parallelism, completions) {
            (Some(replicas), ..) => replicas,
            (None, Some(parallel), Some(total)) => parallel.min(total),
            (None, Some(parallel), None) => parallel,
            (None, None, _) => 1,
        })
    }

    /// Returns the field `field` of `value`, which must be a whole number of at least 0; `None` if it is not set. `path` is the field
    /// path of `value` for errors.
    fn number(&self, value: &Value, field: &str, path: &str) -> Result<Option<u64>, CliError> {
        match value.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(number) => match number.as_u64() {
                Some(number) => Ok(Some(number)),
                None => {
                    let text = number.as_str().map_or_else(|| number.to_string(), str::to_owned);
                    let problem = "must be a whole number, 0 or more";
                    Err(self.manifest.refused(format!("{path}.{field}: Invalid value: \"{text}\": {problem}")))
                }
            },
        }
    }

    /// Returns the number of pods of the worker template in one replica of a LeaderWorkerSet: `size`, which includes the leader, minus
    /// 1 if the leader has its own template.
    fn workers(&self, value: &Value, path: &str) -> Result<u64, CliError> {
        let size = self.number(value, "size", path)?.unwrap_or(1);
        let led = value.pointer("/leaderTemplate/spec/containers").is_some();
        Ok(if led { size.saturating_sub(1) } else { size })
    }
}

/// Returns true if the field `key` of `value` is the worker template of a LeaderWorkerSet, whose number of pods is the field `size`.
fn is_sized_worker_template(value: &Value, key: &str) -> bool {
    key == "workerTemplate" && value.get("size").is_some()
}

/// Returns the part of a pod's name that distinguishes the pods of the template in the field `key` from those of other templates of the
/// object: `worker` for `workerTemplate`, or else `part`.
fn name_part(key: &str, part: &str) -> String {
    match key.strip_suffix("Template") {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => part.to_owned(),
    }
}
