//! Jobs whose pods are a gang: a preemption evicts all of them, and a Job without a `podFailurePolicy` counts each
//! eviction as a failure. Such a Job gets a rule that ignores disruptions, or its creator gets a warning.

use crate::object::{self, Map, Text};
use crate::patch::Changes;
use crate::review::{Operation, Request};
use crate::verdict::{Notes, Refusal};
use giveway_crds::wording::{counted, pods};
use serde::Deserialize;
use serde_json::{Value, json};

/// The kind that these rules process.
pub const KIND: &str = "Job";

/// Default of `backoffLimit`.
const DEFAULT_BACKOFF_LIMIT: i64 = 6;
/// Maximum number of rules in a policy.
const MOST_RULES: usize = 20;

#[derive(Debug, Deserialize)]
struct Facts<'a> {
    #[serde(borrow, default)]
    spec: Map<Spec<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(default)]
    parallelism: Option<i64>,
    #[serde(default)]
    completions: Option<i64>,
    #[serde(default)]
    backoff_limit: Option<i64>,
    #[serde(default)]
    backoff_limit_per_index: Option<i64>,
    #[serde(borrow, default)]
    pod_failure_policy: Option<Map<Policy<'a>>>,
    #[serde(borrow, default)]
    template: Map<Template<'a>>,
}

#[derive(Debug, Default, Deserialize)]
struct Policy<'a> {
    #[serde(borrow, default)]
    rules: Option<Vec<Map<Rule<'a>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule<'a> {
    #[serde(borrow, default)]
    action: Text<'a>,
    #[serde(borrow, default)]
    on_pod_conditions: Option<Vec<Map<Pattern<'a>>>>,
}

#[derive(Debug, Default, Deserialize)]
struct Pattern<'a> {
    #[serde(borrow, default, rename = "type")]
    type_: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
struct Template<'a> {
    #[serde(borrow, default)]
    spec: Map<PodSpec<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec<'a> {
    #[serde(borrow, default)]
    restart_policy: Text<'a>,
}

impl Spec<'_> {
    fn size(&self) -> i64 {
        let parallelism = self.parallelism.unwrap_or(1);
        self.completions.map_or(parallelism, |completions| completions.min(parallelism))
    }

    fn backoff_limit(&self) -> i64 {
        self.backoff_limit.unwrap_or(DEFAULT_BACKOFF_LIMIT)
    }

    /// Returns how many failures a preemption of all pods causes, and how many the Job permits.
    fn costs(&self) -> String {
        match (self.backoff_limit_per_index, self.size()) {
            (Some(limit), _) => format!("is a failure of each index, and backoffLimitPerIndex is {limit}"),
            (None, 1) => format!("is a failure, and backoffLimit is {}", self.backoff_limit()),
            (None, size) => format!(
                "of {} is {}, and backoffLimit is {}",
                pods(size),
                counted(size, "failure", "failures"),
                self.backoff_limit()
            ),
        }
    }

    fn rules(&self) -> usize {
        self.pod_failure_policy.iter().filter_map(|policy| policy.rules.as_ref()).map(Vec::len).sum()
    }

    /// Returns true if one of its rules ignores disruptions.
    fn ignores_disruptions(&self) -> bool {
        let rules = self.pod_failure_policy.iter().filter_map(|policy| policy.rules.as_ref()).flatten();
        rules.filter(|rule| &*rule.action == "Ignore").any(|rule| {
            let mut conditions = rule.on_pod_conditions.iter().flatten();
            conditions.any(|condition| &*condition.type_ == "DisruptionTarget")
        })
    }
}

/// Returns the rule that ignores disruptions.
fn rule() -> Value {
    json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]})
}

/// Makes a Job tolerate the preemption of all its pods: adds the rule if `add` is set and Kubernetes permits it, and
/// warns otherwise. `gang` is true if its pods are a gang; other Jobs are not changed. The policy is immutable.
pub fn survive(
    request: &Request<'_>,
    gang: bool,
    add: bool,
    changes: &mut Changes,
    notes: &mut Notes,
) -> Result<(), Refusal> {
    if !gang {
        return Ok(());
    }
    let job: Facts = object::read(KIND, request.object)?;
    let spec = &*job.spec;
    if request.operation == Operation::Update {
        return if add { keep(request, spec, changes) } else { Ok(()) };
    }
    if spec.ignores_disruptions() {
        return Ok(());
    }
    let never = &*spec.template.spec.restart_policy == "Never";
    if add && never && spec.rules() < MOST_RULES {
        write(spec, changes);
        return Ok(());
    }
    let fix = if never { "add" } else { "set template.spec.restartPolicy: Never and add" };
    notes.warn(format!(
        "spec.podFailurePolicy: each preemption {}: {fix} rules: [{{action: Ignore, onPodConditions: [{{type: DisruptionTarget}}]}}]",
        spec.costs()
    ));
    Ok(())
}

/// Adds the rule before the others, because the first matching rule applies.
fn write(spec: &Spec<'_>, changes: &mut Changes) {
    match spec.pod_failure_policy.as_ref().map(|policy| policy.rules.is_some()) {
        Some(true) => changes.set(&["spec", "podFailurePolicy", "rules", "0"], rule()),
        _ => {
            changes.set(&["spec", "podFailurePolicy"], json!({ "rules": [rule()] }));
            // A policy requires this value, and the API server has filled in the default for Jobs without one.
            changes.set(&["spec", "podReplacementPolicy"], "Failed");
        }
    }
}

/// On an update: keeps a policy that was added at the creation if a user applies the manifest again.
fn keep(request: &Request<'_>, spec: &Spec<'_>, changes: &mut Changes) -> Result<(), Refusal> {
    let before: Facts = object::read(KIND, request.old_object)?;
    if spec.pod_failure_policy.is_none() && before.spec.rules() == 1 && before.spec.ignores_disruptions() {
        write(spec, changes);
    }
    Ok(())
}
