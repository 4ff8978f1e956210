//! Computes the next step from the record and the class. No state is kept between two steps, so the next run finishes
//! an interrupted one, and two concurrent runs do no harm.
//!
//! ```text
//! class, no record         record it (or nothing is left to do)
//! class as recorded        delete it
//! no class, record         create it
//! class with another UID   remove the record
//! ```

use super::form::{self, ClassChange};
use super::record::ClassRecord;
use k8s_openapi::api::scheduling::v1::PriorityClass;

/// One step of a change of a PriorityClass.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AdoptStep {
    /// The class does not exist.
    Unknown,
    /// The class is in the wanted form.
    Done,
    /// The class is terminating: wait, or report its finalizers.
    Wait {
        /// Finalizers that block the deletion.
        finalizers: Vec<String>,
    },
    /// Write the record.
    Begin(ClassRecord),
    /// Delete the class, if it still has the recorded UID.
    Delete(ClassRecord),
    /// Create the class from its record.
    Create(ClassRecord),
    /// Remove the record.
    Forget(ClassRecord, Why),
}

/// Why a record is no longer needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The class exists again.
    Finished,
    /// The class was changed before it was deleted: start again with its current form.
    Changed,
    /// Another client created the class; the differences.
    Replaced(Vec<String>),
}

/// Returns the next step of `change`, computed from the record of a change in progress and from the class in the cluster (`live`);
/// either is `None` if it does not exist.
pub(crate) fn next_step(change: ClassChange, record: Option<ClassRecord>, live: Option<&PriorityClass>) -> AdoptStep {
    if let Some(class) = live.filter(|class| class.metadata.deletion_timestamp.is_some()) {
        return AdoptStep::Wait { finalizers: class.metadata.finalizers.clone().unwrap_or_default() };
    }
    match (record, live) {
        (None, None) => AdoptStep::Unknown,
        (None, Some(class)) if form::is_done(change, class) => AdoptStep::Done,
        (None, Some(class)) => AdoptStep::Begin(ClassRecord { change, class: class.clone(), uid: String::new() }),
        (Some(record), None) => AdoptStep::Create(record),
        (Some(record), Some(class)) if record.class.metadata.uid == class.metadata.uid => {
            let same = record.class.metadata.resource_version == class.metadata.resource_version;
            if same && !form::is_done(change, class) {
                AdoptStep::Delete(record)
            } else {
                // Another client changed the class, or the started change is no longer wanted; nothing was deleted yet.
                AdoptStep::Forget(record, Why::Changed)
            }
        }
        (Some(record), Some(class)) => {
            // The interrupted run may have been the opposite command.
            let differs = |change| form::differences(&form::of(change, &record.class, false), class);
            let expected = [differs(change), differs(record.change), form::differences(&record.class, class)];
            // A released class may be marked `managed: "false"`.
            let exempt = form::differences(&form::of(ClassChange::Release, &record.class, true), class);
            let why = match expected.iter().any(Vec::is_empty) || exempt.is_empty() {
                true => Why::Finished,
                false => Why::Replaced(differs(record.change)),
            };
            AdoptStep::Forget(record, why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn class(uid: &str, version: &str, value: i32, rest: Value) -> PriorityClass {
        let mut object = json!({"metadata": {"name": "web", "uid": uid, "resourceVersion": version}, "value": value});
        for (key, part) in rest.as_object().unwrap() {
            match key.as_str() {
                "preemptionPolicy" => object[key] = part.clone(),
                _ => object["metadata"][key] = part.clone(),
            }
        }
        serde_json::from_value(object).unwrap()
    }

    fn plain(uid: &str, version: &str, value: i32) -> PriorityClass {
        class(uid, version, value, json!({}))
    }

    fn managed(uid: &str) -> PriorityClass {
        let annotations = json!({"scheduling.giveway.dev/managed": "true",
            "scheduling.giveway.dev/preemption-policy": "PreemptLowerPriority"});
        class(uid, "9", 10, json!({"preemptionPolicy": "Never", "annotations": annotations}))
    }

    fn kept(change: ClassChange, class: PriorityClass) -> ClassRecord {
        ClassRecord { change, class, uid: "map".into() }
    }

    #[test]
    fn an_adoption_records_deletes_and_creates_the_class_and_deletes_the_record() {
        let before = plain("a", "1", 10);
        let started = ClassRecord { uid: String::new(), ..kept(ClassChange::Adopt, before.clone()) };
        let record = kept(ClassChange::Adopt, before.clone());
        assert_eq!(next_step(ClassChange::Adopt, None, Some(&before)), AdoptStep::Begin(started));
        assert_eq!(
            next_step(ClassChange::Adopt, Some(record.clone()), Some(&before)),
            AdoptStep::Delete(record.clone())
        );
        assert_eq!(next_step(ClassChange::Adopt, Some(record.clone()), None), AdoptStep::Create(record.clone()));
        assert_eq!(
            next_step(ClassChange::Adopt, Some(record.clone()), Some(&managed("b"))),
            AdoptStep::Forget(record, Why::Finished)
        );
        assert_eq!(next_step(ClassChange::Adopt, None, Some(&managed("b"))), AdoptStep::Done);
        assert_eq!(next_step(ClassChange::Adopt, None, None), AdoptStep::Unknown);
    }

    #[test]
    fn adopt_and_release_complete_an_interrupted_run_of_the_other() {
        let record = kept(ClassChange::Adopt, plain("a", "1", 10));
        assert_eq!(next_step(ClassChange::Release, Some(record.clone()), None), AdoptStep::Create(record.clone()));
        // Nothing was deleted yet, and nothing has to be deleted.
        let undone = next_step(ClassChange::Release, Some(record.clone()), Some(&plain("a", "1", 10)));
        assert_eq!(undone, AdoptStep::Forget(record.clone(), Why::Changed));
        // The class was already created: the record is removed, and the release starts again.
        let back = next_step(ClassChange::Release, Some(record.clone()), Some(&managed("b")));
        assert_eq!(back, AdoptStep::Forget(record, Why::Finished));
        assert!(matches!(next_step(ClassChange::Release, None, Some(&managed("b"))), AdoptStep::Begin(_)));
    }

    #[test]
    fn a_class_changed_before_its_deletion_is_recorded_again() {
        let record = kept(ClassChange::Adopt, plain("a", "1", 10));
        let step = next_step(ClassChange::Adopt, Some(record.clone()), Some(&plain("a", "2", 10)));
        assert_eq!(step, AdoptStep::Forget(record, Why::Changed));
    }

    #[test]
    fn a_class_created_by_another_client_is_kept_and_the_difference_is_reported() {
        let record = kept(ClassChange::Adopt, plain("a", "1", 10));
        let AdoptStep::Forget(_, Why::Replaced(differences)) =
            next_step(ClassChange::Adopt, Some(record), Some(&plain("b", "2", 5)))
        else {
            panic!("the record is not needed")
        };
        assert_eq!(differences[0], "value 5 instead of 10");
        // The class has its old form again: another client restored it.
        let record = kept(ClassChange::Adopt, plain("a", "1", 10));
        let step = next_step(ClassChange::Adopt, Some(record.clone()), Some(&plain("b", "2", 10)));
        assert_eq!(step, AdoptStep::Forget(record, Why::Finished));
    }

    #[test]
    fn a_released_class_may_be_exempt_from_management() {
        let record = kept(ClassChange::Release, managed("a"));
        let exempt = class("b", "2", 10, json!({"annotations": {"scheduling.giveway.dev/managed": "false"}}));
        let step = next_step(ClassChange::Release, Some(record.clone()), Some(&exempt));
        assert_eq!(step, AdoptStep::Forget(record, Why::Finished));
    }

    #[test]
    fn a_class_that_is_being_deleted_is_waited_for() {
        let rest = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/keep"]});
        let going = class("a", "3", 10, rest);
        let wait = AdoptStep::Wait { finalizers: vec!["example.com/keep".into()] };
        assert_eq!(next_step(ClassChange::Adopt, None, Some(&going)), wait);
        assert_eq!(
            next_step(ClassChange::Adopt, Some(kept(ClassChange::Adopt, plain("a", "1", 10))), Some(&going)),
            wait
        );
    }
}
