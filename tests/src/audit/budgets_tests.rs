//! Each promise about budgets is broken once, in a history written by hand: the oracle must report it.

use super::super::handwritten::{Log, reference};
use super::*;
use crate::audit::chronicle::BudgetStatus;
use serde_json::{Value, json};

/// A chronicle and an audit log. Each event has the next revision, each request the next second.
#[derive(Default)]
struct Story {
    chronicle: Chronicle,
    log: Log,
    thresholds: BTreeMap<String, i32>,
}

impl Story {
    /// Three healthy pods `web-0` to `web-2` of priority 0 with threshold 50, a budget that desires `desired` of them, and a plan for gang
    /// `high` of priority 9. The victims of the plan are these pods and `other`, which has no budget and no threshold.
    fn new(desired: i64) -> Self {
        let mut story = Self::unplanned(desired);
        story.log.plan(&["web-0", "web-1", "web-2", "other"]);
        story
    }

    /// The same pods and budget without the plan.
    fn unplanned(desired: i64) -> Self {
        let mut story = Self::default();
        story.log.group("high", 9, "Pod", Value::Null);
        for name in ["web-0", "web-1", "web-2"] {
            story.thresholds.insert(name.to_owned(), 50);
        }
        for name in ["web-0", "web-1", "web-2", "other"] {
            story.log.pod(name, "", "n");
            story.pod(name, true, false);
        }
        story.budget("web", desired, 3, &[]);
        story
    }

    fn see(&mut self, seen: Seen) {
        let revision = self.chronicle.events.keys().next_back().map_or(1, |last| last + 1);
        self.chronicle.events.insert(revision, seen);
    }

    fn pod(&mut self, name: &str, ready: bool, terminating: bool) {
        let app = name.split('-').next().unwrap_or_default().to_owned();
        let group = ("scheduling.giveway.dev/pod-group".to_owned(), format!("of-{app}"));
        self.see(Seen::Pod(PodVersion {
            key: ("default".to_owned(), name.to_owned()),
            uid: name.to_owned(),
            labels: BTreeMap::from([("app".to_owned(), app), group]),
            healthy: ready && !terminating,
            terminating,
            threshold: self.thresholds.get(name).copied(),
        }));
    }

    /// A budget of the pods with label `app=web`, with the status that the disruption controller writes.
    fn budget(&mut self, name: &str, desired: i64, healthy: i64, disrupted: &[&str]) {
        let disrupted = disrupted.iter().map(|pod| (*pod).to_owned()).collect();
        self.see(Seen::Budget(BudgetVersion {
            key: ("default".to_owned(), name.to_owned()),
            selector: [("app", "web")].into_iter().collect(),
            status: Some(BudgetStatus { desired, healthy, disrupted }),
        }));
    }

    fn evicted(&mut self, user: &str, name: &str) {
        self.log.evict(user, name, 201);
        self.pod(name, true, true);
    }

    fn deleted(&mut self, user: &str, name: &str) {
        let request = json!({"preconditions": {"uid": name}});
        self.log.line(user, "delete", reference("", name), (request, Value::Null), 200);
        self.pod(name, true, true);
    }

    fn judge(&self) -> Judgement {
        judge(&self.chronicle, &self.log.history(), &Promises::new())
    }

    fn broken(&self) -> Vec<String> {
        self.judge().broken
    }
}

#[test]
fn evictions_that_the_budget_allows_break_no_promise() {
    let mut story = Story::new(2);
    story.log.evict(OPERATOR, "web-1", 429);
    story.evicted(OPERATOR, "web-0");
    let judgement = story.judge();
    assert_eq!(judgement.broken, Vec::<String>::new());
    assert_eq!(judgement.refused.len(), 1);
    assert_eq!(judgement.worst[&("default".to_owned(), "web".to_owned())], Worst { healthy: 2, desired: 2 });
    let act = &judgement.acts[0];
    assert_eq!((act.pod.1.as_str(), act.how, act.guarded, act.budgets.len()), ("web-0", How::Evict, true, 1));
}

#[test]
fn an_eviction_below_the_desired_number_by_any_user_is_reported() {
    let mut story = Story::new(2);
    story.evicted("kubectl", "web-0");
    story.evicted(OPERATOR, "web-1");
    let text =
        "pod web-1 was evicted by Giveway for high of priority 9 and left budget web with 1 of 2 desired healthy pods";
    assert_eq!(story.broken(), [text]);
    let mut story = Story::new(3);
    story.evicted("kubectl", "web-0");
    let text = "pod web-0 was evicted by kubectl and left budget web with 2 of 3 desired healthy pods";
    assert_eq!(story.broken(), [text]);
}

#[test]
fn every_budget_of_a_pod_is_checked() {
    let mut story = Story::new(2);
    story.budget("second", 3, 3, &[]);
    story.evicted(OPERATOR, "web-0");
    let broken = story.broken();
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].contains("left budget second with 2 of 3 desired healthy pods"), "{broken:?}");
}

#[test]
fn a_deletion_below_the_threshold_is_reported_even_if_the_budget_allows_an_eviction() {
    let mut story = Story::new(1);
    story.log.evict(OPERATOR, "web-0", 429);
    story.deleted(OPERATOR, "web-0");
    let text = "pod web-0 of budget web was deleted by Giveway for high of priority 9, below its threshold 50";
    assert_eq!(story.broken(), [text]);
}

#[test]
fn a_deletion_belongs_to_the_plan_in_the_condition_of_the_pod() {
    for (gang, priority) in [("vip", 99), ("high", 9)] {
        let mut story = Story::new(1);
        story.log.plan_for("vip", 99, "Evicting", &["web-0"]);
        // The cancelled plan is written once more.
        story.log.plan_for("high", 9, "Cancelled", &["web-0", "web-1", "web-2", "other"]);
        story.log.mark("web-0", gang, priority);
        story.log.evict(OPERATOR, "web-0", 429);
        story.deleted(OPERATOR, "web-0");
        let text = "pod web-0 of budget web was deleted by Giveway for high of priority 9, below its threshold 50";
        assert_eq!(story.broken(), if gang == "vip" { vec![] } else { vec![text] });
    }
}

#[test]
fn in_mode_pod_group_the_highest_threshold_applies_to_all_pods() {
    let mut story = Story::new(1);
    story.log.group("of-web", 0, "PodGroup", Value::Null);
    story.thresholds.remove("web-0");
    story.pod("web-0", true, false);
    story.log.evict(OPERATOR, "web-0", 429);
    story.deleted(OPERATOR, "web-0");
    assert_eq!(story.broken().len(), 1, "{:?}", story.broken());
    assert!(story.broken()[0].contains("below its threshold 50"), "{:?}", story.broken());
    // In mode `Pod` the threshold of each pod counts, and this pod has none.
    story.log.group("of-web", 0, "Pod", Value::Null);
    assert!(!story.broken().iter().any(|text| text.contains("deleted")), "{:?}", story.broken());
}

#[test]
fn a_pod_without_an_applying_threshold_may_be_deleted_only_after_a_refused_eviction() {
    let mut story = Story::new(3);
    story.thresholds = ["web-0", "web-1", "web-2"].map(|name| (name.to_owned(), 9)).into();
    for name in ["web-0", "web-1", "web-2"] {
        story.pod(name, true, false);
    }
    story.log.evict(OPERATOR, "web-0", 429);
    story.deleted(OPERATOR, "web-0");
    assert_eq!(story.broken(), Vec::<String>::new());
    story.deleted(OPERATOR, "web-1");
    let text = |pod: &str| {
        format!(
            "pod {pod} of budget web was deleted by Giveway for high of priority 9 without a refused eviction before"
        )
    };
    assert_eq!(story.broken(), [text("web-1")]);
    // A failed request is not a refusal.
    story.log.evict(OPERATOR, "web-2", 503);
    story.deleted(OPERATOR, "web-2");
    assert_eq!(story.broken(), [text("web-1"), text("web-2")]);
}

#[test]
fn a_refusal_names_a_budget_and_is_for_the_same_plan() {
    let refused = |code: u16, message: &str, plan: &str| {
        let mut story = Story::new(3);
        for name in ["web-0", "web-1", "web-2"] {
            story.thresholds.remove(name);
            story.pod(name, true, false);
        }
        let request = json!({
            "metadata": {"annotations": {"scheduling.giveway.dev/preemption-plan": plan}},
            "deleteOptions": {"preconditions": {"uid": "web-0"}}
        });
        let bodies = (request, Value::Null);
        story.log.answered(OPERATOR, "create", reference("eviction", "web-0"), bodies, (code, message));
        story.deleted(OPERATOR, "web-0");
        story.broken()
    };
    let budget = "Cannot evict pod as it would violate the pod's disruption budget.";
    let two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    assert_eq!(refused(429, budget, "high"), Vec::<String>::new());
    assert_eq!(refused(500, two, "high"), Vec::<String>::new());
    let crowded = "poddisruptionbudget.policy \"web\" is forbidden: DisruptedPods map too big - too many evictions not confirmed by PDB controller";
    assert_eq!(refused(403, crowded, "high"), Vec::<String>::new());
    let text =
        ["pod web-0 of budget web was deleted by Giveway for high of priority 9 without a refused eviction before"];
    assert_eq!(refused(429, "Too many requests, please try again later.", "high"), text);
    assert_eq!(refused(500, "etcdserver: request timed out", "high"), text);
    assert_eq!(refused(403, "pods \"web-0\" is forbidden: not today", "high"), text);
    let webhook = format!("admission webhook \"deny.example.com\" denied the request: {budget}");
    assert_eq!(refused(429, &webhook, "high"), text);
    assert_eq!(refused(429, budget, "an-older-one"), text);
}

#[test]
fn without_a_plan_every_threshold_applies() {
    let mut story = Story::unplanned(1);
    story.thresholds.insert("web-0".to_owned(), 1);
    story.pod("web-0", true, false);
    story.log.evict(OPERATOR, "web-0", 429);
    story.deleted(OPERATOR, "web-0");
    assert_eq!(
        story.broken(),
        ["pod web-0 of budget web was deleted by Giveway (without a plan), below its threshold 1"]
    );
    assert!(story.judge().acts[0].guarded);
    // Without a threshold a pod is evicted first, and deleted after the refusal.
    let mut story = Story::unplanned(1);
    for name in ["web-0", "web-1"] {
        story.thresholds.remove(name);
        story.pod(name, true, false);
    }
    story.log.evict(OPERATOR, "web-0", 429);
    story.deleted(OPERATOR, "web-0");
    assert_eq!(story.broken(), Vec::<String>::new());
    story.deleted(OPERATOR, "web-1");
    assert_eq!(
        story.broken(),
        ["pod web-1 of budget web was deleted by Giveway (without a plan) without a refused eviction before"]
    );
}

#[test]
fn after_a_cancelled_plan_the_thresholds_above_the_priority_of_its_preemptor_apply() {
    for threshold in [50, 9] {
        let mut story = Story::unplanned(2);
        story.thresholds.insert("web-0".to_owned(), threshold);
        story.pod("web-0", true, false);
        story.log.plan_for("high", 9, "Evicting", &["web-0", "web-1"]);
        story.evicted(OPERATOR, "web-1");
        story.log.departure_after("d-1", "high", &["web-0"]);
        story.log.evict(OPERATOR, "web-0", 429);
        story.deleted(OPERATOR, "web-0");
        let text = "pod web-0 of budget web was deleted by Giveway (PartiallyDisrupted), below its threshold 50";
        assert_eq!(story.broken(), if threshold == 50 { vec![text] } else { vec![] }, "{threshold}");
    }
}

#[test]
fn the_scheduler_may_break_a_guaranteed_budget_only_while_a_pending_pod_reaches_the_threshold() {
    let text = "pod web-0 was deleted by system:kube-scheduler and left budget web with 2 of 3 desired healthy pods";
    for (priority, expected) in [(49, vec![text]), (50, vec![])] {
        let mut story = Story::new(3);
        story.log.single("default", "vip", json!({"spec": {"priority": priority}}));
        story.log.single("default", "bound", json!({"spec": {"priority": 1000, "nodeName": "n"}}));
        story.deleted(SCHEDULER, "web-0");
        assert_eq!(story.broken(), expected, "{priority}");
    }
}

#[test]
fn a_pending_pod_that_cannot_preempt_does_not_excuse_the_scheduler() {
    let text = ["pod web-0 was deleted by system:kube-scheduler and left budget web with 2 of 3 desired healthy pods"];
    let broken = |more: Value, released: bool| {
        let mut story = Story::new(3);
        story.log.another_group("modest", "modest", "PreemptLowerPriority");
        story.log.single("default", "vip", more);
        if released {
            let object = json!({"kind": "Pod", "metadata": {"namespace": "default", "name": "vip", "uid": "vip"}});
            story.log.line(OPERATOR, "patch", reference("", "vip"), (Value::Null, object), 200);
        }
        story.deleted(SCHEDULER, "web-0");
        story.broken()
    };
    let gated = json!({"spec": {"priority": 1000, "schedulingGates": [{"name": "scheduling.giveway.dev/pod-group"}]}});
    assert_eq!(broken(json!({"spec": {"priority": 1000}}), false), Vec::<String>::new());
    assert_eq!(broken(gated.clone(), false), text, "the pod is gated");
    assert_eq!(broken(gated, true), Vec::<String>::new(), "the gate was removed");
    assert_eq!(broken(json!({"spec": {"priority": 1000, "preemptionPolicy": "Never"}}), false), text);
    let labels = json!({"labels": {"scheduling.giveway.dev/pod-group": "modest"}});
    assert_eq!(
        broken(json!({"metadata": labels, "spec": {"priority": 1000}}), false),
        text,
        "its PodGroup has priority 9"
    );
}

#[test]
fn unhealthy_pods_count_from_when_the_controller_has_observed_them() {
    let mut story = Story::new(2);
    story.pod("web-2", false, false);
    let mut late =
        Story { chronicle: story.chronicle.clone(), log: Log::default(), thresholds: story.thresholds.clone() };
    late.log = Story::new(2).log;
    story.evicted(OPERATOR, "web-0");
    assert_eq!(story.broken(), Vec::<String>::new());
    late.budget("web", 2, 2, &[]);
    late.evicted(OPERATOR, "web-0");
    assert_eq!(late.broken().len(), 1, "{:?}", late.broken());
}

#[test]
fn the_state_at_the_grant_of_the_eviction_counts() {
    let mut story = Story::new(2);
    story.pod("web-2", false, false);
    story.budget("web", 2, 3, &["web-0"]);
    story.budget("web", 2, 1, &["web-0"]);
    story.evicted(OPERATOR, "web-0");
    assert_eq!(story.broken(), Vec::<String>::new());
    // The next eviction was granted after the controller had observed web-2.
    story.budget("web", 2, 1, &["web-1"]);
    story.evicted(OPERATOR, "web-1");
    assert_eq!(story.broken().len(), 1, "{:?}", story.broken());
}

#[test]
fn a_status_that_counts_removed_pods_is_outdated() {
    let mut story = Story::new(1);
    story.pod("web-2", false, false);
    story.budget("web", 1, 3, &["web-0"]);
    story.evicted(OPERATOR, "web-0");
    story.evicted(OPERATOR, "web-1");
    assert_eq!(story.broken(), Vec::<String>::new());
    assert_eq!(story.judge().worst[&("default".to_owned(), "web".to_owned())], Worst { healthy: 0, desired: 1 });
}

#[test]
fn the_eviction_of_an_unhealthy_pod_does_not_count() {
    let mut story = Story::new(2);
    story.pod("web-2", false, false);
    story.budget("web", 2, 2, &[]);
    story.log.evict(OPERATOR, "web-2", 201);
    story.pod("web-2", false, true);
    assert_eq!(story.broken(), Vec::<String>::new());
}

#[test]
fn a_pod_without_a_threshold_is_removed_after_all_pods_with_an_applying_threshold() {
    let mut story = Story::new(0);
    for name in ["web-0", "web-1", "web-2"] {
        story.evicted(OPERATOR, name);
    }
    story.deleted(OPERATOR, "other");
    assert_eq!(story.broken(), Vec::<String>::new());

    let mut story = Story::new(0);
    story.evicted(OPERATOR, "web-0");
    story.log.evict(OPERATOR, "web-1", 429);
    story.deleted(OPERATOR, "other");
    story.evicted(OPERATOR, "web-1");
    let message = |guarded: &str| {
        format!(
            "pod other was removed by Giveway for high of priority 9 before pod {guarded}, whose budget is guaranteed"
        )
    };
    assert_eq!(story.broken(), [message("web-1"), message("web-2")]);
}
