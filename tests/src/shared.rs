//! A world that several tests use one after the other. It is replaced after a failed test, whose logs are kept.

use crate::World;
use std::future::Future;
use std::sync::{LazyLock, Mutex, PoisonError};
use tokio::runtime::Runtime;

/// The world and its kind. A test that needs another kind replaces it.
pub struct Shared<K = ()> {
    runtime: LazyLock<Runtime>,
    world: Mutex<Option<(K, World)>>,
}

impl<K: PartialEq> Shared<K> {
    /// No world yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { runtime: LazyLock::new(|| Runtime::new().expect("a runtime can be created")), world: Mutex::new(None) }
    }

    /// Runs a test on the world of this kind, which `start` creates if there is none, and lets the oracle check the promises.
    /// `after` returns the world for the next test, or `None` to end it.
    ///
    /// # Panics
    /// If the test panics.
    pub fn run(
        &self,
        kind: K,
        start: impl AsyncFnOnce() -> World,
        test: impl AsyncFnOnce(&mut World),
        after: impl AsyncFnOnce(World) -> Option<World>,
    ) {
        let mut shared = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        self.runtime.block_on(async {
            // A world of another kind is dropped here.
            let mut world = match shared.take().filter(|(of, _)| *of == kind) {
                Some((_, world)) => world,
                None => start().await,
            };
            test(&mut world).await;
            world.check_promises().await;
            *shared = after(world).await.map(|world| (kind, world));
        });
    }

    /// Runs a test that does not use the shared world.
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
