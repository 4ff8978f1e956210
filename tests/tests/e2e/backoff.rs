//! The time between plans of a group grows after each cancelled plan, but free capacity is used immediately.

use crate::stored_plans::planned;
use crate::{INITIALLY_SCHEDULED, MINUTE};
use giveway_crds::Preemption;
use giveway_crds::condition::find;
use giveway_crds::plan::PlanState;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use giveway_tests::wait::wait_for;
use kube::Api;
use kube::api::DeleteParams;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            a_gang_in_back_off_is_bound_to_a_new_node_immediately;
    ]
}

/// Number of plans that the test cancels. Each cancelled plan doubles the time until the next one, from half a second on.
const PLANS: usize = 7;

async fn a_gang_in_back_off_is_bound_to_a_new_node_immediately() {
    let (world, gang, _) = planned().await;
    let plans: Api<Preemption> = Api::all(world.client());
    let mut last = String::new();
    for _ in 0..PLANS {
        let plan = wait_for("a new plan is stored", 2 * MINUTE, async || {
            let plan = gang.wait_plan(PlanState::Planned, 2 * MINUTE).await;
            if plan.id == last { Err(plan.id) } else { Ok(plan) }
        })
        .await;
        plans.delete(&plan.id, &DeleteParams::default()).await.unwrap();
        last = plan.id;
    }
    let words = wait_for("the condition names the time of the next plan", MINUTE, async || {
        let conditions = gang.get().await.status.unwrap_or_default().conditions;
        let said = find(&conditions, INITIALLY_SCHEDULED).map(|told| told.message.clone()).unwrap_or_default();
        if said.contains("the next plan is made at ") { Ok(said) } else { Err(said) }
    })
    .await;
    assert!(
        words.starts_with(
            "The Preemption of the plan was deleted. Capacity that becomes free is used at once; the next plan"
        ),
        "{words}"
    );
    let (_, time) = words.trim_end_matches('.').rsplit_once(" at ").unwrap();
    let next: jiff::Timestamp = time.parse().unwrap();
    world.nodes(1).cpus(4).prefix("late").create().await;
    gang.wait_bound(MINUTE).await;
    let bound = world.audit().await.bindings.iter().map(|binding| binding.at).max().unwrap();
    assert!(bound < next, "bound at {bound}, but the next plan was due at {next}");
    assert_eq!(world.audit().await.evicted_names(), Vec::<String>::new());
    world.check_promises().await;
}
