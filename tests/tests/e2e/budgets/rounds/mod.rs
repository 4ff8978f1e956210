//! 75 random rounds (225 in `make soak`): no preemptor below the threshold brings a budget below `desiredHealthy`.
//!
//! A slot has two nodes and a namespace of its own. Every round creates other pods with thresholds, budgets and preemptors in
//! it; another user evicts pods, and pods become unready. Slots run concurrently. At the end the oracle checks all rounds, and
//! the tally counts what happened in them. `GIVEWAY_SEED` chooses another seed than the fixed one.

mod board;
mod play;
mod script;
mod tally;

use super::{POOL, Stage};
use board::Board;
use futures::{StreamExt as _, stream};
use giveway_tests::World;
use giveway_tests::audit::Promises;
use giveway_tests::cluster::NodesBuilder;
use giveway_tests::random::share;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use play::{Played, Slot};
use script::{NODES, PODS_PER_NODE, PRIORITIES, Script, THRESHOLDS};
use std::time::Instant;
use tally::Tally;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        release:
            no_random_round_violates_a_guaranteed_budget;
    ]
}

const SLOTS: usize = 15;
const ROUNDS: usize = 15;
/// Permitted number of evictions whose preemptor is not bound, in rounds in which another user used up the allowance of a budget.
/// That can happen between two evictions of a plan.
const UNNECESSARY_EVICTIONS: usize = 10;
/// Permitted number of partially disrupted groups whose remaining pods wait for the budget in such rounds, and of rounds that do
/// not come to rest because of that.
const PARTIAL_DISRUPTIONS: usize = 3;

async fn no_random_round_violates_a_guaranteed_budget() {
    let seed = std::env::var("GIVEWAY_SEED").ok().map_or(0xb0d6_e75a, |text| text.parse().expect("a number"));
    println!("seed {seed}");
    let world = World::builder().scheduler_rate(1000, 1000);
    let stage = Stage::build(world, &THRESHOLDS, &PRIORITIES).await;
    for (name, priority) in [("low", 10), ("top", 900)] {
        stage.world.class(name, priority).managed().create().await;
    }
    let (board, watch) = Board::start(&stage.world.client());
    let slots = stream::iter(0..SLOTS).map(|number| set_up(&stage, &board, number)).buffered(8);
    let slots: Vec<Slot> = slots.collect().await;
    let start = Instant::now();
    let played: Vec<Vec<Played>> =
        stream::iter(slots).map(|slot| run(slot, seed)).buffer_unordered(SLOTS).collect().await;
    let played: Vec<Played> = played.into_iter().flatten().collect();
    println!("{} rounds in {:.0} s", played.len(), start.elapsed().as_secs_f32());
    watch.abort();
    let spent = played.iter().filter(|round| round.spent()).map(|round| format!("{}-", round.prefix));
    let promises = Promises::new()
        .allow_evictions_for_unbound(share(UNNECESSARY_EVICTIONS))
        .allow_partial_disruptions(share(PARTIAL_DISRUPTIONS))
        .only_for(spent);
    let (judgement, _) = stage.judge(&promises).await;
    let tally = Tally::new(&played, &judgement);
    println!("seed {seed}: {tally}");
    let restless: Vec<&str> = played.iter().filter(|round| !round.rested).map(|round| round.prefix.as_str()).collect();
    let alone = played.iter().any(|round| !round.rested && !round.spent());
    assert!(restless.len() <= share(PARTIAL_DISRUPTIONS) && !alone, "these rounds did not come to rest: {restless:?}");
    tally.check();
}

async fn set_up(stage: &Stage, board: &Board, number: usize) -> Slot {
    let name = format!("slot-{number:02}");
    let kit = stage.world.namespace(&name).await;
    let nodes = NodesBuilder::new(kit.clone(), NODES).cpus(u32::try_from(PODS_PER_NODE).unwrap());
    let nodes = nodes.prefix(&name).label(POOL, &name).create().await;
    Slot { number, kit, nodes, board: board.clone(), other: stage.other.clone() }
}

async fn run(slot: Slot, seed: u64) -> Vec<Played> {
    let mut played = Vec::new();
    for round in 0..share(ROUNDS) {
        played.push(slot.play(round, &Script::new(seed, slot.number, round)).await);
    }
    played
}
