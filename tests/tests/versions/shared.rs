//! The world that the stories of a version share. A story that fails takes it along, logs kept, and the next one gets a new one.

use giveway_tests::World;
use giveway_tests::control_plane::Version;
use libtest_mimic::Trial;
use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex, PoisonError};
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime can be made"));
static WORLD: Mutex<Option<(Version, World)>> = Mutex::new(None);

/// A story on the world of this version, which ends with the oracle and with nothing left in the default namespace.
pub fn on(version: Version, name: &str, story: impl AsyncFn(&mut World) + Send + 'static) -> Trial {
    trial(version, name, story, async |world| {
        world.tidy().await;
        Some(world)
    })
}

/// A story after which nothing can be tried any more: the world ends with it.
pub fn on_at_last(version: Version, name: &str, story: impl AsyncFn(&mut World) + Send + 'static) -> Trial {
    trial(version, name, story, async |_| None)
}

/// `after` says what the next story gets of the world.
fn trial(
    version: Version,
    name: &str,
    story: impl AsyncFn(&mut World) + Send + 'static,
    after: impl AsyncFn(World) -> Option<World> + Send + 'static,
) -> Trial {
    Trial::test(format!("{version}::{name}"), move || {
        let mut shared = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
        RUNTIME.block_on(async {
            // One of another version ends here.
            let mut world = match shared.take().filter(|(of, _)| *of == version) {
                Some((_, world)) => world,
                None => World::builder().kubernetes(version).proxy().start().await,
            };
            story(&mut world).await;
            world.check_promises().await;
            // What a version does not know it says of each request that has it.
            assert_eq!(world.proxy().warnings(), BTreeSet::new(), "what the API server warned the operator of");
            *shared = after(world).await.map(|world| (version, world));
        });
        Ok(())
    })
}

/// Ends the world, if there is one.
pub fn end() {
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner).take();
    RUNTIME.block_on(async { drop(world) });
}
