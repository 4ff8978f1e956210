//! An oracle that cannot say no proves nothing: each promise about budgets is broken once, in a history written for it.

use super::super::handwritten::{Log, reference};
use super::*;
use crate::audit::chronicle::Counted;
use serde_json::{Value, json};

/// A chronicle and a log: each event at the next revision, each request at the next second.
#[derive(Default)]
struct Story {
    chronicle: Chronicle,
    log: Log,
    thresholds: BTreeMap<String, i32>,
}

impl Story {
    /// Three healthy pods of priority 0, `web-0` to `web-2`, guarded up to 50; a budget that desires `desired` of them; and
    /// a plan for the gang `high`, of priority 9, that names all of them and `other`, which has neither.
    fn new(desired: i64) -> Self {
        let mut story = Self::unplanned(desired);
        story.log.plan(&["web-0", "web-1", "web-2", "other"]);
        story
    }

    /// The same without the plan.
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

    fn pod(&mut self, name: &str, ready: bool, leaving: bool) {
        let app = name.split('-').next().unwrap_or_default().to_owned();
        let group = ("scheduling.giveway.dev/pod-group".to_owned(), format!("of-{app}"));
        self.see(Seen::Pod(PodSeen {
            key: ("default".to_owned(), name.to_owned()),
            uid: name.to_owned(),
            labels: BTreeMap::from([("app".to_owned(), app), group]),
            healthy: ready && !leaving,
            leaving,
            threshold: self.thresholds.get(name).copied(),
        }));
    }

    /// The budget of the pods with label `app=web`, as the disruption controller counts it.
    fn budget(&mut self, name: &str, desired: i64, healthy: i64, disrupted: &[&str]) {
        let disrupted = disrupted.iter().map(|pod| (*pod).to_owned()).collect();
        self.see(Seen::Budget(BudgetSeen {
            key: ("default".to_owned(), name.to_owned()),
            selector: [("app", "web")].into_iter().collect(),
            status: Some(Counted { desired, healthy, disrupted }),
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
fn evictions_that_the_budget_allows_break_nothing() {
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
fn an_eviction_below_what_is_desired_is_told_whoever_asked_for_it() {
    let mut story = Story::new(2);
    story.evicted("kubectl", "web-0");
    story.evicted(OPERATOR, "web-1");
    let text = "web-1 was evicted by Giveway for high of priority 9 and left budget web with 1 healthy pods of the 2 that it desires";
    assert_eq!(story.broken(), [text]);
    let mut story = Story::new(3);
    story.evicted("kubectl", "web-0");
    let text = "web-0 was evicted by kubectl and left budget web with 2 healthy pods of the 3 that it desires";
    assert_eq!(story.broken(), [text]);
}

#[test]
fn every_budget_of_a_pod_counts() {
    let mut story = Story::new(2);
    story.budget("second", 3, 3, &[]);
    story.evicted(OPERATOR, "web-0");
    let broken = story.broken();
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].contains("left budget second with 2 healthy pods of the 3"), "{broken:?}");
}

#[test]
fn a_guarded_pod_that_is_deleted_is_told_even_where_the_budget_would_have_allowed_it() {
    let mut story = Story::new(1);
    story.log.evict(OPERATOR, "web-0", 429);
    story.deleted(OPERATOR, "web-0");
    let text = "web-0 was deleted by Giveway for high of priority 9, below its threshold 50, under budget web";
    assert_eq!(story.broken(), [text]);
}

#[test]
fn of_two_plans_that_name_a_pod_the_one_it_was_told_of_took_it() {
    for (gang, priority) in [("vip", 99), ("high", 9)] {
        let mut story = Story::new(1);
        story.log.plan_for("vip", 99, "Evicting", &["web-0"]);
        // The plan that was displaced is written once more.
        story.log.plan_for("high", 9, "Cancelled", &["web-0", "web-1", "web-2", "other"]);
        story.log.mark("web-0", gang, priority);
        story.log.evict(OPERATOR, "web-0", 429);
        story.deleted(OPERATOR, "web-0");
        let text = "web-0 was deleted by Giveway for high of priority 9, below its threshold 50, under budget web";
        assert_eq!(story.broken(), if gang == "vip" { vec![] } else { vec![text] });
    }
}

#[test]
fn a_whole_group_is_guarded_by_the_highest_threshold_of_its_pods() {
    let mut story = Story::new(1);
    story.log.group("of-web", 0, "PodGroup", Value::Null);
    story.thresholds.remove("web-0");
    story.pod("web-0", true, false);
    story.log.evict(OPERATOR, "web-0", 429);
    story.deleted(OPERATOR, "web-0");
    assert_eq!(story.broken().len(), 1, "{:?}", story.broken());
    assert!(story.broken()[0].contains("below its threshold 50"), "{:?}", story.broken());
    // In mode `Pod` each pod has its own threshold, and this one has none.
    story.log.group("of-web", 0, "Pod", Value::Null);
    assert!(!story.broken().iter().any(|text| text.contains("deleted")), "{:?}", story.broken());
}

#[test]
fn a_pod_that_is_not_guarded_may_be_deleted_after_its_eviction_was_refused_and_not_without_asking() {
    let mut story = Story::new(3);
    story.thresholds = ["web-0", "web-1", "web-2"].map(|name| (name.to_owned(), 9)).into();
    for name in ["web-0", "web-1", "web-2"] {
        story.pod(name, true, false);
    }
    story.log.evict(OPERATOR, "web-0", 429);
    story.deleted(OPERATOR, "web-0");
    assert_eq!(story.broken(), Vec::<String>::new());
    story.deleted(OPERATOR, "web-1");
    let text =
        |pod: &str| format!("{pod} was deleted by Giveway for high of priority 9, without asking budget web before");
    assert_eq!(story.broken(), [text("web-1")]);
    // A failure is no refusal.
    story.log.evict(OPERATOR, "web-2", 503);
    story.deleted(OPERATOR, "web-2");
    assert_eq!(story.broken(), [text("web-1"), text("web-2")]);
}

#[test]
fn a_refusal_is_one_that_speaks_of_the_budget_and_for_the_same_plan() {
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
    let text = ["web-0 was deleted by Giveway for high of priority 9, without asking budget web before"];
    assert_eq!(refused(429, "Too many requests, please try again later.", "high"), text);
    assert_eq!(refused(500, "etcdserver: request timed out", "high"), text);
    assert_eq!(refused(429, budget, "an-older-one"), text);
}

#[test]
fn who_goes_without_a_plan_is_guarded_by_every_threshold() {
    let mut story = Story::unplanned(1);
    story.thresholds.insert("web-0".to_owned(), 1);
    story.pod("web-0", true, false);
    story.log.evict(OPERATOR, "web-0", 429);
    story.deleted(OPERATOR, "web-0");
    assert_eq!(
        story.broken(),
        ["web-0 was deleted by Giveway without a plan, below its threshold 1, under budget web"]
    );
    assert!(story.judge().acts[0].guarded);
    // Without a threshold it is asked for, and then deleted.
    let mut story = Story::unplanned(1);
    for name in ["web-0", "web-1"] {
        story.thresholds.remove(name);
        story.pod(name, true, false);
    }
    story.log.evict(OPERATOR, "web-0", 429);
    story.deleted(OPERATOR, "web-0");
    assert_eq!(story.broken(), Vec::<String>::new());
    story.deleted(OPERATOR, "web-1");
    assert_eq!(story.broken(), ["web-1 was deleted by Giveway without a plan, without asking budget web before"]);
}

#[test]
fn the_scheduler_takes_a_guarded_pod_below_its_budget_only_while_somebody_waits_who_may() {
    let text =
        "web-0 was deleted by system:kube-scheduler and left budget web with 2 healthy pods of the 3 that it desires";
    for (priority, told) in [(49, vec![text]), (50, vec![])] {
        let mut story = Story::new(3);
        story.log.single("default", "vip", json!({"spec": {"priority": priority}}));
        story.log.single("default", "bound", json!({"spec": {"priority": 1000, "nodeName": "n"}}));
        story.deleted(SCHEDULER, "web-0");
        assert_eq!(story.broken(), told, "{priority}");
    }
}

#[test]
fn who_waits_and_may_take_nobody_is_no_excuse_for_the_scheduler() {
    let text =
        ["web-0 was deleted by system:kube-scheduler and left budget web with 2 healthy pods of the 3 that it desires"];
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
    assert_eq!(broken(gated.clone(), false), text, "it is gated");
    assert_eq!(broken(gated, true), Vec::<String>::new(), "it was released");
    assert_eq!(broken(json!({"spec": {"priority": 1000, "preemptionPolicy": "Never"}}), false), text);
    let labels = json!({"labels": {"scheduling.giveway.dev/pod-group": "modest"}});
    assert_eq!(
        broken(json!({"metadata": labels, "spec": {"priority": 1000}}), false),
        text,
        "its group has priority 9"
    );
}

#[test]
fn what_the_controller_has_not_counted_out_yet_is_held_against_nobody_and_what_it_has_is() {
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
fn what_counts_is_what_was_known_when_the_eviction_was_granted() {
    let mut story = Story::new(2);
    story.pod("web-2", false, false);
    story.budget("web", 2, 3, &["web-0"]);
    story.budget("web", 2, 1, &["web-0"]);
    story.evicted(OPERATOR, "web-0");
    assert_eq!(story.broken(), Vec::<String>::new());
    // The next one was granted when it was known.
    story.budget("web", 2, 1, &["web-1"]);
    story.evicted(OPERATOR, "web-1");
    assert_eq!(story.broken().len(), 1, "{:?}", story.broken());
}

#[test]
fn a_status_that_still_counts_what_went_is_no_knowledge() {
    let mut story = Story::new(1);
    story.pod("web-2", false, false);
    story.budget("web", 1, 3, &["web-0"]);
    story.evicted(OPERATOR, "web-0");
    story.evicted(OPERATOR, "web-1");
    assert_eq!(story.broken(), Vec::<String>::new());
    assert_eq!(story.judge().worst[&("default".to_owned(), "web".to_owned())], Worst { healthy: 0, desired: 1 });
}

#[test]
fn a_pod_that_was_not_healthy_costs_a_budget_nothing() {
    let mut story = Story::new(2);
    story.pod("web-2", false, false);
    story.budget("web", 2, 2, &[]);
    story.log.evict(OPERATOR, "web-2", 201);
    story.pod("web-2", false, true);
    assert_eq!(story.broken(), Vec::<String>::new());
}

#[test]
fn whoever_is_not_guarded_goes_only_after_all_who_are() {
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
    let told = |guarded: &str| {
        format!("other was taken by Giveway for high of priority 9 before {guarded}, which a budget guards")
    };
    assert_eq!(story.broken(), [told("web-1"), told("web-2")]);
}
