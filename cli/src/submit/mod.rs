//! Simulates the submission of manifests: reads them, creates the pods that their controllers would create, applies the
//! API server's and Giveway's admission, and adds the result to the model. In memory only.

mod admit;
mod expand;
mod gang;
mod manifest;
#[cfg(test)]
mod tests;
mod view;

use crate::error::CliError;
use crate::world::{World, key_of, read};
use giveway_crds::{PodGroup, Workload, kinds, wording};
use giveway_planner::model::Pod as ModelPod;
use giveway_planner::{ModelError, ObjectKey, Preemptor};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::node::v1::RuntimeClass;
use manifest::Manifest;
use std::collections::{BTreeMap, BTreeSet};

/// Kinds that are admitted before the objects that name them, in this order, as if all of them existed before the first pod.
const NAMED: [(&str, &str); 4] = [
    ("node.k8s.io/v1", "RuntimeClass"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("scheduling.giveway.dev/v1alpha1", "Workload"),
    ("scheduling.giveway.dev/v1alpha1", "PodGroup"),
];

/// Returns the position of an object's kind in [`NAMED`], the kinds that are admitted first; `None` for other kinds.
fn admission_order(manifest: &Manifest) -> Option<usize> {
    let version = manifest.object["apiVersion"].as_str().unwrap_or_default();
    NAMED.iter().position(|named| *named == (version, manifest.kind.as_str()))
}

/// What a submission would create, and its problems.
#[derive(Debug, Default)]
pub(crate) struct Submission {
    /// The preemptors that it creates.
    pub(crate) preemptors: Vec<Preemptor>,
    /// Groups that pods name and that do not exist: their pods stay gated until they are created.
    pub(crate) missing_groups: BTreeSet<ObjectKey>,
    /// Notes, as sentences.
    pub(crate) notes: Vec<String>,
}

/// Reads manifests, and adds their objects to `world` as if they were submitted. Each file is its name for messages, and its text.
/// Objects without a namespace get `namespace`; `flag` is the value of `-n`, if it is set. `members` is the number of pods of the only
/// template, instead of that in the manifests.
pub(crate) fn submit(
    world: &mut World,
    files: &[(String, String)],
    namespace: &str,
    flag: Option<&str>,
    members: Option<usize>,
) -> Result<Submission, CliError> {
    let mut manifests = Vec::new();
    for (file, text) in files {
        manifests.extend(manifest::read(file, text, namespace, flag)?);
    }
    let mut submission = Submission::default();
    let mut sources = Vec::new();
    let mut others: BTreeMap<String, usize> = BTreeMap::new();
    manifests.sort_by_key(|manifest| admission_order(manifest).unwrap_or(NAMED.len()));
    // Notes about objects without pods, which are no answer alone.
    let mut about_named = 0;
    for manifest in &mut manifests {
        submission.admit(world, manifest)?;
        if admission_order(manifest).is_some() {
            about_named = submission.notes.len();
        }
    }
    for manifest in manifests.iter().filter(|manifest| admission_order(manifest).is_none()) {
        match expand::expand(manifest)? {
            found if found.is_empty() => *others.entry(manifest.original().0.to_owned()).or_default() += 1,
            found => {
                manifest.check_names()?;
                sources.extend(found.into_iter().map(|source| (manifest, source)));
            }
        }
    }
    if let Some(members) = members {
        match sources.as_mut_slice() {
            [(_, source)] if source.is_scalable() => source.count = members,
            _ => return Err(CliError::NotOneTemplate { files: file_names(files), found: object_names(&manifests) }),
        }
    }
    for (manifest, source) in sources {
        submission.add_pods(world, manifest, source)?;
    }
    let groups = submission.preemptors.iter().any(|preemptor| matches!(preemptor, Preemptor::Group(_)));
    if submission.preemptors.is_empty() && submission.missing_groups.is_empty() && !groups {
        if submission.notes.len() == about_named {
            return Err(CliError::NoTemplate { files: file_names(files), found: object_names(&manifests) });
        }
    } else if !others.is_empty() {
        let list: Vec<String> = others.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        submission.notes.push(format!("Not looked at: {}.", list.join(", ")));
    }
    Ok(submission)
}

/// Returns the names of the files for an error, joined by commas.
fn file_names(files: &[(String, String)]) -> String {
    files.iter().map(|(file, _)| file.as_str()).collect::<Vec<&str>>().join(", ")
}

/// Returns kind and name of each object in the manifests for an error, joined by commas.
fn object_names(manifests: &[Manifest]) -> String {
    let found: Vec<String> = manifests.iter().map(Manifest::title).collect();
    if found.is_empty() { "no object".to_owned() } else { found.join(", ") }
}

impl Submission {
    /// Adds a preemptor to the submission, unless it was added before.
    fn add_preemptor(&mut self, preemptor: Preemptor) {
        if !self.preemptors.contains(&preemptor) {
            self.preemptors.push(preemptor);
        }
    }

    /// Adds the warnings that admission had about the object `about` to the notes, each only once.
    fn add_warnings(&mut self, about: &str, warnings: Vec<String>) {
        for warning in warnings {
            let note = format!("{about}: {warning}.");
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// Applies admission to an object that is not a pod, and adds it to `world` if it is no owner of pods. It is an error if the object
    /// would be rejected.
    fn admit(&mut self, world: &mut World, manifest: &mut Manifest) -> Result<(), CliError> {
        let position = admission_order(manifest);
        if position.is_some() {
            manifest.check_names()?;
        }
        let admitted = match position.map(|position| NAMED[position].1) {
            Some("RuntimeClass") => {
                let class: RuntimeClass = read(&manifest.object, &manifest.file)?;
                world.runtime_classes.insert(class.metadata.name.clone().unwrap_or_default(), class);
                return Ok(());
            }
            Some("PriorityClass") => admit::class(&mut manifest.object, world),
            Some("Workload") => admit::workload(&mut manifest.object, world),
            Some(_) => return self.admit_group(world, manifest),
            None => return self.admit_owner(world, manifest),
        };
        let warnings = admitted.map_err(|problem| manifest.refused(problem))?;
        self.add_warnings(&manifest.title(), warnings);
        if manifest.kind == "PriorityClass" {
            world.cluster.upsert_class(&read(&manifest.object, &manifest.file)?);
        } else {
            let workload: Workload = read(&manifest.object, &manifest.file)?;
            world.workloads.insert(key_of(&workload.metadata), workload);
        }
        Ok(())
    }

    /// Applies admission to an owner of pods, and adds the warnings; it is an error if the owner would be rejected. Where Giveway
    /// serves no groups, the webhook is not called, so nothing is rejected and there is no warning; the pods still ask for a gang, so
    /// that the plan says that none is served.
    fn admit_owner(&mut self, world: &World, manifest: &mut Manifest) -> Result<(), CliError> {
        let version = manifest.object["apiVersion"].as_str().unwrap_or_default();
        let Some(row) = kinds::of_version(version, &manifest.kind) else { return Ok(()) };
        let admitted = admit::owner(row, &mut manifest.object, world);
        if world.cluster.serves_groups_in(&manifest.namespace) {
            let warnings = admitted.map_err(|problem| manifest.refused(problem))?;
            let warnings = warnings.iter().map(|warning| manifest.field_in_file(warning)).collect();
            self.add_warnings(&manifest.title(), warnings);
        }
        Ok(())
    }

    /// Adds a PodGroup of the manifests to `world` after admission, or updates the `minCount` of an existing one. The group becomes a
    /// preemptor.
    fn admit_group(&mut self, world: &mut World, manifest: &Manifest) -> Result<(), CliError> {
        let key = ObjectKey::new(&manifest.namespace, manifest.object["metadata"]["name"].as_str().unwrap_or_default());
        let group = match world.groups.get(&key) {
            Some(stored) => {
                self.notes.push(format!("PodGroup {key} exists already: of its spec, only minCount is taken over."));
                let policy = read::<PodGroup>(&manifest.object, &manifest.file)?.spec.scheduling_policy;
                let mut group = stored.clone();
                if policy.gang.is_some() && group.spec.scheduling_policy.gang.is_some() {
                    group.spec.scheduling_policy = policy;
                }
                group
            }
            None => {
                let admitted = admit::group(manifest.object.clone(), world);
                let admitted = admitted.map_err(|problem| manifest.refused(problem))?;
                self.add_warnings(&manifest.title(), admitted.warnings);
                admitted.object
            }
        };
        change_world(world, manifest, |world| world.add_group(group), |field| field)?;
        self.add_preemptor(Preemptor::Group(key));
        Ok(())
    }

    /// Adds the pods that a controller would create from a template. If it is the only template of its object, those that exist already
    /// are left out.
    fn add_pods(&mut self, world: &mut World, manifest: &Manifest, source: expand::PodSource) -> Result<(), CliError> {
        let namespace = manifest.namespace.as_str();
        let existing = world.cluster.pods().filter(|pod| source.owns(namespace, pod)).count();
        let wanted = if source.alone { source.count.saturating_sub(existing) } else { source.count };
        if existing > 0 && !source.alone {
            let note = format!(
                "{} has {} already, {} as pods of another workload: all of its pods are planned again.",
                manifest.title(),
                wording::pods(existing),
                wording::agree(existing, "which counts", "which count")
            );
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        } else if existing > 0 {
            self.notes.push(format!(
                "{} has {} already: {} planned.",
                manifest.title(),
                wording::pods(existing),
                wording::counted(wanted, "more is", "more are")
            ));
        }
        if source.count == 0 {
            self.notes.push(format!("{}: {} asks for no pod.", manifest.title(), manifest.field_in_file(&source.path)));
        }
        self.notes.extend(source.note.clone());
        let mut index = 0;
        for _ in 0..wanted {
            let mut pod = source.pod(namespace, index);
            while world.cluster.pod(&key_of(&pod.metadata)).is_some() {
                if source.is_pod {
                    return self.add_existing_pod(world, &key_of(&pod.metadata));
                }
                index += 1;
                pod = source.pod(namespace, index);
            }
            index += 1;
            self.admit_pod(world, manifest, &source, pod)?;
        }
        Ok(())
    }

    /// Adds the preemptor of the pod `key`, which exists already, if the pod is pending.
    fn add_existing_pod(&mut self, world: &World, key: &ObjectKey) -> Result<(), CliError> {
        self.notes.push(format!("Pod {key} exists already: it is planned as it is there."));
        if let Some(pod) = world.cluster.pod(key).filter(|pod| pod.node.is_none()) {
            let ours = |group: &ObjectKey| world.cluster.group(group).is_some_and(|group| !group.native);
            let preemptor = match pod.group_key().filter(ours) {
                Some(group) => Preemptor::Group(group),
                None => Preemptor::Pod(key.clone()),
            };
            self.add_preemptor(preemptor);
        }
        Ok(())
    }

    /// Adds a pod of a template to `world` after admission, with its PodGroup if that is created for it, and adds its preemptor.
    fn admit_pod(
        &mut self,
        world: &mut World,
        manifest: &Manifest,
        source: &expand::PodSource,
        pod: Pod,
    ) -> Result<(), CliError> {
        let refused = |problem: String| manifest.refused(source.field_in_object(&problem));
        let native_group = source.native_group.as_deref();
        let admitted = admit::pod(pod, native_group, world).map_err(refused)?;
        self.add_warnings(&manifest.title(), admitted.warnings);
        let pod = admitted.object;
        if let Some(made) = admit::created_group(&pod, world, source.owner.as_ref()).map_err(refused)? {
            self.add_warnings(&format!("PodGroup {}", key_of(&made.object.metadata)), made.warnings);
            change_world(world, manifest, |world| world.add_group(made.object), |field| field)?;
        }
        let key = key_of(&pod.metadata);
        change_world(
            world,
            manifest,
            |world| world.add_pod_in(pod, native_group),
            |field| source.field_in_object(&field),
        )?;
        let Some(pod) = world.cluster.pod(&key) else { return Ok(()) };
        match pod.group_key() {
            _ if pod.node.is_some() => {}
            // kube-scheduler preempts for native groups: here each pod is decided on its own.
            Some(_) if pod.native() => self.add_preemptor(Preemptor::Pod(key)),
            Some(group) if world.cluster.group(&group).is_some() => self.add_preemptor(Preemptor::Group(group)),
            Some(group) => drop(self.missing_groups.insert(group)),
            None => self.add_preemptor(Preemptor::Pod(key)),
        }
        Ok(())
    }
}

impl expand::PodSource {
    /// Returns true if a pod belongs to an existing object of the same kind and name in this namespace: it was created before the
    /// submission.
    fn owns(&self, namespace: &str, pod: &ModelPod) -> bool {
        let is_new = pod.uid.starts_with(expand::PLANNED);
        let Some(owner) = pod.owner.as_ref().filter(|_| !is_new && pod.live() && pod.key.namespace == namespace) else {
            return false;
        };
        let hash = pod.labels.get("pod-template-hash").unwrap_or_default();
        match self.owner_kind.as_str() {
            "Deployment" => owner.kind == "ReplicaSet" && owner.name == format!("{}-{hash}", self.owner_name),
            kind => owner.kind == kind && owner.name == self.owner_name,
        }
    }
}

/// Applies `change` to `world`. An error about a pod names the object of the manifest from which the pod is created, and the field that
/// `field` returns for the field of the pod.
fn change_world(
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
