//! Watches the API server and merges all changes into one stream of [`Input`]s for the arbiter.

use crate::config::ProvisioningMethod;
use crate::feeds::follow::{Feed, WatchOutcome, follow, watch_params};
use crate::feeds::native_groups;
use crate::leadership::lease::Leadership;
use crate::leadership::watches::{AGAIN, Watches};
use crate::messages::input::{Input, Update};
use giveway_cluster::objects::TrimmedObject;
use giveway_crds::keys::LABEL_PROVISIONING;
use giveway_crds::mode;
use giveway_crds::optional::is_optional;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::WatchParams;
use kube::{Api, Client, Resource};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Lists and watches a kind in all namespaces until the receiver of the inputs is dropped. `wrap` makes the arbiter's input of an update.
async fn follow_kind<K>(feed: Feed, config: WatchParams, wrap: fn(Update<K>) -> Input)
where
    K: Resource<DynamicType = ()> + TrimmedObject + Clone + Send + 'static,
{
    let api = Api::all(feed.client.clone());
    follow_in(feed, api, config, wrap).await;
}

/// Lists and watches the objects of `api` until the receiver of the inputs is dropped. A watch that ends is started again. `wrap` makes the
/// arbiter's input of an update.
async fn follow_in<K>(feed: Feed, api: Api<K>, config: WatchParams, wrap: fn(Update<K>) -> Input)
where
    K: Resource<DynamicType = ()> + TrimmedObject + Clone + Send + 'static,
{
    let kind = K::kind(&());
    let optional = is_optional(&K::group(&()), &kind);
    loop {
        match follow(&feed, api.clone(), config.clone(), (kind.clone(), optional), wrap).await {
            WatchOutcome::ReceiverDropped => return,
            WatchOutcome::Ended => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// Waits until this process is the leader, then watches the stored plans (`Preemption`). The list with which the watch begins is
/// consistent, and an earlier leader begins no write after its Lease has ended: so it shows every plan and departure that must be resumed.
async fn stored_plans(feed: Feed, mut leadership: Leadership) {
    leadership.acquired().await;
    follow_kind(feed, watch_params(), Input::Preemption).await;
}

/// Watches the ProvisioningRequests that the operator has created, if `provisioning` is the method that uses them. Otherwise the arbiter
/// gets an empty list once, and the task waits for ever.
async fn requests(feed: Feed, provisioning: ProvisioningMethod) {
    if provisioning == ProvisioningMethod::ProvisioningRequest {
        return follow_kind(feed, watch_params().labels(LABEL_PROVISIONING), Input::Request).await;
    }
    // An error means that the receiver was dropped; the process is ending.
    let _ = feed.inputs.send(Input::Request(Update::Replaced(Vec::new()))).await;
    std::future::pending().await
}

/// Starts one task for each kind that watches it and sends its updates to `inputs`, also in a standby; that of the stored plans waits until
/// this process is the leader. `namespace` is that of Giveway's ConfigMap. No task ends before the receiver of `inputs` is dropped.
pub fn start(
    client: &Client,
    namespace: &str,
    inputs: &mpsc::Sender<Input>,
    watches: &Watches,
    (provisioning, leadership): (ProvisioningMethod, Leadership),
) -> JoinSet<()> {
    let feed = || Feed { client: client.clone(), inputs: inputs.clone(), watches: watches.clone() };
    let all = watch_params;
    let mut tasks = JoinSet::new();
    tasks.spawn(follow_kind(feed(), all(), Input::Class));
    tasks.spawn(follow_kind(feed(), all(), Input::Namespace));
    tasks.spawn(follow_kind(feed(), all(), Input::Node));
    tasks.spawn(follow_kind(feed(), all(), Input::Group));
    tasks.spawn(native_groups::watch(feed()));
    tasks.spawn(follow_kind(feed(), all(), Input::Workload));
    tasks.spawn(follow_kind(feed(), all(), Input::Budget));
    tasks.spawn(follow_kind(feed(), all(), Input::Pod));
    tasks.spawn(follow_kind(feed(), all(), Input::Volume));
    tasks.spawn(follow_kind(feed(), all(), Input::Claim));
    tasks.spawn(follow_kind(feed(), all(), Input::StorageClass));
    tasks.spawn(follow_kind(feed(), all(), Input::CsiDriver));
    tasks.spawn(follow_kind(feed(), all(), Input::CsiNode));
    tasks.spawn(follow_kind(feed(), all(), Input::DeviceClass));
    tasks.spawn(follow_kind(feed(), all(), Input::ResourceSlice));
    tasks.spawn(follow_kind(feed(), all(), Input::ResourceClaim));
    tasks.spawn(requests(feed(), provisioning));
    let switch = Api::namespaced(client.clone(), namespace);
    let by_name = all().fields(&format!("metadata.name={}", mode::CONFIG_MAP));
    tasks.spawn(follow_in::<ConfigMap>(feed(), switch, by_name, Input::Switch));
    tasks.spawn(stored_plans(feed(), leadership));
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use std::convert::Infallible;
    use std::time::Instant;

    /// Returns the first input about a kind, and whether its watch fails, when an API server that does not serve the
    /// kind has been asked twice to list it.
    async fn unserved<K>(wrap: fn(Update<K>) -> Input) -> (Option<Input>, bool)
    where
        K: Resource<DynamicType = ()> + TrimmedObject + Clone + Send + 'static,
    {
        let (asked, mut lists) = mpsc::unbounded_channel();
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let _ = asked.send(());
            let answer = http::Response::builder().status(404).body(Body::from(b"404 page not found\n".to_vec()));
            async move { Ok::<_, Infallible>(answer.unwrap()) }
        });
        let (inputs, mut received) = mpsc::channel(4);
        let feed = Feed { client: Client::new(service, "default"), inputs, watches: Watches::default() };
        let watches = feed.watches.clone();
        let task = tokio::spawn(follow_kind(feed, watch_params(), wrap));
        for _ in 0..2 {
            lists.recv().await.unwrap();
        }
        task.abort();
        (received.try_recv().ok(), watches.failing(Instant::now()).contains_key(&*K::kind(&())))
    }

    #[tokio::test]
    async fn the_objects_of_a_required_kind_that_is_not_served_are_unknown_and_its_watch_fails() {
        let (nodes, groups) = tokio::join!(unserved(Input::Node), unserved(Input::Group));
        for (input, fails) in [nodes, groups] {
            assert!(input.is_none(), "{input:?}");
            assert!(fails);
        }
    }

    #[tokio::test]
    async fn there_are_no_objects_of_an_optional_kind_that_is_not_served() {
        let (input, _) = unserved(Input::DeviceClass).await;
        let empty = matches!(&input, Some(Input::DeviceClass(Update::Replaced(objects))) if objects.is_empty());
        assert!(empty, "{input:?}");
    }
}
