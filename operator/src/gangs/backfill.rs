//! Back-filling: a pod that admission did not see as it is stored gets the annotations of its PriorityClass (design,
//! section 3, rules 3 and 6).
//!
//! The webhook configuration for pods without a PodGroup has failure policy `Ignore`, so pods can be created while the
//! webhook is unavailable. Such a pod must be distinguished from a pod that has no threshold because its class had
//! none: the threshold of a class may change, and existing pods keep theirs. The time distinguishes them:
//! `metadata.managedFields` of the class contains when its annotation was last written, with a precision of one second.
//! A pod that was created in that second or later, and does not have the annotation, was not seen by admission. If the
//! managedFields of a class were removed, its threshold is not back-filled. The policy of a managed class never
//! changes, so for it the creation time of the class is used.
//!
//! A pod can also have a value that its class did not give: another admission plugin wrote it before the policies
//! `giveway-class-annotations` and `giveway-classless-pods` existed, or in a namespace in which they do not apply. A pod
//! that was created in a later second than what the class gives has been given that, so another value is replaced. A pod
//! that names no class has none of these annotations; a pod of a class that is not managed has no policy. Before a value
//! is replaced or removed, the class is read from the API server, because the watches of pods and classes are
//! independent of each other.
//!
//! The webhook is never called for pods in kube-system and in Giveway's own namespace, so that its outage cannot block
//! their creation. They too get the annotations of their class here; otherwise neither kube-scheduler nor Giveway would
//! preempt for a pod of a managed class.
//!
//! Guarantees: a value that the class gave the pod is never changed or removed; a pod for which kube-scheduler preempts
//! (`spec.preemptionPolicy` other than `Never`) never gets a policy annotation. Limitation: a threshold on a pod whose
//! class has none now is kept, because the class may have had it when the pod was created.

use crate::messages::call::Call;
use crate::messages::command::Command;
use crate::model::Model;
use giveway_planner::SmolStr;
use std::collections::BTreeMap;
use std::time::Instant;

/// Maximum number of calls in flight, so that thousands of them do not delay other calls.
const AT_ONCE: usize = 64;

/// The calls that correct annotations.
#[derive(Debug, Default)]
pub struct BackFill {
    /// Calls in flight, by UID of the pod.
    calls: BTreeMap<SmolStr, Call>,
}

impl BackFill {
    /// Records the response to the call that corrects the annotations of the pod with this UID: `ok` is true if it succeeded.
    pub fn answered(&mut self, uid: &str, ok: bool, now: Instant) {
        if let Some(call) = self.calls.get_mut(uid) {
            call.answered(ok, now);
        }
    }

    /// Returns the calls to make now that correct annotations of pods ([`Model::corrections`]). A call is repeated until the watch shows
    /// its effect.
    pub fn pass(&mut self, model: &Model, now: Instant) -> Vec<Command> {
        if model.corrections.is_empty() {
            self.calls.clear();
            return Vec::new();
        }
        let mut calls = BTreeMap::new();
        let mut commands = Vec::new();
        let mut free = AT_ONCE.saturating_sub(self.calls.values().filter(|call| call.pending()).count());
        for (key, correction) in &model.corrections {
            let Some(pod) = model.cluster.pod(key) else { continue };
            let mut call = self.calls.remove(&pod.uid).unwrap_or_default();
            if free > 0 && call.due(now) {
                free -= 1;
                call.start();
                let (pod, uid, correction) = (key.clone(), pod.uid.clone(), correction.clone());
                commands.push(Command::BackFill { pod, uid, correction });
            }
            calls.insert(pod.uid.clone(), call);
        }
        self.calls = calls;
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestPod, World};
    use crate::views::correction::Correction;
    use giveway_crds::keys::{ANNOTATION_PREEMPTION_POLICY, ANNOTATION_THRESHOLD};
    use giveway_crds::priority::Class;
    use serde_json::{Value, json};
    use std::time::Duration;

    /// Returns class `guarded`, which was created at second 100 and whose threshold was written at second `written`.
    fn class(written: Option<i64>) -> Value {
        let stamp = |second: i64| k8s_openapi::jiff::Timestamp::from_second(second).unwrap().to_string();
        let fields = json!({"f:metadata": {"f:annotations": {format!("f:{ANNOTATION_THRESHOLD}"): {}}}});
        let entry = |time: i64| {
            json!({"manager": "kubectl", "operation": "Update", "apiVersion": "scheduling.k8s.io/v1",
                "time": stamp(time), "fieldsType": "FieldsV1", "fieldsV1": fields})
        };
        let other = json!({"manager": "other", "operation": "Update", "time": stamp(900), "fieldsV1": {"f:value": {}}});
        json!({
            "metadata": {
                "name": "guarded", "creationTimestamp": stamp(100),
                "annotations": {ANNOTATION_THRESHOLD: "5000"},
                "managedFields": written.map(entry).into_iter().chain([other]).collect::<Vec<_>>(),
            },
            "value": 10
        })
    }

    fn managed() -> Value {
        json!({
            "metadata": {"name": "managed", "creationTimestamp": "1970-01-01T00:01:40Z", "annotations": {
                giveway_crds::keys::ANNOTATION_MANAGED: "true", ANNOTATION_PREEMPTION_POLICY: "PreemptLowerPriority",
            }},
            "value": 10, "preemptionPolicy": "Never"
        })
    }

    fn of(world: &World) -> Vec<String> {
        let lines = world.model.corrections.iter().map(|(key, correction)| {
            let list: Vec<&str> = correction.changes.values().map(|change| change.value().unwrap_or("-")).collect();
            format!("{} {}", key.name, list.join(" "))
        });
        lines.collect()
    }

    #[test]
    fn a_pod_that_is_younger_than_the_threshold_of_its_class_lacks_it_and_an_older_one_does_not() {
        let mut world = World::new();
        world.class(class(Some(200)));
        world.pod(TestPod::new("older", 10).class("guarded").created(199));
        world.pod(TestPod::new("younger", 10).class("guarded").created(200));
        world.pod(TestPod::new("other", 10).class("plain").created(300));
        world.pod(TestPod::new("seen", 10).class("guarded").created(199).annotated(ANNOTATION_THRESHOLD, "7"));
        assert_eq!(of(&world), ["younger 5000"]);
        assert_eq!(world.model.threshold(world.model.cluster.pod(&world.key("younger")).unwrap()), Some(5000));
        assert_eq!(world.model.threshold(world.model.cluster.pod(&world.key("seen")).unwrap()), Some(7));
    }

    #[test]
    fn classes_that_arrive_after_the_pods_count_as_well() {
        let mut world = World::new();
        world.pod(TestPod::new("p", 10).class("guarded").created(300));
        assert_eq!(of(&world), Vec::<String>::new());
        world.class(class(Some(200)));
        assert_eq!(of(&world), ["p 5000"]);
        world.class(class(Some(400)));
        assert_eq!(of(&world), Vec::<String>::new(), "it changed after the pod was created");
        world.class(class(None));
        assert_eq!(of(&world), Vec::<String>::new(), "it is unknown since when");
    }

    #[test]
    fn the_policy_of_a_managed_class_is_filled_back_only_if_kube_scheduler_never_preempts_for_the_pod() {
        let mut world = World::new();
        world.class(managed());
        world.pod(TestPod::new("never", 10).class("managed").created(100).spec("preemptionPolicy", json!("Never")));
        world.pod(TestPod::new("stock", 10).class("managed").created(100));
        world.pod(TestPod::new("before", 10).class("managed").created(99).spec("preemptionPolicy", json!("Never")));
        assert_eq!(of(&world), ["never PreemptLowerPriority"]);
    }

    #[test]
    fn a_pod_is_written_once_and_again_only_if_that_failed() {
        let (mut world, mut backfill, now) = (World::new(), BackFill::default(), Instant::now());
        world.class(class(Some(200))).pod(TestPod::new("p", 10).class("guarded").created(300));
        let commands = backfill.pass(&world.model, now);
        let [Command::BackFill { pod, correction, .. }] = commands.as_slice() else { panic!("{commands:?}") };
        assert_eq!(pod.name, "p");
        assert_eq!(
            correction.sentence(),
            "Added scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal=5000 from priority class guarded: Giveway's webhook did not see the pod when it was created."
        );
        assert!(backfill.pass(&world.model, now).is_empty(), "the call has no answer yet");
        backfill.answered("uid-p", false, now);
        assert_eq!(backfill.pass(&world.model, now + Duration::from_secs(1)).len(), 1, "tried again");
        world.pod(TestPod::new("p", 10).class("guarded").created(300).annotated(ANNOTATION_THRESHOLD, "5000"));
        assert!(backfill.pass(&world.model, now + Duration::from_secs(9)).is_empty());
    }

    fn agrees_with_threshold(correction: &Correction, threshold: Option<&str>) -> bool {
        let annotations = threshold.map(|text| json!({ ANNOTATION_THRESHOLD: text })).unwrap_or_default();
        let class = json!({"metadata": {"name": "guarded", "annotations": annotations}, "value": 10});
        correction.agrees_with(&Class::from_object(&serde_json::from_value(class).unwrap()))
    }

    #[test]
    fn a_value_that_the_class_did_not_give_is_replaced_if_the_pod_is_certainly_younger() {
        let mut world = World::new();
        world.class(class(Some(200)));
        let forged = |name: &str, created| {
            TestPod::new(name, 10).class("guarded").created(created).annotated(ANNOTATION_THRESHOLD, "2000000000")
        };
        world.pod(forged("older", 199)).pod(forged("same-second", 200)).pod(forged("younger", 201));
        world.pod(TestPod::new("right", 10).class("guarded").created(300).annotated(ANNOTATION_THRESHOLD, "5000"));
        assert_eq!(of(&world), ["younger 5000"], "the other pods may have had this value from the class");
        assert_eq!(world.model.threshold(world.model.cluster.pod(&world.key("younger")).unwrap()), Some(5000));
        let correction = &world.model.corrections[&world.key("younger")];
        assert_eq!(
            correction.sentence(),
            "Set scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal=5000: the pod had a value that priority class guarded does not give."
        );
        assert_eq!(correction.class_to_read(), Some("guarded"), "the watch of classes may lag behind");
        assert!(agrees_with_threshold(correction, Some("5000")));
        assert!(
            !agrees_with_threshold(correction, Some("2000000000")),
            "the class gives this value since a moment ago"
        );
        assert!(!agrees_with_threshold(correction, None));
    }

    #[test]
    fn annotations_of_a_pod_without_a_class_are_removed() {
        let mut world = World::new();
        let forged = TestPod::new("forged", 0).created(300).annotated(ANNOTATION_THRESHOLD, "2000000000");
        world.pod(forged.annotated(ANNOTATION_PREEMPTION_POLICY, "PreemptLowerPriority"));
        world.pod(TestPod::new("plain", 0).created(300));
        assert_eq!(of(&world), ["forged - -"]);
        assert_eq!(world.model.threshold(world.model.cluster.pod(&world.key("forged")).unwrap()), None);
        let correction = &world.model.corrections[&world.key("forged")];
        assert_eq!(
            correction.sentence(),
            "Removed scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal and scheduling.giveway.dev/preemption-policy: the pod has no priority class, and only a class gives these annotations."
        );
        assert_eq!(correction.class_to_read(), None);
    }

    #[test]
    fn a_policy_that_the_class_does_not_give_is_replaced_or_removed() {
        let mut world = World::new();
        world.class(managed());
        world.class(json!({"metadata": {"name": "plain", "creationTimestamp": "1970-01-01T00:01:40Z"}, "value": 10}));
        let pod = |name: &str, class: &str, created| {
            let pod = TestPod::new(name, 10).class(class).created(created).spec("preemptionPolicy", json!("Never"));
            pod.annotated(ANNOTATION_PREEMPTION_POLICY, if class == "plain" { "PreemptLowerPriority" } else { "Never" })
        };
        world.pod(pod("never", "managed", 101)).pod(pod("forged", "plain", 101)).pod(pod("released", "plain", 100));
        assert_eq!(of(&world), ["forged -", "never PreemptLowerPriority"]);
    }

    #[test]
    fn mirror_and_terminating_pods_are_not_changed_and_pods_outside_of_admission_are() {
        let mut world = World::new();
        world.class(class(Some(200)));
        let pod = |name: &str| TestPod::new(name, 10).class("guarded").created(300);
        world.pod(pod("mirror").annotated("kubernetes.io/config.mirror", "x")).pod(pod("going").terminating());
        assert!(BackFill::default().pass(&world.model, Instant::now()).is_empty());
        world.pod(pod("system").in_namespace("kube-system")).pod(pod("ours").in_namespace("giveway-system"));
        assert_eq!(BackFill::default().pass(&world.model, Instant::now()).len(), 2);
    }

    #[test]
    fn the_number_of_calls_in_flight_is_limited() {
        let (mut world, now) = (World::new(), Instant::now());
        world.class(class(Some(200)));
        for number in 0..100 {
            world.pod(TestPod::new(&format!("p-{number:02}"), 10).class("guarded").created(300));
        }
        let mut backfill = BackFill::default();
        assert_eq!(backfill.pass(&world.model, now).len(), 64);
        assert_eq!(backfill.pass(&world.model, now).len(), 0);
        (0..10).for_each(|number| backfill.answered(&format!("uid-p-{number:02}"), true, now));
        assert_eq!(backfill.pass(&world.model, now).len(), 10);
    }
}
