//! Faults between the operator and the API server: whatever is refused, lost, late or cut off, and at whichever write the operator
//! is killed, the gang is bound in the end, each victim is evicted once, and the oracle has nothing to say.
//!
//! `GIVEWAY_CRASHES=all` kills the operator at every write; otherwise at some, chosen by `GIVEWAY_SEED`. `make soak` does that,
//! and lets the random load run for longer.

pub mod admission;
pub mod answers;
pub mod clocks;
pub mod crashes;
pub mod leaders;
pub mod outages;
mod scenes;
pub mod soak;
pub mod unheard;

use giveway_tests::World;
use giveway_tests::giveway::{Daemon, NAMESPACE};
use giveway_tests::wait::wait_for;
use giveway_tests::world::WorldBuilder;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use std::time::Duration;

/// How long a scenario may take while things go wrong: an eviction whose client is gone half-way may count against its budget for
/// two minutes without being carried out, and under a random load that may happen several times in a row.
const PATIENCE: Duration = Duration::from_secs(600);

fn seed() -> u64 {
    std::env::var("GIVEWAY_SEED").ok().map_or(0xfa17, |text| text.parse().expect("a number"))
}

/// A world with a proxy before the operator, and the classes of the scenarios.
async fn stage() -> World {
    stage_in(World::builder()).await
}

/// The same in a world with more choices.
async fn stage_in(builder: WorldBuilder) -> World {
    let world = builder.proxy().start().await;
    world.class("low", 10).managed().create().await;
    world.class("guarded", 10).threshold(5000).managed().create().await;
    world.class("high", 1000).managed().create().await;
    world.class("urgent", 6000).managed().create().await;
    world.class("stock", 1000).create().await;
    world
}

/// Waits until the operator has tried so many writes under the script that the proxy plays.
async fn written(world: &World, least: u64) {
    let proxy = world.proxy();
    wait_for(&format!("the operator has tried {least} writes"), PATIENCE, async || {
        let writes = proxy.writes();
        if writes >= least { Ok(()) } else { Err(format!("{writes} writes")) }
    })
    .await;
}

/// Starts the operator again whenever it was killed.
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

/// Kills the operator, where it still runs, and starts it again. From the dead comes no write, so the lease is free at once.
async fn kill_and_start(operator: &mut Daemon, client: &Client) {
    operator.kill();
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let free = Patch::Merge(json!({"spec": {"holderIdentity": null}}));
    leases.patch("giveway-operator", &PatchParams::default(), &free).await.unwrap();
    operator.start().await;
}
