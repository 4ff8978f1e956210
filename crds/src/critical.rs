//! Critical add-ons: the pods that are critical, and the taint that reserves a node for one of them (design, section 5,
//! "Critical pods"; the rescheduler's design).

use crate::keys;
use crate::preemption::PreemptionSpec;
use crate::priority::MAX_THRESHOLD;
use k8s_openapi::api::core::v1::Taint;
use std::collections::BTreeMap;

/// The lowest priority of a critical pod: that of `system-cluster-critical`.
pub const PRIORITY: i32 = MAX_THRESHOLD;

/// The namespace of critical add-ons, by default.
pub const NAMESPACE: &str = "kube-system";

/// Name of the strategy of plans for critical add-ons.
pub const STRATEGY: &str = "critical-addon";

/// Maximum termination grace period of a victim of such a plan, in seconds.
pub const LONGEST_GRACE: i64 = 10;

/// Returns true if the annotations of a pod say that it is a critical add-on. The caller checks that its namespace is one in
/// which the administrator permits critical add-ons.
pub fn asked(annotations: &BTreeMap<String, String>) -> bool {
    let value = |key: &str| annotations.get(key).map(String::as_str);
    value(keys::ANNOTATION_CRITICAL) == Some("true") || value(keys::ANNOTATION_CRITICAL_POD) == Some("")
}

/// Returns the taint that reserves a node for the pod with this UID.
pub fn taint(uid: &str) -> Taint {
    Taint {
        key: keys::TAINT_CRITICAL.to_owned(),
        value: Some(uid.to_owned()),
        effect: "NoSchedule".to_owned(),
        time_added: None,
    }
}

/// Returns the UID of the pod for which a taint with this key, value and effect reserves its node; `None` if it is no such
/// taint. The taint is Giveway's only if a `Preemption` [was made for](tainted_for) that pod.
pub fn uid_of<'t>(key: &str, value: &'t str, effect: &str) -> Option<&'t str> {
    (key == keys::TAINT_CRITICAL && effect == "NoSchedule" && !value.is_empty()).then_some(value)
}

/// Returns the UID of the critical add-on for which a plan may have tainted a node; `None` if the plan is for no critical
/// add-on.
pub fn tainted_for(plan: &PreemptionSpec) -> Option<&str> {
    plan.preemptor.as_ref().filter(|_| plan.strategy == STRATEGY).map(|preemptor| preemptor.uid.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::StoredPreemptor;

    #[test]
    fn the_values_of_both_annotations_count() {
        let asks = |key: &str, value: &str| asked(&BTreeMap::from([(key.to_owned(), value.to_owned())]));
        assert!(asks(keys::ANNOTATION_CRITICAL, "true"));
        assert!(asks(keys::ANNOTATION_CRITICAL_POD, ""));
        assert!(!asks(keys::ANNOTATION_CRITICAL, ""));
        assert!(!asks(keys::ANNOTATION_CRITICAL, "false"));
        assert!(!asks(keys::ANNOTATION_CRITICAL_POD, "true"));
    }

    #[test]
    fn only_a_taint_with_the_uid_of_a_preemptor_belongs_to_giveway() {
        assert_eq!(uid_of("CriticalAddonsOnly", "u-1", "NoSchedule"), Some("u-1"));
        for (key, value, effect) in [
            ("CriticalAddonsOnly", "", "NoSchedule"),
            ("CriticalAddonsOnly", "u-1", "NoExecute"),
            ("dedicated", "u-1", "NoSchedule"),
        ] {
            assert_eq!(uid_of(key, value, effect), None, "{key}={value}:{effect}");
        }
        let preemptor = StoredPreemptor { uid: "u-1".into(), ..StoredPreemptor::default() };
        let (strategy, preemptor) = ("least-cost".into(), Some(preemptor));
        let mut plan = PreemptionSpec { strategy, preemptor, ..PreemptionSpec::default() };
        assert_eq!(tainted_for(&plan), None);
        plan.strategy = STRATEGY.into();
        assert_eq!(tainted_for(&plan), Some("u-1"));
    }
}
