//! Tests of the status of a PodGroup in each state.

use super::*;
use crate::gangs::finished::FinishedCounts;
use crate::gangs::labelled::OwnerCounters;
use crate::plans::{plan_message, preemptor_reference, victim_message};
use crate::testing::{TestPod, World};
use giveway_crds::finished::FinishedMembers;
use giveway_crds::plan::{StoredPlacement, StoredPlan, StoredVictim, StoredVictimPod};
use giveway_planner::Preemptor;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Instant;

struct Case {
    world: World,
    flight: Option<Flight>,
    last_plan: Option<PreemptionSummary>,
    wait_reason: Option<WaitReason>,
    victim_of: Option<Victimhood>,
    replaced: Option<i32>,
    absent: Option<&'static str>,
    second: i64,
}

impl Case {
    /// Creates a gang `g` that needs two pods, without pods.
    fn new() -> Self {
        let mut world = World::new();
        world.node("n1", 4).group("g", 2, 100, "PodGroup");
        Self {
            world,
            flight: None,
            last_plan: None,
            wait_reason: None,
            victim_of: None,
            replaced: None,
            absent: None,
            second: 1,
        }
    }

    fn bound(mut self, names: &[&str]) -> Self {
        for name in names {
            self.world.pod(TestPod::new(name, 100).of("g").on("n1").ready());
        }
        self
    }

    fn status(&self) -> PodGroupStatus {
        let key = ObjectKey::new("default", "g");
        let (cluster, record) = (&self.world.model.cluster, &self.world.model.groups[&key]);
        let counters = self.replaced.map(|replaced| OwnerCounters { replaced, counted: None });
        let finished = FinishedCounts::default().update(cluster, &key, record, counters.as_ref());
        group_status(&GroupFacts {
            model: &self.world.model,
            group: cluster.group(&key).unwrap(),
            record,
            flight: self.flight.as_ref(),
            last_plan: self.last_plan.as_ref(),
            wait_reason: self.wait_reason.as_ref(),
            victim_of: self.victim_of.as_ref(),
            unwritten: None,
            capacity: None,
            problem: None,
            absent: self.absent,
            finished: &finished,
            marks: BTreeMap::new(),
            names: Names::default(),
            now: Time(Timestamp::from_second(self.second).unwrap()),
        })
    }

    /// Stores the status, and lets some time pass.
    fn store(&mut self) -> PodGroupStatus {
        let status = self.status();
        self.world.model.groups.values_mut().for_each(|r| r.status = status.clone());
        self.second += 60;
        status
    }
}

fn says(status: &PodGroupStatus, type_: &str) -> String {
    let found = condition::find(&status.conditions, type_).unwrap_or_else(|| panic!("no {type_}: {status:?}"));
    format!("{} {}: {}", found.status, found.reason, found.message)
}

/// Returns a preemptor in the namespace of the group.
fn preemptor(kind: &str, name: &str) -> PreemptorReference {
    let namespace = Some("default".to_owned());
    PreemptorReference {
        kind: kind.to_owned(),
        namespace,
        name: Some(name.to_owned()),
        uid: Some(format!("uid-{name}")),
    }
}

fn flight(state: PlanState) -> Flight {
    let victim = StoredVictim {
        kind: "Pod".into(),
        namespace: "default".into(),
        name: "v".into(),
        priority: 10,
        pods: vec![StoredVictimPod { name: "v".into(), uid: "uid-v".into(), node: "n1".into() }],
        ..StoredVictim::default()
    };
    let plan = StoredPlan {
        id: "p1".into(),
        state,
        message: "1 pod is evicted.".into(),
        victims: vec![victim],
        ..StoredPlan::default()
    };
    let mut flight = Flight::new(Preemptor::Group(ObjectKey::new("default", "g")), 100, plan, Instant::now());
    flight.stored = Some(state);
    flight
}

#[test]
fn a_stored_plan_is_summarised_in_the_status() {
    let mut case = Case::new();
    let mut unstored = flight(PlanState::Planned);
    unstored.stored = None;
    case.flight = Some(unstored);
    assert_eq!(case.status().preemption, None);
    case.flight = Some(flight(PlanState::Planned));
    let found = PreemptionSummary {
        name: "p1".into(),
        state: PlanState::Planned,
        victims: 0,
        message: "1 pod is evicted.".into(),
    };
    assert_eq!(case.status().preemption, Some(found));
}

#[test]
fn victims_of_another_namespaces_preemptor_see_only_its_kind_and_uid() {
    let mut case = Case::new().bound(&["a", "b"]);
    let mut taken = flight(PlanState::Evicting);
    taken.preemptor = Preemptor::Group(ObjectKey::new("secret", "train"));
    taken.plan.preemptor.uid = "u-9".into();
    let message = victim_message(&taken, "PodGroup", 10, None);
    case.victim_of = Some(Victimhood {
        plan: "p1".into(),
        preemptor: Some(preemptor_reference(&taken)),
        reason: Reason::PreemptionByScheduler,
        message,
        whole: true,
    });
    let status = case.status();
    let reference =
        PreemptorReference { kind: "PodGroup".into(), uid: Some("u-9".into()), ..PreemptorReference::default() };
    assert_eq!(status.preempted_by, Some(reference));
    let words = "True PreemptionByScheduler: Preempted by a pod group of another namespace (UID u-9) of priority 100, \
                 which needs its capacity; the priority of this group is 10.";
    assert_eq!(says(&status, types::DISRUPTION_TARGET), words);
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let mut case = Case::new().bound(&["a", "b"]);
    case.flight = Some(flight(PlanState::Evicting));
    case.victim_of = Some(Victimhood {
        plan: String::new(),
        preemptor: Some(preemptor("PodGroup", "x")),
        reason: Reason::PreemptionByScheduler,
        message: "Preempted.".into(),
        whole: true,
    });
    let first = case.store();
    assert_eq!(case.status(), first, "a minute later, with the same facts");
}

#[test]
fn a_group_without_pods_says_how_many_it_needs() {
    let status = Case::new().status();
    assert_eq!(says(&status, types::INITIALLY_SCHEDULED), "False WaitingForPods: 2 pods needed, 0 exist.");
    assert_eq!(status.observed_generation, Some(1));
}

#[test]
fn members_with_a_gate_of_another_component_are_counted_separately() {
    let mut case = Case::new();
    case.world.pod(TestPod::new("a", 100).of("g").spec("schedulingGates", json!([{"name": "example.com/quota"}])));
    let words = "False WaitingForPods: 2 pods needed, 0 exist; 1 more does not count because it has a scheduling gate of another component.";
    assert_eq!(says(&case.status(), types::INITIALLY_SCHEDULED), words);
}

#[test]
fn a_group_within_one_rack_names_it_and_one_in_two_racks_says_so() {
    let mut case = Case::new();
    case.world.labelled_node("n1", 4, "rack", "r1").labelled_node("n2", 4, "rack", "r2");
    case.world.gang_within("g", 2, 100, "rack");
    let mut case = case.bound(&["a", "b"]);
    let status = case.status();
    assert_eq!(says(&status, types::INITIALLY_SCHEDULED), "True Scheduled: 2 pods have a node in rack=r1, 2 needed.");
    let selector = json!({"rack": "r2"});
    case.world.pod(TestPod::new("b", 100).of("g").gated().spec("nodeSelector", selector));
    let group = case.world.model.cluster.group(&ObjectKey::new("default", "g")).unwrap();
    assert_eq!(
        contradiction(&case.world.model.cluster, group).unwrap(),
        "The pods of the group cannot all be on nodes with one value of label rack: pod a is in r1, pod b asks for r2 in its nodeSelector."
    );
    case.world.pod(TestPod::new("b", 100).of("g").on("n2").ready());
    let status = case.status();
    let words = "True Scheduled: 2 pods have a node, 2 needed. The pods of the group cannot all be on nodes with one value of label rack: pod a is in \
                 r1, pod b is in r2.";
    assert_eq!(says(&status, types::INITIALLY_SCHEDULED), words);
    case.world.node("n2", 4);
    let words = "pod b is on node n2, which has no such label";
    assert!(says(&case.status(), types::INITIALLY_SCHEDULED).contains(words));
}

#[test]
fn the_message_names_the_domain_of_a_plan() {
    let mut case = Case::new();
    let mut taken = flight(PlanState::WaitingForVictims);
    taken.plan.domain = Some(giveway_crds::plan::StoredDomain { key: "rack".into(), value: "r1".into() });
    assert!(plan_message(&taken).to_string().ends_with(" with priority 100 in rack=r1."), "{}", plan_message(&taken));
    case.flight = Some(taken);
    let status = case.status();
    assert!(says(&status, types::INITIALLY_SCHEDULED).contains("0 pods wait for capacity in rack=r1: "), "{status:?}");
}

#[test]
fn a_group_that_waits_for_terminating_pods_is_not_reported_as_preempting() {
    let mut case = Case::new();
    case.world.pod(TestPod::new("a", 100).of("g").gated());
    let mut free = flight(PlanState::Planned);
    free.plan.victims.clear();
    free.plan.placements = vec![StoredPlacement { pod: "a".into(), uid: "uid-a".into(), node: "n1".into() }];
    case.flight = Some(Flight::new(free.preemptor, 100, free.plan, Instant::now()));
    let words = "False Ungating: Capacity for 1 pod is being reserved. No pod is evicted.";
    assert_eq!(says(&case.status(), types::INITIALLY_SCHEDULED), words);
    case.world.pod(TestPod::new("old", 10).on("n1").terminating());
    let words = "False WaitingForTermination: 1 pod fits once 1 pod that already terminates has been deleted. No pod is \
                 evicted.";
    assert_eq!(says(&case.status(), types::INITIALLY_SCHEDULED), words);
}

#[test]
fn counts_are_by_state_and_only_live_pods_are_scheduled_or_ready() {
    let mut case = Case::new().bound(&["a", "b"]);
    case.world.pod(TestPod::new("c", 100).of("g").gated());
    case.world.pod(TestPod::new("d", 100).of("g").on("n1").terminating());
    let status = case.status();
    let counts = status.pods.unwrap();
    assert_eq!((counts.total, counts.gated, counts.scheduled, counts.ready), (4, 1, 2, 2));
}

#[test]
fn once_scheduled_it_stays_so_and_says_that_it_waits_again() {
    let mut case = Case::new().bound(&["a", "b"]);
    let status = case.store();
    assert_eq!(says(&status, types::INITIALLY_SCHEDULED), "True Scheduled: 2 pods have a node, 2 needed.");
    case.world.remove_pod("a").remove_pod("b");
    case.wait_reason = Some(WaitReason { reason: Reason::Unschedulable, message: "2 pods needed, 0 fit now.".into() });
    let status = case.store();
    assert_eq!(
        says(&status, types::INITIALLY_SCHEDULED),
        "True Scheduled: The PodGroup was scheduled and is pending again. 2 pods needed, 0 fit now."
    );
}

#[test]
fn a_scheduled_group_that_lost_its_pods_says_so() {
    let mut case = Case::new().bound(&["a", "b"]);
    case.store();
    case.world.remove_pod("a");
    let status = case.store();
    assert_eq!(
        says(&status, types::INITIALLY_SCHEDULED),
        "True Scheduled: The PodGroup was scheduled before. Now 1 pod has a node, 2 needed."
    );
}

#[test]
fn a_plan_in_flight_is_stored_with_its_state_and_stays_as_it_ended() {
    let mut case = Case::new();
    case.flight = Some(flight(PlanState::Evicting));
    let status = case.store();
    assert_eq!(says(&status, types::PREEMPTING), "True Evicting: 1 pod is evicted.");
    assert_eq!(status.preemption.as_ref().map(|p| p.state), Some(PlanState::Evicting));
    let ended = PreemptionSummary {
        state: PlanState::Cancelled,
        message: "Capacity became free; no pod was evicted.".into(),
        ..status.preemption.unwrap()
    };
    case.flight = None;
    case.last_plan = Some(ended);
    let status = case.store();
    assert_eq!(says(&status, types::PREEMPTING), "False Cancelled: Capacity became free; no pod was evicted.");
    case.last_plan = None;
    assert_eq!(case.status().preemption.map(|p| p.state), Some(PlanState::Cancelled), "kept for the record");
}

#[test]
fn a_victim_names_its_preemptor_until_it_runs_again() {
    let mut case = Case::new().bound(&["a", "b"]);
    let message = "Preempted by pod group default/x of priority 500.";
    case.victim_of = Some(Victimhood {
        plan: String::new(),
        preemptor: Some(preemptor("PodGroup", "x")),
        reason: Reason::PreemptionByScheduler,
        message: message.into(),
        whole: true,
    });
    let status = case.store();
    assert_eq!(says(&status, types::DISRUPTION_TARGET), format!("True PreemptionByScheduler: {message}"));
    assert_eq!(status.preempted_by, Some(preemptor("PodGroup", "x")));
    case.victim_of = None;
    case.world.remove_pod("a").remove_pod("b");
    let status = case.store();
    assert_eq!(
        says(&status, types::DISRUPTION_TARGET),
        format!("True PreemptionByScheduler: {message}"),
        "still without pods"
    );
    let mut case = case.bound(&["c", "d"]);
    let status = case.store();
    assert_eq!(says(&status, types::DISRUPTION_TARGET), "False Scheduled: 2 pods are bound again.");
    assert_eq!(status.preempted_by, Some(preemptor("PodGroup", "x")), "the last preemptor stays in the status");
}

#[test]
fn a_victim_of_which_some_have_finished_runs_again_without_them() {
    let mut case = Case::new().bound(&["b"]);
    case.world.pod(TestPod::new("a", 100).of("g").finished("j1"));
    case.victim_of = Some(Victimhood {
        plan: String::new(),
        preemptor: Some(preemptor("PodGroup", "x")),
        reason: Reason::PreemptionByScheduler,
        message: "Preempted by pod group default/x of priority 500.".into(),
        whole: true,
    });
    case.store();
    case.victim_of = None;
    case.world.remove_pod("b");
    let status = case.store();
    assert!(says(&status, types::DISRUPTION_TARGET).starts_with("True PreemptionByScheduler"), "no pod is bound again");
    let mut case = case.bound(&["c"]);
    let status = case.store();
    assert_eq!(says(&status, types::DISRUPTION_TARGET), "False Scheduled: 1 pod is bound again.");
}

#[test]
fn evictions_of_single_pods_of_a_group_set_no_disruption_target() {
    let mut case = Case::new().bound(&["a", "b"]);
    case.victim_of = Some(Victimhood {
        plan: String::new(),
        preemptor: Some(preemptor("Pod", "x")),
        reason: Reason::PreemptionByScheduler,
        message: "…".into(),
        whole: false,
    });
    let status = case.status();
    assert!(condition::find(&status.conditions, types::DISRUPTION_TARGET).is_none());
    assert_eq!(status.preempted_by, Some(preemptor("Pod", "x")));
}

#[test]
fn the_condition_says_that_the_groups_priority_counts_for_members_above_it_and_when_that_ends() {
    let mut case = Case::new().bound(&["a"]);
    case.world.pod(TestPod::new("b", 500).of("g").on("n1"));
    let status = case.store();
    assert_eq!(
        says(&status, types::PODS_NOT_MATCHING_PRIORITY),
        "True PriorityMismatch: 1 pod has priority 500; the group's priority 100 counts instead."
    );
    case.world.remove_pod("b");
    assert_eq!(
        says(&case.status(), types::PODS_NOT_MATCHING_PRIORITY),
        "False PriorityMatches: All pods have the group's priority."
    );
}

#[test]
fn members_below_their_group_are_counted_by_their_state_with_a_remedy() {
    let mut case = Case::new();
    case.world.class(json!({"metadata": {"name": "high"}, "value": 100}));
    case.world.group_of_class("g", 2, 100, "high");
    case.world.pod(TestPod::new("a", 5).of("g").gated()).pod(TestPod::new("b", -5).of("g").gated());
    case.world.pod(TestPod::new("c", 99).of("g").on("n1")).pod(TestPod::new("d", 101).of("g").gated());
    let status = case.store();
    assert_eq!(
        says(&status, types::PODS_NOT_MATCHING_PRIORITY),
        "True PriorityMismatch: 2 pods are never ungated and not counted: priority -5 to 5 is below the group's, 100, and a PodGroup does not raise the priority of its pods. To start, delete such pods and create them again with class high or without a class. 1 pod runs \
         with priority 99, below the group's, 100; the lower priority counts for preemption. 1 pod has priority 101; the group's priority \
         100 counts instead."
    );
    assert_eq!(
        says(&status, types::INITIALLY_SCHEDULED),
        "False WaitingForPods: 2 pods needed, 2 exist; 2 more do not count because their priority is below the group's."
    );
}

#[test]
fn the_remedy_is_another_one_when_the_class_of_the_group_gives_less_now() {
    let mut case = Case::new();
    case.world.class(json!({"metadata": {"name": "high"}, "value": 50}));
    case.world.group_of_class("g", 2, 100, "high").pod(TestPod::new("a", 50).of("g").gated());
    let found = says(&case.status(), types::PODS_NOT_MATCHING_PRIORITY);
    assert!(
        found.ends_with("To start, delete the pod group with its pods, and create both again: the value of its class high is 50 now."),
        "{found}"
    );
}

#[test]
fn a_group_without_a_known_priority_has_nothing_to_compare_with() {
    let mut case = Case::new();
    case.world.group_of_class("g", 2, None, "missing").pod(TestPod::new("a", -5).of("g").gated());
    assert!(condition::find(&case.status().conditions, types::PODS_NOT_MATCHING_PRIORITY).is_none());
}

#[test]
fn other_numbers_are_no_news_and_another_reason_or_plan_is() {
    let mut case = Case::new().bound(&["p"]);
    let old = case.store();
    case.world.pod(TestPod::new("q", 100).of("g"));
    let counted = case.status();
    assert_ne!(old.pods, counted.pods);
    assert!(!has_changed(&old, &counted), "{counted:?}");
    case.wait_reason = Some(WaitReason { reason: Reason::Unschedulable, message: "No capacity.".into() });
    assert!(has_changed(&old, &case.status()));
    let preempted = PodGroupStatus { preempted_by: Some(preemptor("PodGroup", "h")), ..old.clone() };
    assert!(has_changed(&old, &preempted));
}

#[test]
fn finished_members_count_and_are_remembered_until_another_job_takes_the_group() {
    let mut case = Case::new();
    case.world.pod(TestPod::new("a", 100).of("g").finished("j1"));
    case.world.pod(TestPod::new("b", 100).of("g").gated().of_job("j1"));
    let status = case.store();
    let words = "False WaitingForPods: 2 pods needed, 1 has finished, 1 exists.";
    assert_eq!(says(&status, types::INITIALLY_SCHEDULED), words);
    assert_eq!((status.finished.owners, status.finished.count), (vec!["j1".to_owned()], 1));

    case.world.remove_pod("a").remove_pod("b");
    case.world.pod(TestPod::new("b", 100).of("g").on("n1").ready().of_job("j1"));
    let status = case.store();
    let words = "True Scheduled: 1 pod has a node, 1 has finished, 2 needed.";
    assert_eq!(says(&status, types::INITIALLY_SCHEDULED), words);
    assert_eq!(status.finished.count, 1, "its pod was deleted, and it still counts");

    case.world.remove_pod("b");
    case.world.pod(TestPod::new("c", 100).of("g").gated().of_job("j2"));
    assert!(case.status().finished.is_empty(), "another run has started");
}

#[test]
fn a_gang_that_finished_before_it_was_observed_bound_was_scheduled() {
    let mut case = Case::new();
    for name in ["a", "b"] {
        case.world.pod(TestPod::new(name, 100).of("g").on("n1").finished("j1"));
    }
    let words = "True Scheduled: 0 pods have a node, 2 have finished, 2 needed.";
    assert_eq!(says(&case.status(), types::INITIALLY_SCHEDULED), words);
}

#[test]
fn terminating_pods_do_not_count_as_pending() {
    let mut case = Case::new();
    case.world.pod(TestPod::new("a", 100).of("g").on("n1").terminating());
    case.world.pod(TestPod::new("b", 100).of("g").gated());
    let status = case.status();
    assert_eq!(says(&status, types::INITIALLY_SCHEDULED), "False WaitingForPods: 2 pods needed, 1 exists.");
}

#[test]
fn members_for_which_others_are_made_do_not_count_and_the_status_remembers_how_many_that_are() {
    let mut case = Case::new();
    case.replaced = Some(1);
    let status = case.status();
    assert_eq!(status.finished.replaced, 1, "before a member has finished");
    assert!(has_changed(&PodGroupStatus { finished: FinishedMembers::default(), ..status.clone() }, &status));
    case.store();
    case.replaced = None;
    case.world.pod(TestPod::new("a", 100).of("g").finished("j1"));
    case.world.pod(TestPod::new("b", 100).of("g").gated().of_job("j1"));
    let status = case.store();
    let words = "False WaitingForPods: 2 pods needed, 1 exists.";
    assert_eq!((says(&status, types::INITIALLY_SCHEDULED).as_str(), status.finished.replaced), (words, 1));
    case.world.pod(TestPod::new("c", 100).of("g").finished("j1"));
    let words = "False WaitingForPods: 2 pods needed, 1 has finished, 1 exists.";
    assert_eq!(says(&case.status(), types::INITIALLY_SCHEDULED), words);
}

#[test]
fn the_condition_scheduled_is_true_while_enough_members_that_have_not_finished_are_bound() {
    let mut case = Case::new().bound(&["a", "b"]);
    let scheduled = |status: &PodGroupStatus| says(status, types::SCHEDULED);
    assert_eq!(scheduled(&case.store()), "True Scheduled: 2 pods have a node, 2 needed.");
    case.world.remove_pod("b");
    assert_eq!(scheduled(&case.store()), "False WaitingForPods: 1 pod has a node, 2 needed.");
    case.world.pod(TestPod::new("b", 100).of("g").gated());
    case.wait_reason = Some(WaitReason { reason: Reason::Unschedulable, message: "No node has capacity.".into() });
    let status = case.store();
    assert_eq!(scheduled(&status), "False Unschedulable: No node has capacity.");
    let ever = "True Scheduled: The PodGroup was scheduled and is pending again. No node has capacity.";
    assert_eq!(says(&status, types::INITIALLY_SCHEDULED), ever);
    case.wait_reason = None;
    case.world.remove_pod("b").remove_pod("a");
    case.world.pod(TestPod::new("a", 100).of("g").on("n1").ready().of_job("j"));
    case.world.pod(TestPod::new("c", 100).of("g").finished("j"));
    assert_eq!(scheduled(&case.store()), "True Scheduled: 1 pod has a node, 1 has finished, 2 needed.");
}

#[test]
fn a_group_says_how_many_of_its_bound_members_are_ready() {
    let mut case = Case::new().bound(&["a"]);
    case.world.pod(TestPod::new("b", 100).of("g").on("n1"));
    let words = "True Scheduled: 2 pods have a node, 2 needed. 1 of them is ready.";
    assert_eq!(says(&case.status(), types::INITIALLY_SCHEDULED), words);
}

#[test]
fn a_workload_tells_how_many_of_its_groups_are_scheduled_and_which_one_waits() {
    let mut world = World::new();
    world.workload("serve", "worker").node("n1", 4);
    let found = |world: &World| {
        let status = workload_status(&world.model, &ObjectKey::new("default", "serve"), Time(Timestamp::UNIX_EPOCH));
        let condition = condition::find(&status.conditions, types::GROUPS_SCHEDULED).cloned().unwrap();
        (status.groups.unwrap(), format!("{} {}: {}", condition.status, condition.reason, condition.message))
    };
    let (_, none) = found(&world);
    assert_eq!(none, "False WaitingForPods: No pod group exists yet: the first pod of a template creates it.");
    for (name, state, reason) in [("a", "True", "Scheduled"), ("b", "False", "Unschedulable")] {
        world.made_from(
            "serve",
            "worker",
            name,
            json!({"conditions": [{
                "type": types::SCHEDULED, "status": state, "reason": reason, "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"
            }]}),
        );
    }
    let (counts, one) = found(&world);
    assert_eq!((counts.total, counts.scheduled, counts.pending), (2, 1, 1));
    assert_eq!(one, "False WaitingForPods: 1 of 2 pod groups is scheduled. Pod group b is pending (Unschedulable).");
}

/// Returns the first sentence about a plan that places this number of members and evicts this number of pods.
fn status_in_flight(members: usize, victims: usize, state: PlanState) -> String {
    let mut case = Case::new();
    let mut plan = flight(state).plan;
    plan.victims[0].pods = (0..victims)
        .map(|n| StoredVictimPod { name: format!("v{n}"), uid: format!("uid-v{n}"), node: "n1".into() })
        .collect();
    plan.placements = (0..members)
        .map(|n| StoredPlacement { pod: format!("a{n}"), uid: format!("uid-a{n}"), node: "n1".into() })
        .collect();
    for number in 0..members {
        case.world.pod(TestPod::new(&format!("a{number}"), 100).of("g").gated());
    }
    for number in 0..victims {
        case.world.pod(TestPod::new(&format!("v{number}"), 10).on("n1"));
    }
    case.flight = Some(Flight::new(Preemptor::Group(ObjectKey::new("default", "g")), 100, plan, Instant::now()));
    says(&case.status(), types::INITIALLY_SCHEDULED)
}

#[test]
fn the_message_about_a_plan_in_flight_agrees_with_its_numbers() {
    assert_eq!(
        status_in_flight(1, 1, PlanState::Evicting),
        "False WaitingForPreemption: 1 pod waits for capacity: 0 of 1 victim has terminated. The pod starts when the victim has terminated."
    );
    assert_eq!(
        status_in_flight(2, 2, PlanState::Evicting),
        "False WaitingForPreemption: 2 pods wait for capacity: 0 of 2 victims have terminated. The pods start together when all victims have terminated."
    );
    assert_eq!(
        status_in_flight(1, 1, PlanState::Ungating),
        "False Ungating: 1 pod was ungated, kube-scheduler has bound 0 of 1."
    );
    assert_eq!(
        status_in_flight(2, 1, PlanState::Ungating),
        "False Ungating: 2 pods were ungated, kube-scheduler has bound 0 of them."
    );
}

#[test]
fn the_reason_why_members_do_not_exist_is_shown_also_after_the_group_was_scheduled() {
    let mut case = Case::new();
    case.absent = Some("Job g could not create a pod: no quota");
    let waits = "False WaitingForPods: 2 pods needed, 0 exist. Job g could not create a pod: no quota";
    assert_eq!(says(&case.status(), types::SCHEDULED), waits);
    assert_eq!(says(&case.status(), types::INITIALLY_SCHEDULED), waits);
    case.absent = None;
    let mut case = case.bound(&["a", "b"]);
    case.store();
    case.world.remove_pod("b");
    case.absent = Some("StatefulSet g could not create a pod: the class is too low");
    let said = says(&case.status(), types::SCHEDULED);
    let words = "StatefulSet g could not create a pod: the class is too low";
    assert!(said.starts_with("False WaitingForPods: 1 pod has a node") && said.ends_with(words), "{said}");
    case.wait_reason = Some(WaitReason { reason: Reason::Unschedulable, message: "It does not fit.".to_owned() });
    assert_eq!(says(&case.status(), types::SCHEDULED), "False Unschedulable: It does not fit.");
}
