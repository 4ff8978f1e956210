//! Table test of `decide`.

use crate::guard::testing::{Cluster, asked, merged, of_group, running, threshold};
use giveway_admission::rules::guard::decide::{GuardDecision, PossiblePreemptors, decide, possible_preemptors};
use giveway_admission::rules::guard::facts::PodObject;
use giveway_crds::condition::Reason;
use giveway_crds::labels;
use kube::Resource;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The expected verdict.
enum Expect {
    /// The preemption is permitted; the budgets that count the victim, and whether they are guaranteed.
    Permitted(&'static [&'static str], bool),
    /// The preemption is rejected with this message.
    Rejected(Reason, &'static str),
}
use Expect::{Permitted, Rejected};
use Reason::{GuaranteedBudget, NoPreemptor};

#[track_caller]
fn check(rows: Vec<(&str, Cluster, Value, Expect)>) {
    for (sentence, cluster, victim, expect) in rows {
        let decision = decide(&cluster.0, &asked(victim));
        match (decision, expect) {
            (GuardDecision::Permitted(permit), Permitted(budgets, guaranteed)) => {
                assert_eq!(permit.budgets, budgets, "{sentence}");
                assert_eq!(permit.guaranteed.is_some(), guaranteed, "{sentence}");
            }
            (GuardDecision::Rejected(refusal), Rejected(reason, message)) => {
                assert_eq!((refusal.reason, refusal.message.to_string().as_str()), (reason, message), "{sentence}");
            }
            (decision, _) => panic!("{sentence}: {decision:?}"),
        }
    }
}

fn api() -> Value {
    running("api-1", json!({}))
}

fn guarded() -> Value {
    running("api-1", threshold("5000"))
}

fn of_priority(priority: i32) -> Value {
    json!({"spec": {"priority": priority}})
}

fn high() -> Cluster {
    Cluster::new().waits("vip", 1000, json!({}))
}

#[test]
fn a_victim_without_a_possible_preemptor_is_not_preempted() {
    let none = "Preemption of pod web/api-1 (priority 10) is refused: no pending pod that may preempt has a priority above 10.";
    let gate = json!({"spec": {"schedulingGates": [{"name": "x"}]}});
    let lower = "Preemption of pod web/api-1 (priority 10) is refused: no pending pod that may preempt has a priority above 10; the highest, pod default/vip, has effective priority 10, that of its pod group.";
    let of_low_group = high().group("default", "g", Some(10), "Pod").waits("vip", 1000, of_group("g"));
    let in_high_group = high().group("web", "g", Some(2000), "Pod");
    let lent = Cluster::new().group("default", "g", Some(2000), "Pod").waits("vip", 10, of_group("g"));
    check(vec![
        ("no pod is pending", Cluster::new(), api(), Rejected(NoPreemptor, none)),
        ("equal priority is not above", Cluster::new().waits("vip", 10, json!({})), api(), Rejected(NoPreemptor, none)),
        ("lower priority is not above", Cluster::new().waits("vip", 9, json!({})), api(), Rejected(NoPreemptor, none)),
        ("gated", Cluster::new().waits("vip", 1000, gate), api(), Rejected(NoPreemptor, none)),
        (
            "never preempts",
            Cluster::new().waits("vip", 1000, json!({"spec": {"preemptionPolicy": "Never"}})),
            api(),
            Rejected(NoPreemptor, none),
        ),
        (
            "bound",
            Cluster::new().waits("vip", 1000, json!({"spec": {"nodeName": "n"}})),
            api(),
            Rejected(NoPreemptor, none),
        ),
        (
            "deleted",
            Cluster::new().waits("vip", 1000, json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
            api(),
            Rejected(NoPreemptor, none),
        ),
        (
            "ended",
            Cluster::new().waits("vip", 1000, json!({"status": {"phase": "Failed"}})),
            api(),
            Rejected(NoPreemptor, none),
        ),
        (
            "of another scheduler",
            Cluster::new().waits("vip", 1000, json!({"spec": {"schedulerName": "other"}})),
            api(),
            Rejected(NoPreemptor, none),
        ),
        (
            "the group's priority counts if the preemptor's own is higher",
            of_low_group,
            api(),
            Rejected(NoPreemptor, lower),
        ),
        ("the preemptor's own priority counts if its group's is higher", lent, api(), Rejected(NoPreemptor, none)),
        (
            "the group's priority counts if the victim's own is higher",
            in_high_group,
            merged(running("api-1", of_group("g")), of_priority(3000)),
            Rejected(
                NoPreemptor,
                "Preemption of pod web/api-1 (priority 2000) is refused: no pending pod that may preempt has a priority above 2000.",
            ),
        ),
    ]);
}

#[test]
fn an_unguarded_victim_is_permitted_if_a_preemptor_exists() {
    let unset = Cluster::new().waits("vip", 11, json!({"spec": {"preemptionPolicy": null, "schedulerName": null}}));
    check(vec![
        ("a preemptor of higher priority", high(), api(), Permitted(&[], false)),
        ("unset fields have their defaults", unset, api(), Permitted(&[], false)),
        (
            "a budget without a threshold is not guaranteed",
            high().budget("api", 0, json!({})),
            api(),
            Permitted(&["api"], false),
        ),
        ("a threshold without a budget has no effect", high(), guarded(), Permitted(&[], true)),
        (
            "the victim's own priority counts if its group's is higher",
            high().group("web", "g", Some(2000), "Pod"),
            running("api-1", of_group("g")),
            Permitted(&[], false),
        ),
        (
            "a group in mode `PodGroup` has the priority of its cheapest pod",
            high().group("web", "g", Some(2000), "PodGroup").has(running("api-2", of_group("g"))),
            merged(running("api-1", of_group("g")), of_priority(2000)),
            Permitted(&[], false),
        ),
        (
            "an unknown group does not change the priority",
            high(),
            running("api-1", of_group("unknown")),
            Permitted(&[], false),
        ),
        (
            "a group without a priority and a class does not change the priority",
            high().group("web", "g", None, "Pod"),
            running("api-1", of_group("g")),
            Permitted(&[], false),
        ),
        (
            "a victim that is terminating already",
            Cluster::new().budget("api", 0, json!({})),
            merged(guarded(), json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
            Permitted(&[], false),
        ),
    ]);
}

#[test]
fn below_the_threshold_a_budget_is_guaranteed() {
    let zero = "Preemption of pod web/api-1 (priority 10) is refused: budget web/api allows 0 more disruptions to preemptors below 5000; the highest pending preemptor is pod default/vip with priority 1000.";
    let at = |priority| Cluster::new().waits("vip", priority, json!({})).budget("api", 0, json!({}));
    let member = "Preemption of pod web/api-1 (priority 10) is refused: budget web/api allows 0 more disruptions to preemptors below 5000; the highest pending preemptor is pod default/member with priority 1000.";
    let two = "Preemption of pod web/api-1 (priority 10) is refused: budget web/b allows 0 more disruptions to preemptors below 5000; the highest pending preemptor is pod default/vip with priority 1000.";
    let unread = "Preemption of pod web/api-1 (priority 10) is refused: budget web/api allows 0 more disruptions to preemptors below 2000000000; the highest pending preemptor is pod default/vip with priority 1000.";
    check(vec![
        ("the budget allows no disruption", at(1000), guarded(), Rejected(GuaranteedBudget, zero)),
        (
            "just below",
            at(4999),
            guarded(),
            Rejected(
                GuaranteedBudget,
                "Preemption of pod web/api-1 (priority 10) is refused: budget web/api allows 0 more disruptions to preemptors below 5000; the highest pending preemptor is pod default/vip with priority 4999.",
            ),
        ),
        ("at the threshold", at(5000), guarded(), Permitted(&["api"], false)),
        ("above the threshold", at(5001), guarded(), Permitted(&["api"], false)),
        (
            "a group that reaches it does not raise the priority of its pods",
            at(1000).group("default", "g", Some(6000), "Pod").waits("member", 900, of_group("g")),
            guarded(),
            Rejected(GuaranteedBudget, zero),
        ),
        (
            "a pod that reaches it has the lower priority of its group",
            at(1000).group("default", "g", Some(1000), "Pod").waits("member", 6000, of_group("g")),
            guarded(),
            Rejected(GuaranteedBudget, member),
        ),
        (
            "one of several preemptors reaches it",
            at(1000).waits("boss", 6000, json!({})),
            guarded(),
            Permitted(&["api"], false),
        ),
        ("the budget allows one disruption", high().budget("api", 1, json!({})), guarded(), Permitted(&["api"], true)),
        (
            "two budgets, both allow",
            high().budget("a", 1, json!({})).budget("b", 2, json!({})),
            guarded(),
            Permitted(&["a", "b"], true),
        ),
        (
            "two budgets, one does not allow",
            high().budget("a", 1, json!({})).budget("b", 0, json!({})),
            guarded(),
            Rejected(GuaranteedBudget, two),
        ),
        (
            "a budget of other pods",
            high().budget("api", 0, json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}})),
            guarded(),
            Permitted(&[], true),
        ),
        (
            "an empty selector selects all",
            high().budget("api", 0, json!({"spec": {"selector": {"matchLabels": null}}})),
            guarded(),
            Rejected(GuaranteedBudget, zero),
        ),
        (
            "no selector selects none",
            high().budget("api", 0, json!({"spec": {"selector": null}})),
            guarded(),
            Permitted(&[], true),
        ),
        (
            "a budget of another namespace",
            high().budget("api", 0, json!({"metadata": {"namespace": "other"}})),
            guarded(),
            Permitted(&[], true),
        ),
        (
            "an unreadable threshold counts as the highest one",
            at(1000),
            running("api-1", threshold("x")),
            Rejected(GuaranteedBudget, unread),
        ),
    ]);
}

#[test]
fn a_budget_counts_pods_as_the_eviction_api_does() {
    let zero = "Preemption of pod web/api-1 (priority 10) is refused: budget web/api allows 0 more disruptions to preemptors below 5000; the highest pending preemptor is pod default/vip with priority 1000.";
    let unready = || merged(guarded(), json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}));
    let phase = |phase: &str| merged(guarded(), json!({"status": {"phase": phase}}));
    let none = |change: Value| high().budget("api", 0, change);
    let always = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, "status": {"currentHealthy": 0}});
    let disrupted_at = |time: &str| json!({"status": {"disruptedPods": {"api-1": time}}});
    check(vec![
        (
            "an unready pod is permitted while enough others are healthy",
            none(json!({})),
            unready(),
            Permitted(&[], true),
        ),
        (
            "an unready pod is rejected while too few others are healthy",
            none(json!({"status": {"currentHealthy": 1}})),
            unready(),
            Rejected(GuaranteedBudget, zero),
        ),
        (
            "an unready pod is rejected under a budget without required pods",
            none(json!({"status": {"currentHealthy": 0, "desiredHealthy": 0}})),
            unready(),
            Rejected(GuaranteedBudget, zero),
        ),
        ("an unready pod is permitted by the policy AlwaysAllow", none(always), unready(), Permitted(&[], true)),
        ("a pod that has not started", none(json!({})), phase("Pending"), Permitted(&[], true)),
        ("a pod that has ended", none(json!({})), phase("Succeeded"), Permitted(&[], true)),
        ("a pod on a lost node counts", none(json!({})), phase("Unknown"), Rejected(GuaranteedBudget, zero)),
        (
            "a pod that is counted as disrupted is not counted twice",
            none(disrupted_at("2026-01-01T00:00:05Z")),
            guarded(),
            Permitted(&["api"], true),
        ),
        (
            "an earlier pod of this name is not this pod",
            none(disrupted_at("2025-12-31T23:59:59Z")),
            guarded(),
            Rejected(GuaranteedBudget, zero),
        ),
        (
            "a status of an older specification allows nothing",
            high().budget("api", 3, json!({"metadata": {"generation": 2}})),
            guarded(),
            Rejected(GuaranteedBudget, zero),
        ),
        (
            "no status allows nothing",
            high().budget("api", 3, json!({"status": null})),
            guarded(),
            Rejected(GuaranteedBudget, zero),
        ),
    ]);
}

#[test]
fn budgets_count_all_pods_of_a_group_in_mode_pod_group() {
    let member = |name: &str, change: Value| running(name, merged(of_group("g"), change));
    let cluster = |mode: &str, allowed: i32| {
        high()
            .group("web", "g", Some(20), mode)
            .has(member("api-1", json!({})))
            .has(member("api-2", threshold("5000")))
            .has(member("other", json!({"metadata": {"labels": {"app": "other"}}})))
            .has(member("failed", json!({"status": {"phase": "Failed"}})))
            .has(running("stranger", of_group("h")))
            .budget("api", allowed, json!({}))
    };
    let one = "Preemption of pod web/api-1 (priority 10) is refused: budget web/api allows 1 more disruption to preemptors below 5000; the budget selects 2 pods of pod group web/g, which is evicted as a whole; the highest pending preemptor is pod default/vip with priority 1000.";
    check(vec![
        (
            "the threshold of another member counts",
            cluster("PodGroup", 1),
            member("api-1", json!({})),
            Rejected(GuaranteedBudget, one),
        ),
        (
            "an allowed disruption for each of them",
            cluster("PodGroup", 2),
            member("api-1", json!({})),
            Permitted(&["api"], true),
        ),
        (
            "in mode `Pod` the threshold of another member does not count",
            cluster("Pod", 0),
            member("api-1", json!({})),
            Permitted(&["api"], false),
        ),
        (
            "a member outside of the budget is evicted with the others",
            cluster("PodGroup", 1),
            member("other", json!({"metadata": {"labels": {"app": "other"}}})),
            Rejected(
                GuaranteedBudget,
                "Preemption of pod web/other (priority 10) is refused: budget web/api allows 1 more disruption to preemptors below 5000; the budget selects 2 pods of pod group web/g, which is evicted as a whole; the highest pending preemptor is pod default/vip with priority 1000.",
            ),
        ),
    ]);
}

#[test]
fn a_rejection_names_the_most_probable_preemptors() {
    let unschedulable =
        json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}});
    let cluster = Cluster::new()
        .budget("api", 0, json!({}))
        .waits("new", 900, json!({}))
        .waits("high", 1000, unschedulable.clone())
        .waits("low", 500, unschedulable)
        .waits("nominated", 100, json!({"status": {"nominatedNodeName": "n1"}}))
        .waits("elsewhere", 100, json!({"status": {"nominatedNodeName": "n2"}}));
    let GuardDecision::Rejected(refusal) = decide(&cluster.0, &asked(guarded())) else {
        panic!("the preemption is permitted")
    };
    let named: Vec<&str> = refusal.preemptors.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(named, ["nominated", "high", "low"]);
    assert_eq!(refusal.preemptors[0].uid, "uid-nominated");
}

fn of_native(priority: i32) -> Value {
    json!({"spec": {"priority": priority, "schedulingGroup": {"podGroupName": "g"}}})
}

#[test]
fn the_priority_of_a_native_group_counts_for_its_pods_but_reaches_no_threshold() {
    let waits = |own: i32| Cluster::new().waits("vip", own, of_native(own));
    let lower = "Preemption of pod web/api-1 (priority 10) is refused: no pending pod that may preempt has a priority above 10; the highest, pod default/vip, has effective priority 9, that of its pod group.";
    let shielded = "Preemption of pod web/api-1 (priority 2000) is refused: no pending pod that may preempt has a priority above 2000; the highest, pod default/vip, has effective priority 1000, that of its pod group.";
    let unpaid = "Preemption of pod web/api-1 (priority 10) is refused: budget web/b allows 0 more disruptions to preemptors below 5000; the highest pending preemptor is pod default/vip with priority 20.";
    check(vec![
        (
            "the priority of the native group counts",
            waits(5).native("default", "g", 1000),
            api(),
            Permitted(&[], false),
        ),
        (
            "also if it is lower than the pod's own",
            waits(1000).native("default", "g", 9),
            api(),
            Rejected(NoPreemptor, lower),
        ),
        ("a group that does not exist", waits(1000), api(), Permitted(&[], false)),
        (
            "a victim has the priority of its native group",
            waits(1000).native("default", "g", 1000).native("web", "g", 2000),
            merged(api(), of_native(10)),
            Rejected(NoPreemptor, shielded),
        ),
        (
            "a threshold is reached only by the pod's own priority",
            waits(20).native("default", "g", 9000).budget("b", 0, json!({})),
            guarded(),
            Rejected(GuaranteedBudget, unpaid),
        ),
    ]);
}

#[test]
fn only_nominated_pods_of_the_scheduler_are_possible_preemptors_of_a_response() {
    let nominated = json!({"status": {"nominatedNodeName": "n1"}});
    let cluster = Cluster::new()
        .waits("one", 100, nominated.clone())
        .waits("two", 10, json!({"status": {"nominatedNodeName": "n2"}}))
        .waits("not tried yet", 1000, json!({}))
        .waits("foreign", 100, merged(nominated, json!({"spec": {"schedulerName": "other"}})));
    let asked = asked(guarded());
    assert_eq!(
        possible_preemptors(&cluster.0, &asked),
        PossiblePreemptors { scheduler: asked.scheduler.clone(), pods: 2 }
    );
}

#[test]
fn a_guarded_victim_under_too_many_budgets_is_rejected_and_claims_are_bounded() {
    let budgets = |count: usize| (0..count).fold(high(), |cluster, n| cluster.budget(&format!("b{n}"), 1, json!({})));
    let many = "Preemption of pod web/api-1 (priority 10) is refused: more than 8 budgets select it, which is too many to update in time: delete all but one of them.";
    let first = &["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"];
    check(vec![
        ("as many budgets as are claimed", budgets(8), guarded(), Permitted(first, true)),
        ("one budget too many", budgets(9), guarded(), Rejected(GuaranteedBudget, many)),
        ("of budgets without a guarantee the first eight are claimed", budgets(9), api(), Permitted(first, false)),
    ]);
}

/// A node can create a mirror pod with any labels and annotations.
#[test]
fn a_mirror_pod_changes_neither_threshold_nor_priority_of_the_group_that_it_names() {
    let member = |name: &str, change: Value| running(name, merged(of_group("g"), change));
    let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}});
    let raises = merged(threshold("5000"), mirror.clone());
    let raised = high().group("web", "g", Some(20), "PodGroup").has(member("static", raises));
    let lowers = merged(of_priority(0), mirror);
    let lowered = Cluster::new().waits("vip", 10, json!({})).group("web", "g", Some(20), "PodGroup");
    let lowered = lowered.has(member("static", lowers));
    let none = "Preemption of pod web/api-1 (priority 10) is refused: no pending pod that may preempt has a priority above 10.";
    check(vec![
        ("its threshold", raised.budget("api", 0, json!({})), member("api-1", json!({})), Permitted(&["api"], false)),
        ("its priority", lowered, member("api-1", json!({})), Rejected(NoPreemptor, none)),
    ]);
}

#[test]
fn only_the_first_labels_of_a_victim_are_stored_and_budgets_that_select_by_others_are_ignored() {
    let many: BTreeMap<String, Value> = (0..70_000).map(|n| (format!("b{n:06}"), json!("x"))).collect();
    let pod = merged(running("api-1", threshold("5000")), json!({"metadata": {"labels": many}}));
    let notes = json!({"metadata": {"annotations": {"note": "x".repeat(1000)}}});
    let read: PodObject<true> = serde_json::from_value(merged(pod.clone(), notes)).unwrap();
    assert_eq!(read.meta().annotations.as_ref().map(BTreeMap::len), Some(1), "other annotations are not stored");
    let bound = read.bound();
    assert_eq!((bound.threshold, bound.labels.iter().count()), (Some(5000), labels::MOST_OTHERS));
    let under = |key: &str| {
        let selector = json!({"spec": {"selector": {"matchLabels": {key: "x"}}}});
        let selector = merged(selector, json!({"spec": {"selector": {"matchLabels": {"app": null}}}}));
        let cluster = Cluster::new().waits("vip", 1000, json!({})).budget("b", 0, selector);
        matches!(decide(&cluster.0, &asked(pod.clone())), GuardDecision::Rejected(_))
    };
    assert!(under("b000000") && !under("b069999"), "a budget selects by the stored labels only");
}
