//! Workload, create and update: class and priority of each template are filled (design, section 3, rule 1).

use crate::object::{self, Map, Metadata, Text};
use crate::patch::Changes;
use crate::request::{Operation, Request};
use crate::rules::priority::{self, SpecPath, StatedPriority};
use crate::verdict::{Denial, Notes};
use crate::view::ClusterView;
use giveway_crds::workload::MOST_TEMPLATES;
use json_patch::Patch;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// The part of a Workload that rules read.
#[derive(Debug, Deserialize)]
pub struct WorkloadFields<'a> {
    /// Its metadata.
    #[serde(borrow, default)]
    pub metadata: Map<Metadata<'a>>,
    /// Its templates.
    #[serde(borrow, default)]
    pub spec: Map<Spec<'a>>,
}

/// The part of a Workload's spec that rules read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec<'a> {
    /// The templates, in order.
    #[serde(borrow, default)]
    pub pod_group_templates: Templates<'a>,
}

/// The templates, in order: at most one more than permitted; further ones are skipped.
#[derive(Debug, Default)]
pub struct Templates<'a>(Vec<Map<WorkloadTemplate<'a>>>);

impl<'a> Templates<'a> {
    /// Returns the templates; none if there are more than permitted: then the API server rejects the Workload.
    pub fn iter(&self) -> impl Iterator<Item = &Map<WorkloadTemplate<'a>>> {
        self.0.iter().filter(|_| self.0.len() <= MOST_TEMPLATES)
    }

    /// Returns true if the Workload has more templates than permitted.
    pub fn are_too_many(&self) -> bool {
        self.0.len() > MOST_TEMPLATES
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Templates<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TemplatesVisitor;

        impl<'de> Visitor<'de> for TemplatesVisitor {
            type Value = Templates<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                Ok(Templates(object::first_items(list, MOST_TEMPLATES + 1)?))
            }
        }

        deserializer.deserialize_seq(TemplatesVisitor)
    }
}

/// The part of a template that rules read.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadTemplate<'a> {
    /// Its name; the API server rejects templates without a name.
    #[serde(borrow, default)]
    pub name: Text<'a>,
    /// Name of its class.
    #[serde(borrow, default)]
    pub priority_class_name: Option<Text<'a>>,
    /// Its priority.
    #[serde(default)]
    pub priority: Option<i64>,
}

impl<'a> WorkloadTemplate<'a> {
    /// Returns the priority and the class name in the template. Its preemption policy is `None`: templates have none, and groups
    /// get the class's.
    pub fn given(&self) -> StatedPriority<'a> {
        StatedPriority {
            priority_class_name: self.priority_class_name.clone(),
            priority: self.priority,
            preemption_policy: None,
        }
    }
}

/// Returns the priority fields of the stored Workload's templates, by name of the template; `None` unless the request is an update.
pub fn stored_templates<'a>(request: &Request<'a>) -> Result<Option<BTreeMap<Text<'a>, StatedPriority<'a>>>, Denial> {
    if request.operation != Operation::Update {
        return Ok(None);
    }
    let stored: WorkloadFields = object::read("Workload", request.old_object)?;
    Ok(Some(stored.spec.pod_group_templates.iter().map(|t| (t.name.clone(), t.given())).collect()))
}

/// Applies the mutating rule to a Workload that is created or updated: sets the priority fields that follow from the class of
/// each template, unless there are too many templates. On an update, stored values are kept. Returns the patch; `None` if
/// nothing changes.
pub fn fill(request: &Request<'_>, view: &dyn ClusterView, notes: &mut Notes) -> Result<Option<Patch>, Denial> {
    let workload: WorkloadFields = object::read("Workload", request.object)?;
    if workload.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let stored = stored_templates(request)?;
    let mut changes = Changes::default();
    for (index, template) in workload.spec.pod_group_templates.iter().enumerate() {
        let before = stored.as_ref().and_then(|s| s.get(&template.name));
        priority::fill(&SpecPath::template(index), &template.given(), before, view, &mut changes, notes)?;
    }
    notes.warnings.dedup();
    Ok(changes.finish())
}
