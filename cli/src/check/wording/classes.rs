//! PriorityClasses: those that still preempt through kube-scheduler, those of the plugin PreemptionToleration, and interrupted changes.

use super::{first, unknown};
use crate::check::facts::{ClassSummary, GuardedPod};
use crate::check::finding::Finding;
use giveway_crds::keys::ANNOTATION_THRESHOLD;
use giveway_crds::priority::MAX_THRESHOLD;
use giveway_crds::wording::{agree, counted};

/// Warning: the PriorityClasses or the pods could not be read. `why` is the error.
pub(in crate::check) fn classes_unknown(why: &str) -> Finding {
    unknown("classes", "Which classes preempt through kube-scheduler", why)
}

/// Passed: these `system-*` classes of Kubernetes itself preempt through kube-scheduler, as they must.
pub(in crate::check) fn system_classes(names: &[&str]) -> Finding {
    let (count, names) = (names.len(), names.join(" and "));
    let as_they_must = agree(
        count,
        "preempts through kube-scheduler, as it must; it reaches every threshold",
        "preempt through kube-scheduler, as they must; they reach every threshold",
    );
    Finding::ok("classes", format!("{names} {as_they_must}."))
}

/// Passed: no class that preempts through kube-scheduler exposes a pod. `guarded` is the number of pods with both a threshold and a
/// budget.
pub(in crate::check) fn no_pod_exposed(guarded: usize) -> Finding {
    let message = match guarded {
        0 => "No pod has both a threshold and a budget.".to_owned(),
        all => format!(
            "{} a guaranteed budget, and no class below the threshold preempts {} through kube-scheduler.",
            counted(all, "pod has", "pods have"),
            agree(all, "it", "them")
        ),
    };
    Finding::ok("guarded", message)
}

/// Warning: a class preempts through kube-scheduler, and exposes no pod with a guaranteed budget.
pub(in crate::check) fn class_preempts(class: &ClassSummary) -> Finding {
    let message = format!(
        "{}, which does not know pod groups and ignores thresholds.{}",
        through_scheduler(class),
        although_managed(class)
    );
    Finding::warn("classes", message, instead(class))
}

/// Failed: a class preempts through kube-scheduler, and exposes these pods with a guaranteed budget. `guard` is true if the webhook is
/// called before such a preemption.
pub(in crate::check) fn class_exposes(class: &ClassSummary, pods: &[GuardedPod], guard: bool) -> Finding {
    let only = if guard { " Only the guard prevents that, while the webhook runs." } else { "" };
    let names = pods.iter().map(|pod| {
        let GuardedPod { namespace, name, priority, threshold, budgets } = pod;
        let of = agree(budgets.len(), "budget", "budgets");
        format!("{namespace}/{name} (priority {priority}, threshold {threshold}, {of} {})", budgets.join(", "))
    });
    let message = format!(
        "{}, which may violate the guaranteed budgets of {}: {}.{only}{}",
        through_scheduler(class),
        counted(pods.len(), "pod", "pods"),
        first(names),
        although_managed(class)
    );
    Finding::fail("classes", message, instead(class))
}

/// Returns the beginning of a sentence about a class that preempts; a class without a name is that of pods without a class.
fn through_scheduler(class: &ClassSummary) -> String {
    match class.name.as_str() {
        "" => "Pods without a class (priority 0) preempt through kube-scheduler".to_owned(),
        name => format!("PriorityClass {name} ({}) preempts through kube-scheduler", class.value),
    }
}

/// Returns a sentence that the class is annotated as managed without an effect; an empty string for a class without the annotation.
fn although_managed(class: &ClassSummary) -> &'static str {
    match class.managed {
        true => " It is annotated as managed, but no webhook ran when it was created.",
        false => "",
    }
}

/// Returns what the user can do about a class that preempts through kube-scheduler; a class without a name stands for pods without a
/// class.
fn instead(class: &ClassSummary) -> String {
    match class.name.as_str() {
        "" => "Create a managed class with globalDefault: true.".to_owned(),
        name => format!("kubectl giveway adopt {name}"),
    }
}

/// Warning: the PriorityClasses could not be searched for annotations of the plugin `PreemptionToleration`. `why` is the error.
pub(in crate::check) fn tolerations_unknown(why: &str) -> Finding {
    unknown("classes", "Whether classes are annotated for the plugin PreemptionToleration", why)
}

/// Passed: a class has the annotation `minimum-preemptable-priority` of the plugin, and the same value as Giveway's threshold.
/// `minimum` is the value of that annotation. `seconds` is the time after which the plugin ends the toleration, `None` if it does not.
pub(in crate::check) fn toleration_with_threshold(class: &str, minimum: &str, seconds: Option<&str>) -> Finding {
    let ends = ends(seconds);
    let message = format!(
        "PriorityClass {class} has both minimum-preemptable-priority {minimum} (PreemptionToleration) and the same \
         threshold of Giveway, which holds for pods with a PodDisruptionBudget.{ends}"
    );
    Finding::ok("classes", message)
}

/// Warning: a class has the annotation `minimum-preemptable-priority` of the plugin, and not the same value as Giveway's threshold.
/// `minimum` is the value of that annotation. `seconds` is the time after which the plugin ends the toleration, `None` if it does not.
pub(in crate::check) fn toleration_without_threshold(class: &str, minimum: &str, seconds: Option<&str>) -> Finding {
    let ends = ends(seconds);
    let message = format!(
        "PriorityClass {class} has minimum-preemptable-priority {minimum}, which only the plugin \
         PreemptionToleration reads. Giveway's counterpart is a threshold, which holds for pods with a PodDisruptionBudget.{ends}"
    );
    let remedy = format!(
        "Annotate the class {ANNOTATION_THRESHOLD}: \"{minimum}\", and give its pods a PodDisruptionBudget, \
         with maxUnavailable 0 if none of them may be evicted."
    );
    Finding::warn("classes", message, remedy)
}

/// Warning: a class has the annotation `minimum-preemptable-priority` of the plugin with a value that is no valid threshold. `minimum`
/// is the value of that annotation. `seconds` is the time after which the plugin ends the toleration, `None` if it does not.
pub(in crate::check) fn toleration_beyond_thresholds(class: &str, minimum: &str, seconds: Option<&str>) -> Finding {
    let ends = ends(seconds);
    let message = format!(
        "PriorityClass {class} has minimum-preemptable-priority {minimum}, which only the plugin \
         PreemptionToleration reads. A threshold cannot have this value.{ends}"
    );
    let remedy = format!("Choose a number that is not above {MAX_THRESHOLD} for {ANNOTATION_THRESHOLD}.");
    Finding::warn("classes", message, remedy)
}

/// Warning: a class has annotations of the plugin `PreemptionToleration`, and none of them is `minimum-preemptable-priority`. `seconds`
/// is the time after which the plugin ends the toleration, `None` if it does not.
pub(in crate::check) fn toleration_without_minimum(class: &str, seconds: Option<&str>) -> Finding {
    let ends = ends(seconds);
    let message = format!(
        "PriorityClass {class} has annotations of the plugin PreemptionToleration without a \
         minimum-preemptable-priority. Giveway has no counterpart of them.{ends}"
    );
    let remedy = "Remove the annotations, or leave them to that plugin: Giveway does not read them.";
    Finding::warn("classes", message, remedy)
}

/// Returns a sentence that the end of a toleration after `seconds` has no counterpart in Giveway; an empty string for a toleration
/// without an end.
fn ends(seconds: Option<&str>) -> String {
    seconds.map_or_else(String::new, |seconds| {
        format!(" Giveway has no counterpart of toleration-seconds, by which the toleration ends after {seconds} s.")
    })
}

/// Warning: the ConfigMaps that record changes of classes could not be read. `why` is the error.
pub(in crate::check) fn changes_unknown(why: &str) -> Finding {
    unknown("classes", "Whether a change of a class was interrupted", why)
}

/// Failed: `change`, which is `adopt` or `release`, has started to change a class and has not finished.
pub(in crate::check) fn change_interrupted(change: &str, class: &str) -> Finding {
    let message = format!(
        "`kubectl giveway {change} {class}` was interrupted, or is still running: PriorityClass {class} may not exist."
    );
    Finding::fail("classes", message, format!("If the command does not run any more: kubectl giveway {change} {class}"))
}
