//! PriorityClass: a class that is created as a managed one gets `preemptionPolicy: Never`, so that kube-scheduler does
//! not preempt for it; the requested policy is stored in an annotation (design, section 2, "Managed priority classes").
//!
//! Values that no class can have are rejected in [`super::check`]; this rule does not change them.

use crate::object::{self, Map, Metadata, Text};
use crate::patch::Changes;
use crate::request::Request;
use crate::verdict::Denial;
use crate::view::ClusterView;
use crate::wording::classes;
use giveway_crds::keys::{ANNOTATION_MANAGED, ANNOTATION_PREEMPTION_POLICY};
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::priority::SYSTEM_PREFIX;
use json_patch::Patch;
use serde::Deserialize;

/// The part of a PriorityClass that rules read.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassFields<'a> {
    /// Its metadata.
    #[serde(borrow, default)]
    pub metadata: Map<Metadata<'a>>,
    /// Its preemption policy; the API server's default is `PreemptLowerPriority`.
    #[serde(borrow, default)]
    pub preemption_policy: Option<Text<'a>>,
}

impl ClassFields<'_> {
    /// Returns true if the class is annotated as a managed one.
    pub fn is_managed(&self) -> bool {
        self.metadata.annotation(ANNOTATION_MANAGED) == Some("true")
    }

    /// Returns true if the class is one of Kubernetes itself, whose names begin with `system-`.
    pub fn is_system(&self) -> bool {
        self.metadata.name.as_deref().is_some_and(|name| name.starts_with(SYSTEM_PREFIX))
    }

    /// Returns true if the class has `preemptionPolicy: Never`, so that kube-scheduler never preempts for its pods.
    pub fn is_never(&self) -> bool {
        self.preemption_policy.as_deref() == Some(PreemptionPolicy::Never.as_str())
    }
}

/// Applies the mutating rule to a PriorityClass that is created. For a managed class, or any new class if
/// the chart makes these managed, returns the patch that sets `preemptionPolicy: Never` and stores the requested policy in the
/// annotation. `None` for any other class, or if nothing changes.
///
/// A class in the form in which managed classes are stored (`preemptionPolicy: Never`, and any policy in the
/// annotation) is accepted unchanged, so that backups can be restored. Otherwise an annotation that differs from the
/// policy of the class is rejected.
pub fn create(request: &Request<'_>, view: &dyn ClusterView) -> Result<Option<Patch>, Denial> {
    let class: ClassFields = object::read("PriorityClass", request.object)?;
    let unmarked = class.metadata.annotation(ANNOTATION_MANAGED).is_none();
    let managed = class.is_managed() || (unmarked && view.settings().manage_new_classes && !class.is_system());
    if !managed {
        return Ok(None);
    }
    let asked = class.preemption_policy.as_deref().unwrap_or(PreemptionPolicy::PreemptLowerPriority.as_str());
    let kept = match class.metadata.annotation(ANNOTATION_PREEMPTION_POLICY) {
        Some(given) if given != asked && !class.is_never() => {
            return Err(classes::contradicting_policies(asked, given));
        }
        Some(given) => given,
        None => asked,
    };
    let mut changes = Changes::default();
    changes.annotation(&class.metadata, ANNOTATION_MANAGED, "true");
    changes.annotation(&class.metadata, ANNOTATION_PREEMPTION_POLICY, kept);
    never(&class, &mut changes);
    Ok(changes.finish())
}

/// Applies the mutating rule to the update of a PriorityClass, so that the manifest from which a managed class was created can
/// be applied again: if its `preemptionPolicy` equals the one in the stored annotation, the patch changes it to the stored
/// `Never`. (Otherwise the API server would reject it, because the field is immutable.) `None` if nothing changes.
pub fn update(request: &Request<'_>) -> Result<Option<Patch>, Denial> {
    let class: ClassFields = object::read("PriorityClass", request.object)?;
    let stored: ClassFields = object::read("PriorityClass", request.old_object)?;
    let asked = class.metadata.annotation(ANNOTATION_PREEMPTION_POLICY);
    let again =
        stored.is_managed() && stored.is_never() && asked.is_some() && class.preemption_policy.as_deref() == asked;
    let mut changes = Changes::default();
    if again {
        never(&class, &mut changes);
    }
    Ok(changes.finish())
}

/// Adds to `changes` that the class gets `preemptionPolicy: Never`.
fn never(class: &ClassFields<'_>, changes: &mut Changes) {
    if !class.is_never() {
        changes.set(&["preemptionPolicy"], PreemptionPolicy::Never.as_str());
    }
}
