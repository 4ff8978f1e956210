//! Jobs whose pods are a gang: a preemption evicts all of them, and a Job without a `podFailurePolicy` counts each
//! eviction as a failure. If the chart asks for it, such a Job gets a rule that ignores disruptions, and a back-off for
//! each index.

use crate::object::{self, Map};
use crate::patch::Changes;
use crate::request::{Operation, Request};
use crate::verdict::Denial;
use giveway_crds::kinds::job::{Additions, JobSpec};
use serde::Deserialize;
use serde_json::{Value, json};

/// The kind that these rules process.
pub const KIND: &str = "Job";

#[derive(Debug, Deserialize)]
struct JobFields<'a> {
    #[serde(borrow, default)]
    spec: Map<JobSpec<'a>>,
}

/// Returns the `podFailurePolicy` rule, as JSON, that ignores pods with the condition `DisruptionTarget`.
fn rule() -> Value {
    json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]})
}

/// Adds to `changes` what lets a Job survive the preemption of all its pods: a `podFailurePolicy` rule that ignores disruptions,
/// and `backoffLimitPerIndex`. Each is added only if `adds` (from the chart) asks for it and Kubernetes permits it. These fields
/// are immutable: on an update, the ones that were added at the creation are restored if a user applies the manifest again.
///
/// # Errors
/// The Job cannot be read (422).
pub fn tolerate_preemption(request: &Request<'_>, adds: Additions, changes: &mut Changes) -> Result<(), Denial> {
    if adds == Additions::default() {
        return Ok(());
    }
    let job: JobFields = object::read(KIND, request.object)?;
    let before: Option<JobFields> = match request.operation {
        Operation::Update => Some(object::read(KIND, request.old_object)?),
        _ => None,
    };
    let needs_rule = match &before {
        Some(before) => job.spec.has_no_policy() && before.spec.has_only_the_rule(),
        None => job.spec.accepts_the_rule(),
    };
    if adds.rule && needs_rule {
        write_rule(&job.spec, changes);
    }
    let limit = match &before {
        Some(before) => before.spec.added_backoff().filter(|_| !job.spec.has_a_backoff()),
        None => job.spec.accepts_a_backoff(false).then(|| job.spec.backoff_limit()),
    };
    if let Some(limit) = limit.filter(|_| adds.backoff) {
        changes.set(&["spec", "backoffLimitPerIndex"], limit);
    }
    Ok(())
}

/// Adds the rule that ignores disruptions to the Job's `podFailurePolicy`, before the other rules, because the first matching
/// rule applies.
fn write_rule(spec: &JobSpec<'_>, changes: &mut Changes) {
    if spec.has_rules() {
        changes.set(&["spec", "podFailurePolicy", "rules", "0"], rule());
    } else {
        changes.set(&["spec", "podFailurePolicy"], json!({ "rules": [rule()] }));
        // A policy requires this value, and the API server has filled in the default for Jobs without one.
        changes.set(&["spec", "podReplacementPolicy"], "Failed");
    }
}
