//! Table test of `decide`.

use crate::guard::testing::{Cluster, asked, merged, of_group, running, threshold};
use giveway_admission::rules::guard::decide::{Decision, PossiblePreemptors, decide, possible_preemptors};
use giveway_admission::rules::guard::facts::PodObject;
use giveway_crds::condition::Reason;
use giveway_crds::labels;
use kube::Resource;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The expected verdict.
enum Expect {
    /// The preemption is permitted; the budgets that count the victim, and whether they are guaranteed.
    Goes(&'static [&'static str], bool),
    /// The preemption is rejected with this message.
    Stays(Reason, &'static str),
}
use Expect::{Goes, Stays};
use Reason::{GuaranteedBudget, NoPreemptor};

#[track_caller]
fn check(rows: Vec<(&str, Cluster, Value, Expect)>) {
    for (sentence, cluster, victim, expect) in rows {
        let decision = decide(&cluster.0, &asked(victim));
        match (decision, expect) {
            (Decision::Permitted(permit), Goes(budgets, guaranteed)) => {
                assert_eq!(permit.budgets, budgets, "{sentence}");
                assert_eq!(permit.guaranteed.is_some(), guaranteed, "{sentence}");
            }
            (Decision::Rejected(refusal), Stays(reason, message)) => {
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

fn paying(priority: i32) -> Value {
    json!({"spec": {"priority": priority}})
}

fn high() -> Cluster {
    Cluster::new().waits("vip", 1000, json!({}))
}

#[test]
fn without_anybody_who_may_take_it_a_victim_stays() {
    let none = "Preemption of pod web/api-1 (priority 10) is refused: no pending pod that may preempt has a priority above 10.";
    let gate = json!({"spec": {"schedulingGates": [{"name": "x"}]}});
    let lower = "Preemption of pod web/api-1 (priority 10) is refused: no pending pod that may preempt has a priority above 10; the highest, pod default/vip, counts as 10 by its pod group.";
    let of_low_group = high().group("default", "g", Some(10), "Pod").waits("vip", 1000, of_group("g"));
    let in_high_group = high().group("web", "g", Some(2000), "Pod");
    let lent = Cluster::new().group("default", "g", Some(2000), "Pod").waits("vip", 10, of_group("g"));
    check(vec![
        ("nobody waits", Cluster::new(), api(), Stays(NoPreemptor, none)),
        ("equal priority is not above", Cluster::new().waits("vip", 10, json!({})), api(), Stays(NoPreemptor, none)),
        ("lower priority is not above", Cluster::new().waits("vip", 9, json!({})), api(), Stays(NoPreemptor, none)),
        ("gated", Cluster::new().waits("vip", 1000, gate), api(), Stays(NoPreemptor, none)),
        (
            "never preempts",
            Cluster::new().waits("vip", 1000, json!({"spec": {"preemptionPolicy": "Never"}})),
            api(),
            Stays(NoPreemptor, none),
        ),
        (
            "bound",
            Cluster::new().waits("vip", 1000, json!({"spec": {"nodeName": "n"}})),
            api(),
            Stays(NoPreemptor, none),
        ),
        (
            "deleted",
            Cluster::new().waits("vip", 1000, json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
            api(),
            Stays(NoPreemptor, none),
        ),
        (
            "ended",
            Cluster::new().waits("vip", 1000, json!({"status": {"phase": "Failed"}})),
            api(),
            Stays(NoPreemptor, none),
        ),
        (
            "of another scheduler",
            Cluster::new().waits("vip", 1000, json!({"spec": {"schedulerName": "other"}})),
            api(),
            Stays(NoPreemptor, none),
        ),
        (
            "the preemptor's group counts where the preemptor pays for more",
            of_low_group,
            api(),
            Stays(NoPreemptor, lower),
        ),
        ("a group lends the preemptor nothing", lent, api(), Stays(NoPreemptor, none)),
        (
            "the victim's group counts, where the victim pays for more",
            in_high_group,
            merged(running("api-1", of_group("g")), paying(3000)),
            Stays(
                NoPreemptor,
                "Preemption of pod web/api-1 (priority 2000) is refused: no pending pod that may preempt has a priority above 2000.",
            ),
        ),
    ]);
}

#[test]
fn with_somebody_who_may_take_it_an_unguarded_victim_goes() {
    let unset = Cluster::new().waits("vip", 11, json!({"spec": {"preemptionPolicy": null, "schedulerName": null}}));
    check(vec![
        ("one above", high(), api(), Goes(&[], false)),
        ("unset fields have their defaults", unset, api(), Goes(&[], false)),
        (
            "a budget without a threshold is a preference",
            high().budget("api", 0, json!({})),
            api(),
            Goes(&["api"], false),
        ),
        ("a threshold without a budget guards nothing", high(), guarded(), Goes(&[], true)),
        (
            "a group is no shield of a victim that pays for less",
            high().group("web", "g", Some(2000), "Pod"),
            running("api-1", of_group("g")),
            Goes(&[], false),
        ),
        (
            "a group that goes whole counts as its cheapest pod",
            high().group("web", "g", Some(2000), "PodGroup").has(running("api-2", of_group("g"))),
            merged(running("api-1", of_group("g")), paying(2000)),
            Goes(&[], false),
        ),
        ("an unknown group counts for nothing", high(), running("api-1", of_group("nobody-knows")), Goes(&[], false)),
        (
            "a group without a stated priority has that of its class, here none",
            high().group("web", "g", None, "Pod"),
            running("api-1", of_group("g")),
            Goes(&[], false),
        ),
        (
            "a victim that is going already",
            Cluster::new().budget("api", 0, json!({})),
            merged(guarded(), json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
            Goes(&[], false),
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
        ("no allowance", at(1000), guarded(), Stays(GuaranteedBudget, zero)),
        (
            "just below",
            at(4999),
            guarded(),
            Stays(
                GuaranteedBudget,
                "Preemption of pod web/api-1 (priority 10) is refused: budget web/api allows 0 more disruptions to preemptors below 5000; the highest pending preemptor is pod default/vip with priority 4999.",
            ),
        ),
        ("at the threshold", at(5000), guarded(), Goes(&["api"], false)),
        ("above the threshold", at(5001), guarded(), Goes(&["api"], false)),
        (
            "a group that reaches it lends that to no pod",
            at(1000).group("default", "g", Some(6000), "Pod").waits("member", 900, of_group("g")),
            guarded(),
            Stays(GuaranteedBudget, zero),
        ),
        (
            "a pod that reaches it counts as its group does",
            at(1000).group("default", "g", Some(1000), "Pod").waits("member", 6000, of_group("g")),
            guarded(),
            Stays(GuaranteedBudget, member),
        ),
        ("one of several reaches it", at(1000).waits("boss", 6000, json!({})), guarded(), Goes(&["api"], false)),
        ("an allowance", high().budget("api", 1, json!({})), guarded(), Goes(&["api"], true)),
        (
            "two budgets, both allow",
            high().budget("a", 1, json!({})).budget("b", 2, json!({})),
            guarded(),
            Goes(&["a", "b"], true),
        ),
        (
            "two budgets, one does not allow",
            high().budget("a", 1, json!({})).budget("b", 0, json!({})),
            guarded(),
            Stays(GuaranteedBudget, two),
        ),
        (
            "a budget of other pods",
            high().budget("api", 0, json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}})),
            guarded(),
            Goes(&[], true),
        ),
        (
            "an empty selector selects all",
            high().budget("api", 0, json!({"spec": {"selector": {"matchLabels": null}}})),
            guarded(),
            Stays(GuaranteedBudget, zero),
        ),
        (
            "no selector selects none",
            high().budget("api", 0, json!({"spec": {"selector": null}})),
            guarded(),
            Goes(&[], true),
        ),
        (
            "a budget of another namespace",
            high().budget("api", 0, json!({"metadata": {"namespace": "other"}})),
            guarded(),
            Goes(&[], true),
        ),
        (
            "an unreadable threshold protects as much as any",
            at(1000),
            running("api-1", threshold("x")),
            Stays(GuaranteedBudget, unread),
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
    let gone_at = |time: &str| json!({"status": {"disruptedPods": {"api-1": time}}});
    check(vec![
        ("an unready pod goes while enough others are healthy", none(json!({})), unready(), Goes(&[], true)),
        (
            "an unready pod stays while too few others are healthy",
            none(json!({"status": {"currentHealthy": 1}})),
            unready(),
            Stays(GuaranteedBudget, zero),
        ),
        (
            "an unready pod stays under a budget that wants none",
            none(json!({"status": {"currentHealthy": 0, "desiredHealthy": 0}})),
            unready(),
            Stays(GuaranteedBudget, zero),
        ),
        ("an unready pod goes always where the policy says so", none(always), unready(), Goes(&[], true)),
        ("a pod that has not started", none(json!({})), phase("Pending"), Goes(&[], true)),
        ("a pod that has ended", none(json!({})), phase("Succeeded"), Goes(&[], true)),
        ("a pod on a lost node counts", none(json!({})), phase("Unknown"), Stays(GuaranteedBudget, zero)),
        (
            "a pod that is counted as gone is not counted twice",
            none(gone_at("2026-01-01T00:00:05Z")),
            guarded(),
            Goes(&["api"], true),
        ),
        (
            "an earlier pod of this name was another one",
            none(gone_at("2025-12-31T23:59:59Z")),
            guarded(),
            Stays(GuaranteedBudget, zero),
        ),
        (
            "a status of an older specification allows nothing",
            high().budget("api", 3, json!({"metadata": {"generation": 2}})),
            guarded(),
            Stays(GuaranteedBudget, zero),
        ),
        (
            "no status allows nothing",
            high().budget("api", 3, json!({"status": null})),
            guarded(),
            Stays(GuaranteedBudget, zero),
        ),
    ]);
}

#[test]
fn a_group_that_gives_way_whole_is_guarded_whole() {
    let member = |name: &str, change: Value| running(name, merged(of_group("g"), change));
    let cluster = |mode: &str, allowed: i32| {
        high()
            .group("web", "g", Some(20), mode)
            .has(member("api-1", json!({})))
            .has(member("api-2", threshold("5000")))
            .has(member("other", json!({"metadata": {"labels": {"app": "other"}}})))
            .has(member("gone", json!({"status": {"phase": "Failed"}})))
            .has(running("stranger", of_group("h")))
            .budget("api", allowed, json!({}))
    };
    let one = "Preemption of pod web/api-1 (priority 10) is refused: budget web/api allows 1 more disruption to preemptors below 5000; 2 pods of pod group web/g, which is evicted as a whole, are under it; the highest pending preemptor is pod default/vip with priority 1000.";
    check(vec![
        (
            "the others' threshold counts",
            cluster("PodGroup", 1),
            member("api-1", json!({})),
            Stays(GuaranteedBudget, one),
        ),
        ("an allowance for each of them", cluster("PodGroup", 2), member("api-1", json!({})), Goes(&["api"], true)),
        (
            "pods that go one by one do not share it",
            cluster("Pod", 0),
            member("api-1", json!({})),
            Goes(&["api"], false),
        ),
        (
            "a member outside the budget takes the others along",
            cluster("PodGroup", 1),
            member("other", json!({"metadata": {"labels": {"app": "other"}}})),
            Stays(
                GuaranteedBudget,
                "Preemption of pod web/other (priority 10) is refused: budget web/api allows 1 more disruption to preemptors below 5000; 2 pods of pod group web/g, which is evicted as a whole, are under it; the highest pending preemptor is pod default/vip with priority 1000.",
            ),
        ),
    ]);
}

#[test]
fn those_that_are_told_are_the_ones_that_the_scheduler_most_probably_acts_for() {
    let unschedulable =
        json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}});
    let cluster = Cluster::new()
        .budget("api", 0, json!({}))
        .waits("new", 900, json!({}))
        .waits("high", 1000, unschedulable.clone())
        .waits("low", 500, unschedulable)
        .waits("nominated", 100, json!({"status": {"nominatedNodeName": "n1"}}))
        .waits("elsewhere", 100, json!({"status": {"nominatedNodeName": "n2"}}));
    let Decision::Rejected(refusal) = decide(&cluster.0, &asked(guarded())) else { panic!("it is permitted") };
    let told: Vec<&str> = refusal.preemptors.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(told, ["nominated", "high", "low"]);
    assert_eq!(refusal.preemptors[0].uid, "uid-nominated");
}

fn of_native(priority: i32) -> Value {
    json!({"spec": {"priority": priority, "schedulingGroup": {"podGroupName": "g"}}})
}

#[test]
fn the_priority_of_a_native_group_counts_for_its_pods_and_opens_no_budget_that_they_do_not_pay_for() {
    let waits = |own: i32| Cluster::new().waits("vip", own, of_native(own));
    let lower = "Preemption of pod web/api-1 (priority 10) is refused: no pending pod that may preempt has a priority above 10; the highest, pod default/vip, counts as 9 by its pod group.";
    let shielded = "Preemption of pod web/api-1 (priority 2000) is refused: no pending pod that may preempt has a priority above 2000; the highest, pod default/vip, counts as 1000 by its pod group.";
    let unpaid = "Preemption of pod web/api-1 (priority 10) is refused: budget web/b allows 0 more disruptions to preemptors below 5000; the highest pending preemptor is pod default/vip with priority 20.";
    check(vec![
        ("kube-scheduler acts for the group", waits(5).native("default", "g", 1000), api(), Goes(&[], false)),
        ("also downwards", waits(1000).native("default", "g", 9), api(), Stays(NoPreemptor, lower)),
        ("a group that does not exist", waits(1000), api(), Goes(&[], false)),
        (
            "a victim has its group's",
            waits(1000).native("default", "g", 1000).native("web", "g", 2000),
            merged(api(), of_native(10)),
            Stays(NoPreemptor, shielded),
        ),
        (
            "a threshold is reached by what the pod pays for",
            waits(20).native("default", "g", 9000).budget("b", 0, json!({})),
            guarded(),
            Stays(GuaranteedBudget, unpaid),
        ),
    ]);
}

#[test]
fn an_answer_is_for_one_of_the_pods_that_its_scheduler_nominated() {
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
fn more_budgets_than_can_be_claimed_in_time_keep_a_guarded_victim_and_are_not_all_claimed_for_another() {
    let budgets = |count: usize| (0..count).fold(high(), |cluster, n| cluster.budget(&format!("b{n}"), 1, json!({})));
    let many = "Preemption of pod web/api-1 (priority 10) is refused: more than 8 budgets select it, which are too many to count it as gone: leave one.";
    let first = &["b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"];
    check(vec![
        ("as many as are claimed", budgets(8), guarded(), Goes(first, true)),
        ("one too many", budgets(9), guarded(), Stays(GuaranteedBudget, many)),
        ("a preference is claimed as far as that goes", budgets(9), api(), Goes(first, false)),
    ]);
}

#[test]
fn a_pod_with_more_labels_than_anybody_has_costs_no_more_and_is_a_victim_all_the_same() {
    let many: BTreeMap<String, Value> = (0..70_000).map(|n| (format!("b{n:06}"), json!("x"))).collect();
    let pod = merged(running("api-1", threshold("5000")), json!({"metadata": {"labels": many}}));
    let notes = json!({"metadata": {"annotations": {"note": "x".repeat(1000)}}});
    let read: PodObject<true> = serde_json::from_value(merged(pod.clone(), notes)).unwrap();
    assert_eq!(read.meta().annotations.as_ref().map(BTreeMap::len), Some(1), "the others are nobody's business");
    let bound = read.bound();
    assert_eq!((bound.threshold, bound.labels.len()), (Some(5000), labels::MOST_OTHERS));
    let under = |key: &str| {
        let selector = json!({"spec": {"selector": {"matchLabels": {key: "x"}}}});
        let selector = merged(selector, json!({"spec": {"selector": {"matchLabels": {"app": null}}}}));
        let cluster = Cluster::new().waits("vip", 1000, json!({})).budget("b", 0, selector);
        matches!(decide(&cluster.0, &asked(pod.clone())), Decision::Rejected(_))
    };
    assert!(under("b000000") && !under("b069999"), "a budget protects by what is remembered");
}
