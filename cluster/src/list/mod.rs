//! One page of a list, whose objects are decoded while the response arrives.

pub mod split;

use crate::objects::{KindFields, ReadObject};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::Response;
use http_body_util::{BodyExt, Limited};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::ListParams;
use kube::client::Body;
use kube::core::{Request, Status};
use kube::{Client, Error};
use serde_json::Value;
use split::{ListPart, Splitter};
use std::collections::VecDeque;

/// Maximum size of the message of an error in bytes.
const LONGEST_ERROR: usize = 1 << 20;

/// The response to the request for a page.
pub struct ListPage {
    text: BoxStream<'static, Result<Bytes, Error>>,
    splitter: Splitter,
    /// Objects that have arrived and are not decoded yet: at most those of one piece of the response.
    items: VecDeque<Vec<u8>>,
    metadata: ListMeta,
}

/// Collects the parts of a page.
struct Parts<'p> {
    items: &'p mut VecDeque<Vec<u8>>,
    metadata: Option<Vec<u8>>,
}

impl Extend<ListPart> for Parts<'_> {
    fn extend<I: IntoIterator<Item = ListPart>>(&mut self, parts: I) {
        for part in parts {
            match part {
                ListPart::Item(text) => self.items.push_back(text),
                ListPart::Metadata(text) => self.metadata = Some(text),
            }
        }
    }
}

impl ListPage {
    /// Requests one page of the list of objects at this API path. `params` has the selectors, the maximum number of objects, and the
    /// `continue` token of the page.
    ///
    /// # Errors
    /// The API server cannot be reached, or answers with an error.
    pub async fn request(client: &Client, path: &str, params: &ListParams) -> Result<Self, Error> {
        let request = Request::new(path).list(params).map_err(Error::BuildRequest)?;
        let response = client.send(request.map(Body::from)).await?;
        if !response.status().is_success() {
            return Err(error_of(response).await);
        }
        let text = response.into_body().into_data_stream().boxed();
        Ok(Self { text, splitter: Splitter::default(), items: VecDeque::new(), metadata: ListMeta::default() })
    }

    /// Waits for the next object of the page and decodes the fields of it that `kind` lists for the operator and the webhook; `None` after
    /// the last object.
    ///
    /// # Errors
    /// The response breaks off, or is not a list.
    pub async fn next<O: ReadObject>(&mut self, kind: &KindFields) -> Result<Option<O>, Error> {
        let text = self.text_of_next().await?.map(String::from_utf8).transpose().map_err(Error::FromUtf8)?;
        text.map(|text| O::decode(kind, &text)).transpose().map_err(Error::SerdeError)
    }

    /// Waits for the next object of the page and decodes the fields of it that `kind` lists for the command line; `None` after the last
    /// object.
    ///
    /// # Errors
    /// The response breaks off, or is not a list.
    pub async fn next_value(&mut self, kind: &KindFields) -> Result<Option<Value>, Error> {
        let text = self.text_of_next().await?;
        text.map(|text| kind.decode(&text)).transpose().map_err(Error::SerdeError)
    }

    /// Waits for the next object of the page and returns its JSON text; `None` after the last object.
    async fn text_of_next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            if let Some(item) = self.items.pop_front() {
                return Ok(Some(item));
            }
            let Some(piece) = self.text.next().await else {
                self.splitter.end().map_err(|error| Error::Service(error.into()))?;
                return Ok(None);
            };
            let mut parts = Parts { items: &mut self.items, metadata: None };
            self.splitter.read(&piece?, &mut parts).map_err(|error| Error::Service(error.into()))?;
            if let Some(metadata) = parts.metadata {
                self.metadata = serde_json::from_slice(&metadata).map_err(Error::SerdeError)?;
            }
        }
    }

    /// Returns the `continue` token of the next page; `None` if this page is the last one, or not all of its objects were read yet.
    pub fn next_page(&self) -> Option<&str> {
        self.metadata.continue_.as_deref().filter(|token| !token.is_empty())
    }

    /// Returns the resource version of the list, from which a watch continues. It is reliable only after the last object of the page was
    /// read: before, it may be empty.
    pub fn resource_version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }
}

/// Returns the error for a response whose HTTP status is no success: the Kubernetes `Status` in its body, or a `Status` with the text of
/// the body. If the body cannot be read, that is the error.
async fn error_of(response: Response<Body>) -> Error {
    let code = response.status().as_u16();
    let text = match Limited::new(response.into_body(), LONGEST_ERROR).collect().await {
        Ok(text) => text.to_bytes(),
        Err(error) => return Error::Service(error),
    };
    let status = serde_json::from_slice::<Status>(&text).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&text);
        Status::failure(text.trim_end(), "Failed to parse error data").with_code(code)
    });
    Error::Api(status.boxed())
}
