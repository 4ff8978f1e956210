//! PodGroups and Workloads.

use super::{Page, key, rack};
use giveway_crds::wording::conditions::pod_group::{self, BoundMembers, DomainClaim, ExistingMembers, OtherPriority};
use giveway_crds::wording::conditions::workload;

pub(super) fn add(page: &mut Page) {
    page.file("conditions/pod_group.rs");
    members(page);
    priorities(page);
    others(page);
    workloads(page);
}

fn members(page: &mut Page) {
    let domain = rack();
    let bound = |bound: usize, ready: usize, finished: usize, needed: usize| {
        let domain = Some(&domain).filter(|_| bound == needed);
        pod_group::bound(BoundMembers { bound, ready, finished, needed, domain })
    };
    page.says(
        "bound",
        [
            bound(0, 0, 0, 1),
            bound(0, 0, 0, 2),
            bound(1, 0, 0, 1),
            bound(1, 1, 0, 1),
            bound(1, 1, 1, 2),
            bound(1, 1, 2, 2),
            bound(2, 0, 0, 2),
            bound(2, 1, 0, 2),
            bound(2, 2, 0, 2),
        ],
    );
    let existing = |needed, live, finished, below, gated| ExistingMembers { needed, live, finished, below, gated };
    page.says(
        "members_missing",
        [
            pod_group::members_missing(existing(1, 0, 0, 0, 0)),
            pod_group::members_missing(existing(2, 1, 0, 0, 0)),
            pod_group::members_missing(existing(2, 0, 1, 0, 0)),
            pod_group::members_missing(existing(3, 0, 2, 0, 0)),
            pod_group::members_missing(existing(3, 2, 0, 1, 1)),
            pod_group::members_missing(existing(5, 1, 0, 2, 2)),
        ],
    );
    page.says(
        "gang_incomplete",
        [
            pod_group::gang_incomplete(existing(1, 0, 0, 1, 0)),
            pod_group::gang_incomplete(existing(2, 0, 1, 0, 0)),
            pod_group::gang_incomplete(existing(2, 1, 0, 0, 0)),
        ],
    );
    page.says("was_scheduled", [pod_group::was_scheduled("1 pod has a node, 2 needed.")]);
    page.says("pending_again", [pod_group::pending_again("2 pods needed, 1 exists.")]);
    page.says("unusable", [pod_group::unusable("priority class high does not exist")]);
    let claims =
        [("a", DomainClaim::IsIn("r1")), ("b", DomainClaim::AsksFor("r2")), ("c", DomainClaim::OnUnlabelledNode("n3"))];
    page.says("no_common_domain", [0, 1, 2].map(|more| pod_group::no_common_domain("rack", &claims, more)));
}

fn priorities(page: &mut Page) {
    let one = OtherPriority { count: 1, low: 5, high: 5, asked: 100 };
    let two = OtherPriority { count: 2, low: -5, high: 5, asked: 100 };
    let above = [
        OtherPriority { count: 1, low: 200, high: 200, asked: 100 },
        OtherPriority { count: 2, low: 200, high: 300, asked: 100 },
    ];
    let why = "the condition counts the members that differ";
    let remedy = "delete such pods and create them again with class high or without a class";
    page.says_without_zero(
        "pending_below_priority",
        why,
        [one, two].map(|members| pod_group::pending_below_priority(members, remedy)),
    );
    page.says_without_zero("bound_below_priority", why, [one, two].map(pod_group::bound_below_priority));
    page.says_without_zero("above_priority", why, above.map(pod_group::above_priority));
    page.says("priorities_match", [pod_group::priorities_match()]);
}

fn others(page: &mut Page) {
    page.says("replacements_start_together", [pod_group::replacements_start_together()]);
    page.says_without_zero("bound_again", "a disruption ends when pods are bound", [1, 2].map(pod_group::bound_again));
    page.says("spark_driver_is_member", [pod_group::spark_driver_is_member("driver")]);
    page.says("no_further_member_created", [pod_group::no_further_member_created()]);
    page.says("member_not_created", [pod_group::member_not_created("Job train", "exceeded quota")]);
    page.says("pods_of_newer_job", [pod_group::pods_of_newer_job()]);
    let why = "without such pods the replacements need not wait";
    page.says_without_zero("replacements_wait", why, [1, 2].map(pod_group::replacements_wait));
    page.says("predecessor_may_be_deleted", [pod_group::predecessor_may_be_deleted(&key("train"))]);
}

fn workloads(page: &mut Page) {
    page.file("conditions/workload.rs");
    let why = "a Workload without PodGroups has another message";
    page.says_without_zero("all_scheduled", why, [1, 2].map(workload::all_scheduled));
    page.says_without_zero(
        "group_pending",
        why,
        [
            workload::group_pending(0, 1, "train", None),
            workload::group_pending(0, 2, "train", Some("Unschedulable")),
            workload::group_pending(1, 2, "train", Some("Unschedulable")),
            workload::group_pending(2, 3, "train", Some("WaitingForPods")),
        ],
    );
    page.says("no_group", [workload::no_group()]);
}
