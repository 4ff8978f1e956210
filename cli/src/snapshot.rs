//! Reads a snapshot, a v1 `List` in JSON or YAML, into the planner's model.

use crate::error::CliError;
use giveway_crds::PodGroup;
use giveway_planner::{Cluster, Preemptor};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::Read;
use std::path::Path;

/// Reads a file; `-` is standard input.
pub(crate) fn read(path: &Path) -> Result<Cluster, CliError> {
    let (file, text) = if path == Path::new("-") {
        let mut text = String::new();
        (String::from("standard input"), std::io::stdin().read_to_string(&mut text).map(|_| text))
    } else {
        (path.display().to_string(), std::fs::read_to_string(path))
    };
    let text = text.map_err(|source| CliError::Read { file: file.clone(), source })?;
    let mut cluster = Cluster::default();
    cluster.trust_pod_policy = true;
    Reader { file, cluster }.list(&text)
}

/// Whether the group or pod is in the model.
pub(crate) fn has(cluster: &Cluster, preemptor: &Preemptor) -> bool {
    match preemptor {
        Preemptor::Group(key) => cluster.group(key).is_some(),
        Preemptor::Pod(key) => cluster.pod(key).is_some(),
    }
}

struct Reader {
    file: String,
    cluster: Cluster,
}

impl Reader {
    fn list(mut self, text: &str) -> Result<Cluster, CliError> {
        let list: Value = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| self.syntax(&error))?
        } else {
            serde_yaml_ng::from_str(text).map_err(|error| self.syntax(&error))?
        };
        let kind = list["kind"].as_str().unwrap_or_default();
        let Some(items) = list["items"].as_array().filter(|_| kind == "List") else {
            return Err(CliError::NotAList { file: self.file, kind: kind.to_owned() });
        };
        for (index, item) in items.iter().enumerate() {
            self.item(index, item)?;
        }
        Ok(self.cluster)
    }

    fn syntax(&self, error: &dyn std::fmt::Display) -> CliError {
        CliError::Syntax { file: self.file.clone(), problem: error.to_string() }
    }

    fn item(&mut self, index: usize, item: &Value) -> Result<(), CliError> {
        let field = |name: &'static str, value: &Value| match value.as_str() {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(CliError::NotAnObject { file: self.file.clone(), index, field: name }),
        };
        let (version, kind) = (field("apiVersion", &item["apiVersion"])?, field("kind", &item["kind"])?);
        field("metadata.name", &item["metadata"]["name"])?;
        let taken = match (version.as_str(), kind.as_str()) {
            ("v1", "Node") => self.cluster.upsert_node(&self.object::<Node>(item)?),
            ("v1", "Pod") => self.cluster.upsert_pod(&self.object::<Pod>(item)?),
            ("scheduling.giveway.dev/v1alpha1", "PodGroup") => {
                self.cluster.upsert_group(&self.object::<PodGroup>(item)?)
            }
            ("policy/v1", "PodDisruptionBudget") => {
                self.cluster.upsert_budget(&self.object::<PodDisruptionBudget>(item)?)
            }
            ("scheduling.k8s.io/v1", "PriorityClass") => {
                Ok(self.cluster.upsert_class(&self.object::<PriorityClass>(item)?))
            }
            _ => Ok(false),
        };
        match taken {
            Ok(_) => Ok(()),
            Err(error) => Err(CliError::Model { file: self.file.clone(), source: Box::new(error) }),
        }
    }

    fn object<T: DeserializeOwned>(&self, item: &Value) -> Result<T, CliError> {
        serde_path_to_error::deserialize(item).map_err(|error| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (namespace, name) = (text(&item["metadata"]["namespace"]), text(&item["metadata"]["name"]));
            CliError::Object {
                file: self.file.clone(),
                kind: text(&item["kind"]),
                object: if namespace.is_empty() { name } else { format!("{namespace}/{name}") },
                field: error.path().to_string(),
                problem: error.inner().to_string(),
            }
        })
    }
}
