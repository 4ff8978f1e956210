//! Forwards a request to the API server and the answer back, with the fault that the script chooses.

use super::script::{Call, Fault};
use super::{Shared, locked};
use crate::control_plane::pki::Pki;
use crate::https::Connection;
use anyhow::{Context as _, Result, anyhow};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustix::process::{Signal, kill_process};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(24 * 3600);

/// Bodies of both directions.
type Body = UnsyncBoxBody<Bytes, anyhow::Error>;

/// The API server.
pub(super) struct Upstream {
    authority: String,
    tls: TlsConnector,
}

impl Upstream {
    pub(super) fn new(server: &str, pki: &Pki) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pki.ca().as_bytes())?)?;
        let mut tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let authority = server.strip_prefix("https://").context("the API server has an https URL")?;
        Ok(Self { authority: authority.to_owned(), tls: TlsConnector::from(Arc::new(tls)) })
    }

    /// Sends a request on a connection of its own.
    async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        let stream = TcpStream::connect(&self.authority).await?;
        let stream = self.tls.connect(ServerName::try_from("127.0.0.1")?, stream).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // The task ends when the answer has been read or dropped.
        tokio::spawn(connection);
        Ok(sender.send_request(request).await?)
    }
}

/// Answers one request of the daemon. An error breaks the connection.
pub(super) async fn answer(shared: &Shared, request: Request<Incoming>) -> Result<Response<Body>> {
    let call = call(shared, &request);
    let connection = request.extensions().get::<Connection>().cloned();
    let faults = Faults { cut: shared.cut.subscribe(), lost: shared.lost.subscribe(), connection };
    let fault = (locked(&shared.script))(&call);
    *locked(&shared.tally).entry(fault.kind()).or_default() += 1;
    match fault {
        Fault::Answer(code) => return refusal(code),
        Fault::Hang => std::future::pending().await,
        Fault::Break => return Err(anyhow!("the connection is refused")),
        Fault::Delay(time) => tokio::time::sleep(time).await,
        Fault::KillBefore => {
            kill(shared);
            return Err(anyhow!("the daemon was killed"));
        }
        Fault::None
        | Fault::LateAnswer(_)
        | Fault::LoseAnswer
        | Fault::CutAfter(_)
        | Fault::Silence
        | Fault::KillAfter => {}
    }
    let (mut parts, body) = request.into_parts();
    parts.headers.insert(header::HOST, HeaderValue::from_str(&shared.upstream.authority)?);
    let body = Full::new(body.collect().await?.to_bytes());
    let response = shared.upstream.send(Request::from_parts(parts, body)).await?;
    for warning in response.headers().get_all(header::WARNING) {
        let said = String::from_utf8_lossy(warning.as_bytes());
        locked(&shared.warnings).insert(format!("{} {}: {said}", call.method, call.path));
    }
    if let Fault::LateAnswer(time) = fault {
        tokio::time::sleep(time).await;
    }
    match fault {
        Fault::LoseAnswer | Fault::KillAfter => {
            // The API server has answered, so the request was carried out.
            if fault == Fault::KillAfter {
                kill(shared);
            }
            Err(anyhow!("the answer was lost"))
        }
        Fault::Silence => {
            let body = StreamBody::new(futures::stream::pending::<Result<Frame<Bytes>>>());
            Ok(response.map(|_| body.boxed_unsync()))
        }
        Fault::CutAfter(time) => Ok(response.map(|body| watched(body, faults, time))),
        _ if call.watch => Ok(response.map(|body| watched(body, faults, NEVER))),
        _ => Ok(response.map(|body| body.map_err(anyhow::Error::from).boxed_unsync())),
    }
}

fn call(shared: &Shared, request: &Request<Incoming>) -> Call {
    let path = request.uri().path().to_owned();
    let writes = !matches!(*request.method(), Method::GET | Method::HEAD);
    let write = if writes && !path.contains("/leases") {
        let mut count = locked(&shared.writes);
        *count += 1;
        *count
    } else {
        0
    };
    let query = request.uri().query().unwrap_or_default();
    let watch = query.split('&').any(|pair| pair == "watch=true" || pair == "watch=1");
    let dry_run = query.split('&').any(|pair| pair == "dryRun=All");
    Call { method: request.method().to_string(), path, watch, dry_run, write }
}

fn kill(shared: &Shared) {
    let pid = locked(&shared.daemon).take();
    if let Some(pid) = pid.and_then(|pid| rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)) {
        // The process may have ended by itself.
        kill_process(pid, Signal::KILL).ok();
    }
}

/// The faults of running watches.
struct Faults {
    /// Changes when the watch is to be cut.
    cut: watch::Receiver<()>,
    /// Changes when its packets are to be dropped.
    lost: watch::Receiver<()>,
    /// The connection of the watch.
    connection: Option<Connection>,
}

/// Returns a body that is cut after this time or when the proxy stops all watches, and that delivers nothing after the proxy has dropped its
/// packets.
fn watched(body: Incoming, faults: Faults, after: Duration) -> Body {
    let end = tokio::time::Instant::now() + after;
    let frames = futures::stream::unfold(Some((body, faults)), move |state| async move {
        let (mut body, mut faults) = state?;
        let frame = tokio::select! {
            frame = body.frame() => frame?.map_err(anyhow::Error::from),
            _ = faults.cut.changed() => return Some((Err(anyhow!("the watch was cut")), None)),
            _ = faults.lost.changed() => {
                if let Some(Err(error)) = faults.connection.map(|connection| connection.drop_packets()) {
                    return Some((Err(error.into()), None));
                }
                return std::future::pending().await;
            }
            () = tokio::time::sleep_until(end) => return Some((Err(anyhow!("the watch was cut")), None)),
        };
        Some((frame, Some((body, faults))))
    });
    StreamBody::new(frames).boxed_unsync()
}

fn refusal(code: u16) -> Result<Response<Body>> {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        _ => "Unknown",
    };
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": format!("injected by the test: {reason}")
    });
    let mut response = Response::builder().status(StatusCode::from_u16(code)?);
    response = response.header(header::CONTENT_TYPE, "application/json");
    if matches!(code, 429 | 503) {
        response = response.header(header::RETRY_AFTER, "1");
    }
    let body = Full::new(Bytes::from(status.to_string()));
    Ok(response.body(body.map_err(|never| match never {}).boxed_unsync())?)
}
