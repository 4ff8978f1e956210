//! PriorityClasses that still preempt through kube-scheduler, and the guaranteed pods that they can preempt.
//!
//! kube-scheduler ignores thresholds: a pod of a class that is not managed preempts any pod of lower priority, and
//! budgets are only a preference. A pod with a threshold and a budget is exposed to a class whose value is above the
//! pod's priority and below its threshold; only the webhook's guard, if installed, protects it.

use super::facts::{ClassSummary, Exposure, GuardedPod, Installation};
use super::finding::Finding;
use super::wording::classes;
use giveway_crds::priority::SYSTEM_PREFIX;

/// Returns one finding for each PriorityClass for which kube-scheduler preempts and not Giveway (one for all `system-*` classes), and
/// one if none of them exposes a pod with a guaranteed budget.
pub(super) fn findings(facts: &Installation) -> Vec<Finding> {
    let known = match &facts.exposure {
        Ok(known) => known,
        Err(why) => return vec![classes::classes_unknown(why)],
    };
    let guard = matches!(&facts.validating, Ok(Some(configuration)) if configuration.guard);
    let mut found = Vec::new();
    let mut system = Vec::new();
    for class in known.classes.iter().filter(|class| class.preempts) {
        if class.name.starts_with(SYSTEM_PREFIX) {
            system.push(class.name.as_str());
        } else {
            found.extend(class_finding(class, known, guard));
        }
    }
    if !system.is_empty() {
        found.insert(0, classes::system_classes(&system));
    }
    let exposed = |pod: &&GuardedPod| found.iter().any(|finding| finding.exposed.contains(pod));
    let count = known.guarded.iter().filter(exposed).count();
    if count == 0 {
        found.push(classes::no_pod_exposed(known.guarded.len()));
    }
    found
}

/// Returns the finding about a class for which kube-scheduler preempts: which pods with a guaranteed budget it exposes. `known` has all
/// these pods; `guard` is true if the webhook is called before kube-scheduler preempts a pod. Returns `None` for pods without a class
/// if they expose none.
fn class_finding(class: &ClassSummary, known: &Exposure, guard: bool) -> Option<Finding> {
    let is_exposed = |pod: &&GuardedPod| pod.priority < class.value && class.value < pod.threshold;
    let exposed: Vec<GuardedPod> = known.guarded.iter().filter(is_exposed).cloned().collect();
    let nameless = class.name.is_empty();
    let mut finding = match exposed.as_slice() {
        // This is the case in nearly every cluster, and no budget is affected.
        [] if nameless => return None,
        [] => classes::class_preempts(class),
        pods => classes::class_exposes(class, pods, guard),
    };
    finding.class = (!nameless).then(|| class.name.clone());
    finding.exposed = exposed;
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status;
    use super::super::judge::tests::healthy;
    use super::*;

    fn class(name: &str, value: i32, preempts: bool) -> ClassSummary {
        ClassSummary { name: name.to_owned(), value, managed: !preempts, preempts }
    }

    fn pod(name: &str, priority: i32, threshold: i32) -> GuardedPod {
        let (namespace, name) = ("shop".to_owned(), name.to_owned());
        GuardedPod { namespace, name, priority, threshold, budgets: vec!["web".to_owned()] }
    }

    fn judged(classes: Vec<ClassSummary>, guarded: Vec<GuardedPod>) -> Vec<Finding> {
        findings(&Installation { exposure: Ok(Exposure { classes, guarded }), ..healthy() })
    }

    #[test]
    fn a_class_exposes_a_lower_pod_with_a_threshold_above_the_class() {
        // Class value, the pod's priority and threshold, whether it is exposed.
        let rows = [
            (100, 10, 5000, true),
            (5000, 10, 5000, false),
            (4999, 10, 5000, true),
            (6000, 10, 5000, false),
            (10, 10, 5000, false),
            (11, 10, 5000, true),
            (9, 10, 5000, false),
            (100, 10, 10, false),
            (-5, -10, 0, true),
        ];
        for (value, priority, threshold, exposed) in rows {
            let found = judged(vec![class("batch", value, true)], vec![pod("web-0", priority, threshold)]);
            let expected = if exposed { Status::Fail } else { Status::Warn };
            assert_eq!(found[0].status, expected, "class {value}, pod {priority}, threshold {threshold}");
            assert_eq!(found[0].exposed.len(), usize::from(exposed));
            let managed = judged(vec![class("batch", value, false)], vec![pod("web-0", priority, threshold)]);
            assert_eq!(
                managed,
                [Finding::ok(
                    "guarded",
                    "1 pod has a guaranteed budget, and no class below the threshold preempts it through kube-scheduler."
                )]
            );
        }
    }

    #[test]
    fn the_line_names_class_pods_and_the_remedy() {
        let pods: Vec<GuardedPod> = (0..7).map(|n| pod(&format!("web-{n}"), 10, 5000)).collect();
        let found = judged(vec![class("batch", 100, true)], pods);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].remedy, "kubectl giveway adopt batch");
        assert!(
            found[0].message.starts_with(
                "PriorityClass batch (100) preempts through kube-scheduler, which may violate the guaranteed budgets of 7 pods: \
                 shop/web-0 (priority 10, threshold 5000, budget web), "
            ) && found[0].message.ends_with(" and 2 more. Only the guard prevents that, while the webhook runs."),
            "{}",
            found[0].message
        );
        assert_eq!(found[0].exposed.len(), 7);
    }

    #[test]
    fn system_classes_are_listed_and_pass() {
        let system = [class("system-cluster-critical", 2_000_000_000, true)];
        let found = judged(system.to_vec(), vec![pod("web-0", 10, 2_000_000_000)]);
        assert_eq!(found[0].status, Status::Ok);
        assert!(
            found[0].message.starts_with("system-cluster-critical preempts through kube-scheduler, as it must"),
            "{found:?}"
        );
    }

    #[test]
    fn pods_without_a_class_are_listed_only_if_they_expose_a_pod() {
        let nameless = || vec![class("", 0, true)];
        let none = judged(nameless(), vec![pod("web-0", 10, 5000)]);
        assert_eq!(
            none,
            [Finding::ok(
                "guarded",
                "1 pod has a guaranteed budget, and no class below the threshold preempts it through kube-scheduler."
            )]
        );
        let some = judged(nameless(), vec![pod("web-0", -1, 5000)]);
        assert_eq!((some[0].status, some[0].class.as_deref()), (Status::Fail, None));
        assert!(some[0].message.starts_with("Pods without a class (priority 0) preempt"), "{some:?}");
    }

    #[test]
    fn what_may_not_be_read_is_not_known() {
        let facts = Installation { exposure: Err("pods is forbidden".to_owned()), ..healthy() };
        let found = findings(&facts);
        assert_eq!(found[0].status, Status::Warn);
        assert_eq!(found[0].message, "Which classes preempt through kube-scheduler is not known: pods is forbidden");
    }
}
