//! The watch of Kubernetes' own groups (see [`giveway_crds::native`]), in the best version that the API server has.
//!
//! Where it has none, which is most clusters, nothing is watched. One that has them later has them for the next operator
//! that starts.

use crate::follow::{Feed, Outcome, follow, lasting};
use crate::input::{Input, Update};
use crate::watches::AGAIN;
use giveway_crds::native::{NativeGroup, version};
use kube::Api;
use std::borrow::Cow;
use std::time::Instant;

/// What this kind is called, beside ours of the same name.
const KIND: Cow<'static, str> = Cow::Borrowed("PodGroup.scheduling.k8s.io");

/// Watches them for as long as there is a version to watch; after that it waits and does nothing.
pub(crate) async fn watch(feed: Feed) {
    loop {
        // What is missed from now on is heard of with the list; and that may not be answered.
        feed.watches.lists(KIND, Instant::now());
        match version::served(&feed.client).await {
            Ok(Some(resource)) => {
                tracing::info!(version = %resource.api_version, "native pod groups are watched");
                let api: Api<_> = Api::all_with(feed.client.clone(), &resource);
                if let Outcome::Unheard = follow::<NativeGroup>(&feed, api, lasting(), KIND, Input::NativeGroup).await {
                    return;
                }
            }
            Ok(None) => {
                feed.watches.told(&KIND);
                // Nobody listens any more, or nothing is left to tell.
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
