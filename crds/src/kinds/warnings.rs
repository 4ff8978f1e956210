//! Warnings for the creator of a gang: what works, but not as its creator may expect. Admission and the CLI use the same
//! texts.

use super::job::{Additions, DEFAULT_BACKOFF_LIMIT, JobSpec};
use super::templates::Grouped;
use super::{OwnerKind, classes};
use crate::json::{Json, Text, fields, places};
use crate::priority::Classes;
use crate::wording::counted;

/// Maximum number of warnings about one owner, which may have hundreds of Jobs.
const MOST_WARNINGS: usize = 8;

/// Returns the warnings for the creator of an owner, of whose pod templates `templates` belong to groups: settings that let the gang
/// start, but may surprise. `known` are the PriorityClasses of the cluster; `adds` says what admission adds to Jobs that permit it.
pub fn warnings<'a, J: Json<'a>>(
    row: &OwnerKind,
    owner: J,
    templates: &[Grouped<J>],
    known: &Classes,
    adds: Additions,
) -> Vec<String> {
    let classes = classes::warning(&classes::named(row, owner, templates), known);
    let jobs = of_jobs(row, owner, templates, adds);
    let launcher = of_launcher(row, owner, templates, adds);
    let deadlines = of_deadlines(row, owner, templates);
    classes.into_iter().chain(jobs).chain(launcher).chain(deadlines).take(MOST_WARNINGS).collect()
}

/// Returns the warnings about the Job specs in an owner whose pods are members of a group.
fn of_jobs<'a, J: Json<'a>>(row: &OwnerKind, owner: J, templates: &[Grouped<J>], adds: Additions) -> Vec<String> {
    let Some(kind) = row.jobs else { return Vec::new() };
    let specs = places(owner, kind.specs).into_iter();
    let grouped = specs.filter(|spec| templates.iter().any(|each| each.place.path.starts_with(&spec.path)));
    let jobs = grouped.filter_map(|spec| Some((spec.named(), spec.value?.read::<JobSpec<'a>>()?)));
    jobs.flat_map(|(path, job)| job.warnings(&path, adds, kind.indexed)).collect()
}

/// Returns the warning that the Job of a launcher pod (as in an MPIJob) counts each preemption as a failure. `None` if the
/// owner's kind has no launcher, the launcher is no member of a group, or the owner or admission (`adds`) prevents that.
fn of_launcher<'a, J: Json<'a>>(
    row: &OwnerKind,
    owner: J,
    templates: &[Grouped<J>],
    adds: Additions,
) -> Option<String> {
    let launcher = row.launcher?;
    let replica = format!("{}.", launcher.replica);
    templates.iter().find(|each| each.place.named().starts_with(&replica))?;
    let policy = fields::value::<Text<'a>>(owner, &format!("{replica}restartPolicy"));
    let is_stated = fields::value::<i64>(owner, launcher.limit).is_some();
    let is_ignored = adds.rule && policy.as_deref() == Some("Never");
    (!is_stated && !is_ignored).then(|| {
        format!(
            "{}: each preemption is a failure of the launcher's Job, and backoffLimit is {DEFAULT_BACKOFF_LIMIT}: set a \
             higher one, such as backoffLimit: 100",
            launcher.limit
        )
    })
}

/// Returns the warnings about deadlines in an owner that run already while its pods are gated.
fn of_deadlines<'a, J: Json<'a>>(row: &OwnerKind, owner: J, templates: &[Grouped<J>]) -> Vec<String> {
    let kind = if row.jobs.is_some() { "Job" } else { row.kind };
    let mut warnings = Vec::new();
    for pattern in row.deadlines.iter().filter(|_| !templates.is_empty()) {
        for place in places(owner, pattern) {
            let holder = place.path.split_last().map_or(&[][..], |(_, holder)| holder);
            let is_of_gang = !pattern.contains('*') || templates.iter().any(|each| each.place.path.starts_with(holder));
            let stated = place.value.and_then(|value| value.read::<i64>());
            if let Some(seconds) = stated.filter(|_| is_of_gang) {
                warnings.push(format!(
                    "{}: {} counted from the start of the {kind}, also while its pods are gated: allow for that \
                     time, or set activeDeadlineSeconds of the pod template, which counts from the start of each pod",
                    place.named(),
                    counted(seconds, "s is", "s are")
                ));
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::templates::grouped;
    use crate::kinds::{GangSettings, KINDS};
    use serde_json::{Value, json};

    /// Returns the warnings for a gang of this kind.
    fn of(kind: &str, spec: &Value, adds_rule: bool) -> Vec<String> {
        with_additions(kind, spec, Additions { rule: adds_rule, backoff: false })
    }

    fn with_additions(kind: &str, spec: &Value, adds: Additions) -> Vec<String> {
        let row = KINDS.iter().find(|row| row.kind == kind).unwrap();
        let owner = json!({ "spec": spec });
        warnings(row, &owner, &grouped(row, &owner, true, &GangSettings::default()), &Classes::default(), adds)
    }

    fn job(size: i64, fields: &Value) -> Value {
        let mut spec =
            json!({"parallelism": size, "completions": size, "template": {"spec": {"restartPolicy": "Never"}}});
        for (key, value) in fields.as_object().unwrap() {
            spec[key] = value.clone();
        }
        spec
    }

    fn job_set(jobs: &[Value]) -> Value {
        json!({"replicatedJobs": jobs.iter().map(|spec| json!({"template": {"spec": spec}})).collect::<Vec<_>>()})
    }

    const IGNORED: &str = "{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}";

    fn ignoring() -> Value {
        json!({
            "backoffLimitPerIndex": 3,
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
        })
    }

    #[test]
    fn each_job_of_a_jobset_that_a_preemption_would_fail_is_named_with_the_lines_to_add() {
        let (plain, safe) = (job(8, &json!({})), job(8, &ignoring()));
        let words = format!(
            "spec.replicatedJobs[1].template.spec.podFailurePolicy: each preemption of 8 pods is 8 failures, and backoffLimit is \
             6: add rules: [{IGNORED}]"
        );
        assert_eq!(of("JobSet", &job_set(&[safe.clone(), plain.clone()]), false), std::slice::from_ref(&words));
        assert!(words.len() <= 256, "{}", words.len());
        for size in [0, 1] {
            let words = format!(
                "spec.podFailurePolicy: each preemption is a failure, and backoffLimit is 6: add rules: [{IGNORED}]"
            );
            assert_eq!(of("Job", &job(size, &json!({})), false), [words], "{size} pods");
        }
        assert_eq!(of("JobSet", &job_set(&[job(3, &json!({}))]), true), Vec::<String>::new(), "its Jobs get the rule");
        assert_eq!(of("JobSet", &job_set(&[safe]), false), Vec::<String>::new());
        let mut restarts = plain.clone();
        restarts["template"]["spec"]["restartPolicy"] = json!("OnFailure");
        let [said] = of("JobSet", &job_set(&[restarts]), true).try_into().unwrap();
        assert!(
            said.contains("set template.spec.restartPolicy: Never and add rules:"),
            "it cannot get the rule: {said}"
        );
        assert_eq!(
            of("JobSet", &job_set(&std::iter::repeat_n(plain, 100).collect::<Vec<_>>()), false).len(),
            MOST_WARNINGS
        );
    }

    #[test]
    fn a_job_with_a_long_back_off_gets_a_warning_with_the_lines_that_shorten_it() {
        let without = |size: i64, fields: &Value| {
            let mut spec = job(size, fields);
            spec["podFailurePolicy"] = ignoring()["podFailurePolicy"].clone();
            spec
        };
        let said = |spec: &Value| of("Job", spec, false);
        let words = "spec.backoffLimitPerIndex: after a preemption of 16 pods the Job waits 600 s before it creates pods again: add \
                     completionMode: Indexed, backoffLimitPerIndex: 3, and it waits 10 s";
        assert_eq!(said(&without(16, &json!({}))), [words]);
        assert!(words.len() <= 256, "{}", words.len());
        let [four] = said(&without(4, &json!({"completionMode": "Indexed"}))).try_into().unwrap();
        assert!(
            four.contains("4 pods the Job waits 80 s before it creates pods again: add backoffLimitPerIndex: 3,"),
            "{four}"
        );
        let [queue] = said(&without(8, &json!({"completions": null}))).try_into().unwrap();
        assert!(queue.contains("add completionMode: Indexed, completions: 8, backoffLimitPerIndex: 3,"), "{queue}");
        let [of_set] = of("JobSet", &job_set(&[without(16, &json!({}))]), false).try_into().unwrap();
        assert!(of_set.starts_with("spec.replicatedJobs[0].template.spec.backoffLimitPerIndex: after"), "{of_set}");
        assert!(of_set.contains("again: add backoffLimitPerIndex: 3,"), "JobSet makes it indexed: {of_set}");
        for short in [without(3, &json!({})), without(16, &json!({"backoffLimitPerIndex": 1}))] {
            assert_eq!(said(&short), Vec::<String>::new());
        }
        let plain = job(16, &json!({}));
        assert_eq!(of("Job", &plain, true), [words], "with the rule that admission adds");
        assert_eq!(said(&plain).len(), 1, "without a policy it fails first");
    }

    #[test]
    fn a_job_that_gets_a_back_off_for_each_index_is_not_warned_about_its_length() {
        let both = Additions { rule: true, backoff: true };
        let indexed = job(16, &json!({"completionMode": "Indexed"}));
        assert_eq!(of("Job", &indexed, true).len(), 1);
        assert_eq!(with_additions("Job", &indexed, both), Vec::<String>::new());
        assert_eq!(with_additions("JobSet", &job_set(&[job(16, &json!({}))]), both), Vec::<String>::new());
        for other in [json!({}), json!({"completionMode": "Indexed", "completions": 100_001})] {
            assert_eq!(with_additions("Job", &job(16, &other), both).len(), 1, "it cannot get one: {other}");
        }
    }

    #[test]
    fn a_condition_that_preempted_pods_do_not_have_does_not_ignore_preemptions() {
        let mut other = ignoring();
        other["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"] = json!("False");
        assert_eq!(of("Job", &job(2, &other), false).len(), 1);
        other["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"] = json!("True");
        assert_eq!(of("Job", &job(2, &other), false), Vec::<String>::new());
    }

    #[test]
    fn a_rule_for_preempted_pods_with_another_action_is_reported_and_not_changed() {
        let disruption = |action: &str| json!({"action": action, "onPodConditions": [{"type": "DisruptionTarget"}]});
        let exit = |action: &str, operator: &str, values: &[i64]| {
            let codes = json!({"operator": operator, "values": values});
            json!({"action": action, "onExitCodes": codes})
        };
        let (before, instead) = (format!(": put the rule {IGNORED} before it"), ": use action: Ignore");
        for (rules, words) in [
            (
                vec![exit("FailJob", "In", &[143]), disruption("Ignore")],
                format!("rules[0]: FailJob matches exit code 143 (SIGTERM), so a preemption fails the Job{before}"),
            ),
            (
                vec![exit("FailJob", "NotIn", &[42]), disruption("Ignore")],
                format!("rules[0]: FailJob matches exit code 143 (SIGTERM), so a preemption fails the Job{before}"),
            ),
            (
                vec![exit("Ignore", "In", &[143]), exit("FailIndex", "NotIn", &[42])],
                format!(
                    "rules[1]: FailIndex matches exit code 143 (SIGTERM), so a preemption fails the indexes of its pods{before}"
                ),
            ),
            (
                vec![exit("FailJob", "In", &[42]), disruption("FailJob")],
                format!("rules[1]: FailJob matches DisruptionTarget, so a preemption fails the Job{instead}"),
            ),
            (
                vec![disruption("Count"), disruption("Ignore")],
                format!(
                    "rules[0]: Count matches DisruptionTarget, so each preemption of 2 pods is 2 failures, and backoffLimit is 6{instead}"
                ),
            ),
        ] {
            let spec = job(2, &json!({"podFailurePolicy": {"rules": rules}}));
            for adds in [false, true] {
                assert_eq!(of("Job", &spec, adds), [format!("spec.podFailurePolicy.{words}")], "adds: {adds}");
            }
        }
        for harmless in [exit("FailJob", "In", &[42, 137]), exit("FailJob", "NotIn", &[42, 143])] {
            let spec = job(2, &json!({"podFailurePolicy": {"rules": [harmless, disruption("Ignore")]}}));
            assert_eq!(of("Job", &spec, false), Vec::<String>::new());
        }
    }

    #[test]
    fn a_deadline_that_runs_while_the_pods_are_gated_is_warned_about() {
        let deadline = json!({"activeDeadlineSeconds": 3600});
        let with = |extra: Value| {
            let mut fields = extra;
            fields["activeDeadlineSeconds"] = json!(3600);
            fields
        };
        let words = |path: &str, kind: &str| {
            format!(
                "{path}.activeDeadlineSeconds: 3600 s are counted from the start of the {kind}, also while its pods are gated: \
                 allow for that time, or set activeDeadlineSeconds of the pod template, which counts from the start of each pod"
            )
        };
        let set = job_set(&[job(2, &ignoring()), job(2, &with(ignoring()))]);
        let torch = json!({"runPolicy": deadline, "pytorchReplicaSpecs": {"Worker": {"template": {}}}});
        let ray = with(json!({"rayClusterSpec": {"headGroupSpec": {"template": {}}}}));
        for (kind, spec, path, of_what) in [
            ("Job", job(2, &with(ignoring())), "spec", "Job"),
            ("JobSet", set, "spec.replicatedJobs[1].template.spec", "Job"),
            ("PyTorchJob", torch, "spec.runPolicy", "PyTorchJob"),
            ("RayJob", ray, "spec", "RayJob"),
        ] {
            let words = words(path, of_what);
            assert!(words.len() <= 256, "{}", words.len());
            assert_eq!(of(kind, &spec, false), [words]);
        }
        let mut of_pods = job(2, &ignoring());
        of_pods["template"]["spec"]["activeDeadlineSeconds"] = json!(3600);
        assert_eq!(of("Job", &of_pods, false), Vec::<String>::new(), "it counts from the start of the pod");
        let owner = json!({"spec": job(2, &deadline)});
        let row = KINDS.iter().find(|row| row.kind == "Job").unwrap();
        let none = Additions::default();
        assert_eq!(warnings(row, &owner, &[], &Classes::default(), none), Vec::<String>::new(), "no gang");
    }

    #[test]
    fn a_launcher_with_the_default_backoff_limit_gets_a_warning() {
        let launched = |run_policy: Value, restart_policy: &str| {
            let launcher = json!({"restartPolicy": restart_policy, "template": {}});
            json!({"runPolicy": run_policy, "mpiReplicaSpecs": {"Launcher": launcher, "Worker": {"replicas": 8, "template": {}}}})
        };
        let words = "spec.runPolicy.backoffLimit: each preemption is a failure of the launcher's Job, and backoffLimit is 6: set a \
                     higher one, such as backoffLimit: 100";
        assert_eq!(of("MPIJob", &launched(json!({}), "Never"), false), [words]);
        assert_eq!(of("MPIJob", &launched(json!({}), "OnFailure"), true), [words], "it cannot get the rule");
        for (run_policy, adds) in [(json!({"backoffLimit": 20}), false), (json!({}), true)] {
            assert_eq!(of("MPIJob", &launched(run_policy, "Never"), adds), Vec::<String>::new());
        }
        let workers = json!({"mpiReplicaSpecs": {"Worker": {"replicas": 8, "template": {}}}});
        assert_eq!(of("MPIJob", &workers, false), Vec::<String>::new());
    }
}
