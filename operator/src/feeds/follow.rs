//! Turns the watch of one kind into [`Input`]s for the arbiter.
//!
//! A list arrives as one [`Update::Replaced`], so that the model never shows only a part of the cluster. A list that
//! fails leaves the objects of the model as they are, and the watch is broken. This includes the answer 404, except for
//! [optional kinds](giveway_crds::optional). An object that cannot be decoded arrives as [`Update::Invalid`] and stops
//! neither the list nor the watch (see [`giveway_crds::answers`]).

use crate::leadership::watches::{EverySoOften, Watches};
use crate::messages::input::{Input, Update, key_of};
use futures::StreamExt;
use giveway_crds::answers::Salvaged;
use giveway_planner::model::ObjectKey;
use giveway_serving::patience;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::fmt::Debug;
use std::time::Instant;
use tokio::sync::mpsc;

/// What every watch needs.
#[derive(Clone)]
pub(crate) struct Feed {
    pub(crate) client: Client,
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) watches: Watches,
}

/// Why a watch ended.
pub(crate) enum Outcome {
    /// The receiver of the inputs was dropped.
    Unheard,
    /// A new list is necessary: the API server does not have the changes since the last received resourceVersion any
    /// more, the watch was broken for too long, or the cluster does not have this optional kind now. The library's
    /// watcher only lists again if the error arrives as a watch event; if it arrives as an HTTP status, the watcher
    /// repeats the same request for ever.
    Expired,
}

/// Returns the watch configuration for all kinds.
pub(crate) fn lasting() -> watcher::Config {
    watcher::Config::default().timeout(patience::STREAM)
}

/// Returns true if changes were missed and a new list is necessary: the API server does not have them any more, or an
/// event could not be parsed, after which the library's watcher continues with the next event.
fn has_missed_something(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 410,
        watcher::Error::WatchFailed(error) => matches!(error, kube::Error::SerdeError(_)),
        _ => false,
    }
}

/// Returns true if the API server does not serve the kind that was to be listed.
fn is_unserved(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

/// Watches one kind until the receiver of the inputs is dropped or a new list is necessary. Only of an `optional` kind
/// there are no objects while the API server does not serve it.
pub(crate) async fn follow<K>(
    feed: &Feed,
    api: Api<Salvaged<K>>,
    config: watcher::Config,
    (kind, optional): (Cow<'static, str>, bool),
    wrap: fn(Update<K>) -> Input,
) -> Outcome
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Clone,
{
    let Feed { inputs, watches, .. } = feed;
    let mut events = watcher(api, config).backoff(EverySoOften).boxed();
    let mut listed = Vec::new();
    // Only a list has a timeout, because a watch may have no events for a long time.
    let mut listing = false;
    loop {
        let next = events.next();
        let event = if listing { tokio::time::timeout(patience::PAGE, next).await } else { Ok(next.await) };
        let Ok(event) = event else {
            tracing::warn!(%kind, "a list stands still; it begins anew");
            watches.failed(kind.clone(), Instant::now());
            return Outcome::Expired;
        };
        let Some(event) = event else { return Outcome::Expired };
        let mut unserved = false;
        let update = match event {
            Ok(watcher::Event::Init) => {
                listed.clear();
                listing = true;
                watches.lists(kind.clone(), Instant::now());
                continue;
            }
            Ok(watcher::Event::InitApply(object)) => {
                listed.push(decode(object));
                continue;
            }
            Ok(watcher::Event::InitDone) => {
                listing = false;
                Update::Replaced(std::mem::take(&mut listed))
            }
            Ok(watcher::Event::Apply(object)) => decode(object),
            Ok(watcher::Event::Delete(object)) => Update::Deleted(key_of(&object)),
            Err(error) if optional && is_unserved(&error) => {
                tracing::debug!(%kind, "the API server does not have this kind");
                unserved = true;
                Update::Replaced(Vec::new())
            }
            Err(error) => {
                tracing::warn!(%kind, %error, "watch interrupted; it starts again");
                listing = false;
                let now = Instant::now();
                watches.failed(kind.clone(), now);
                // After this long many changes may be missing, and a watch does not show when it has caught up. A list
                // does.
                if has_missed_something(&error) || watches.is_broken(&kind, now) {
                    return Outcome::Expired;
                }
                continue;
            }
        };
        if inputs.send(wrap(update)).await.is_err() {
            return Outcome::Unheard;
        }
        watches.told(&kind);
        if unserved {
            return Outcome::Expired;
        }
    }
}

fn decode<K: Resource>(guard: Salvaged<K>) -> Update<K> {
    match guard.0 {
        Ok(object) => Update::Applied(Box::new(object)),
        Err(invalid) => {
            let key = ObjectKey::new(
                invalid.metadata.namespace.clone().unwrap_or_default(),
                invalid.metadata.name.clone().unwrap_or_default(),
            );
            Update::Invalid(key, invalid.error)
        }
    }
}
