//! Simulates the submission of manifests: reads them, creates the pods that their controllers would create, applies the
//! API server's and Giveway's admission, and adds the result to the model. In memory only.

mod admit;
mod asked;
mod expand;
mod gang;
mod manifest;

use crate::error::CliError;
use crate::world::{World, key_of, name_of, read};
use giveway_crds::{PodGroup, Workload, keys, wording};
use giveway_planner::model::Pod as ModelPod;
use giveway_planner::{ModelError, ObjectKey, Preemptor};
use k8s_openapi::api::core::v1::Pod;
use manifest::Manifest;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Result of a submission.
#[derive(Debug, Default)]
pub(crate) struct Submission {
    /// The preemptors that it creates.
    pub(crate) preemptors: Vec<Preemptor>,
    /// Groups that pods name and that do not exist: their pods stay gated until they are created.
    pub(crate) missing_groups: BTreeSet<ObjectKey>,
    /// Notes, as sentences.
    pub(crate) notes: Vec<String>,
}

/// Reads manifests and adds their objects to the world. Objects without a namespace get `namespace`; `flag` is the
/// namespace that the user chose, if any.
pub(crate) fn submit(
    world: &mut World,
    files: &[PathBuf],
    namespace: &str,
    flag: Option<&str>,
) -> Result<Submission, CliError> {
    let mut manifests = Vec::new();
    for file in files {
        manifests.extend(manifest::read(file, namespace, flag)?);
    }
    let mut submission = Submission::default();
    let mut sources = Vec::new();
    let mut others: BTreeMap<String, usize> = BTreeMap::new();
    // Classes first, then the objects that need them, as if all existed before the first pod.
    manifests.sort_by_key(|manifest| match manifest.kind.as_str() {
        "PriorityClass" => 0,
        "Workload" => 1,
        "PodGroup" => 2,
        _ => 3,
    });
    for manifest in &manifests {
        let version = manifest.object["apiVersion"].as_str().unwrap_or_default();
        match (version, manifest.kind.as_str()) {
            ("scheduling.k8s.io/v1", "PriorityClass") => {
                manifest.named()?;
                let mut class = read(&manifest.object, &manifest.file)?;
                admit::class(&mut class);
                world.cluster.upsert_class(&class);
            }
            ("scheduling.giveway.dev/v1alpha1", "Workload") => {
                manifest.named()?;
                let workload: Workload = read(&manifest.object, &manifest.file)?;
                world.workloads.insert(key_of(&workload.metadata), workload);
            }
            ("scheduling.giveway.dev/v1alpha1", "PodGroup") => {
                manifest.named()?;
                submission.group(world, manifest)?;
            }
            _ => {
                let served = world.cluster.serves_groups_in(&manifest.namespace);
                submission.notes.extend(asked::check(manifest, served, world.cluster.classes())?);
                match expand::expand(manifest)? {
                    found if found.is_empty() => *others.entry(manifest.kind.clone()).or_default() += 1,
                    found => {
                        manifest.named()?;
                        sources.extend(found.into_iter().map(|source| (manifest, source)));
                    }
                }
            }
        }
    }
    for (manifest, source) in sources {
        submission.pods(world, manifest, source)?;
    }
    let groups = submission.preemptors.iter().any(|preemptor| matches!(preemptor, Preemptor::Group(_)));
    if submission.preemptors.is_empty() && submission.missing_groups.is_empty() && !groups {
        if submission.notes.is_empty() {
            return Err(nothing(files, &manifests));
        }
    } else if !others.is_empty() {
        let list: Vec<String> = others.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        submission.notes.push(format!("Not looked at: {}.", list.join(", ")));
    }
    Ok(submission)
}

fn nothing(files: &[PathBuf], manifests: &[Manifest]) -> CliError {
    let name =
        |file: &PathBuf| if file.as_os_str() == "-" { "standard input".into() } else { file.display().to_string() };
    let files: Vec<String> = files.iter().map(name).collect();
    let found: Vec<String> = manifests.iter().map(|m| format!("{} {}", m.kind, name_of(&m.object))).collect();
    let found = if found.is_empty() { "no object".to_owned() } else { found.join(", ") };
    CliError::NoTemplate { files: files.join(", "), found }
}

impl Submission {
    fn preemptor(&mut self, preemptor: Preemptor) {
        if !self.preemptors.contains(&preemptor) {
            self.preemptors.push(preemptor);
        }
    }

    fn group(&mut self, world: &mut World, manifest: &Manifest) -> Result<(), CliError> {
        let mut group: PodGroup = read(&manifest.object, &manifest.file)?;
        let key = key_of(&group.metadata);
        match world.groups.get(&key) {
            Some(stored) => {
                self.notes.push(format!("PodGroup {key} exists already: of its spec, only minCount is taken over."));
                let policy = group.spec.scheduling_policy;
                group = stored.clone();
                if policy.gang.is_some() && group.spec.scheduling_policy.gang.is_some() {
                    group.spec.scheduling_policy = policy;
                }
            }
            None => {
                admit::group(&mut group, world).map_err(|problem| manifest.refused(problem))?;
                self.warn_unmanaged(world, &group);
            }
        }
        add(world, manifest, |world| world.add_group(group), |field| field)?;
        self.preemptor(Preemptor::Group(key));
        Ok(())
    }

    fn warn_unmanaged(&mut self, world: &World, group: &PodGroup) {
        let class = group.spec.priority_class_name.as_deref().and_then(|name| world.cluster.classes().get(name));
        if let Some(class) = class.filter(|class| !class.managed && class.scheduler_policy.as_str() != "Never") {
            self.notes.push(format!(
                "Priority class {} is not managed by Giveway ({}): kube-scheduler may preempt for single pods of the \
                 group.",
                class.name,
                keys::ANNOTATION_MANAGED
            ));
        }
    }

    fn pods(&mut self, world: &mut World, manifest: &Manifest, source: expand::Source) -> Result<(), CliError> {
        let namespace = manifest.namespace.as_str();
        let existing = world.cluster.pods().filter(|pod| source.owns(namespace, pod)).count();
        let wanted = if source.alone { source.count.saturating_sub(existing) } else { source.count };
        if existing > 0 && !source.alone {
            let name = name_of(&manifest.object);
            let note = format!(
                "{} {name} has {} already, {} as pods of another workload: all of its pods are planned again.",
                manifest.kind,
                wording::pods(existing),
                wording::agree(existing, "which counts", "which count")
            );
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        } else if existing > 0 {
            self.notes.push(format!(
                "{} {} has {} already: {} planned.",
                manifest.kind,
                name_of(&manifest.object),
                wording::pods(existing),
                wording::counted(wanted, "more is", "more are")
            ));
        }
        if source.count == 0 {
            self.notes.push(format!(
                "{} {}: {} asks for no pod.",
                manifest.kind,
                name_of(&manifest.object),
                source.path
            ));
        }
        self.notes.extend(source.note.clone());
        let mut index = 0;
        for _ in 0..wanted {
            let mut pod = source.pod(namespace, index);
            while world.cluster.pod(&key_of(&pod.metadata)).is_some() {
                if source.is_pod {
                    return self.existing_pod(world, &key_of(&pod.metadata));
                }
                index += 1;
                pod = source.pod(namespace, index);
            }
            index += 1;
            self.pod(world, manifest, &source, pod)?;
        }
        Ok(())
    }

    fn existing_pod(&mut self, world: &World, key: &ObjectKey) -> Result<(), CliError> {
        self.notes.push(format!("Pod {key} exists already: it is planned as it is there."));
        if let Some(pod) = world.cluster.pod(key).filter(|pod| pod.node.is_none()) {
            let ours = |group: &ObjectKey| world.cluster.group(group).is_some_and(|group| !group.native);
            let preemptor = match pod.group_key().filter(ours) {
                Some(group) => Preemptor::Group(group),
                None => Preemptor::Pod(key.clone()),
            };
            self.preemptor(preemptor);
        }
        Ok(())
    }

    fn pod(
        &mut self,
        world: &mut World,
        manifest: &Manifest,
        source: &expand::Source,
        mut pod: Pod,
    ) -> Result<(), CliError> {
        let made = admit::pod(&mut pod, world, source.owner.as_ref())
            .map_err(|problem| manifest.refused(source.place(&problem)))?;
        if let Some(group) = made {
            self.warn_unmanaged(world, &group);
            add(world, manifest, |world| world.add_group(*group), |field| field)?;
        }
        let key = key_of(&pod.metadata);
        let native_group = source.native_group.as_deref();
        add(world, manifest, |world| world.add_pod_in(pod, native_group), |field| source.place(&field))?;
        let Some(pod) = world.cluster.pod(&key) else { return Ok(()) };
        match pod.group_key() {
            _ if pod.node.is_some() => {}
            // kube-scheduler preempts for native groups: here each pod is decided on its own.
            Some(_) if pod.native() => self.preemptor(Preemptor::Pod(key)),
            Some(group) if world.cluster.group(&group).is_some() => self.preemptor(Preemptor::Group(group)),
            Some(group) => drop(self.missing_groups.insert(group)),
            None => self.preemptor(Preemptor::Pod(key)),
        }
        Ok(())
    }
}

impl expand::Source {
    /// Returns true if this pod belongs to an earlier version of the same object.
    fn owns(&self, namespace: &str, pod: &ModelPod) -> bool {
        let is_new = pod.uid.starts_with(expand::PLANNED);
        let Some(owner) = pod.owner.as_ref().filter(|_| !is_new && pod.live() && pod.key.namespace == namespace) else {
            return false;
        };
        let hash = pod.labels.get("pod-template-hash").map(String::as_str).unwrap_or_default();
        match self.owner_kind.as_str() {
            "Deployment" => owner.kind == "ReplicaSet" && owner.name == format!("{}-{hash}", self.owner_name),
            kind => owner.kind == kind && owner.name == self.owner_name,
        }
    }
}

/// Changes the world; an error names the manifest's object instead of the pod that was created from it.
fn add(
    world: &mut World,
    manifest: &Manifest,
    change: impl FnOnce(&mut World) -> Result<(), CliError>,
    field: impl Fn(String) -> String,
) -> Result<(), CliError> {
    change(world).map_err(|error| match error {
        CliError::Model { source, .. } => {
            let ModelError { field: at, value, problem, .. } = *source;
            manifest.refused(format!("{}: Invalid value: \"{value}\": {problem}", field(at)))
        }
        other => other,
    })
}
