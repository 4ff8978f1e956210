//! A world that several tests share, one after the other. A test that fails takes it along, logs kept, and the next one gets a new
//! one.

use crate::World;
use std::future::Future;
use std::sync::{LazyLock, Mutex, PoisonError};
use tokio::runtime::Runtime;

/// The world, and what it is: a test that wants another one ends it.
pub struct Shared<K = ()> {
    runtime: LazyLock<Runtime>,
    world: Mutex<Option<(K, World)>>,
}

impl<K: PartialEq> Shared<K> {
    /// No world yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { runtime: LazyLock::new(|| Runtime::new().expect("a runtime can be made")), world: Mutex::new(None) }
    }

    /// Runs a test on the world, which `start` makes where there is none of this kind; it ends with the oracle. `after` says what the
    /// next test gets of the world.
    ///
    /// # Panics
    /// The test does.
    pub fn run(
        &self,
        kind: K,
        start: impl AsyncFnOnce() -> World,
        test: impl AsyncFnOnce(&mut World),
        after: impl AsyncFnOnce(World) -> Option<World>,
    ) {
        let mut shared = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        self.runtime.block_on(async {
            // One of another kind ends here.
            let mut world = match shared.take().filter(|(of, _)| *of == kind) {
                Some((_, world)) => world,
                None => start().await,
            };
            test(&mut world).await;
            world.check_promises().await;
            *shared = after(world).await.map(|world| (kind, world));
        });
    }

    /// Runs a test that needs no world of others.
    pub fn alone(&self, test: impl Future<Output = ()>) {
        self.runtime.block_on(test);
    }

    /// Ends the world, if there is one.
    pub fn end(&self) {
        let world = self.world.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.runtime.block_on(async { drop(world) });
    }
}

impl<K: PartialEq> Default for Shared<K> {
    fn default() -> Self {
        Self::new()
    }
}
