//! Removes `metadata.managedFields` from responses of the API server while they arrive. The field is most of an object,
//! few readers need it, and any client with write access can fill it with unparsable times or with fields nested too
//! deeply for the parser.
//!
//! Only the text is scanned: every field of that name whose value is a list gets an empty list. Nothing else changes,
//! and only the position of the scanner is kept.

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use http_body::{Body, Frame};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tower::{Layer, Service};

/// Name of the field.
const NAME: &[u8] = b"managedFields";

/// Returns true if `managedFields` stay in the response to a request with this path: for objects that only administrators
/// write and whose writer matters. (The Secrets are those of Giveway's own namespace.) The path is matched from its
/// beginning, because users choose the names in it.
fn is_kept(path: &str) -> bool {
    let mut parts = [""; 6];
    let mut given = path.trim_start_matches('/').split('/');
    parts.iter_mut().zip(&mut given).for_each(|(part, given)| *part = given);
    match parts {
        ["apis", "scheduling.k8s.io", _, kind, ..] => kind == "priorityclasses",
        ["apis", "admissionregistration.k8s.io", _, kind, ..] => kind.ends_with("webhookconfigurations"),
        ["api", "v1", "namespaces", _, "secrets", name] => name.starts_with("giveway-"),
        _ => false,
    }
}

/// Tower layer that wraps a client in [`LeavingOut`].
#[derive(Clone, Copy, Debug, Default)]
pub struct LeaveOut;

impl<S> Layer<S> for LeaveOut {
    type Service = LeavingOut<S>;

    fn layer(&self, inner: S) -> Self::Service {
        LeavingOut(inner)
    }
}

/// A client whose responses have no managed fields.
#[derive(Clone, Debug)]
pub struct LeavingOut<S>(S);

impl<S, B, A> Service<Request<B>> for LeavingOut<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Future: Send + 'static,
{
    type Response = Response<Shortened<A>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let scanner = (!is_kept(request.uri().path())).then(ManagedFieldsScanner::default);
        let answer = self.0.call(request);
        Box::pin(async move {
            let mut answer = answer.await?;
            answer.headers_mut().remove(CONTENT_LENGTH);
            Ok(answer.map(|body| Shortened { body, scanner }))
        })
    }
}

/// A response body without managed fields.
#[derive(Debug)]
pub struct Shortened<A> {
    body: A,
    scanner: Option<ManagedFieldsScanner>,
}

impl<A: Body<Data = Bytes> + Unpin> Body for Shortened<A> {
    type Data = Bytes;
    type Error = A::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, A::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.body).poll_frame(context));
        let Some(scanner) = &mut this.scanner else { return Poll::Ready(frame) };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(|data| scanner.strip_piece(data)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

/// Returns the JSON text of an object or list with every list `managedFields` replaced by an empty one.
pub fn left_out_of(text: Bytes) -> Bytes {
    ManagedFieldsScanner::default().strip_piece(text)
}

/// Position of a scanner in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// Between strings.
    #[default]
    Outside,
    /// In a string. `escaped`: after a backslash. `named`: number of bytes that match the name, as long as all do.
    String { escaped: bool, named: Option<usize> },
    /// After a string that equals the name.
    Named,
    /// After the colon that follows the name.
    Colon,
    /// In the removed list, at this depth of brackets; `string`: in a string of it; `escaped`: there after a backslash.
    Inside { depth: u64, string: bool, escaped: bool },
}

/// Empties the lists `managedFields` in a JSON text that arrives in pieces.
#[derive(Clone, Copy, Debug, Default)]
struct ManagedFieldsScanner(At);

impl ManagedFieldsScanner {
    /// Returns the next piece of a JSON text without the items of its `managedFields` lists, and keeps the position in the text
    /// for the piece after it.
    fn strip_piece(&mut self, piece: Bytes) -> Bytes {
        let mut left: Option<Vec<u8>> = None;
        // Start of the bytes that are to be kept and are not yet in `left`.
        let mut from = 0;
        if matches!(self.0, At::Inside { .. }) {
            left = Some(Vec::new());
        }
        for (index, byte) in piece.iter().copied().enumerate() {
            let before = self.0;
            self.0 = next(before, byte);
            match (before, self.0) {
                (At::Colon, At::Inside { .. }) => {
                    // The opening and the closing bracket are kept.
                    left.get_or_insert_default().extend_from_slice(piece.get(from..=index).unwrap_or_default());
                    from = piece.len();
                }
                (At::Inside { .. }, At::Outside) => from = index,
                (At::Inside { .. }, _) => from = piece.len(),
                _ => {}
            }
        }
        match left {
            None => piece,
            Some(mut left) => {
                left.extend_from_slice(piece.get(from..).unwrap_or_default());
                left.into()
            }
        }
    }
}

/// Returns the position in the JSON text after its next byte; `at` is the position before.
fn next(at: At, byte: u8) -> At {
    match (at, byte) {
        (At::Inside { depth, string: true, escaped: true }, _) => At::Inside { depth, string: true, escaped: false },
        (At::Inside { depth, string: true, .. }, b'\\') => At::Inside { depth, string: true, escaped: true },
        (At::Inside { depth, string, .. }, b'"') => At::Inside { depth, string: !string, escaped: false },
        (At::Inside { depth, string: false, .. }, b'[' | b'{') => {
            At::Inside { depth: depth.saturating_add(1), string: false, escaped: false }
        }
        (At::Inside { depth: 1, string: false, .. }, b']' | b'}') => At::Outside,
        (At::Inside { depth, string: false, .. }, b']' | b'}') => {
            At::Inside { depth: depth.saturating_sub(1), string: false, escaped: false }
        }
        (At::Inside { .. }, _) => at,
        (At::String { escaped: true, .. }, _) => At::String { escaped: false, named: None },
        (At::String { .. }, b'\\') => At::String { escaped: true, named: None },
        (At::String { named, .. }, b'"') => {
            if named == Some(NAME.len()) {
                At::Named
            } else {
                At::Outside
            }
        }
        (At::String { named, .. }, _) => {
            let named = named.filter(|length| NAME.get(*length) == Some(&byte)).map(|length| length + 1);
            At::String { escaped: false, named }
        }
        (At::Named, b':') => At::Colon,
        (At::Colon, b'[') => At::Inside { depth: 1, string: false, escaped: false },
        (_, b'"') => At::String { escaped: false, named: Some(0) },
        (At::Named | At::Colon, b' ' | b'\t' | b'\r' | b'\n') => at,
        _ => At::Outside,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text without the lists; checks that every split into two pieces gives the same result.
    fn left(text: &str) -> String {
        let whole = ManagedFieldsScanner::default().strip_piece(Bytes::copy_from_slice(text.as_bytes()));
        for cut in 0..=text.len() {
            let (first, second) = text.as_bytes().split_at(cut);
            let mut scanner = ManagedFieldsScanner::default();
            let mut parts = scanner.strip_piece(Bytes::copy_from_slice(first)).to_vec();
            parts.extend_from_slice(&scanner.strip_piece(Bytes::copy_from_slice(second)));
            assert_eq!(parts, whole.to_vec(), "cut at {cut}");
        }
        String::from_utf8(whole.to_vec()).unwrap()
    }

    #[test]
    fn the_list_is_removed_at_any_position_and_depth() {
        let deep = "{\"f:a\":".repeat(300) + "1" + &"}".repeat(300);
        let text = format!(
            r#"{{"items":[{{"metadata":{{"name":"a","managedFields":[{{"time":"9999-12-31T23:59:59Z","fieldsV1":{deep}}},{{"x":"]}}\"\\"}}],"uid":"u"}}}},{{"metadata":{{"managedFields": [ ] }}}}]}}"#
        );
        let short =
            r#"{"items":[{"metadata":{"name":"a","managedFields":[],"uid":"u"}},{"metadata":{"managedFields": [] }}]}"#;
        assert_eq!(left(&text), short);
    }

    #[test]
    fn nothing_else_is_touched() {
        for text in [
            r#"{"annotations":{"managedFields":"[1]","a":"managedFields","b\"managedFields":"x"},"managedFieldsX":[1],"XmanagedFields":[2]}"#,
            r#"["managedFields",[1,2]]"#,
            r#"{"managedFields":null,"a":[1]}"#,
            r#"{"managedFields":{"a":[1]}}"#,
            "{\"metadata\":{\"name\":\"ä\"}}\n{\"type\":\"ADDED\"}\n",
            r#"{"managed\u0046ields":[1]}"#,
        ] {
            assert_eq!(left(text), text);
        }
    }

    #[test]
    fn no_name_that_a_tenant_gives_switches_it_off() {
        for path in [
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            "/apis/scheduling.k8s.io/v1/priorityclasses/high",
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/giveway",
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            "/api/v1/namespaces/giveway-system/secrets/giveway-webhook-tls",
        ] {
            assert!(is_kept(path), "{path}");
        }
        for path in [
            "/api/v1/namespaces/team/pods/priorityclasses",
            "/api/v1/namespaces/priorityclasses/pods/a-webhookconfigurations",
            "/api/v1/namespaces/priorityclasses",
            "/api/v1/namespaces/team/pods/webhookconfigurations/status",
            "/api/v1/namespaces/secrets/pods/giveway-a",
            "/api/v1/namespaces/team/secrets",
            "/api/v1/namespaces/team/secrets/other",
            "/apis/scheduling.k8s.io/v1beta1/namespaces/priorityclasses/podgroups/priorityclasses",
            "/apis/apps/v1/priorityclasses",
            "/api/v1/pods",
            "",
        ] {
            assert!(!is_kept(path), "{path}");
        }
    }

    #[test]
    fn a_piece_without_the_list_is_not_copied() {
        let piece = Bytes::from_static(b"{\"metadata\":{\"name\":\"a\"}}");
        assert_eq!(ManagedFieldsScanner::default().strip_piece(piece.clone()).as_ptr(), piece.as_ptr());
    }
}
