//! Reads manifests: several documents, Lists, JSON or YAML.

use crate::error::CliError;
use crate::files::{check, documents};
use crate::names;
use crate::world::name_of;
use serde_json::{Value, json};

/// Cluster-scoped kinds that manifests may contain beside pods.
const CLUSTER_SCOPED: [&str; 12] = [
    "PriorityClass",
    "Namespace",
    "Node",
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "PersistentVolume",
    "StorageClass",
    "RuntimeClass",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "APIService",
];

/// One object of a submitted file.
#[derive(Clone, Debug)]
pub(super) struct Manifest {
    /// The file that contains it.
    pub(super) file: String,
    /// Its kind.
    pub(super) kind: String,
    /// Its namespace; empty for cluster-scoped kinds.
    pub(super) namespace: String,
    /// The object. For a CronJob, the Job that one run of it creates.
    pub(super) object: Value,
    /// `NAMESPACE/NAME` of the CronJob, if the object is one run of it.
    cron_job: Option<String>,
}

/// Path of the Job in a CronJob.
const JOB_TEMPLATE: &str = "spec.jobTemplate";

impl Manifest {
    /// Returns the error that this object is rejected. `problem` is a text that begins with the field.
    pub(super) fn refused(&self, problem: impl AsRef<str>) -> CliError {
        let (kind, object) = self.original();
        let (kind, problem) = (kind.to_owned(), self.field_in_file(problem.as_ref()));
        CliError::Refused { file: self.file.clone(), kind, object, problem }
    }

    /// Returns kind and name of the object in the file: for the Job of one run, its CronJob.
    pub(super) fn original(&self) -> (&str, String) {
        match &self.cron_job {
            Some(name) => ("CronJob", name.clone()),
            None => (&self.kind, name_of(&self.object)),
        }
    }

    /// Returns kind and name of the object in the file, as one text for messages.
    pub(super) fn title(&self) -> String {
        let (kind, name) = self.original();
        format!("{kind} {name}")
    }

    /// Returns true if the object is the Job that one run of a CronJob creates.
    pub(super) fn is_run(&self) -> bool {
        self.cron_job.is_some()
    }

    /// Takes a text that begins with a field of this object, and returns it with the path of that field in the file, which differs for
    /// the Job in a CronJob.
    pub(super) fn field_in_file(&self, text: &str) -> String {
        if self.is_run() { format!("{JOB_TEMPLATE}.{text}") } else { text.to_owned() }
    }

    /// Turns a CronJob into the Job that one run of it creates, with the labels and annotations of its template.
    fn expand_cron_job(&mut self) -> Result<(), CliError> {
        let group = self.object["apiVersion"].as_str().and_then(|version| version.split_once('/'));
        if self.kind != "CronJob" || group.is_none_or(|(group, _)| group != "batch") {
            return Ok(());
        }
        self.check_names()?;
        let written = self.object.take();
        let template = &written["spec"]["jobTemplate"];
        let mut metadata = template["metadata"].as_object().cloned().unwrap_or_default();
        let name = written["metadata"]["name"].as_str().unwrap_or_default();
        metadata.insert("name".to_owned(), format!("{name}-planned").into());
        metadata.insert("namespace".to_owned(), written["metadata"]["namespace"].clone());
        self.object = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]});
        self.kind = "Job".to_owned();
        self.cron_job = Some(name_of(&written));
        Ok(())
    }

    /// Returns an error if the API server rejects the object's name or namespace. It is not called for kinds that the planner ignores,
    /// which may have other names, such as `system:node`.
    pub(super) fn check_names(&self) -> Result<(), CliError> {
        let checked = |field: &str, value: &str, check: fn(&str) -> Result<String, String>| match check(value) {
            Ok(_) => Ok(()),
            Err(problem) => Err(self.refused(format!("metadata.{field}: Invalid value: {value:?}: {problem}"))),
        };
        checked("name", self.object["metadata"]["name"].as_str().unwrap_or_default(), names::subdomain)?;
        if self.namespace.is_empty() { Ok(()) } else { checked("namespace", &self.namespace, names::label) }
    }
}

/// Reads the objects in the text of a file. Objects without a namespace get `namespace`; it is an error if one has another namespace
/// than `flag`, the value of `-n`.
pub(super) fn read(file: &str, text: &str, namespace: &str, flag: Option<&str>) -> Result<Vec<Manifest>, CliError> {
    let mut found = Vec::new();
    for (index, document) in documents(file, text)?.into_iter().enumerate().filter(|(_, document)| !document.is_null())
    {
        add_objects(document, file, &format!("document {}", index + 1), &mut found)?;
    }
    for manifest in &mut found {
        set_namespace(manifest, namespace, flag)?;
        manifest.expand_cron_job()?;
    }
    Ok(found)
}

/// Adds the object in a document, or each item of a List, to `found`. `place` names the document in errors, such as `document 2`.
fn add_objects(mut document: Value, file: &str, place: &str, found: &mut Vec<Manifest>) -> Result<(), CliError> {
    if let Some(name) = document.pointer("/metadata/generateName").cloned()
        && document["metadata"]["name"].is_null()
    {
        let name = name.as_str().unwrap_or_default().trim_end_matches('-').to_owned();
        document["metadata"]["name"] = name.into();
    }
    check(&document, file, || place.to_owned())?;
    if document["kind"] == "List" {
        let items = document.get_mut("items").map(Value::take).unwrap_or_default();
        for (index, item) in items.as_array().cloned().unwrap_or_default().into_iter().enumerate() {
            add_objects(item, file, &format!("{place}, items[{index}]"), found)?;
        }
        return Ok(());
    }
    let kind = document["kind"].as_str().unwrap_or_default().to_owned();
    found.push(Manifest { file: file.to_owned(), kind, namespace: String::new(), object: document, cron_job: None });
    Ok(())
}

/// Sets the namespace of an object without one to `namespace`. It is an error if the object has another namespace than `flag`, the
/// value of `-n`.
fn set_namespace(manifest: &mut Manifest, namespace: &str, flag: Option<&str>) -> Result<(), CliError> {
    if CLUSTER_SCOPED.contains(&manifest.kind.as_str()) {
        return Ok(());
    }
    let own = manifest.object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    if let Some(flag) = flag.filter(|flag| !own.is_empty() && *flag != own) {
        return Err(CliError::OtherNamespace {
            file: manifest.file.clone(),
            kind: manifest.kind.clone(),
            object: name_of(&manifest.object),
            namespace: own,
            flag: flag.to_owned(),
        });
    }
    manifest.namespace = if own.is_empty() { namespace.to_owned() } else { own };
    manifest.object["metadata"]["namespace"] = manifest.namespace.clone().into();
    Ok(())
}
