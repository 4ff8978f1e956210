//! Calls to the API server fail, are slow or lose their answers, and watches are cut.

use super::scenes::{Scenario, Scene};
use super::{seed, stage};
use futures::future::join_all;
use giveway_tests::World;
use giveway_tests::proxy::{Call, Fault, Script, no_faults};
use giveway_tests::random::Random;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            plans_complete_if_a_fifth_of_the_writes_is_never_answered,
            plans_complete_with_lost_or_late_answers_and_cut_watches,
            plans_complete_if_a_fifth_of_the_calls_fails_with_each_status;
    ]
}

/// Percentage of calls with a fault.
const PERCENT: usize = 20;

/// Plays all scenarios concurrently while the proxy plays `script`.
async fn play(world: &World, name: &str, script: Script) {
    let all = [
        ("preemption", Scenario::Preemption),
        ("departure", Scenario::Departure(4)),
        ("budget", Scenario::Budget),
        ("adoption", Scenario::Adoption),
    ];
    let scenes =
        all.map(|(what, scenario)| async move { Scene::set(&world.kit(), &format!("{name}-{what}"), scenario).await });
    let scenes = join_all(scenes).await;
    world.proxy().play(script);
    join_all(scenes.iter().map(Scene::play)).await;
    world.proxy().play(no_faults());
    let history = world.audit().await;
    join_all(scenes.iter().map(|scene| scene.rest(&history))).await;
    join_all(scenes.into_iter().map(Scene::clear)).await;
}

/// Returns a script with `fault` for [`PERCENT`] of the calls that `which` selects, except watches and calls about the lease.
fn random_fault(name: &str, fault: Fault, which: impl Fn(&Call) -> bool + Send + 'static) -> Script {
    let slot = name.bytes().map(usize::from).sum();
    let mut random = Random::new(seed(), slot, 0);
    Box::new(move |call| {
        let fails = !call.watch && !call.lease() && which(call) && random.percent(PERCENT);
        if fails { fault } else { Fault::None }
    })
}

async fn plans_complete_if_a_fifth_of_the_calls_fails_with_each_status() {
    let world = stage().await;
    for code in [409, 429, 500, 503] {
        let name = format!("code-{code}");
        play(&world, &name, random_fault(&name, Fault::Answer(code), |_| true)).await;
    }
    let tally = world.proxy().tally();
    println!("{tally:?}");
    for kind in ["409", "429", "500", "503"] {
        assert!(tally[kind] >= 5, "{tally:?}");
    }
    world.check_promises().await;
}

async fn plans_complete_if_a_fifth_of_the_writes_is_never_answered() {
    let world = stage().await;
    play(&world, "hang", random_fault("hang", Fault::Hang, |call| call.write > 0)).await;
    let tally = world.proxy().tally();
    println!("{tally:?}");
    assert!(tally["hang"] >= 5, "{tally:?}");
    world.check_promises().await;
}

async fn plans_complete_with_lost_or_late_answers_and_cut_watches() {
    let world = stage().await;
    play(&world, "lost", random_fault("lost", Fault::LoseAnswer, |call| call.write > 0)).await;
    play(
        &world,
        "late",
        Box::new(
            |call| {
                if call.watch || call.lease() { Fault::None } else { Fault::Delay(Duration::from_millis(300)) }
            },
        ),
    )
    .await;
    let cut = Fault::CutAfter(Duration::from_secs(1));
    play(&world, "cut", Box::new(move |call| if call.watch { cut } else { Fault::None })).await;
    // A watch with an expired version starts again with a list. Here every watch fails so, and the operator works with lists
    // alone.
    play(&world, "expired", Box::new(|call| if call.watch { Fault::Answer(410) } else { Fault::None })).await;
    let tally = world.proxy().tally();
    println!("{tally:?}");
    for kind in ["lost answer", "delay", "cut watch", "410"] {
        assert!(tally[kind] >= 5, "{tally:?}");
    }
    world.check_promises().await;
}
