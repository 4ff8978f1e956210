//! Watches of the API server, turned into one stream of [`Input`]s for the arbiter.
//!
//! A re-list arrives as one [`Update::Replaced`], so that the model never shows half a cluster; an object that cannot
//! be decoded arrives as [`Update::Invalid`] and stops nobody (see `DeserializeGuard`).

use crate::input::{Input, Update, key_of};
use crate::watches::{EverySoOften, Watches};
use futures::StreamExt;
use giveway_planner::model::ObjectKey;
use kube::core::DeserializeGuard;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How many stored plans are listed at a time.
const PLANS_A_PAGE: u32 = 16;

fn decode<K: Resource>(guard: DeserializeGuard<K>) -> Update<K> {
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

async fn follow<K>(feed: Feed, config: watcher::Config, wrap: fn(Update<K>) -> Input)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let Feed { client, inputs, watches } = feed;
    let api: Api<DeserializeGuard<K>> = Api::all(client);
    let mut events = watcher(api, config).backoff(EverySoOften).boxed();
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let update = match event {
            Ok(watcher::Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(watcher::Event::InitApply(object)) => {
                listed.push(decode(object));
                continue;
            }
            Ok(watcher::Event::InitDone) => Update::Replaced(std::mem::take(&mut listed)),
            Ok(watcher::Event::Apply(object)) => decode(object),
            Ok(watcher::Event::Delete(object)) => Update::Deleted(key_of(&object)),
            // An older server: there are none of this kind.
            Err(watcher::Error::InitialListFailed(kube::Error::Api(status))) if status.code == 404 => {
                tracing::debug!(kind = %K::kind(&()), "the API server does not have this kind");
                Update::Replaced(Vec::new())
            }
            Err(error) => {
                tracing::warn!(kind = %K::kind(&()), %error, "watch interrupted; it starts again");
                watches.failed(K::kind(&()), Instant::now());
                continue;
            }
        };
        watches.told(&K::kind(&()));
        if inputs.send(wrap(update)).await.is_err() {
            return;
        }
    }
}

/// What every watch needs.
#[derive(Clone)]
struct Feed {
    client: Client,
    inputs: mpsc::Sender<Input>,
    watches: Watches,
}

/// Starts one watch a kind. None of the tasks ends before the receiver of `inputs` is dropped.
pub fn start(client: &Client, inputs: &mpsc::Sender<Input>, watches: &Watches) -> JoinSet<()> {
    let feed = || Feed { client: client.clone(), inputs: inputs.clone(), watches: watches.clone() };
    let all = watcher::Config::default;
    let mut tasks = JoinSet::new();
    tasks.spawn(follow(feed(), all(), Input::Class));
    tasks.spawn(follow(feed(), all(), Input::Namespace));
    tasks.spawn(follow(feed(), all(), Input::Node));
    tasks.spawn(follow(feed(), all(), Input::Group));
    tasks.spawn(follow(feed(), all(), Input::Workload));
    tasks.spawn(follow(feed(), all(), Input::Budget));
    tasks.spawn(follow(feed(), all(), Input::Pod));
    tasks.spawn(follow(feed(), all(), Input::Volume));
    tasks.spawn(follow(feed(), all(), Input::Claim));
    tasks.spawn(follow(feed(), all(), Input::StorageClass));
    tasks.spawn(follow(feed(), all(), Input::DeviceClass));
    // A part of a plan may take most of a mebibyte: a page holds few of them.
    tasks.spawn(follow(feed(), all().page_size(PLANS_A_PAGE), Input::Preemption));
    tasks
}
