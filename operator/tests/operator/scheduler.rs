//! A kube-scheduler that is slow, or does not bind a pod.

use crate::driven::{Driven, Kind, running};
use giveway_crds::condition::types::SCHEDULED;
use giveway_crds::plan::PlanState;
use std::time::Duration;

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Returns the states of the stored plans.
fn states(driven: &Driven) -> Vec<PlanState> {
    driven.plans().into_iter().filter_map(|plan| plan.status).map(|status| status.state).collect()
}

#[test]
fn a_slow_scheduler_fails_no_plan() {
    const GANGS: usize = 40;
    let mut driven = Driven::new(&[]);
    for number in 0..GANGS {
        let node = format!("n{number:02}");
        driven.node(&node, 1);
        driven.apply(Kind::Pod, running(&format!("low-{number:02}"), 10, &node, None));
        driven.submit_for(&node, &format!("train-{number:02}"), 1_000);
    }
    driven.settle();
    driven.terminate();
    driven.settle();
    let mut told = String::new();
    for bound in 0..GANGS {
        let nominated = driven.nominated();
        assert_eq!(nominated.len(), GANGS - bound, "every gang keeps its placement: {:#?}", driven.stored());
        driven.bind_pod(&nominated[0]);
        driven.run(seconds(2));
        if bound == 20 {
            told = driven.condition("train-39", SCHEDULED);
        }
    }
    let waits = "Waits for kube-scheduler, which binds ";
    assert!(told.starts_with("False Releasing: ") && told.contains(waits), "{told}");
    assert_eq!(states(&driven), vec![PlanState::Completed; GANGS], "{:#?}", driven.stored());
    assert_eq!(driven.evicted().len(), GANGS);
}
