//! The sentences about requests, pods, groups, Workloads, classes and owners.

use super::{Entry, rejection, warning};
use giveway_admission::wording::{classes, groups, owners, pods, requests, workloads};
use giveway_crds::keys::{ANNOTATION_MANAGED, ANNOTATION_PREEMPTION_POLICY, ANNOTATION_THRESHOLD};
use giveway_crds::kinds::traps::Obstacle;
use giveway_crds::kinds::{OriginError, settings};
use giveway_crds::membership::MembershipError;
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::priority::{PriorityError, Resolved};

/// Returns the sentences of all modules but that of the guard.
pub fn entries() -> Vec<Entry> {
    [of_requests(), of_pods(), of_groups(), of_workloads(), of_classes(), of_owners()].concat()
}

fn of_requests() -> Vec<Entry> {
    vec![
        warning("requests::NOT_READY", [requests::NOT_READY.to_owned()]),
        rejection(
            "requests::unreadable_field",
            [requests::unreadable_field("PodGroup", "spec.priority", "invalid type: string \"high\", expected i64")],
        ),
        rejection("requests::unreadable", [requests::unreadable("Pod", "duplicate field `metadata`")]),
        rejection("requests::patch_not_applied", [requests::patch_not_applied("ERROR")]),
        rejection("requests::patch_not_encoded", [requests::patch_not_encoded("ERROR")]),
        rejection("requests::webhook_failed", [requests::webhook_failed()]),
        rejection("requests::empty_body", [requests::empty_body()]),
        rejection("requests::not_json", [requests::not_json("expected value at line 1 column 1")]),
        rejection(
            "requests::other_review",
            [requests::other_review(
                ("admission.k8s.io/v1beta1", "AdmissionReview"),
                ("admission.k8s.io/v1", "AdmissionReview"),
            )],
        ),
        rejection("requests::no_request", [requests::no_request()]),
        rejection(
            "requests::unreadable_request",
            [
                requests::unreadable_request(".", "missing field `uid`"),
                requests::unreadable_request("operation", "unknown variant `READ`"),
            ],
        ),
        rejection("requests::unreadable_review", [requests::unreadable_review()]),
    ]
}

fn of_pods() -> Vec<Entry> {
    let incomplete = MembershipError::Incomplete {
        present: giveway_crds::keys::LABEL_WORKLOAD,
        missing: giveway_crds::keys::LABEL_TEMPLATE,
    };
    let conflict = MembershipError::Conflict { label: "other".to_owned(), derived: "serve-workers".to_owned() };
    let memberships = [incomplete, MembershipError::TooLong("w".repeat(64)), conflict, MembershipError::Empty];
    let settings = [
        settings::gang(Some("yes")).unwrap_err(),
        settings::min_count(Some("many")).unwrap_err(),
        settings::disruption_mode(Some("Group")).unwrap_err(),
    ];
    let (policy, threshold) = ((ANNOTATION_PREEMPTION_POLICY, "string"), (ANNOTATION_THRESHOLD, "integer"));
    vec![
        rejection("pods::foreign_plan", [pods::foreign_plan("{}")]),
        rejection("pods::duplicate_gate", [pods::duplicate_gate(2)]),
        rejection("pods::gate_without_group", [pods::gate_without_group()]),
        rejection("pods::invalid_membership", memberships.each_ref().map(pods::invalid_membership)),
        rejection("pods::invalid_setting", settings.each_ref().map(pods::invalid_setting)),
        rejection("pods::no_owner", [pods::no_owner(OriginError)]),
        rejection("pods::no_min_count", [pods::no_min_count("ReplicaSet", "web-5d")]),
        rejection("pods::group_of_another_owner", [pods::group_of_another_owner("train", "Job", "train")]),
        rejection("pods::group_of_another_template", [pods::group_of_another_template("a-b-c", "a-b", "c")]),
        rejection("pods::native_and_own_group", [pods::native_and_own_group("native", "train")]),
        rejection("pods::native_and_own_template", [pods::native_and_own_template("native", "serve")]),
        warning("pods::native_group_never_preempts", [pods::native_group_never_preempts("high", "native")]),
        warning("pods::spark_driver", [pods::spark_driver("spark-pi")]),
        rejection("pods::class_below_group", [pods::class_below_group("low", "DETAIL of lending::refusal")]),
        rejection(
            "pods::class_annotation",
            [
                pods::class_annotation(policy, "Never", Some("PreemptLowerPriority"), None),
                pods::class_annotation(threshold, "5000", None, Some("guarded")),
            ],
        ),
        rejection("pods::lost_group", [pods::lost_group("train")]),
        rejection("pods::lost_gate", [pods::lost_gate()]),
        rejection("pods::lost_class", [pods::lost_class("high")]),
    ]
}

fn of_groups() -> Vec<Entry> {
    let resolved = |class_name: &str, priority: i32| Resolved {
        class_name: class_name.to_owned(),
        priority,
        policy: PreemptionPolicy::PreemptLowerPriority,
        managed: false,
    };
    let (class, none) = (resolved("high", 1000), resolved("", 0));
    let (kind, template, path) = ("PodGroup", "PodGroup template", "spec.podGroupTemplates[1]");
    let unknown = PriorityError::NotFound("missing".to_owned());
    vec![
        rejection(
            "groups::unknown_class",
            [groups::unknown_class("spec", &unknown), groups::unknown_class(path, &unknown)],
        ),
        rejection(
            "groups::other_priority",
            [groups::other_priority("spec", kind, 5, &class), groups::other_priority(path, template, -1, &none)],
        ),
        rejection(
            "groups::other_policy",
            [groups::other_policy("spec", kind, "Never", &class), groups::other_policy("spec", kind, "Often", &none)],
        ),
        warning("groups::unmanaged_class", [groups::unmanaged_class("high")]),
        warning("groups::template_not_found", [groups::template_not_found("serve", "workers")]),
        warning("groups::workload_not_found", [groups::workload_not_found("serve")]),
    ]
}

fn of_workloads() -> Vec<Entry> {
    let (template, group) = ("t".repeat(60), format!("serve-{}", "t".repeat(60)));
    vec![
        rejection("workloads::too_many_templates", [workloads::too_many_templates()]),
        rejection(
            "workloads::group_name_too_long",
            [workloads::group_name_too_long("spec.podGroupTemplates[1]", &template, &group)],
        ),
    ]
}

fn of_classes() -> Vec<Entry> {
    vec![
        rejection(
            "classes::immutable",
            [classes::immutable(ANNOTATION_MANAGED, "false"), classes::immutable(ANNOTATION_PREEMPTION_POLICY, "")],
        ),
        rejection("classes::managed_system_class", [classes::managed_system_class()]),
        rejection("classes::managed_class_preempts", [classes::managed_class_preempts()]),
        rejection("classes::managed_value", [classes::managed_value("yes")]),
        rejection("classes::policy_of_unmanaged_class", [classes::policy_of_unmanaged_class("Never")]),
        rejection("classes::policy_value", [classes::policy_value("Often")]),
        rejection(
            "classes::contradicting_policies",
            [classes::contradicting_policies("PreemptLowerPriority", "Never")],
        ),
        rejection("classes::threshold_value", [classes::threshold_value("2000000001")]),
    ]
}

fn of_owners() -> Vec<Entry> {
    let obstacle = Obstacle {
        field: "spec.podManagementPolicy".to_owned(),
        value: "OrderedReady".to_owned(),
        detail: "DETAIL of traps::obstacle".to_owned(),
    };
    let field = "spec.replicatedJobs[1].template.spec.template.metadata";
    vec![
        rejection(
            "owners::unreadable_template",
            [owners::unreadable_template(field, "invalid type: string \"a\", expected a map at line 1 column 3")],
        ),
        rejection("owners::too_many_templates", [owners::too_many_templates()]),
        rejection("owners::gang_never_starts", [owners::gang_never_starts(&obstacle)]),
        warning("owners::stored_gang_never_starts", [owners::stored_gang_never_starts("StatefulSet", &obstacle)]),
        warning("owners::no_gang", [owners::no_gang("StatefulSet", &obstacle)]),
        warning("owners::label_too_late", [owners::label_too_late("Job")]),
        warning("owners::label_too_late_event", [owners::label_too_late_event("Job")]),
        warning(
            "owners::warning_about_part",
            [owners::warning_about_part("JobSet", "train", "WARNING of warnings::warnings")],
        ),
    ]
}
