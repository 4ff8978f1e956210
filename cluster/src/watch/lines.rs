//! The response to a watch: one line of JSON for each event. Nothing here depends on the kind of the objects, so that it exists once in a
//! program and not once for each kind.

use futures::stream::BoxStream;
use futures::{AsyncBufReadExt as _, StreamExt as _};
use kube::api::WatchParams;
use kube::core::watch::Bookmark;
use kube::core::{Request, Status};
use kube::{Client, Error};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::io;

/// The lines of a response.
pub(super) type Lines = BoxStream<'static, io::Result<String>>;

/// An event, with the text of its object.
#[derive(Debug)]
pub(super) enum WatchLine<'l> {
    /// An object was added or modified.
    Applied(&'l str),
    /// An object was deleted.
    Deleted(&'l str),
    /// No object, but the version that was read up to here.
    Bookmark(String),
}

/// Requests a watch of the objects at this API path: the changes since the resource version `version`, one line for each event.
///
/// # Errors
/// The API server cannot be reached, or answers with an error.
pub(super) async fn open(client: &Client, path: &str, params: &WatchParams, version: &str) -> Result<Lines, Error> {
    let request = Request::new(path).watch(params, version).map_err(Error::BuildRequest)?;
    Ok(client.request_stream(request).await?.lines().boxed())
}

/// Parses a line of a watch; `None` for a line whose end is missing, because the response ended there: the next watch sends that event
/// again.
///
/// # Errors
/// The line is not a watch event, or is an `ERROR` event.
pub(super) fn read(line: &str) -> Result<Option<WatchLine<'_>>, Error> {
    #[derive(Deserialize)]
    struct WatchEventParts<'l> {
        #[serde(rename = "type", borrow)]
        type_: Cow<'l, str>,
        #[serde(borrow)]
        object: &'l RawValue,
    }

    let WatchEventParts { type_, object } = match serde_json::from_str(line) {
        Ok(parts) => parts,
        Err(error) if error.is_eof() => return Ok(None),
        Err(error) => return Err(Error::SerdeError(error)),
    };
    let object = object.get();
    Ok(Some(match &*type_ {
        "ADDED" | "MODIFIED" => WatchLine::Applied(object),
        "DELETED" => WatchLine::Deleted(object),
        "BOOKMARK" => {
            let bookmark: Bookmark = serde_json::from_str(object).map_err(Error::SerdeError)?;
            WatchLine::Bookmark(bookmark.metadata.resource_version)
        }
        "ERROR" => {
            let status: Status = serde_json::from_str(object).map_err(Error::SerdeError)?;
            return Err(Error::Api(status.boxed()));
        }
        other => return Err(Error::SerdeError(serde_json::Error::custom(format!("unknown type of event {other:?}")))),
    }))
}

/// Returns true if `error`, an error of reading a watch, only means that the other end closed the connection, as a load balancer or a
/// stopping API server does. Such a watch is continued at once, like one that the API server ended.
pub(super) fn is_end(error: &io::Error) -> bool {
    if error.to_string().contains("unexpected EOF during chunk") {
        return true;
    }
    let mut next = error.get_ref().map(|cause| cause as &(dyn std::error::Error + 'static));
    while let Some(cause) = next {
        if cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof) {
            return true;
        }
        next = cause.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_object_is_found_wherever_it_stands() {
        let added = r#"{"type": "ADDED", "object": {"a": [1, "}"]}}"#;
        assert!(matches!(read(added).unwrap(), Some(WatchLine::Applied(r#"{"a": [1, "}"]}"#))));
        let deleted = r#"{"object":{},"other":1,"type":"DELETED"}"#;
        assert!(matches!(read(deleted).unwrap(), Some(WatchLine::Deleted("{}"))));
        let bookmark =
            r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}"#;
        assert!(matches!(read(bookmark).unwrap(), Some(WatchLine::Bookmark(version)) if version == "7"));
    }

    #[test]
    fn a_line_without_an_end_is_no_event_and_any_other_text_is_an_error() {
        let whole = r#"{"type": "ADDED", "object": {"a": 1}}"#;
        for end in 1..whole.len() {
            assert!(matches!(read(&whole[..end]), Ok(None)), "{}", &whole[..end]);
        }
        for wrong in
            [r#"{"type":"MOVED","object":{}}"#, r#"{"type":"ADDED"}"#, "[]", "{}x", r#"{"type":"ADDED","object":[}"#]
        {
            assert!(matches!(read(wrong), Err(Error::SerdeError(_))), "{wrong}");
        }
        let status = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"old","reason":"Expired","code":410}}"#;
        assert!(matches!(read(status), Err(Error::Api(status)) if status.code == 410));
    }

    #[test]
    fn a_closed_connection_ends_a_watch_and_another_error_does_not() {
        let closed = io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed the connection");
        assert!(is_end(&io::Error::other(Error::ReadEvents(closed))));
        assert!(is_end(&io::Error::other("unexpected EOF during chunk size line")));
        assert!(!is_end(&io::Error::other(io::Error::from(io::ErrorKind::ConnectionReset))));
    }
}
