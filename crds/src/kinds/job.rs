//! Specs of the Jobs of an owner, and what a preemption of all pods does to such a Job: the pods of a gang are evicted
//! together, and a Job without a rule that ignores disruptions counts each eviction as a failure.

use super::templates::Grouped;
use crate::brief::shorten;
use crate::json::{FieldPlace, First, Json, Text};
use crate::wording::{counted, pods};
use serde::Deserialize;

/// Default of `backoffLimit`.
pub const DEFAULT_BACKOFF_LIMIT: i64 = 6;
/// Maximum number of rules in a `podFailurePolicy`.
const MOST_RULES: usize = 20;
/// Seconds that the Job controller waits before it replaces a failed pod; doubled for each further one that failed at the
/// same time.
const BACKOFF: i64 = 10;
/// The longest such time.
const LONGEST_BACKOFF: i64 = 600;
/// Maximum number of `completions` of a Job with a back-off for each index and without `maxFailedIndexes`.
const MOST_COMPLETIONS: i64 = 100_000;
/// The shortest such time that is warned about.
const LONG_BACKOFF: i64 = 60;
/// Exit code of a pod that is terminated by SIGTERM, as by a preemption.
const SIGTERM: i64 = 143;
/// The rule that ignores disruptions, as users write it.
const RULE: &str = "{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}";

/// What admission adds to a Job of a gang, if Kubernetes permits it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Additions {
    /// The rule that ignores disruptions.
    pub rule: bool,
    /// A back-off for each index.
    pub backoff: bool,
}

/// The fields of a Job's spec that concern its pods as a gang.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSpec<'a> {
    #[serde(default)]
    parallelism: Option<i64>,
    #[serde(default)]
    completions: Option<i64>,
    #[serde(borrow, default)]
    completion_mode: Option<Text<'a>>,
    #[serde(default)]
    backoff_limit: Option<i64>,
    #[serde(default)]
    backoff_limit_per_index: Option<i64>,
    #[serde(borrow, default)]
    pod_failure_policy: Option<FailurePolicy<'a>>,
    #[serde(borrow, default)]
    template: Option<Template<'a>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct FailurePolicy<'a> {
    #[serde(borrow, default)]
    rules: Option<First<Rule<'a>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule<'a> {
    #[serde(borrow, default)]
    action: Text<'a>,
    #[serde(borrow, default)]
    on_pod_conditions: Option<First<Pattern<'a>>>,
    #[serde(borrow, default)]
    on_exit_codes: Option<ExitCodes<'a>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ExitCodes<'a> {
    #[serde(borrow, default)]
    operator: Text<'a>,
    #[serde(default)]
    values: Option<First<i64>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Pattern<'a> {
    #[serde(borrow, default, rename = "type")]
    type_: Text<'a>,
    #[serde(borrow, default)]
    status: Option<Text<'a>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Template<'a> {
    #[serde(borrow, default)]
    spec: Option<PodSpec<'a>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec<'a> {
    #[serde(borrow, default)]
    restart_policy: Option<Text<'a>>,
}

impl Rule<'_> {
    /// Returns true if this `podFailurePolicy` rule matches a preempted pod by its condition `DisruptionTarget`.
    fn matches_disruption(&self) -> bool {
        let patterns = self.on_pod_conditions.as_deref().unwrap_or_default();
        let is_true = |status: &Option<Text<'_>>| status.as_deref().is_none_or(|status| matches!(status, "" | "True"));
        patterns.iter().any(|pattern| &*pattern.type_ == "DisruptionTarget" && is_true(&pattern.status))
    }
}

impl ExitCodes<'_> {
    /// Returns true if these exit codes of a `podFailurePolicy` rule match a container that SIGTERM ended (143).
    fn match_sigterm(&self) -> bool {
        let is_listed = self.values.as_deref().unwrap_or_default().contains(&SIGTERM);
        match &*self.operator {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        }
    }
}

/// What a Job's `podFailurePolicy` does with a preempted pod.
enum Effect {
    /// It counts no failure.
    Ignored,
    /// No rule is certain to match: it counts a failure.
    Counted,
    /// The rule with this index matches its condition and has another action.
    ByCondition(usize),
    /// The rule with this index matches its exit code and has another action.
    ByExitCode(usize),
}

impl<'a> JobSpec<'a> {
    /// Returns how many pods of the Job run at the same time: its parallelism, or its completions if these are fewer.
    pub fn size(&self) -> i64 {
        let parallelism = self.parallelism.unwrap_or(1);
        self.completions.map_or(parallelism, |completions| completions.min(parallelism))
    }

    /// Returns true if the Job's `podFailurePolicy` states a list of rules, which may be empty.
    pub fn has_rules(&self) -> bool {
        self.pod_failure_policy.as_ref().is_some_and(|policy| policy.rules.is_some())
    }

    /// Returns true if the Job has no `podFailurePolicy`.
    pub fn has_no_policy(&self) -> bool {
        self.pod_failure_policy.is_none()
    }

    /// Returns true if the only rule of the Job's `podFailurePolicy` is the one that ignores disruptions.
    pub fn has_only_the_rule(&self) -> bool {
        self.rules().len() == 1 && matches!(self.effect(), Effect::Ignored)
    }

    /// Returns true if the rule that ignores disruptions can be added to the Job's `podFailurePolicy`: Kubernetes permits it
    /// there, and no rule of the user already decides about preempted pods.
    pub fn accepts_the_rule(&self) -> bool {
        matches!(self.effect(), Effect::Counted) && self.never_restarts() && self.rules().len() < MOST_RULES
    }

    /// Returns true if `backoffLimitPerIndex` can be added to the Job: it is missing, and Kubernetes permits it. `indexed` is true
    /// if a Job without a `completionMode` counts as an indexed one.
    pub fn accepts_a_backoff(&self, indexed: bool) -> bool {
        let has_few = self.completions.is_none_or(|completions| completions <= MOST_COMPLETIONS);
        self.backoff_limit_per_index.is_none() && has_few && self.never_restarts() && self.is_indexed(indexed)
    }

    /// Returns the Job's `backoffLimit`, or the default of Kubernetes if it states none.
    pub fn backoff_limit(&self) -> i64 {
        self.backoff_limit.unwrap_or(DEFAULT_BACKOFF_LIMIT)
    }

    /// Returns `backoffLimitPerIndex` if admission may have added it, which it does with the value of `backoffLimit`; otherwise `None`.
    pub fn added_backoff(&self) -> Option<i64> {
        self.backoff_limit_per_index.filter(|limit| self.backoff_limit == Some(*limit))
    }

    /// Returns true if the Job states `backoffLimitPerIndex`, the limit of failures for each index.
    pub fn has_a_backoff(&self) -> bool {
        self.backoff_limit_per_index.is_some()
    }

    /// Returns the warnings about what a preemption does to the Job whose spec is at `path` in the owner. `adds` says what
    /// admission adds to Jobs that permit it; `indexed` is true if a Job without a `completionMode` counts as an indexed one.
    pub fn warnings(&self, path: &str, adds: Additions, indexed: bool) -> Vec<String> {
        let adds_rule = adds.rule && self.accepts_the_rule();
        let rule = match self.effect() {
            Effect::Ignored => None,
            Effect::Counted if adds_rule => None,
            Effect::Counted => {
                let fix = if self.never_restarts() { "add" } else { "set template.spec.restartPolicy: Never and add" };
                Some(format!("{path}.podFailurePolicy: each preemption {}: {fix} rules: [{RULE}]", self.costs()))
            }
            Effect::ByCondition(index) => {
                Some(self.other_action(path, index, "DisruptionTarget", "use action: Ignore"))
            }
            Effect::ByExitCode(index) => {
                let matched = format!("exit code {SIGTERM} (SIGTERM)");
                Some(self.other_action(path, index, &matched, &format!("put the rule {RULE} before it")))
            }
        };
        let has_policy = !self.rules().is_empty() || adds_rule;
        let adds_backoff = adds.backoff && self.accepts_a_backoff(indexed);
        let backoff = if has_policy && !adds_backoff { self.long_backoff(path, indexed) } else { None };
        rule.into_iter().chain(backoff).collect()
    }

    /// Returns the warning that the Job waits long before it replaces preempted pods; `None` if the time is short. Without
    /// `backoffLimitPerIndex`, the failures of all pods lengthen it, also those that a rule ignores. Parameters as for
    /// [`warnings`](Self::warnings).
    fn long_backoff(&self, path: &str, indexed: bool) -> Option<String> {
        let size = self.size();
        let doublings = u32::try_from(size.saturating_sub(1)).unwrap_or(0).min(6);
        let seconds = (BACKOFF << doublings).min(LONGEST_BACKOFF);
        if seconds < LONG_BACKOFF || self.backoff_limit_per_index.is_some() || !self.never_restarts() {
            return None;
        }
        let mode = if self.is_indexed(indexed) { String::new() } else { "completionMode: Indexed, ".to_owned() };
        let completions = self.completions.map_or_else(|| format!("completions: {size}, "), |_| String::new());
        Some(format!(
            "{path}.backoffLimitPerIndex: after a preemption of {} the Job waits {seconds} s before it creates pods again: add \
             {mode}{completions}backoffLimitPerIndex: 3, and it waits {BACKOFF} s",
            pods(size)
        ))
    }

    /// Returns the warning that the rule with this index of the Job's `podFailurePolicy` matches a preempted pod and does not ignore it.
    /// `matched` says what the rule matches, `fix` what the user can do.
    fn other_action(&self, path: &str, index: usize, matched: &str, fix: &str) -> String {
        let action = self.rules().get(index).map(|rule| shorten(&rule.action)).unwrap_or_default();
        let effect = match &*action {
            "FailJob" => "a preemption fails the Job".to_owned(),
            "FailIndex" => "a preemption fails the indexes of its pods".to_owned(),
            _ => format!("each preemption {}", self.costs()),
        };
        format!("{path}.podFailurePolicy.rules[{index}]: {action} matches {matched}, so {effect}: {fix}")
    }

    /// Returns what the Job's `podFailurePolicy` does with a preempted pod: the first rule that matches it decides.
    fn effect(&self) -> Effect {
        for (index, rule) in self.rules().iter().enumerate() {
            let ignores = &*rule.action == "Ignore";
            if rule.matches_disruption() {
                return if ignores { Effect::Ignored } else { Effect::ByCondition(index) };
            }
            if !ignores && rule.on_exit_codes.as_ref().is_some_and(ExitCodes::match_sigterm) {
                return Effect::ByExitCode(index);
            }
        }
        Effect::Counted
    }

    /// Returns the rules of the Job's `podFailurePolicy`; empty if it has none.
    fn rules(&self) -> &[Rule<'a>] {
        self.pod_failure_policy.as_ref().and_then(|policy| policy.rules.as_deref()).unwrap_or_default()
    }

    /// Returns true if the Job's completion mode is `Indexed`; returns `by_default` for a Job without a completion mode.
    fn is_indexed(&self, by_default: bool) -> bool {
        self.completion_mode.as_deref().map_or(by_default, |mode| mode == "Indexed")
    }

    /// Returns true if the Job's pod template has `restartPolicy: Never`.
    fn never_restarts(&self) -> bool {
        let spec = self.template.as_ref().and_then(|template| template.spec.as_ref());
        spec.and_then(|spec| spec.restart_policy.as_deref()) == Some("Never")
    }

    /// Returns the clause that says how many failures a preemption of all pods of the Job causes, and how many the Job permits.
    fn costs(&self) -> String {
        let limit = self.backoff_limit();
        // With the limit of the Job for each index, the Job fails as early as without one.
        match (self.backoff_limit_per_index.filter(|_| self.added_backoff().is_none()), self.size()) {
            (Some(limit), _) => format!("is a failure of each index, and backoffLimitPerIndex is {limit}"),
            // A Job may be created without pods and get more later.
            (None, ..=1) => format!("is a failure, and backoffLimit is {limit}"),
            (None, size) => {
                format!("of {} is {}, and backoffLimit is {limit}", pods(size), counted(size, "failure", "failures"))
            }
        }
    }
}

/// Returns that Job spec among `specs`, the Job specs in an owner, which contains the pod template `template`; `None` if none does, or if
/// it cannot be read.
pub fn of_template<'a, J: Json<'a>>(specs: &[FieldPlace<J>], template: &Grouped<J>) -> Option<JobSpec<'a>> {
    specs.iter().find(|spec| template.place.path.starts_with(&spec.path))?.value?.read()
}
