//! The one world that most tests share. A test that fails takes it along, logs kept, and the next one gets a new one.

use giveway_tests::World;
use giveway_tests::shared::Shared;
use libtest_mimic::Trial;

static SHARED: Shared = Shared::new();

/// A test on the shared node, which ends with the oracle and with nothing left in the default namespace.
pub fn on_the_node(name: &str, test: impl AsyncFn(&mut World) + Send + 'static) -> Trial {
    trial(name, test, async |world| {
        world.tidy().await;
        Some(world)
    })
}

/// A test on the shared node after which nothing can be tried on it any more: it ends with the oracle, and with the world.
pub fn on_the_node_at_last(name: &str, test: impl AsyncFn(&mut World) + Send + 'static) -> Trial {
    trial(name, test, async |_| None)
}

/// `after` says what the next test gets of the world.
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

/// A test that starts what it needs itself.
pub fn on_its_own(name: &str, test: impl AsyncFn() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        SHARED.alone(test());
        Ok(())
    })
}

/// A node of which the API server despairs after 16 s, instead of 50.
async fn start() -> World {
    World::builder().real_node().controller_flag("--node-monitor-grace-period=16s").start().await
}

/// Ends the world, if there is one.
pub fn end() {
    SHARED.end();
}
