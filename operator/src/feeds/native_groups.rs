//! The watch of Kubernetes' own PodGroups (see [`giveway_crds::native`]), in the newest supported version that the API
//! server has.
//!
//! If the API server has none, which is the case in most clusters, nothing is watched. If they are enabled later, the
//! operator notices them at its next start.

use crate::feeds::follow::{Feed, WatchOutcome, follow, watch_params};
use crate::leadership::watches::AGAIN;
use crate::messages::input::{Input, Update};
use giveway_crds::native::{NativeGroup, version};
use giveway_serving::patience;
use kube::Api;
use std::borrow::Cow;
use std::time::Instant;

/// The name of this kind in messages and metrics, which distinguishes it from Giveway's own `PodGroup`.
const KIND: Cow<'static, str> = Cow::Borrowed("PodGroup.scheduling.k8s.io");

/// Watches Kubernetes' own PodGroups until the receiver of the inputs is dropped. If the API server does not have them, the arbiter gets an
/// empty list once, and the task waits for ever.
pub(crate) async fn watch(feed: Feed) {
    loop {
        // The watch counts as listing from now on, because the request for the served versions may remain without a
        // response too.
        feed.watches.list_started(KIND, Instant::now());
        let served = async { version::served(&feed.client).await.map_err(|error| error.to_string()) };
        let served = tokio::time::timeout(patience::PAGE, served).await;
        match served.unwrap_or_else(|_| Err(format!("no answer within {:?}", patience::PAGE))) {
            Ok(Some(resource)) => {
                tracing::info!(version = %resource.api_version, "native pod groups are watched");
                let api: Api<_> = Api::all_with(feed.client.clone(), &resource);
                // A version that is served must answer a list, so 404 does not mean that there are no objects.
                let kind = (KIND, false);
                if let WatchOutcome::ReceiverDropped =
                    follow::<NativeGroup>(&feed, api, watch_params(), kind, Input::NativeGroup).await
                {
                    return;
                }
            }
            Ok(None) => {
                feed.watches.delivered(&KIND);
                // An error means that the receiver was dropped; the process is ending.
                let _ = feed.inputs.send(Input::NativeGroup(Update::Replaced(Vec::new()))).await;
                return std::future::pending().await;
            }
            Err(error) => {
                tracing::warn!(%error, "the API server does not say whether it has native pod groups; it is asked again");
                feed.watches.failed(KIND, Instant::now());
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}
