//! The world that the stories of a version share. A story that fails takes it along, logs kept, and the next one gets a new one.

use giveway_tests::World;
use giveway_tests::control_plane::Version;
use giveway_tests::shared::Shared;
use libtest_mimic::Trial;
use std::collections::BTreeSet;

static SHARED: Shared<Version> = Shared::new();

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
        let start = async || World::builder().kubernetes(version).fresh().proxy().start().await;
        SHARED.run(version, start, story, async |world| {
            // What a version does not know it says of each request that has it.
            assert_eq!(world.proxy().warnings(), BTreeSet::new(), "what the API server warned the operator of");
            after(world).await
        });
        Ok(())
    })
}

/// Ends the world, if there is one.
pub fn end() {
    SHARED.end();
}
