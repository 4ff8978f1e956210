//! Order of victims by importance, in which units are reprieved (KEP-5710, preemption algorithm, step "sort"; design, section 4, step 5).

use crate::model::Unit;
use std::cmp::Ordering;

/// Orders two units of eviction (single pods or whole groups) so that the more important one comes first: the one with the higher priority,
/// then a group before a pod, then the one with more pods, then with the earlier start, then by name.
///
/// A pod of a group in mode `Pod` ranks as a group, as in kube-scheduler. A unit that is not known to have started counts as started just
/// now.
pub(crate) fn compare(a: &Unit, b: &Unit) -> Ordering {
    let started = |unit: &Unit| unit.started.unwrap_or(i64::MAX);
    (b.priority.cmp(&a.priority))
        .then_with(|| b.grouped.cmp(&a.grouped))
        .then_with(|| b.pods.len().cmp(&a.pods.len()))
        .then_with(|| started(a).cmp(&started(b)))
        .then_with(|| a.key.cmp(b.key))
        .then_with(|| b.kind.cmp(&a.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectKey;
    use crate::model::UnitKind;
    use serde_json::Value;

    fn unit(data: &Value) -> Unit<'static> {
        let grouped = data["type"] == "PodGroup";
        let pods = u32::try_from(data["pods"].as_u64().unwrap()).unwrap();
        Unit {
            kind: if grouped { UnitKind::PodGroup } else { UnitKind::Pod },
            key: Box::leak(Box::new(ObjectKey::new("default", data["uid"].as_str().unwrap_or("same")))),
            priority: i32::try_from(data["priority"].as_i64().unwrap()).unwrap(),
            grouped,
            pods: (0..pods).collect(),
            started: data["earliestStartTimeUnix"].as_i64().map(|seconds| seconds * 1_000_000_000),
            threshold: None,
        }
    }

    #[test]
    fn the_order_is_the_one_that_kube_schedulers_tests_expect() {
        let all: Vec<Value> = serde_yaml_ng::from_str(include_str!("../../../tests/cases/units.yaml")).unwrap();
        let cases: Vec<&Value> = all.iter().filter(|case| case["kind"] == "more_important_victim").collect();
        assert_eq!(cases.len(), 16);
        for case in cases {
            let more = compare(&unit(&case["a"]), &unit(&case["b"])) == Ordering::Less;
            assert_eq!(Some(more), case["expect"]["aIsMoreImportant"].as_bool(), "{}", case["source"]);
        }
    }
}
