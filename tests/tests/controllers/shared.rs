//! The one world that the tests share. A test that fails takes it along, logs kept, and the next one gets a new one.

use giveway_tests::World;
use giveway_tests::example::path;
use giveway_tests::wait::wait_for;
use libtest_mimic::Trial;
use std::fs;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime can be made"));
static WORLD: Mutex<Option<World>> = Mutex::new(None);

/// A test on the shared world, which ends with the oracle and with nothing left.
pub fn trial(name: &str, test: impl AsyncFn(&World) + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let mut shared = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
        RUNTIME.block_on(async {
            let world = match shared.take() {
                Some(world) => world,
                None => World::builder().controllers().start().await,
            };
            test(&world).await;
            world.check_promises().await;
            tidy(&world).await;
            *shared = Some(world);
        });
        Ok(())
    })
}

/// Ends the world, if there is one.
pub fn end() {
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner).take();
    RUNTIME.block_on(async { drop(world) });
}

/// Deletes what the test made.
async fn tidy(world: &World) {
    for entry in fs::read_dir(path("")).unwrap().flatten() {
        let file = entry.path().display().to_string();
        if file.ends_with(".yaml") {
            // Kinds whose controller is not built are not served.
            let _ = world.kubectl(&["delete", "--ignore-not-found", "--wait=false", "-f", &file]).await;
        }
    }
    wait_for("the pods of the test are gone", Duration::from_secs(120), async || {
        world.kubectl(&["delete", "pods,gpg", "--all", "--wait=false"]).await?;
        let left = world.kubectl(&["get", "pods,gpg", "--output=name"]).await?;
        if left.trim().is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    world.kubectl(&["delete", "nodes", "--all"]).await.unwrap();
    // An example may have taken one of them along.
    world.kubectl(&["delete", "priorityclass", "--ignore-not-found", "background", "urgent"]).await.unwrap();
}
