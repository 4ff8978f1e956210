//! The one world that tests of workloads share. A test that fails takes it along, logs kept, and the next one gets a new one.

use giveway_tests::World;
use giveway_tests::controllers::Controller;
use giveway_tests::example::path;
use giveway_tests::shared::Shared;
use libtest_mimic::Trial;
use std::fs;

static SHARED: Shared<Sort> = Shared::new();

/// What a world is for.
#[derive(PartialEq, Eq)]
enum Sort {
    Workloads,
    OneTest,
}

/// A test on the shared world, which ends with the oracle and with nothing left.
pub fn trial(name: &str, test: impl AsyncFn(&World) + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let start = async || World::builder().controllers(&Controller::WORKLOADS).start().await;
        SHARED.run(
            Sort::Workloads,
            start,
            async |world| test(world).await,
            async |world| {
                tidy(&world).await;
                Some(world)
            },
        );
        Ok(())
    })
}

/// A test on a world of its own, which ends with the oracle.
pub fn alone(
    name: &str,
    start: impl AsyncFn() -> World + Send + 'static,
    test: impl AsyncFn(&World) + Send + 'static,
) -> Trial {
    Trial::test(name, move || {
        SHARED.run(Sort::OneTest, async || start().await, async |world| test(world).await, async |_| None);
        Ok(())
    })
}

/// Ends the world, if there is one.
pub fn end() {
    SHARED.end();
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
    world.tidy().await;
}
