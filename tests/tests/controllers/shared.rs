//! The one world that the tests share. A test that fails takes it along, logs kept, and the next one gets a new one.

use giveway_tests::World;
use giveway_tests::example::path;
use giveway_tests::shared::Shared;
use libtest_mimic::Trial;
use std::fs;

static SHARED: Shared = Shared::new();

/// A test on the shared world, which ends with the oracle and with nothing left.
pub fn trial(name: &str, test: impl AsyncFn(&World) + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let start = async || World::builder().controllers().start().await;
        SHARED.run(
            (),
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
