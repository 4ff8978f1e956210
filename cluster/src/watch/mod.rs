//! Lists the objects of a kind and then watches their changes.
//!
//! A list is consistent: the API server answers it from its store, and not from a cache that may be older. It is requested page by page,
//! and each object is delivered as soon as it has arrived. After a watch has failed, the next one continues at the last version that was
//! read; where the API server does not have the changes since then any more, everything is listed again.

mod lines;
pub mod permitted;

use crate::list::ListPage;
use crate::objects::{DecodedObject, KindFields, ReadObject, TrimmedObject};
use futures::StreamExt as _;
use kube::api::{ListParams, WatchParams};
use kube::{Api, Client, Resource};
use lines::{Lines, WatchLine};
use serde_json::Value;
use std::marker::PhantomData;
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
pub enum Event<O> {
    /// A list begins: until [`Event::Complete`], objects that were deleted meanwhile still seem to exist.
    Begun,
    /// An object of the list.
    Listed(O),
    /// The list is complete: an object that was not in it does not exist.
    Complete,
    /// An object was added or modified.
    Applied(O),
    /// An object was deleted.
    Deleted(O),
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

    /// Returns true if the client has no right to list or to watch the kind.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::List(kube::Error::Api(status)) | Self::Watch(kube::Error::Api(status)) if status.code == 403)
    }
}

/// Returns true if this error of a watch means that changes are lost, so that everything must be listed again: the API server does not have
/// the changes any more (410), or an event could not be parsed.
fn has_missed_something(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 410,
        kube::Error::SerdeError(_) => true,
        _ => false,
    }
}

enum ReaderState {
    /// Nothing is known.
    Empty,
    /// A page arrives.
    Listing(Box<ListPage>),
    /// Everything up to this version is known.
    Known(String),
    /// The changes since this version arrive.
    Watching {
        version: String,
        lines: Lines,
        /// When the watch began; `None` after its first event.
        silent_since: Option<Instant>,
    },
}

/// Reads the objects of one kind.
pub struct KindReader<O> {
    client: Client,
    row: &'static KindFields,
    path: String,
    params: WatchParams,
    state: ReaderState,
    object: PhantomData<fn() -> O>,
}

impl<K: Resource + TrimmedObject> KindReader<DecodedObject<K>> {
    /// Creates a reader that lists and watches the objects of `api` that `params` selects. The time limit in `params` is that of one watch
    /// request: after it the API server ends the request, and the reader continues with a new one.
    pub fn new(api: Api<K>, params: WatchParams) -> Self {
        let path = api.resource_url().to_owned();
        let (client, row) = (api.into_client(), K::row());
        Self { client, row, path, params, state: ReaderState::Empty, object: PhantomData }
    }
}

impl KindReader<Value> {
    /// Creates a reader that lists and watches the objects of the kind with this row in the table of kinds, in `namespace`, or for `None`
    /// in the whole cluster. It is for a program that chooses kinds at run time.
    pub fn of_row(client: Client, row: &'static KindFields, namespace: Option<&str>, params: WatchParams) -> Self {
        let path = row.path_in(namespace);
        Self { client, row, path, params, state: ReaderState::Empty, object: PhantomData }
    }
}

impl<O: ReadObject> KindReader<O> {
    /// Returns true if a list is in progress, or begins with the next call of [`next`](Self::next). A list must deliver events without long
    /// pauses; a watch may be silent.
    pub fn is_listing(&self) -> bool {
        matches!(self.state, ReaderState::Empty | ReaderState::Listing(_))
    }

    /// Requests an interrupted watch again and returns when the API server has accepted it, so that the caller knows that the API server
    /// answers again. ([`KindReader::next`] does so too, but returns only with the next change.) Does nothing while a list or watch is in
    /// progress.
    ///
    /// # Errors
    /// See [`WatchFailure`]. The caller waits before the next call.
    pub async fn resume(&mut self) -> Result<(), WatchFailure> {
        let ReaderState::Known(version) = &self.state else { return Ok(()) };
        let version = version.clone();
        let limit = self.longest_silence();
        let opened = tokio::time::timeout(limit, lines::open(&self.client, &self.path, &self.params, &version)).await;
        match opened {
            Ok(Ok(lines)) => {
                let silent_since = Some(Instant::now());
                self.state = ReaderState::Watching { version, lines, silent_since };
                Ok(())
            }
            Ok(Err(error)) => Err(self.failed(error)),
            Err(_) => Err(WatchFailure::Silent(limit)),
        }
    }

    /// Waits for the next event of the list, and after it of the watch. If the returned future is dropped before it is complete, a list
    /// begins again with the next call, and a watch continues.
    ///
    /// # Errors
    /// See [`WatchFailure`]. The caller waits before the next call.
    pub async fn next(&mut self) -> Result<Event<O>, WatchFailure> {
        loop {
            match std::mem::replace(&mut self.state, ReaderState::Empty) {
                ReaderState::Empty => {
                    self.state = ReaderState::Listing(Box::new(self.page(None).await?));
                    return Ok(Event::Begun);
                }
                ReaderState::Listing(mut page) => match page.next(self.row).await.map_err(WatchFailure::List)? {
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
                    self.state = ReaderState::Known(version);
                    self.resume().await?;
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

    /// Requests a page of the list: the first one for `None`, otherwise the one with this `continue` token.
    fn page(&self, token: Option<&str>) -> impl Future<Output = Result<ListPage, WatchFailure>> + Send + use<O> {
        let params = ListParams {
            label_selector: self.params.label_selector.clone(),
            field_selector: self.params.field_selector.clone(),
            limit: Some(A_PAGE),
            continue_token: token.map(str::to_owned),
            ..ListParams::default()
        };
        let (client, path) = (self.client.clone(), self.path.clone());
        async move { ListPage::request(&client, &path, &params).await.map_err(WatchFailure::List) }
    }

    /// Waits for the next line of the watch, and returns its event; `None` for a line that is a bookmark or incomplete, and if the watch
    /// has ended.
    async fn watched(&mut self) -> Result<Option<Event<O>>, WatchFailure> {
        let Some(line) = self.line().await? else { return Ok(None) };
        let read = match lines::read(&line) {
            Ok(Some(WatchLine::Applied(text))) => O::decode(self.row, text).map(Event::Applied),
            Ok(Some(WatchLine::Deleted(text))) => O::decode(self.row, text).map(Event::Deleted),
            Ok(Some(WatchLine::Bookmark(version))) => {
                self.has_read(Some(&version));
                return Ok(None);
            }
            Ok(None) => return Ok(None),
            Err(error) => return Err(self.failed(error)),
        };
        let event = read.map_err(|error| self.failed(kube::Error::SerdeError(error)))?;
        if let Event::Applied(object) | Event::Deleted(object) = &event {
            self.has_read(object.version());
        }
        Ok(Some(event))
    }

    /// Waits for the next line of the watch; `None` if the watch has ended and can be continued.
    async fn line(&mut self) -> Result<Option<String>, WatchFailure> {
        let limit = self.longest_silence();
        let ReaderState::Watching { version, lines, silent_since } = &mut self.state else { return Ok(None) };
        let Ok(next) = tokio::time::timeout(limit, lines.next()).await else {
            self.state = ReaderState::Known(std::mem::take(version));
            return Err(WatchFailure::Silent(limit));
        };
        match next {
            Some(Ok(line)) => Ok(Some(line)),
            Some(Err(error)) if !lines::is_end(&error) => Err(self.failed(kube::Error::ReadEvents(error))),
            Some(Err(_)) | None => {
                let is_short = silent_since.is_some_and(|since| since.elapsed() < TOO_SHORT);
                self.state = ReaderState::Known(std::mem::take(version));
                if is_short { Err(WatchFailure::Ended) } else { Ok(None) }
            }
        }
    }

    /// Records that the watch has delivered an event, and every change up to the resource version `read`, if the event has one.
    fn has_read(&mut self, read: Option<&str>) {
        if let ReaderState::Watching { version, silent_since, .. } = &mut self.state {
            *silent_since = None;
            if let Some(read) = read {
                read.clone_into(version);
            }
        }
    }

    /// Returns how long a watch may be silent before its connection counts as dead: a little longer than the time limit of the watch.
    fn longest_silence(&self) -> Duration {
        Duration::from_secs(self.params.timeout.unwrap_or(UNLIMITED).into()) + MARGIN
    }

    /// Ends the watch because of this error, and returns the failure for the caller. The next call continues the watch from the last
    /// resource version, or lists again if changes were missed.
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
