//! The world that the tests of a version share. It is replaced after a failed test, whose logs are kept.

use giveway_tests::World;
use giveway_tests::control_plane::Version;
use giveway_tests::shared::Shared;
use libtest_mimic::Trial;
use std::collections::BTreeSet;

static SHARED: Shared<Version> = Shared::new();

/// Returns a test on the shared world of this version. After it the oracle checks the promises and the default namespace is
/// emptied.
pub fn on(version: Version, name: &str, story: impl AsyncFn(&mut World) + Send + 'static) -> Trial {
    trial(version, name, story, async |world| {
        world.tidy().await;
        Some(world)
    })
}

/// Returns the last test on the shared world of this version, which ends with the test.
pub fn last_on(version: Version, name: &str, story: impl AsyncFn(&mut World) + Send + 'static) -> Trial {
    trial(version, name, story, async |_| None)
}

/// Returns a test on the shared world; `after` returns the world for the next test, or `None` to end it.
fn trial(
    version: Version,
    name: &str,
    story: impl AsyncFn(&mut World) + Send + 'static,
    after: impl AsyncFn(World) -> Option<World> + Send + 'static,
) -> Trial {
    Trial::test(format!("{version}::{name}"), move || {
        let start = async || World::builder().kubernetes(version).fresh().proxy().start().await;
        SHARED.run(version, start, story, async |world| {
            // An API server warns about each request with a field that its version does not know.
            assert_eq!(world.proxy().warnings(), BTreeSet::new(), "warnings of the API server to the operator");
            after(world).await
        });
        Ok(())
    })
}

/// Ends the shared world, if there is one.
pub fn end() {
    SHARED.end();
}
