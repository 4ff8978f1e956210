//! The one world that most tests share. A test that fails takes it along, logs kept, and the next one gets a new one.

use giveway_crds::{PodGroup, Workload};
use giveway_tests::World;
use giveway_tests::wait::wait_for;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{DeleteParams, ListParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use libtest_mimic::Trial;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime can be made"));
static WORLD: Mutex<Option<World>> = Mutex::new(None);

/// A test on the shared node, which ends with the oracle and with nothing left in the default namespace.
pub fn on_the_node(name: &str, test: impl AsyncFn(&mut World) + Send + 'static) -> Trial {
    trial(name, test, async |world| {
        tidy(&world).await;
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
        let mut shared = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
        RUNTIME.block_on(async {
            let mut world = match shared.take() {
                Some(world) => world,
                None => start().await,
            };
            test(&mut world).await;
            world.check_promises().await;
            *shared = after(world).await;
        });
        Ok(())
    })
}

/// A test that starts what it needs itself.
pub fn on_its_own(name: &str, test: impl AsyncFn() + Send + 'static) -> Trial {
    Trial::test(name, move || {
        RUNTIME.block_on(test());
        Ok(())
    })
}

/// A node of which the API server despairs after 16 s, instead of 50.
async fn start() -> World {
    World::builder().real_node().controller_flag("--node-monitor-grace-period=16s").start().await
}

/// Ends the world, if there is one.
pub fn end() {
    let world = WORLD.lock().unwrap_or_else(PoisonError::into_inner).take();
    RUNTIME.block_on(async { drop(world) });
}

/// Deletes what the test made, and waits until the last container is gone.
async fn tidy(world: &World) {
    delete_all::<Job>(world).await;
    delete_all::<Deployment>(world).await;
    delete_all::<PodDisruptionBudget>(world).await;
    delete_all::<Workload>(world).await;
    delete_all::<Pod>(world).await;
    delete_all::<PodGroup>(world).await;
    let classes: Api<PriorityClass> = Api::all(world.client());
    for class in classes.list(&ListParams::default()).await.unwrap() {
        let name = class.metadata.name.unwrap_or_default();
        if !name.starts_with("system-") {
            classes.delete(&name, &DeleteParams::default()).await.unwrap();
        }
    }
    wait_for("the pods of the test are gone", Duration::from_secs(60), async || {
        let pods = world.kubectl(&["get", "pods,gpg", "--namespace=default", "--output=name"]).await?;
        if pods.trim().is_empty() { Ok(()) } else { Err(pods) }
    })
    .await;
}

async fn delete_all<K>(world: &World)
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    let api = world.kit().api::<K>();
    api.delete_collection(&DeleteParams::background(), &ListParams::default()).await.unwrap();
}
