//! PriorityClasses that still preempt through kube-scheduler, and the guaranteed pods that they can preempt.
//!
//! kube-scheduler ignores thresholds: a pod of a class that is not managed preempts any pod of lower priority, and
//! budgets are only a preference. A pod with a threshold and a budget is exposed to a class whose value is above the
//! pod's priority and below its threshold; only the webhook's guard, if installed, protects it.

use super::facts::{ClassSummary, Exposure, GuardedPod, Installation};
use super::finding::Finding;
use giveway_crds::priority::SYSTEM_PREFIX;
use giveway_crds::wording::counted;

/// Maximum number of pods that a line names.
const NAMED: usize = 5;

/// Returns one finding per class that preempts, and a summary.
pub(super) fn findings(facts: &Installation) -> Vec<Finding> {
    let known = match &facts.exposure {
        Ok(known) => known,
        Err(why) => return vec![Finding::unknown("classes", "Which classes preempt through kube-scheduler", why)],
    };
    let guard = matches!(&facts.validating, Ok(Some(configuration)) if configuration.guard);
    let mut found = Vec::new();
    let mut system = Vec::new();
    for class in known.classes.iter().filter(|class| class.preempts) {
        if class.name.starts_with(SYSTEM_PREFIX) {
            system.push(class.name.as_str());
        } else {
            found.extend(of(class, known, guard));
        }
    }
    if !system.is_empty() {
        let names = system.join(" and ");
        let message = format!("{names} preempt through kube-scheduler, as they must; they reach every threshold.");
        found.insert(0, Finding::ok("classes", message));
    }
    let exposed = |pod: &&GuardedPod| found.iter().any(|finding| finding.exposed.contains(pod));
    let count = known.guarded.iter().filter(exposed).count();
    if count == 0 {
        let message = match known.guarded.len() {
            0 => "No pod has both a threshold and a budget.".to_owned(),
            all => format!("{}, exposed to no class.", counted(all, "guarded pod", "guarded pods")),
        };
        found.push(Finding::ok("guarded", message));
    }
    found
}

/// Returns the finding about a class that preempts through kube-scheduler.
fn of(class: &ClassSummary, known: &Exposure, guard: bool) -> Option<Finding> {
    let is_exposed = |pod: &&GuardedPod| pod.priority < class.value && class.value < pod.threshold;
    let exposed: Vec<GuardedPod> = known.guarded.iter().filter(is_exposed).cloned().collect();
    let nameless = class.name.is_empty();
    let (who, remedy) = match nameless {
        true => (
            "Pods without a class (priority 0) preempt".to_owned(),
            "Create a managed class with globalDefault: true.".to_owned(),
        ),
        false => (
            format!("PriorityClass {} ({}) preempts", class.name, class.value),
            format!("kubectl giveway adopt {}", class.name),
        ),
    };
    let although = match class.managed {
        true => ", although it is annotated as managed: no webhook ran when it was created",
        false => "",
    };
    let mut finding = match exposed.len() {
        // This is the case in nearly every cluster, and no budget is affected.
        0 if nameless => return None,
        0 => Finding::warn(
            "classes",
            format!("{who} through kube-scheduler{although}, which does not know pod groups and ignores thresholds."),
            remedy,
        ),
        count => {
            let pods = counted(count, "guarded pod that is", "guarded pods that are");
            let only = if guard { "; only the guard protects them, while the webhook runs" } else { "" };
            let message = format!(
                "{who} through kube-scheduler{although}, and is above {pods} below a threshold that \
                 it does not reach{only}: {}.",
                named(&exposed)
            );
            Finding::fail("classes", message, remedy)
        }
    };
    finding.class = (!nameless).then(|| class.name.clone());
    finding.exposed = exposed;
    Some(finding)
}

/// Lists pods with priority, threshold and budgets: the first few by name, and the number of the others.
fn named(pods: &[GuardedPod]) -> String {
    let names = pods.iter().take(NAMED).map(|pod| {
        let budgets = pod.budgets.join(", ");
        format!(
            "{}/{} (priority {}, threshold {}, budget {budgets})",
            pod.namespace, pod.name, pod.priority, pod.threshold
        )
    });
    let mut text = names.collect::<Vec<_>>().join(", ");
    if pods.len() > NAMED {
        text += &format!(" and {} more", pods.len() - NAMED);
    }
    text
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
            assert_eq!(managed, [Finding::ok("guarded", "1 guarded pod, exposed to no class.")]);
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
                "PriorityClass batch (100) preempts through kube-scheduler, and is above 7 guarded pods that are below \
                 a threshold that it does not reach; only the guard protects them, while the webhook runs: shop/web-0 \
                 (priority 10, threshold 5000, budget web), "
            ) && found[0].message.ends_with(" and 2 more."),
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
        assert!(found[0].message.starts_with("system-cluster-critical preempt through kube-scheduler"), "{found:?}");
    }

    #[test]
    fn pods_without_a_class_are_listed_only_if_they_expose_a_pod() {
        let nameless = || vec![class("", 0, true)];
        let none = judged(nameless(), vec![pod("web-0", 10, 5000)]);
        assert_eq!(none, [Finding::ok("guarded", "1 guarded pod, exposed to no class.")]);
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
