//! The HTTP server of the page, at 127.0.0.1 only. Every response forbids other scripts, frames and addresses than those of the page.

use super::page_error::{PageError, json};
use super::query::Query;
use super::reader::{AwaitedAnswer, Body, PageRequest};
use super::session::{Session, SessionVerdict};
use super::views::Views;
use super::{assets, cluster, history, plan};
use crate::overview::{Snapshot, State, queue};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, SET_COOKIE};
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// Maximum number of connections.
const CONNECTIONS: usize = 64;

/// Maximum time between two requests of a connection, and for the head of a request.
const PATIENCE: Duration = Duration::from_secs(60);

/// Maximum time until a page that waits for a change is answered without one, so that it learns how old its state is.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Maximum size of a pasted manifest, in bytes.
const LARGEST: usize = 4 << 20;

/// Headers of every response.
const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// The answer to the token. It loads the page itself, so that the browser sends the new cookie also if a link of another site led here.
const ENTRANCE: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta http-equiv=\"refresh\" content=\"0;url=/\">\n\
                        <title>Giveway</title>\n<p><a href=\"/\">Open the page of Giveway</a></p>\n</html>\n";

type Answer = Response<Full<Bytes>>;

/// What all requests share.
pub(super) struct PageServer {
    session: Mutex<Session>,
    state: Arc<State>,
    questions: mpsc::Sender<AwaitedAnswer>,
    /// One view is computed at a time.
    turn: Arc<Semaphore>,
    /// The views of the last revision.
    views: Mutex<Views>,
}

/// Accepts connections of browsers, at most [`CONNECTIONS`] at once, and answers their requests. Never ends.
pub(super) async fn serve(listener: TcpListener, page: Arc<PageServer>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let page = Arc::clone(&page);
                tokio::spawn(async move {
                    serve_browser(stream, page).await;
                    drop(slot);
                });
            }
            // Most likely no file descriptor is free.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Answers the HTTP requests of one connection until the browser closes it.
async fn serve_browser(stream: TcpStream, page: Arc<PageServer>) {
    let service = service_fn(move |request| {
        let page = Arc::clone(&page);
        async move { Ok::<_, Infallible>(page.answer(request).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    // A connection that the browser ends early needs no report.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

impl PageServer {
    /// Creates the server of the page. `state` is the cluster as it is known; `questions` is the queue of requests that need the API
    /// server.
    pub(super) fn new(session: Session, state: Arc<State>, questions: mpsc::Sender<AwaitedAnswer>) -> Self {
        let (session, turn) = (Mutex::new(session), Arc::new(Semaphore::new(1)));
        Self { session, state, questions, turn, views: Mutex::default() }
    }

    /// Returns the response to one request of a browser, after checking that it belongs to the session.
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        match self.admit(&head) {
            SessionVerdict::Granted => {}
            SessionVerdict::Exchanged(cookie) => return cookie_response(&cookie),
            SessionVerdict::Denied(status, why) => return text(status, why),
        }
        if let Some((content_type, file)) = assets::find(head.uri.path()).filter(|_| head.method == http::Method::GET) {
            return respond(StatusCode::OK, content_type, file);
        }
        let (content_type, outcome) = match (head.method.as_str(), head.uri.path()) {
            ("POST", "/api/plan") => match read_manifest(body).await {
                Ok(manifest) => (JSON, self.view(&head, Some(manifest)).await),
                Err(problem) => (JSON, Err(problem)),
            },
            ("POST", "/api/check") => (JSON, self.ask(PageRequest::Check).await.map(Bytes::from)),
            ("GET", "/api/object") => match PageRequest::object(&Query::of(head.uri.query())) {
                Ok(question) => (TEXT, self.ask(question).await.map(Bytes::from)),
                Err(problem) => (TEXT, Err(problem)),
            },
            ("GET", "/api/revision") => (JSON, self.revision(&Query::of(head.uri.query())).await),
            _ => (JSON, self.view(&head, None).await),
        };
        match outcome {
            Ok(body) => respond(StatusCode::OK, content_type, body),
            Err(problem) => text(problem.status, problem.message),
        }
    }

    /// Decides whether a request belongs to the session, by its headers and URL.
    fn admit(&self, head: &Parts) -> SessionVerdict {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).admit(head)
    }

    /// Returns number and age of the last snapshot as JSON. If the query says which one the page shows, first waits for another one, at
    /// most for 10 s.
    async fn revision(&self, query: &Query<'_>) -> Result<Bytes, PageError> {
        if let Some(shown) = query.after()? {
            self.state.changed(shown, LONGEST_WAIT).await;
        }
        json(&self.state.revision()).map(Bytes::from)
    }

    /// Returns the data of one view of the page as JSON. Path and query of the request select the view. A view without a manifest is
    /// computed once for each snapshot and URL, for all browsers; one for a manifest (the text to plan for) is computed for each
    /// request.
    async fn view(&self, head: &Parts, manifest: Option<String>) -> Result<Bytes, PageError> {
        let failed = |what: &str| PageError::new(StatusCode::INTERNAL_SERVER_ERROR, what);
        let turn = Arc::clone(&self.turn).acquire_owned().await.map_err(|_| failed("The page is closing."))?;
        let snapshot = self.state.snapshot().await;
        // It is the revision of the snapshot while that is held.
        let revision = self.state.revision().revision;
        // What is planned for a manifest depends on more than the address.
        let address = manifest.is_none().then(|| head.uri.to_string());
        if let Some(view) = address.as_ref().and_then(|address| self.views().get(revision, address)) {
            return Ok(view);
        }
        let (path, query) = (head.uri.path().to_owned(), head.uri.query().map(str::to_owned));
        // On a thread of its own: a plan may take seconds.
        let computed = tokio::task::spawn_blocking(move || {
            let view = compute_view(&snapshot, &path, &Query::of(query.as_deref()), manifest);
            // A view that no browser expects any more keeps its turn until here.
            drop(turn);
            view
        });
        let computed = computed.await.unwrap_or_else(|_| Err(failed("The view cannot be computed: see the terminal.")));
        let view = Bytes::from(computed?);
        if let Some(address) = address {
            self.views().keep(revision, address, view.clone());
        }
        Ok(view)
    }

    /// Locks the store of the views that were computed for the last revision.
    fn views(&self) -> MutexGuard<'_, Views> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request to the task that reads from the API server, and waits for its answer.
    async fn ask(&self, question: PageRequest) -> Body {
        let closing = || PageError::new(StatusCode::SERVICE_UNAVAILABLE, "The page is closing.");
        let (reply, answered) = oneshot::channel();
        self.questions.send((question, reply)).await.map_err(|_| closing())?;
        answered.await.map_err(|_| closing())?
    }
}

/// Computes the view of the page that path and query of a request select, as JSON. `manifest` is the text to plan for, if one was sent.
fn compute_view(snapshot: &Snapshot, path: &str, query: &Query<'_>, manifest: Option<String>) -> Body {
    let resource = query.get("resource");
    match (path, manifest) {
        ("/api/plan", Some(manifest)) => {
            json(&plan::of_text(snapshot, manifest, query.namespace()?.as_deref(), resource)?)
        }
        ("/api/plan", None) => match query.preemptor()? {
            Some(target) => json(&plan::of_existing(snapshot, &target, resource)?),
            None => Err(Query::invalid("kind", "must be podgroup or pod")),
        },
        ("/api/queue", None) => json(&queue::view(snapshot)),
        ("/api/history", None) => json(&history::view(snapshot)),
        ("/api/cluster", None) => json(&cluster::view(snapshot, resource, query.priority()?)),
        _ => Err(PageError::new(StatusCode::NOT_FOUND, "There is no such page.")),
    }
}

/// Reads the manifest that is the body of a request. It is an error if it is larger than [`LARGEST`], takes longer than [`PATIENCE`] or
/// is not UTF-8.
async fn read_manifest(body: Incoming) -> Result<String, PageError> {
    let read = Limited::new(body, LARGEST).collect();
    let bytes = match tokio::time::timeout(PATIENCE, read).await {
        Ok(Ok(body)) => body.to_bytes(),
        _ => {
            let why = format!("The manifest must arrive within {PATIENCE:?} and have no more than {LARGEST} bytes.");
            return Err(PageError::new(StatusCode::PAYLOAD_TOO_LARGE, why));
        }
    };
    String::from_utf8(bytes.to_vec()).map_err(|_| PageError::new(StatusCode::BAD_REQUEST, "The manifest is not UTF-8."))
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// Returns the response that sets the session's cookie, and whose page leads to the start page.
fn cookie_response(cookie: &str) -> Answer {
    let mut answer = respond(StatusCode::OK, "text/html; charset=utf-8", ENTRANCE);
    // The cookie consists of hexadecimal digits.
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}

/// Returns a response of plain text with this status.
fn text(status: StatusCode, message: impl Into<Bytes>) -> Answer {
    respond(status, TEXT, message)
}

/// Returns a response with this status, content type and body, and with the security headers of every response.
fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::samples;
    use serde_json::Value;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn every_response_forbids_other_scripts_frames_and_addresses() {
        for answer in [respond(StatusCode::OK, JSON, "{}"), text(StatusCode::FORBIDDEN, "no"), cookie_response("a=b")] {
            let header = |name: &str| {
                answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
            };
            let policy = header("content-security-policy");
            let rules: Vec<&str> = policy.split("; ").collect();
            for rule in [
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "connect-src 'self'",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
                "require-trusted-types-for 'script'",
            ] {
                assert!(rules.contains(&rule), "{rule} is not in {policy}");
            }
            assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
            let others = ["x-content-type-options", "cache-control", "referrer-policy", "cross-origin-resource-policy"]
                .map(header);
            assert_eq!(others, ["nosniff", "no-store", "no-referrer", "same-origin"]);
        }
    }

    #[test]
    fn views_are_json_in_which_hostile_names_are_strings() {
        let snapshot = samples::snapshot();
        let view = |path: &str, query: &str| compute_view(&snapshot, path, &Query::of(Some(query)), None);
        for (path, query, field) in [
            ("/api/queue", "", "/rows/0/waitsFor"),
            ("/api/plan", "kind=podgroup&namespace=ml&name=early", "/stored/message"),
            ("/api/history", "", "/items/0/message"),
        ] {
            let body: Value = serde_json::from_slice(&view(path, query).unwrap()).unwrap();
            assert_eq!(body.pointer(field).and_then(Value::as_str), Some(samples::HOSTILE), "{path}");
        }
        assert!(view("/api/cluster", "resource=cpu&priority=20").is_ok());
        assert_eq!(view("/api/plan", "").unwrap_err().status, StatusCode::BAD_REQUEST);
        assert_eq!(view("/api/secrets", "").unwrap_err().status, StatusCode::NOT_FOUND);
    }

    /// Sends one request to a server, and returns its response.
    async fn sent(port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response
    }

    #[tokio::test]
    async fn a_browser_exchanges_the_token_and_reads_the_page_and_views() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let session = Session::new(port, "70cen".to_owned(), "c00k1e".to_owned());
        let (questions, mut asked) = mpsc::channel::<AwaitedAnswer>(1);
        let page = Arc::new(PageServer::new(session, Arc::new(samples::state()), questions));
        tokio::spawn(serve(listener, page));
        tokio::spawn(async move {
            while let Some((question, reply)) = asked.recv().await {
                let _ = reply.send(Ok(format!("{question:?}").into_bytes()));
            }
        });
        let get = async |path: &str, more: &str| {
            sent(port, &format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n{more}\r\n"))
                .await
        };
        let post = async |path: &str, more: &str, body: &str| {
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n{more}content-length: {}\r\n\r\n",
                body.len()
            );
            sent(port, &format!("{head}{body}")).await
        };
        assert!(get("/", "").await.starts_with("HTTP/1.1 403 "));
        let entered = get("/?token=70cen", "").await;
        let cookie = format!("set-cookie: giveway-ui-{port}=c00k1e; Path=/; HttpOnly; SameSite=Strict\r\n");
        assert!(entered.starts_with("HTTP/1.1 200 ") && entered.contains(&cookie), "{entered}");
        assert!(get("/?token=70cen", "").await.starts_with("HTTP/1.1 403 "));

        let cookie = format!("cookie: giveway-ui-{port}=c00k1e\r\n");
        let index = get("/", &cookie).await;
        assert!(
            index.starts_with("HTTP/1.1 200 ") && index.contains("<script type=\"module\" src=\"/main.js\">"),
            "{index}"
        );
        for path in ["/api/revision", "/api/revision?after=0"] {
            assert!(get(path, &cookie).await.contains("\"revision\":1"), "{path}");
        }
        assert!(
            get("/api/object?kind=pod&namespace=ml&name=a", &cookie).await.contains("/api/v1/namespaces/ml/pods/a")
        );
        assert!(post("/api/plan", &cookie, "{}").await.starts_with("HTTP/1.1 403 "), "without an origin");
        let origin = format!("{cookie}origin: http://127.0.0.1:{port}\r\n");
        assert!(post("/api/check", &origin, "").await.ends_with("Check"));
        let manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: new}\nspec: {containers: [{name: c, image: i}]}\n";
        let planned = post("/api/plan", &origin, manifest).await;
        assert!(
            planned.starts_with("HTTP/1.1 200 ") && planned.contains("\"preemptor\":\"pod/default/new\""),
            "{planned}"
        );
    }
}
