//! Random rounds, 75 of them and 225 in `make soak`: never below `desiredHealthy` by an act of a preemptor below the threshold.
//!
//! A slot has two nodes and a namespace of its own. In every round there are other guarded pods, budgets and preemptors in
//! it, somebody else evicts, and pods become unready. Slots work side by side. At the end the oracle judges all of it, and
//! the tally tells what was at stake. `GIVEWAY_SEED` chooses another seed than the fixed one.

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
use script::{NODES, PLACES, PRIORITIES, Script, THRESHOLDS};
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
/// Pods that may go for nobody, in rounds in which somebody else really spent what a budget allows: it may have been between two
/// evictions of a plan.
const IN_VAIN: usize = 10;
/// Whole groups of which some pods wait for the budget then, and rounds that do not come to rest for that.
const TORN: usize = 3;

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
    let promises = Promises::new().allow_in_vain(share(IN_VAIN)).allow_torn(share(TORN)).only_for(spent);
    let (judgement, _) = stage.judge(&promises).await;
    let tally = Tally::new(&played, &judgement);
    println!("seed {seed}: {tally}");
    let restless: Vec<&str> = played.iter().filter(|round| !round.rested).map(|round| round.prefix.as_str()).collect();
    let alone = played.iter().any(|round| !round.rested && !round.spent());
    assert!(restless.len() <= share(TORN) && !alone, "these rounds did not come to rest: {restless:?}");
    tally.check();
}

async fn set_up(stage: &Stage, board: &Board, number: usize) -> Slot {
    let name = format!("slot-{number:02}");
    let kit = stage.world.namespace(&name).await;
    let nodes = NodesBuilder::new(kit.clone(), NODES).cpus(u32::try_from(PLACES).unwrap());
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
