//! Faults between the operator and the API server: failed calls, lost or late answers, cut watches, and an operator killed at any
//! write. In each case the gang is bound in the end, each victim is evicted once, and the oracle finds no breach.
//!
//! `GIVEWAY_CRASHES=all` kills the operator at every write; otherwise at some writes, chosen by `GIVEWAY_SEED`. `make soak` sets
//! it and runs the random load for longer.

pub mod admission;
pub mod answers;
pub mod clocks;
pub mod crashes;
pub mod leaders;
pub mod outages;
mod scenes;
pub mod silent_watches;
pub mod soak;

use giveway_tests::World;
use giveway_tests::giveway::{Daemon, NAMESPACE};
use giveway_tests::wait::wait_for;
use giveway_tests::world::WorldBuilder;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use std::time::Duration;

/// Deadline of a scenario with faults. An eviction whose client disconnects may count against its budget for two minutes without
/// being carried out; under a random load that may happen several times in a row.
const PATIENCE: Duration = Duration::from_secs(600);

/// Returns the seed in `GIVEWAY_SEED`, or a fixed one.
fn seed() -> u64 {
    std::env::var("GIVEWAY_SEED").ok().map_or(0xfa17, |text| text.parse().expect("a number"))
}

/// Starts a world with a proxy between operator and API server and with the classes of the scenarios.
async fn stage() -> World {
    stage_in(World::builder()).await
}

/// Like [`stage`], with other settings of the world.
async fn stage_in(builder: WorldBuilder) -> World {
    let world = builder.proxy().start().await;
    world.class("low", 10).managed().create().await;
    world.class("guarded", 10).threshold(5000).managed().create().await;
    world.class("high", 1000).managed().create().await;
    world.class("urgent", 6000).managed().create().await;
    world.class("stock", 1000).create().await;
    world
}

/// Waits until the operator has sent at least `least` writes since the proxy plays its script.
async fn wait_writes(world: &World, least: u64) {
    let proxy = world.proxy();
    wait_for(&format!("the operator has tried {least} writes"), PATIENCE, async || {
        let writes = proxy.writes();
        if writes >= least { Ok(()) } else { Err(format!("{writes} writes")) }
    })
    .await;
}

/// Restarts the operator whenever it was killed.
async fn keep_alive(operator: &mut Daemon, client: &Client, killed: &mut bool) {
    loop {
        if operator.pid().is_some() && operator.exited().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        }
        *killed = true;
        kill_and_start(operator, client).await;
    }
}

/// Kills the operator if it still runs and restarts it. Clears the holder of the lease, because a killed process writes nothing.
async fn kill_and_start(operator: &mut Daemon, client: &Client) {
    operator.kill();
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let free = Patch::Merge(json!({"spec": {"holderIdentity": null}}));
    leases.patch("giveway-operator", &PatchParams::default(), &free).await.unwrap();
    operator.start().await;
}
