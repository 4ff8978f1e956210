//! The API server refuses, is slow, loses answers, and cuts watches.

use super::scenes::{Scenario, Scene};
use super::{seed, stage};
use futures::future::join_all;
use giveway_tests::World;
use giveway_tests::proxy::{Call, Fault, Script, calm};
use giveway_tests::random::Random;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use std::time::Duration;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            a_fifth_of_all_writes_is_never_answered,
            answers_are_lost_or_late_and_watches_break_off_every_second,
            a_fifth_of_all_calls_is_refused_in_one_way_after_the_other;
    ]
}

/// Of a hundred calls so many go wrong.
const PERCENT: usize = 20;

/// Plays all scenarios side by side under a script.
async fn play(world: &World, name: &str, script: Script) {
    let all = [
        ("preemption", Scenario::Preemption),
        ("cascade", Scenario::Cascade(4)),
        ("budget", Scenario::Budget),
        ("adoption", Scenario::Adoption),
    ];
    let scenes =
        all.map(|(what, scenario)| async move { Scene::set(&world.kit(), &format!("{name}-{what}"), scenario).await });
    let scenes = join_all(scenes).await;
    world.proxy().play(script);
    join_all(scenes.iter().map(Scene::play)).await;
    world.proxy().play(calm());
    let history = world.audit().await;
    join_all(scenes.iter().map(|scene| scene.rest(&history))).await;
    join_all(scenes.into_iter().map(Scene::clear)).await;
}

/// The same fault for so many of a hundred calls that are no watches and not about the lease.
fn often(name: &str, fault: Fault, which: impl Fn(&Call) -> bool + Send + 'static) -> Script {
    let slot = name.bytes().map(usize::from).sum();
    let mut random = Random::new(seed(), slot, 0);
    Box::new(move |call| {
        let struck = !call.watch && !call.lease() && which(call) && random.percent(PERCENT);
        if struck { fault } else { Fault::None }
    })
}

async fn a_fifth_of_all_calls_is_refused_in_one_way_after_the_other() {
    let world = stage().await;
    for code in [409, 429, 500, 503] {
        let name = format!("code-{code}");
        play(&world, &name, often(&name, Fault::Answer(code), |_| true)).await;
    }
    let tally = world.proxy().tally();
    println!("{tally:?}");
    for kind in ["409", "429", "500", "503"] {
        assert!(tally[kind] >= 5, "{tally:?}");
    }
    world.check_promises().await;
}

async fn a_fifth_of_all_writes_is_never_answered() {
    let world = stage().await;
    play(&world, "hang", often("hang", Fault::Hang, |call| call.write > 0)).await;
    let tally = world.proxy().tally();
    println!("{tally:?}");
    assert!(tally["hang"] >= 5, "{tally:?}");
    world.check_promises().await;
}

async fn answers_are_lost_or_late_and_watches_break_off_every_second() {
    let world = stage().await;
    play(&world, "lost", often("lost", Fault::LoseAnswer, |call| call.write > 0)).await;
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
    // A watch that is too old begins with a list, also when nothing but lists tells anything for long.
    play(&world, "expired", Box::new(|call| if call.watch { Fault::Answer(410) } else { Fault::None })).await;
    let tally = world.proxy().tally();
    println!("{tally:?}");
    for kind in ["lost answer", "delay", "cut watch", "410"] {
        assert!(tally[kind] >= 5, "{tally:?}");
    }
    world.check_promises().await;
}
