//! Workload, create and update: class and priority of each template are filled (design, section 3, rule 1).

use super::priority::{self, Given};
use crate::object::{self, Metadata};
use crate::review::{Operation, Request};
use crate::verdict::{Notes, Refusal};
use crate::view::View;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The part of a Workload that rules read.
#[derive(Debug, Deserialize)]
pub struct Facts {
    /// Its metadata.
    #[serde(default)]
    pub metadata: Metadata,
    /// Its templates.
    #[serde(default)]
    pub spec: Spec,
}

/// The part of a Workload's spec that rules read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// The templates, in order.
    #[serde(default)]
    pub pod_group_templates: Vec<Template>,
}

/// The part of a template that rules read.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Its name; the API server refuses templates without.
    #[serde(default)]
    pub name: String,
    /// Name of its class.
    #[serde(default)]
    pub priority_class_name: Option<String>,
    /// Its priority.
    #[serde(default)]
    pub priority: Option<i64>,
}

impl Template {
    /// What the template says of its priority. Templates have no preemption policy: groups take the class's.
    pub fn given(&self) -> Given {
        Given {
            priority_class_name: self.priority_class_name.clone(),
            priority: self.priority,
            preemption_policy: None,
        }
    }
}

/// The path of a template, as errors name it.
pub fn template_path(index: usize) -> String {
    format!("spec.podGroupTemplates[{index}]")
}

/// The templates as they are stored, by name; `None` unless the request is an update.
pub fn stored_templates(request: &Request) -> Result<Option<BTreeMap<String, Given>>, Refusal> {
    if request.operation != Operation::Update {
        return Ok(None);
    }
    let stored: Facts = object::read("Workload", &request.old_object)?;
    Ok(Some(stored.spec.pod_group_templates.into_iter().map(|t| (t.name.clone(), t.given())).collect()))
}

/// Fills what follows from the priority class of each template. On an update, what is stored stays.
pub fn fill(request: &Request, view: &View, notes: &mut Notes) -> Result<Option<Value>, Refusal> {
    let workload: Facts = object::read("Workload", &request.object)?;
    if workload.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let stored = stored_templates(request)?;
    let mut object = request.object.clone();
    for (index, template) in workload.spec.pod_group_templates.iter().enumerate() {
        let path = template_path(index);
        let before = stored.as_ref().and_then(|s| s.get(&template.name));
        let Some(target) = object.pointer_mut(&format!("/spec/podGroupTemplates/{index}")) else { continue };
        priority::fill(target, &path, &template.given(), before, view, notes)?;
    }
    notes.warnings.dedup();
    Ok(Some(object))
}
