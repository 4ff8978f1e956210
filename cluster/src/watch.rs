//! Lists the objects of a kind and then watches their changes.
//!
//! A list is consistent: the API server answers it from its store, and not from a cache that may be older. It is requested page by page,
//! and each object is delivered as soon as it has arrived. After a watch has failed, the next one continues at the last version that was
//! read; where the API server does not have the changes since then any more, everything is listed again.

use crate::list::ListPage;
use crate::objects::{Kept, Salvaged};
use futures::StreamExt;
use futures::stream::BoxStream;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::Duration;
use thiserror::Error;
use tokio::time::Instant;

/// Number of objects of a page. They are decoded one by one, so it does not matter how large they are.
const A_PAGE: u32 = 500;

/// A watch that ends within this time without an event is an error, so that it is not repeated at once for ever.
const TOO_SHORT: Duration = Duration::from_secs(1);

/// How long the API server is asked to keep a watch without a time limit: the client library's default.
const UNLIMITED: u32 = 290;

/// A watch that delivers nothing for this much longer than the API server was asked to keep it has a dead connection.
const MARGIN: Duration = Duration::from_secs(5);

/// What a reader delivers.
#[derive(Debug)]
pub enum Event<K> {
    /// A list begins: until [`Event::Complete`], objects that were deleted meanwhile still seem to exist.
    Begun,
    /// An object of the list.
    Listed(Salvaged<K>),
    /// The list is complete: an object that was not in it does not exist.
    Complete,
    /// An object was added or modified.
    Applied(Salvaged<K>),
    /// An object was deleted.
    Deleted(Salvaged<K>),
}

/// Why a list or watch ended.
#[derive(Debug, Error)]
pub enum WatchFailure {
    /// The list failed. It begins again with the next call.
    #[error("list: {0}")]
    List(#[source] kube::Error),
    /// The watch failed. The next call continues it.
    #[error("watch: {0}")]
    Watch(#[source] kube::Error),
    /// The watch ended at once, without an event. The next call continues it.
    #[error("watch: the API server ends it at once")]
    Ended,
    /// The watch delivered nothing for this time, although the API server should have ended it. The next call continues it.
    #[error("watch: the API server sent nothing for {0:?} and did not end it")]
    Silent(Duration),
    /// Changes were missed. The next call lists everything again.
    #[error("watch: changes were missed: {0}")]
    Missed(#[source] kube::Error),
}

impl WatchFailure {
    /// Returns true if the API server does not serve the kind that was to be listed.
    pub fn is_unserved(&self) -> bool {
        matches!(self, Self::List(kube::Error::Api(status)) if status.code == 404)
    }
}

/// Returns true if an error of a watch means that changes are lost: the API server does not have them any more, or an event could not be
/// parsed.
fn has_missed_something(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 410,
        kube::Error::SerdeError(_) => true,
        _ => false,
    }
}

enum ReaderState<K> {
    /// Nothing is known.
    Empty,
    /// A page arrives.
    Listing(Box<ListPage>),
    /// Everything up to this version is known.
    Known(String),
    /// The changes since this version arrive.
    Watching {
        version: String,
        events: BoxStream<'static, kube::Result<WatchEvent<Salvaged<K>>>>,
        /// When the watch began; `None` after its first event.
        silent_since: Option<Instant>,
    },
}

/// Reads the objects of one kind.
pub struct Reader<K> {
    api: Api<Salvaged<K>>,
    client: Client,
    params: WatchParams,
    state: ReaderState<K>,
}

impl<K> Reader<K>
where
    K: Resource + Kept + Clone + Debug + DeserializeOwned + Send + 'static,
{
    /// Creates a reader of the objects that `params` selects. With the time limit of `params` the API server is asked to end a watch,
    /// which is then continued, as is one that is silent for longer.
    pub fn new(api: Api<Salvaged<K>>, params: WatchParams) -> Self {
        Self { client: api.clone().into_client(), api, params, state: ReaderState::Empty }
    }

    /// Returns true if a list is in progress or begins with the next call. Only then must an event arrive within some time.
    pub fn is_listing(&self) -> bool {
        matches!(self.state, ReaderState::Empty | ReaderState::Listing(_))
    }

    /// Waits for the next event. If the returned future is dropped before it is complete, a list begins again.
    ///
    /// # Errors
    /// See [`WatchFailure`]. The caller waits before the next call.
    pub async fn next(&mut self) -> Result<Event<K>, WatchFailure> {
        loop {
            match std::mem::replace(&mut self.state, ReaderState::Empty) {
                ReaderState::Empty => {
                    self.state = ReaderState::Listing(Box::new(self.page(None).await?));
                    return Ok(Event::Begun);
                }
                ReaderState::Listing(mut page) => match page.next().await.map_err(WatchFailure::List)? {
                    Some(object) => {
                        self.state = ReaderState::Listing(page);
                        return Ok(Event::Listed(object));
                    }
                    None => match page.next_page() {
                        Some(token) => self.state = ReaderState::Listing(Box::new(self.page(Some(token)).await?)),
                        None => {
                            self.state = ReaderState::Known(page.resource_version().to_owned());
                            return Ok(Event::Complete);
                        }
                    },
                },
                ReaderState::Known(version) => {
                    self.state = ReaderState::Known(version.clone());
                    match self.api.watch(&self.params, &version).await {
                        Ok(events) => {
                            let silent_since = Some(Instant::now());
                            self.state = ReaderState::Watching { version, events: events.boxed(), silent_since };
                        }
                        Err(error) => return Err(self.failed(error)),
                    }
                }
                watching @ ReaderState::Watching { .. } => {
                    self.state = watching;
                    if let Some(event) = self.watched().await? {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// Requests a page of the list: the first one, or the one with this token.
    fn page(&self, token: Option<&str>) -> impl Future<Output = Result<ListPage, WatchFailure>> + Send + use<K> {
        let params = ListParams {
            label_selector: self.params.label_selector.clone(),
            field_selector: self.params.field_selector.clone(),
            limit: Some(A_PAGE),
            continue_token: token.map(str::to_owned),
            ..ListParams::default()
        };
        let (client, path) = (self.client.clone(), self.api.resource_url().to_owned());
        async move { ListPage::request(&client, &path, &params).await.map_err(WatchFailure::List) }
    }

    /// Waits for the next event of the watch; `None` if it only changed the state.
    async fn watched(&mut self) -> Result<Option<Event<K>>, WatchFailure> {
        let ReaderState::Watching { version, events, silent_since } = &mut self.state else { return Ok(None) };
        let limit = Duration::from_secs(self.params.timeout.unwrap_or(UNLIMITED).into()) + MARGIN;
        let Ok(next) = tokio::time::timeout(limit, events.next()).await else {
            self.state = ReaderState::Known(std::mem::take(version));
            return Err(WatchFailure::Silent(limit));
        };
        if let Some(Ok(event)) = &next {
            *silent_since = None;
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                    if let Some(read) = &object.meta().resource_version {
                        version.clone_from(read);
                    }
                }
                WatchEvent::Bookmark(bookmark) => version.clone_from(&bookmark.metadata.resource_version),
                WatchEvent::Error(_) => {}
            }
        }
        Ok(Some(match next {
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => Event::Applied(object),
            Some(Ok(WatchEvent::Deleted(object))) => Event::Deleted(object),
            Some(Ok(WatchEvent::Bookmark(_))) => return Ok(None),
            Some(Ok(WatchEvent::Error(status))) => return Err(self.failed(kube::Error::Api(status))),
            Some(Err(error)) => return Err(self.failed(error)),
            None => {
                let is_short = silent_since.is_some_and(|since| since.elapsed() < TOO_SHORT);
                self.state = ReaderState::Known(std::mem::take(version));
                return if is_short { Err(WatchFailure::Ended) } else { Ok(None) };
            }
        }))
    }

    /// Handles an error of a watch.
    fn failed(&mut self, error: kube::Error) -> WatchFailure {
        self.state = match std::mem::replace(&mut self.state, ReaderState::Empty) {
            ReaderState::Known(version) | ReaderState::Watching { version, .. } if !has_missed_something(&error) => {
                ReaderState::Known(version)
            }
            _ => return WatchFailure::Missed(error),
        };
        WatchFailure::Watch(error)
    }
}
