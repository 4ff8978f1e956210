//! PriorityClass: managed classes, and the values of Giveway's annotations.

use super::fixtures::*;
use giveway_admission::verdict::VerdictOutcome;
use giveway_crds::keys::{ANNOTATION_MANAGED, ANNOTATION_PREEMPTION_POLICY, ANNOTATION_THRESHOLD};
use serde_json::{Value, json};

fn class_object(name: &str, policy: &str, annotations: &[(&str, &str)]) -> Value {
    let annotations: serde_json::Map<String, Value> =
        annotations.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5,
        "metadata": {"name": name, "annotations": annotations}, "preemptionPolicy": policy,
    })
}

fn created(policy: &str, annotations: &[(&str, &str)]) -> Request {
    create("priorityclasses", class_object("c", policy, annotations))
}

#[test]
fn a_managed_class_is_stored_as_never_with_its_original_policy_in_an_annotation() {
    for (policy, annotation, kept) in [
        ("PreemptLowerPriority", None, "PreemptLowerPriority"),
        ("PreemptLowerPriority", Some("PreemptLowerPriority"), "PreemptLowerPriority"),
        ("Never", None, "Never"),
        ("Never", Some("Never"), "Never"),
        // The form in which managed classes are stored: a backup can be restored.
        ("Never", Some("PreemptLowerPriority"), "PreemptLowerPriority"),
    ] {
        let mut annotations = vec![(ANNOTATION_MANAGED, "true")];
        annotations.extend(annotation.map(|a| (ANNOTATION_PREEMPTION_POLICY, a)));
        let object = mutated(&created(policy, &annotations), &cluster());
        assert_eq!(object["preemptionPolicy"], json!("Never"), "{policy} {annotation:?}");
        assert_eq!(
            object["metadata"]["annotations"][ANNOTATION_PREEMPTION_POLICY],
            json!(kept),
            "{policy} {annotation:?}"
        );
        assert_untouched(&validate(&create("priorityclasses", object), &cluster()));
    }
}

#[test]
fn classes_that_are_not_managed_are_untouched() {
    for annotations in [&[][..], &[(ANNOTATION_MANAGED, "false")], &[(ANNOTATION_THRESHOLD, "7")]] {
        let request = created("PreemptLowerPriority", annotations);
        assert_untouched(&mutate(&request, &cluster()));
        assert_untouched(&validate(&request, &cluster()));
    }
}

#[test]
fn every_new_class_is_managed_when_the_settings_say_so() {
    let mut view = cluster();
    view.settings.manage_new_classes = true;
    let object = mutated(&created("PreemptLowerPriority", &[]), &view);
    assert_eq!(object["metadata"]["annotations"][ANNOTATION_MANAGED], json!("true"));
    assert_eq!(object["preemptionPolicy"], json!("Never"));
    assert_untouched(&mutate(&created("PreemptLowerPriority", &[(ANNOTATION_MANAGED, "false")]), &view));
    let system = create("priorityclasses", class_object("system-x", "PreemptLowerPriority", &[]));
    assert_untouched(&mutate(&system, &view));
}

#[test]
fn an_annotation_that_contradicts_the_class_is_refused() {
    let request =
        created("PreemptLowerPriority", &[(ANNOTATION_MANAGED, "true"), (ANNOTATION_PREEMPTION_POLICY, "Never")]);
    assert_refused(
        mutate(&request, &cluster()),
        422,
        "metadata.annotations[scheduling.giveway.dev/preemption-policy]: Invalid value: \"Never\": the class asks for preemptionPolicy PreemptLowerPriority, and Giveway writes that into this annotation: remove the annotation, or set preemptionPolicy to Never",
    );
}

#[test]
fn values_that_annotations_cannot_have_are_refused_with_field_value_and_fix() {
    let managed = "metadata.annotations[scheduling.giveway.dev/managed]";
    let policy = "metadata.annotations[scheduling.giveway.dev/preemption-policy]";
    let threshold = "metadata.annotations[scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal]";
    let range = "must be an integer from -2147483648 to 2000000000, the priority of system-cluster-critical";
    for (annotations, message) in [
        (
            &[(ANNOTATION_MANAGED, "yes")][..],
            format!("{managed}: Invalid value: \"yes\": must be \"true\" or \"false\""),
        ),
        (&[(ANNOTATION_MANAGED, "")], format!("{managed}: Invalid value: \"\": must be \"true\" or \"false\"")),
        (
            &[(ANNOTATION_PREEMPTION_POLICY, "Never")],
            format!(
                "{policy}: Invalid value: \"Never\": only a managed class has it: remove it, or set scheduling.giveway.dev/managed to \"true\""
            ),
        ),
        (
            &[(ANNOTATION_MANAGED, "true"), (ANNOTATION_PREEMPTION_POLICY, "Always")],
            format!(
                "{policy}: Invalid value: \"Always\": must be \"PreemptLowerPriority\" or \"Never\", or be left out"
            ),
        ),
        (&[(ANNOTATION_THRESHOLD, "high")], format!("{threshold}: Invalid value: \"high\": {range}")),
        (&[(ANNOTATION_THRESHOLD, "2000000001")], format!("{threshold}: Invalid value: \"2000000001\": {range}")),
        (&[(ANNOTATION_THRESHOLD, "2147483648")], format!("{threshold}: Invalid value: \"2147483648\": {range}")),
        (&[(ANNOTATION_THRESHOLD, "")], format!("{threshold}: Invalid value: \"\": {range}")),
    ] {
        assert_refused(validate(&created("Never", annotations), &cluster()), 422, &message);
    }
    for good in ["2000000000", "0", "-5"] {
        assert_untouched(&validate(&created("Never", &[(ANNOTATION_THRESHOLD, good)]), &cluster()));
    }
}

#[test]
fn system_classes_cannot_be_managed() {
    let request = create("priorityclasses", class_object("system-x", "Never", &[(ANNOTATION_MANAGED, "true")]));
    let refusal = refusal(validate(&request, &cluster()));
    assert_eq!(refusal.code, 403);
    let update = update("priorityclasses", request.object.clone(), class_object("system-x", "Never", &[]));
    assert_eq!(super::fixtures::refusal(validate(&update, &cluster())), refusal);
    assert_eq!(
        refusal.message,
        "metadata.annotations[scheduling.giveway.dev/managed]: a class whose name starts with system- cannot be managed, because the cluster's own components depend on how kube-scheduler preempts for it: remove the annotation"
    );
}

#[test]
fn a_managed_class_is_rejected_if_a_later_webhook_changed_its_policy() {
    let request = created("PreemptLowerPriority", &[(ANNOTATION_MANAGED, "true")]);
    let message = refusal(validate(&request, &cluster())).message;
    assert!(message.contains("a managed class has preemptionPolicy Never"), "{message}");
}

#[test]
fn both_annotations_are_immutable() {
    let on = class_object("c", "Never", &[(ANNOTATION_MANAGED, "true"), (ANNOTATION_PREEMPTION_POLICY, "Never")]);
    let off = class_object("c", "Never", &[]);
    let other = class_object(
        "c",
        "Never",
        &[(ANNOTATION_MANAGED, "true"), (ANNOTATION_PREEMPTION_POLICY, "PreemptLowerPriority")],
    );
    let plain = class_object("c", "PreemptLowerPriority", &[]);
    let late = class_object("c", "PreemptLowerPriority", &[(ANNOTATION_MANAGED, "true")]);
    for (object, old, path, value) in [
        (&on, &off, "managed", "true"),
        (&late, &plain, "managed", "true"),
        (&off, &on, "managed", ""),
        (&other, &on, "preemption-policy", "PreemptLowerPriority"),
    ] {
        let message = refusal(validate(&update("priorityclasses", object.clone(), old.clone()), &cluster())).message;
        let expected = format!(
            "metadata.annotations[scheduling.giveway.dev/{path}]: Invalid value: {value:?}: field is immutable"
        );
        assert!(message.starts_with(&expected), "{message}");
    }
    assert_untouched(&validate(&update("priorityclasses", on.clone(), on), &cluster()));
}

#[test]
fn the_threshold_of_a_class_may_change_to_another_valid_one() {
    let (old, new) = (
        class_object("c", "Never", &[(ANNOTATION_THRESHOLD, "1")]),
        class_object("c", "Never", &[(ANNOTATION_THRESHOLD, "2")]),
    );
    assert_untouched(&validate(&update("priorityclasses", new, old.clone()), &cluster()));
    let bad = class_object("c", "Never", &[(ANNOTATION_THRESHOLD, "x")]);
    let message = refusal(validate(&update("priorityclasses", bad.clone(), old), &cluster())).message;
    assert!(message.contains("Invalid value: \"x\": must be an integer"), "{message}");
    assert_untouched(&validate(&update("priorityclasses", bad.clone(), bad), &cluster()));
}

#[test]
fn the_manifest_of_a_managed_class_can_be_applied_again() {
    let annotations = [(ANNOTATION_MANAGED, "true"), (ANNOTATION_PREEMPTION_POLICY, "PreemptLowerPriority")];
    let stored = class_object("c", "Never", &annotations);
    let applied = class_object("c", "PreemptLowerPriority", &annotations);
    let object = mutated(&update("priorityclasses", applied, stored.clone()), &cluster());
    assert_eq!(object, stored);
    // On a class that is not managed the API server says that the field is immutable.
    let plain = class_object("c", "Never", &[]);
    let changed = class_object("c", "PreemptLowerPriority", &[]);
    assert_eq!(mutate(&update("priorityclasses", changed, plain), &cluster()).outcome, VerdictOutcome::Allowed);
}
