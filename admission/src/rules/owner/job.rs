//! Jobs whose pods are a gang: a preemption evicts all of them, and a Job without a `podFailurePolicy` counts each
//! eviction as a failure. If the chart asks for it, such a Job gets a rule that ignores disruptions.

use crate::object::{self, Map};
use crate::patch::Changes;
use crate::request::{Operation, Request};
use crate::verdict::Refusal;
use giveway_crds::kinds::job::JobSpec;
use serde::Deserialize;
use serde_json::{Value, json};

/// The kind that these rules process.
pub const KIND: &str = "Job";

#[derive(Debug, Deserialize)]
struct JobFields<'a> {
    #[serde(borrow, default)]
    spec: Map<JobSpec<'a>>,
}

/// Returns the rule that ignores disruptions.
fn rule() -> Value {
    json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]})
}

/// Makes a Job tolerate the preemption of all its pods: adds the rule if Kubernetes permits it. The policy is immutable:
/// on an update, it is kept if a user applies the manifest again.
///
/// # Errors
/// The Job cannot be read (422).
pub fn survive(request: &Request<'_>, changes: &mut Changes) -> Result<(), Refusal> {
    let job: JobFields = object::read(KIND, request.object)?;
    let is_needed = match request.operation {
        Operation::Update => {
            let before: JobFields = object::read(KIND, request.old_object)?;
            job.spec.has_no_policy() && before.spec.has_only_the_rule()
        }
        _ => job.spec.accepts_the_rule(),
    };
    if is_needed {
        write(&job.spec, changes);
    }
    Ok(())
}

/// Adds the rule before the others, because the first matching rule applies.
fn write(spec: &JobSpec<'_>, changes: &mut Changes) {
    if spec.has_rules() {
        changes.set(&["spec", "podFailurePolicy", "rules", "0"], rule());
    } else {
        changes.set(&["spec", "podFailurePolicy"], json!({ "rules": [rule()] }));
        // A policy requires this value, and the API server has filled in the default for Jobs without one.
        changes.set(&["spec", "podReplacementPolicy"], "Failed");
    }
}
