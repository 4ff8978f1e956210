//! Turns the watch of one kind into [`Input`]s for the arbiter.
//!
//! The objects of a list arrive one by one between [`Update::Started`] and [`Update::Complete`], and nothing is decided in between. A list
//! that fails removes no object from the model, and the watch is broken. This includes the answer 404, except for
//! [optional kinds](giveway_crds::optional). An object that cannot be decoded arrives as [`Update::Invalid`] and stops
//! neither the list nor the watch (see [`DecodedObject`]).

use crate::leadership::watches::{AGAIN, Watches};
use crate::messages::input::{Input, Update};
use giveway_cluster::objects::{DecodedObject, TrimmedObject};
use giveway_cluster::watch::{Event, KindReader};
use giveway_planner::model::ObjectKey;
use giveway_serving::patience;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::WatchParams;
use kube::{Api, Client, Resource};
use std::borrow::Cow;
use std::time::Instant;
use tokio::sync::mpsc;

/// What every watch needs: the client, the arbiter's inputs, and the record of watches that fail.
#[derive(Clone)]
pub(crate) struct Feed {
    pub(crate) client: Client,
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) watches: Watches,
}

/// Why a watch ended.
pub(crate) enum WatchOutcome {
    /// The receiver of the inputs was dropped: the process is ending.
    ReceiverDropped,
    /// The cluster does not have this kind now, its list makes no progress, or the watch was broken for too long. Everything is listed again,
    /// perhaps in another version of the API.
    Ended,
}

/// Returns the parameters that the watches of all kinds have: no selector, and the API server ends each watch after [`patience::STREAM`].
pub(crate) fn watch_params() -> WatchParams {
    WatchParams::default().timeout(patience::STREAM)
}

/// Lists and watches the objects of `api`, with the selectors in `params`, and sends each update to the arbiter, as the input that `wrap`
/// makes of it. Ends when the receiver of the inputs is dropped, or when a new list is necessary ([`WatchOutcome::Ended`]). `kind` is the
/// name in logs and metrics. While the API server does not serve the kind, an `optional` one has no objects; the watch of another one
/// fails.
pub(crate) async fn follow<K>(
    feed: &Feed,
    api: Api<K>,
    params: WatchParams,
    (kind, optional): (Cow<'static, str>, bool),
    wrap: fn(Update<K>) -> Input,
) -> WatchOutcome
where
    K: Resource + TrimmedObject + Send + 'static,
{
    let Feed { inputs, watches, .. } = feed;
    let mut reader = KindReader::new(api, params);
    loop {
        let listing = reader.is_listing();
        let next = reader.next();
        // Only a list has a timeout, because a watch may have no events for a long time.
        let event = if listing { tokio::time::timeout(patience::PAGE, next).await } else { Ok(next.await) };
        let Ok(event) = event else {
            tracing::warn!(%kind, "a list made no progress; it is started again");
            watches.failed(kind.clone(), Instant::now());
            return WatchOutcome::Ended;
        };
        let (mut is_whole, mut unserved) = (true, false);
        let update = match event {
            Ok(Event::Begun) => {
                watches.list_started(kind.clone(), Instant::now());
                is_whole = false;
                Update::Started
            }
            Ok(Event::Listed(object)) => {
                is_whole = false;
                decode(object)
            }
            Ok(Event::Complete) => Update::Complete,
            Ok(Event::Applied(object)) => decode(object),
            Ok(Event::Deleted(object)) => Update::Deleted(key_in(object.meta())),
            Err(failure) if optional && failure.is_unserved() => {
                tracing::debug!(%kind, "the API server does not have this kind");
                unserved = true;
                Update::Replaced(Vec::new())
            }
            Err(failure) => {
                tracing::warn!(%kind, error = %failure, "watch interrupted; it starts again");
                let now = Instant::now();
                watches.failed(kind.clone(), now);
                // After this long many changes may be missing, and a watch does not show when it has caught up. A list does.
                if watches.is_broken(&kind, now) {
                    return WatchOutcome::Ended;
                }
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        if inputs.send(wrap(update)).await.is_err() {
            return WatchOutcome::ReceiverDropped;
        }
        if is_whole {
            watches.delivered(&kind);
        }
        if unserved {
            return WatchOutcome::Ended;
        }
    }
}

/// Returns the update for an object of the watch: the object itself, or the key and the error of one that could not be decoded.
fn decode<K>(object: DecodedObject<K>) -> Update<K> {
    match object.0 {
        Ok(object) => Update::Applied(Box::new(object)),
        Err(invalid) => Update::Invalid(key_in(&invalid.metadata), invalid.error),
    }
}

/// Returns namespace and name in an object's metadata; the namespace is empty for a cluster-scoped object.
fn key_in(metadata: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}
