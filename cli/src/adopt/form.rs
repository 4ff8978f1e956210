//! The two forms of a PriorityClass: managed, as admission stores it, and as its owner wrote it.
//!
//! Each is derived from a class in either form, so a class saved by an interrupted run can be created in the form that
//! is wanted now. Value, description, global default, labels, owners and other annotations are preserved.

use giveway_crds::keys::{ANNOTATION_MANAGED, ANNOTATION_PREEMPTION_POLICY};
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::priority::Class;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::fmt;

/// A change of a PriorityClass: Giveway begins or ends to manage it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassChange {
    /// To the managed form: Giveway preempts for it.
    Adopt,
    /// To the owner's form: kube-scheduler preempts for it.
    Release,
}

impl fmt::Display for ClassChange {
    /// Writes the command that makes the change: `adopt` or `release`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ClassChange {
    /// Returns the command that makes this change: `adopt` or `release`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Adopt => "adopt",
            Self::Release => "release",
        }
    }

    /// Returns the change that the command `adopt` or `release` makes; `None` for any other text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Adopt, Self::Release].into_iter().find(|change| change.as_str() == text)
    }

    /// Returns the change as a participle for sentences: `adopted` or `released`.
    pub(crate) fn done(self) -> &'static str {
        match self {
            Self::Adopt => "adopted",
            Self::Release => "released",
        }
    }
}

/// Returns true if Giveway preempts for the class: it is annotated, and its `preemptionPolicy` is `Never`.
pub(crate) fn is_managed(class: &PriorityClass) -> bool {
    let class = Class::from_object(class);
    class.managed && class.scheduler_policy == PreemptionPolicy::Never
}

/// Returns true if the class is as `change` would make it: managed after `adopt`, without the annotation `managed: "true"` after
/// `release`. Neither is true for an annotated class for which kube-scheduler preempts, because no webhook ran when it was created.
pub(crate) fn is_done(change: ClassChange, class: &PriorityClass) -> bool {
    match change {
        ClassChange::Adopt => is_managed(class),
        ClassChange::Release => annotation(class, ANNOTATION_MANAGED) != Some("true"),
    }
}

/// Returns the class to create in place of `class`: a managed one for `adopt`; for `release` one with its own `preemptionPolicy`.
/// `exempt` adds the annotation `managed: "false"` to a released class: if Giveway manages every new class, the released one would
/// otherwise become managed again.
pub(crate) fn of(change: ClassChange, class: &PriorityClass, exempt: bool) -> PriorityClass {
    let facts = Class::from_object(class);
    // For a managed class the annotation contains the requested policy; for other classes the field `preemptionPolicy`
    // does.
    let asked = match is_managed(class) {
        true => facts.group_policy(),
        false => facts.scheduler_policy,
    };
    let mut new = bare(class);
    let mut annotations = new.metadata.annotations.take().unwrap_or_default();
    annotations.remove(ANNOTATION_MANAGED);
    annotations.remove(ANNOTATION_PREEMPTION_POLICY);
    match change {
        ClassChange::Adopt => {
            annotations.insert(ANNOTATION_MANAGED.to_owned(), "true".to_owned());
            annotations.insert(ANNOTATION_PREEMPTION_POLICY.to_owned(), asked.as_str().to_owned());
            new.preemption_policy = Some(PreemptionPolicy::Never.as_str().to_owned());
        }
        ClassChange::Release => {
            if exempt {
                annotations.insert(ANNOTATION_MANAGED.to_owned(), "false".to_owned());
            }
            new.preemption_policy = Some(asked.as_str().to_owned());
        }
    }
    new.metadata.annotations = (!annotations.is_empty()).then_some(annotations);
    new
}

/// Returns the class without UID, resource version and the other metadata that the API server sets, so that it can be created again.
pub(crate) fn bare(class: &PriorityClass) -> PriorityClass {
    PriorityClass {
        metadata: ObjectMeta {
            name: class.metadata.name.clone(),
            labels: class.metadata.labels.clone(),
            annotations: class.metadata.annotations.clone(),
            owner_references: class.metadata.owner_references.clone(),
            ..ObjectMeta::default()
        },
        ..class.clone()
    }
}

/// Returns the fields in which the `found` class is not the `expected` one, as clauses such as `value 5 instead of 10`; none if they are
/// equal.
pub(crate) fn differences(expected: &PriorityClass, found: &PriorityClass) -> Vec<String> {
    let mut clauses = Vec::new();
    let mut compare = |field: &str, wanted: String, is: String| {
        if wanted != is {
            clauses.push(format!("{field} {is} instead of {wanted}"));
        }
    };
    let policy = |class: &PriorityClass| Class::from_object(class).scheduler_policy.as_str().to_owned();
    let text = |value: Option<&str>| value.map_or_else(|| "unset".to_owned(), |text| format!("{text:?}"));
    compare("value", expected.value.to_string(), found.value.to_string());
    compare("preemptionPolicy", policy(expected), policy(found));
    for key in [ANNOTATION_MANAGED, ANNOTATION_PREEMPTION_POLICY] {
        compare(key, text(annotation(expected, key)), text(annotation(found, key)));
    }
    clauses
}

/// Returns the value of the class's annotation `key`, or `None` if it has none.
fn annotation<'a>(class: &'a PriorityClass, key: &str) -> Option<&'a str> {
    class.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_crds::keys::ANNOTATION_THRESHOLD;
    use serde_json::{Value, json};

    fn class(value: Value) -> PriorityClass {
        serde_json::from_value(value).unwrap()
    }

    fn ordinary() -> PriorityClass {
        class(json!({
            "metadata": {"name": "web", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"team": "a"}, "annotations": {ANNOTATION_THRESHOLD: "5000", "note": "n"}},
            "value": 10, "globalDefault": true, "description": "For the web.", "preemptionPolicy": "PreemptLowerPriority"
        }))
    }

    #[test]
    fn an_adopted_class_is_as_admission_would_store_it_with_all_other_fields() {
        let adopted = of(ClassChange::Adopt, &ordinary(), false);
        assert_eq!(
            serde_json::to_value(&adopted).unwrap(),
            json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": "web", "labels": {"team": "a"}, "annotations": {
                    ANNOTATION_THRESHOLD: "5000", "note": "n",
                    ANNOTATION_MANAGED: "true", ANNOTATION_PREEMPTION_POLICY: "PreemptLowerPriority"}},
                "value": 10, "globalDefault": true, "description": "For the web.", "preemptionPolicy": "Never"
            })
        );
        assert!(is_done(ClassChange::Adopt, &adopted) && !is_done(ClassChange::Release, &adopted));
        assert_eq!(of(ClassChange::Adopt, &adopted, false), adopted, "adopting twice changes nothing");
    }

    #[test]
    fn a_released_class_equals_the_class_before_its_adoption() {
        for policy in ["PreemptLowerPriority", "Never"] {
            let before = PriorityClass { preemption_policy: Some(policy.to_owned()), ..bare(&ordinary()) };
            let adopted = of(ClassChange::Adopt, &before, false);
            assert_eq!(of(ClassChange::Release, &adopted, false), before, "{policy}");
            assert!(is_done(ClassChange::Release, &before) && !is_done(ClassChange::Adopt, &before), "{policy}");
        }
        let bare = class(json!({"metadata": {"name": "b"}, "value": 1}));
        let released = of(ClassChange::Release, &of(ClassChange::Adopt, &bare, false), false);
        assert_eq!(released.metadata.annotations, None, "no empty annotations are left behind");
    }

    #[test]
    fn where_every_new_class_is_managed_a_released_one_is_exempt() {
        let released = of(ClassChange::Release, &of(ClassChange::Adopt, &ordinary(), false), true);
        assert_eq!(released.metadata.annotations.as_ref().unwrap()[ANNOTATION_MANAGED], "false");
        assert_eq!(released.preemption_policy.as_deref(), Some("PreemptLowerPriority"));
        assert!(is_done(ClassChange::Release, &released));
    }

    #[test]
    fn a_class_annotated_without_a_webhook_is_neither_managed_nor_unmanaged() {
        let half = class(json!({"metadata": {"name": "h", "annotations": {ANNOTATION_MANAGED: "true"}}, "value": 1}));
        assert!(!is_done(ClassChange::Adopt, &half) && !is_done(ClassChange::Release, &half));
        let adopted = of(ClassChange::Adopt, &half, false);
        assert!(is_managed(&adopted));
        assert_eq!(adopted.metadata.annotations.unwrap()[ANNOTATION_PREEMPTION_POLICY], "PreemptLowerPriority");
    }

    #[test]
    fn differences_name_field_and_both_values() {
        let other = PriorityClass { value: 5, ..of(ClassChange::Adopt, &ordinary(), false) };
        assert_eq!(
            differences(&bare(&ordinary()), &other),
            [
                "value 5 instead of 10",
                "preemptionPolicy Never instead of PreemptLowerPriority",
                "scheduling.giveway.dev/managed \"true\" instead of unset",
                "scheduling.giveway.dev/preemption-policy \"PreemptLowerPriority\" instead of unset",
            ]
        );
        assert_eq!(differences(&other, &other), Vec::<String>::new());
    }
}
