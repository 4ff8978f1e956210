//! One watch, turned into [`Input`]s for the arbiter.
//!
//! A re-list arrives as one [`Update::Replaced`], so that the model never shows half a cluster; an object that cannot
//! be decoded arrives as [`Update::Invalid`] and stops nobody (see [`giveway_crds::answers`]).

use crate::input::{Input, Update, key_of};
use crate::watches::{EverySoOften, Watches};
use futures::StreamExt;
use giveway_crds::answers::Salvaged;
use giveway_planner::model::ObjectKey;
use giveway_serving::patience;

use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::fmt::Debug;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// How long a page of a list may take, until it is read.
const A_PAGE: Duration = patience::LIST.saturating_mul(2);

/// What every watch needs.
#[derive(Clone)]
pub(crate) struct Feed {
    pub(crate) client: Client,
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) watches: Watches,
}

/// Why a watch ended.
pub(crate) enum Outcome {
    /// Nobody listens any more.
    Unheard,
    /// The API server does not have the kind. That there are none was told.
    Missing,
    /// A list has to begin anew: the API server does not know any more what came after the last object that was heard of, or the
    /// watch was broken for too long. The watcher of the library lists when an event says so, and asks for the same again for ever
    /// when it is a status.
    Expired,
}

/// How a kind is watched.
pub(crate) fn lasting() -> watcher::Config {
    watcher::Config::default().timeout(patience::STREAM)
}

/// Whether something was missed that only a list tells: the API server has forgotten what came after the last one, or an event could not
/// be read, after which the watcher of the library goes on with the next.
fn has_missed_something(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 410,
        watcher::Error::WatchFailed(error) => matches!(error, kube::Error::SerdeError(_)),
        _ => false,
    }
}

/// Watches one kind until nobody listens, or the watch has to begin anew.
pub(crate) async fn follow<K>(
    feed: &Feed,
    api: Api<Salvaged<K>>,
    config: watcher::Config,
    kind: Cow<'static, str>,
    wrap: fn(Update<K>) -> Input,
) -> Outcome
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Clone,
{
    let Feed { inputs, watches, .. } = feed;
    let mut missing = false;
    let mut events = watcher(api, config).backoff(EverySoOften).boxed();
    let mut listed = Vec::new();
    // Only a list must tell something: a watch may have nothing to tell.
    let mut listing = false;
    loop {
        let next = events.next();
        let event = if listing { tokio::time::timeout(A_PAGE, next).await } else { Ok(next.await) };
        let Ok(event) = event else {
            tracing::warn!(%kind, "a list stands still; it begins anew");
            watches.failed(kind.clone(), Instant::now());
            return Outcome::Expired;
        };
        let Some(event) = event else { break };
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
            // An older server: there are none of this kind.
            Err(watcher::Error::InitialListFailed(kube::Error::Api(status))) if status.code == 404 => {
                tracing::debug!(%kind, "the API server does not have this kind");
                missing = true;
                Update::Replaced(Vec::new())
            }
            Err(error) => {
                tracing::warn!(%kind, %error, "watch interrupted; it starts again");
                listing = false;
                let now = Instant::now();
                watches.failed(kind.clone(), now);
                // After so long there is much to catch up with, and nothing tells when that is done. A list does.
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
        if missing {
            return Outcome::Missing;
        }
    }
    Outcome::Missing
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
