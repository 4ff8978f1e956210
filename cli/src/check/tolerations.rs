//! PriorityClasses with annotations of PreemptionToleration, a plugin of scheduler-plugins that alone evaluates them.
//! Giveway's threshold (KEP-3280) has the same effect for pods that a budget selects.

use super::facts::{DisruptionToleration, Installation};
use super::finding::Finding;
use super::wording::classes;
use giveway_crds::priority::MAX_THRESHOLD;

/// Prefix of the annotations.
pub(super) const PREFIX: &str = "preemption-toleration.scheduling.x-k8s.io/";
/// Minimum priority of preemptors of the class's pods.
pub(super) const MINIMUM: &str = "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority";
/// Seconds during which the toleration holds.
pub(super) const SECONDS: &str = "preemption-toleration.scheduling.x-k8s.io/toleration-seconds";

/// Returns one finding for every PriorityClass with annotations of the plugin `PreemptionToleration`.
pub(super) fn findings(facts: &Installation) -> Vec<Finding> {
    match &facts.tolerations {
        Ok(all) => all.iter().map(finding).collect(),
        Err(why) => vec![classes::tolerations_unknown(why)],
    }
}

/// Returns the finding about a class with annotations of the plugin `PreemptionToleration`.
fn finding(toleration: &DisruptionToleration) -> Finding {
    let DisruptionToleration { class, minimum, seconds, threshold } = toleration;
    let seconds = seconds.as_deref().filter(|seconds| !seconds.starts_with('-'));
    let is_threshold = |text: &str| text.parse::<i32>().is_ok_and(|value| value <= MAX_THRESHOLD);
    let finding = match minimum.as_deref() {
        None => classes::toleration_without_minimum(class, seconds),
        Some(minimum) if !is_threshold(minimum) => classes::toleration_beyond_thresholds(class, minimum, seconds),
        Some(minimum) if threshold.as_deref() == Some(minimum) => {
            classes::toleration_with_threshold(class, minimum, seconds)
        }
        Some(minimum) => classes::toleration_without_threshold(class, minimum, seconds),
    };
    Finding { class: Some(class.clone()), ..finding }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::super::judge::tests::healthy;
    use super::*;

    fn found(minimum: Option<&str>, seconds: Option<&str>, threshold: Option<&str>) -> Finding {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let toleration = DisruptionToleration {
            class: "low".into(),
            minimum: text(minimum),
            seconds: text(seconds),
            threshold: text(threshold),
        };
        findings(&Installation { tolerations: Ok(vec![toleration]), ..healthy() }).remove(0)
    }

    #[test]
    fn a_minimum_has_a_counterpart_for_pods_under_a_budget_and_its_end_has_none() {
        let finding = found(Some("10000"), Some("3600"), None);
        assert_eq!((finding.status, finding.class.as_deref()), (Status::Warn, Some("low")));
        assert_eq!(
            finding.message,
            "PriorityClass low has minimum-preemptable-priority 10000, which only the plugin PreemptionToleration reads. Giveway's counterpart is a threshold, which holds for pods with a PodDisruptionBudget. Giveway has no counterpart of toleration-seconds, by which the toleration ends after 3600 s."
        );
        assert_eq!(
            finding.remedy,
            "Annotate the class scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal: \"10000\", and give its pods a PodDisruptionBudget, with maxUnavailable 0 if none of them may be evicted."
        );
        assert!(!found(Some("10000"), Some("-1"), None).message.contains("ends"), "for ever");
    }

    #[test]
    fn a_class_that_has_the_counterpart_is_well() {
        let finding = found(Some("10000"), Some("-1"), Some("10000"));
        assert_eq!((finding.status, finding.remedy.as_str()), (Status::Ok, ""));
        assert_eq!(found(Some("10000"), None, Some("5")).status, Status::Warn, "another one");
    }

    #[test]
    fn what_no_threshold_can_be_and_what_says_nothing_has_none() {
        assert!(found(Some("2000000001"), None, None).message.ends_with("A threshold cannot have this value."));
        assert!(found(Some("high"), None, None).message.ends_with("A threshold cannot have this value."));
        assert!(found(None, None, None).message.ends_with("Giveway has no counterpart of them."));
        let unknown = findings(&Installation { tolerations: Err("forbidden".into()), ..healthy() });
        assert_eq!(
            unknown[0].message,
            "Whether classes are annotated for the plugin PreemptionToleration is not known: forbidden"
        );
    }
}
