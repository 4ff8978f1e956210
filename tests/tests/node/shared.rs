//! The world that most tests share. It is replaced after a failed test, whose logs are kept.

use giveway_tests::World;
use giveway_tests::shared::Shared;
use libtest_mimic::Trial;

static SHARED: Shared = Shared::new();

/// Returns a test on the shared node. After it the oracle checks the promises and the default namespace is emptied.
pub fn on_the_node(name: &str, test: impl AsyncFn(&mut World) + Send + 'static) -> Trial {
    trial(name, test, async |world| {
        world.tidy().await;
        Some(world)
    })
}

/// Returns the last test on the shared node. After it the oracle checks the promises and the world ends.
pub fn last_on_the_node(name: &str, test: impl AsyncFn(&mut World) + Send + 'static) -> Trial {
    trial(name, test, async |_| None)
}

/// Returns a test on the shared world; `after` returns the world for the next test, or `None` to end it.
fn trial(
    name: &str,
    test: impl AsyncFn(&mut World) + Send + 'static,
    after: impl AsyncFn(World) -> Option<World> + Send + 'static,
) -> Trial {
    Trial::test(name, move || {
        SHARED.run((), start, test, after);
        Ok(())
    })
}

/// Returns a test that starts its own node.
pub fn on_its_own(name: &str, test: impl AsyncFn() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        SHARED.alone(test());
        Ok(())
    })
}

/// Starts a world whose node counts as unreachable after 16 s instead of 50 s.
async fn start() -> World {
    World::builder().real_node().controller_flag("--node-monitor-grace-period=16s").start().await
}

/// Ends the shared world, if there is one.
pub fn end() {
    SHARED.end();
}
