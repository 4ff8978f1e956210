//! PriorityClasses with annotations of PreemptionToleration, a plugin of scheduler-plugins that alone evaluates them.
//! Giveway's threshold (KEP-3280) has the same effect for pods that a budget selects.

use super::facts::{DisruptionToleration, Installation};
use super::finding::Finding;
use giveway_crds::keys::ANNOTATION_THRESHOLD;
use giveway_crds::priority::MAX_THRESHOLD;

/// Prefix of the annotations.
pub(super) const PREFIX: &str = "preemption-toleration.scheduling.x-k8s.io/";
/// Minimum priority of preemptors of the class's pods.
pub(super) const MINIMUM: &str = "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority";
/// Seconds during which the toleration holds.
pub(super) const SECONDS: &str = "preemption-toleration.scheduling.x-k8s.io/toleration-seconds";

/// Returns one finding for every such class.
pub(super) fn findings(facts: &Installation) -> Vec<Finding> {
    match &facts.tolerations {
        Ok(all) => all.iter().map(finding).collect(),
        Err(why) => {
            vec![Finding::unknown("classes", "Whether classes are annotated for the plugin PreemptionToleration", why)]
        }
    }
}

/// Returns the finding about a class with annotations of the plugin `PreemptionToleration`.
fn finding(toleration: &DisruptionToleration) -> Finding {
    let DisruptionToleration { class, minimum, seconds, threshold } = toleration;
    let ends = seconds.as_ref().filter(|seconds| !seconds.starts_with('-')).map_or_else(String::new, |seconds| {
        format!(" That it ends after {seconds} s (toleration-seconds) has no counterpart.")
    });
    let value = minimum.as_deref().and_then(|text| text.parse::<i32>().ok()).filter(|value| *value <= MAX_THRESHOLD);
    let (message, remedy) = match (minimum, value) {
        (Some(minimum), Some(_)) if threshold.as_ref() == Some(minimum) => {
            let message = format!(
                "PriorityClass {class} has both minimum-preemptable-priority {minimum} (PreemptionToleration) and the same \
                 threshold of Giveway, which holds for pods under a budget.{ends}"
            );
            let finding = Finding::ok("classes", message);
            return Finding { class: Some(class.clone()), ..finding };
        }
        (Some(minimum), Some(_)) => (
            format!(
                "PriorityClass {class} has minimum-preemptable-priority {minimum}, which only the plugin \
                 PreemptionToleration heeds. Its counterpart is a threshold, for pods under a budget.{ends}"
            ),
            format!(
                "Annotate the class {ANNOTATION_THRESHOLD}: \"{minimum}\", and give its pods a PodDisruptionBudget, \
                 with maxUnavailable 0 if none of them may be evicted."
            ),
        ),
        (Some(minimum), None) => (
            format!(
                "PriorityClass {class} has minimum-preemptable-priority {minimum}, which only the plugin \
                 PreemptionToleration heeds. A threshold cannot have this value.{ends}"
            ),
            format!("Choose a number that is not above {MAX_THRESHOLD} for {ANNOTATION_THRESHOLD}."),
        ),
        (None, _) => (
            format!(
                "PriorityClass {class} has annotations of the plugin PreemptionToleration without a \
                 minimum-preemptable-priority. They have no counterpart.{ends}"
            ),
            "Remove them, or leave them to that plugin: Giveway does not read them.".to_owned(),
        ),
    };
    Finding { class: Some(class.clone()), ..Finding::warn("classes", message, remedy) }
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
            "PriorityClass low has minimum-preemptable-priority 10000, which only the plugin PreemptionToleration heeds. Its counterpart is a threshold, for pods under a budget. That it ends after 3600 s (toleration-seconds) has no counterpart."
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
        assert!(found(None, None, None).message.ends_with("They have no counterpart."));
        let unknown = findings(&Installation { tolerations: Err("forbidden".into()), ..healthy() });
        assert_eq!(
            unknown[0].message,
            "Whether classes are annotated for the plugin PreemptionToleration is not known: forbidden"
        );
    }
}
