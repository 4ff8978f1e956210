//! The world that tests of workloads share. It is replaced after a failed test, whose logs are kept.

use giveway_tests::World;
use giveway_tests::controllers::Controller;
use giveway_tests::example::path;
use giveway_tests::shared::Shared;
use libtest_mimic::Trial;
use std::fs;

static SHARED: Shared<Sort> = Shared::new();

/// Use of a world.
#[derive(PartialEq, Eq)]
enum Sort {
    Workloads,
    OneTest,
}

/// Returns a test on the shared world. After it the oracle checks the promises, and the objects of the test are deleted.
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

/// Returns a test on a world of its own. After it the oracle checks the promises.
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

/// Ends the shared world, if there is one.
pub fn end() {
    SHARED.end();
}

/// Deletes the objects of all examples.
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
