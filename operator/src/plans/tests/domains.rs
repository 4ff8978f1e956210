//! A plan for one topology domain: its members are ungated with a node selector for it, and the plan is cancelled if it
//! cannot keep the domain.

use super::*;
use giveway_crds::plan::StoredDomain;
use serde_json::json;

fn r1() -> StoredDomain {
    StoredDomain { key: "rack".into(), value: "r1".into() }
}

impl Run {
    /// Returns a run with the plan of `flight` in rack r1, which has the nodes n1 and n2.
    fn in_a_rack() -> Self {
        let mut run = Self::new();
        run.world.labelled_node("n1", 1, "rack", "r1").labelled_node("n2", 1, "rack", "r1");
        run.world.gang_within("gang", 2, 100, "rack");
        run.flight.plan.domain = Some(r1());
        run.flight.stored = Some(PlanState::Evicting);
        run
    }

    /// Returns a run with the same plan after all evictions were accepted.
    fn awaiting() -> Self {
        let mut run = Self::in_a_rack();
        run.step();
        run.nominated();
        run.step();
        for name in ["uid-l1", "uid-l2"] {
            run.flight.evicted(name, &EvictOutcome::Accepted, run.now);
        }
        run.step();
        assert_eq!(run.flight.plan.state, PlanState::WaitingForVictims);
        run
    }

    /// Removes the victims from the cluster.
    fn emptied(&mut self) -> &mut World {
        self.world.remove_pod("l1").remove_pod("l2")
    }

    fn ended(&mut self) -> String {
        self.step().ended.map(|ending| ending.message.to_string()).unwrap_or_default()
    }
}

#[test]
fn every_member_is_ungated_for_the_rack_of_the_plan() {
    let mut run = Run::awaiting();
    run.emptied();
    let advance = run.step();
    assert_eq!(names(&advance), ["ungate g1", "ungate g2"]);
    for command in &advance.commands {
        assert!(matches!(command, Command::Ungate { domain: Some(domain), .. } if *domain == r1()), "{command:?}");
    }
}

#[test]
fn a_member_that_selects_another_rack_cancels_the_plan_and_no_pod_is_ungated() {
    let asking = |name: &str| TestPod::new(name, 100).of("gang").gated().spec("nodeSelector", json!({"rack": "r2"}));
    let why = "Pod default/g2 asks for rack=r2 in its own nodeSelector, and its group is placed in rack=r1.";
    let mut run = Run::in_a_rack();
    run.world.pod(asking("g2"));
    assert_eq!(run.ended(), format!("The plan does not fit any more; no pod was evicted: {why}"));
    let mut run = Run::awaiting();
    run.world.pod(asking("g2"));
    assert_eq!(run.ended(), format!("The plan became infeasible while victims terminated: {why}"));
    // The member changes after the last check and before it is ungated.
    let mut run = Run::awaiting();
    run.emptied().pod(asking("g2"));
    run.flight.plan.state = PlanState::Ungating;
    let advance = run.step();
    assert_eq!(advance.ended.unwrap().message.to_string(), why);
    assert!(
        !names(&Advance { commands: advance.commands, ..Advance::default() })
            .iter()
            .any(|name| name.starts_with("ungate"))
    );
}

#[test]
fn a_node_that_leaves_the_rack_cancels_the_plan() {
    let mut run = Run::in_a_rack();
    run.world.labelled_node("n2", 1, "rack", "r2");
    let why = "Node n2, planned for pod default/g2, is not in rack=r1 any more.";
    assert_eq!(run.ended(), format!("The plan does not fit any more; no pod was evicted: {why}"));
    let mut run = Run::awaiting();
    run.emptied().node("n2", 1);
    assert_eq!(run.ended(), format!("The plan became infeasible while victims terminated: {why}"));
}

#[test]
fn a_member_that_was_bound_elsewhere_cancels_the_plan() {
    let mut run = Run::awaiting();
    run.emptied().labelled_node("n3", 1, "rack", "r2").pod(TestPod::new("g3", 100).of("gang").on("n3"));
    let why = "Pod default/g3 of the group has node n3, which is not in rack=r1.";
    assert_eq!(run.ended(), format!("The plan became infeasible while victims terminated: {why}"));
}

#[test]
fn a_member_that_was_ungated_for_another_domain_cancels_the_plan_and_one_on_a_deleted_node_does_not() {
    let ungated = |value: &str| TestPod::new("g3", 100).of("gang").spec("nodeSelector", json!({"rack": value}));
    let mut run = Run::awaiting();
    run.emptied().pod(ungated("r2"));
    let why = "Pod default/g3 of the group was ungated for rack=r2, and not for rack=r1.";
    assert_eq!(run.ended(), format!("The plan became infeasible while victims terminated: {why}"));
    for harmless in [ungated("r1"), TestPod::new("g3", 100).of("gang").on("gone")] {
        let mut run = Run::awaiting();
        run.emptied().pod(harmless);
        assert_eq!(names(&run.step()), ["ungate g1", "ungate g2"]);
    }
}

#[test]
fn a_plan_of_an_earlier_leader_is_for_the_domain_that_the_group_asks_for() {
    let resumed = |domain: Option<StoredDomain>| {
        let mut run = Run::in_a_rack();
        run.flight.plan.domain = domain;
        run.flight.resume();
        run.dropped()
    };
    let of = |key: &str, value: &str| Some(StoredDomain { key: key.into(), value: value.into() });
    assert_eq!(resumed(Some(r1())), "");
    assert_eq!(
        resumed(None),
        "the preemptor must stay on nodes with one value of label rack, and the plan names no value."
    );
    assert_eq!(
        resumed(of("zone", "a")),
        "the preemptor must stay on nodes with one value of label rack, and the plan is for zone=a."
    );
    assert_eq!(resumed(of("rack", "r2")), "Node n1, planned for pod default/g1, is not in rack=r2 any more.");
    let mut run = Run::in_a_rack();
    run.world.group("gang", 2, 100, "PodGroup");
    assert_eq!(run.dropped(), "the plan is for rack=r1, and the preemptor asks for no topology domain.");
}
