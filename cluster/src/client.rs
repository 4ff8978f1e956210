//! Clients of the API server that notice a dead connection.
//!
//! The client library speaks HTTP/1.1, so each watch has a connection of its own, and most watches are quiet: if the packets of a connection
//! are dropped from some moment on, because a machine has failed or a firewall has forgotten the connection, it looks like a watch without
//! changes. So the kernel asks the other end: after [`IDLE`] without a packet it sends a probe, and without an acknowledgement of probes or
//! data the connection ends within ten seconds, with an error.
//!
//! A process that hangs is not noticed so, neither is a load balancer that lost the process behind it: their kernels acknowledge. Those are
//! noticed because watches end after some time, and because requests have time limits.

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, ConfigExt, DynBody};
use kube::{Config, Error};
use std::time::Duration;
use tower::retry::RetryLayer;
use tower::util::BoxService;
use tower::{BoxError, ServiceBuilder, ServiceExt};

/// Time without a packet after which the other end is asked for one.
const IDLE: Duration = Duration::from_secs(5);
/// Time after which it is asked again.
const INTERVAL: Duration = Duration::from_secs(2);
/// Number of probes without an acknowledgement.
const PROBES: u32 = 2;
/// Time after which a connection ends whose data or probes are not acknowledged. It is checked when a probe is due.
const UNACKNOWLEDGED: Duration = Duration::from_millis(8_500);
const _: () = assert!(IDLE.as_secs() + INTERVAL.as_secs() * PROBES as u64 <= 9);

/// When a connection counts as dead: the times of TCP keepalive probes, and of data that is not acknowledged.
#[derive(Clone, Copy, Debug)]
struct Keepalive {
    idle: Duration,
    interval: Duration,
    probes: u32,
    unacknowledged: Duration,
}

/// The service below a client: requests go in, and responses, whose bodies are read as they arrive, come out.
pub type Service = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// Returns the builder of a client that closes a connection within ten seconds after the other end has stopped answering. Every request is
/// logged at level `debug`.
///
/// # Errors
/// The configuration cannot be used: for example, it names a proxy, or a key that cannot be read.
pub fn builder(config: Config) -> Result<ClientBuilder<Service>, Error> {
    let limits = Keepalive { idle: IDLE, interval: INTERVAL, probes: PROBES, unacknowledged: UNACKNOWLEDGED };
    limited(config, limits)
}

/// Returns the builder of a client whose TCP connections are closed if the API server does not acknowledge keepalive probes or data within
/// these limits. They do not apply to connections through a proxy.
///
/// # Errors
/// The configuration cannot be used.
fn limited(config: Config, limits: Keepalive) -> Result<ClientBuilder<Service>, Error> {
    // The connection to a proxy is made by the client library, if that is compiled with support for it.
    if config.proxy_url.is_some() {
        return ClientBuilder::try_from(config);
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(config.connect_timeout);
    tcp.set_keepalive(Some(limits.idle));
    tcp.set_keepalive_interval(Some(limits.interval));
    tcp.set_keepalive_retries(Some(limits.probes));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(limits.unacknowledged));
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(tls);
    let retries = config.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry()));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(retries)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_request(logged)
        .map_err(BoxError::from)
        .service(http);
    let service = ServiceExt::<Request<Body>>::map_response(service, |response| {
        response.map(|body| Box::new(body.map_err(BoxError::from)) as Box<DynBody>)
    });
    Ok(ClientBuilder::new(ServiceExt::<Request<Body>>::boxed(service), config.default_namespace))
}

/// Logs method and URL of a request at level debug, and returns the request.
fn logged(request: Request<Body>) -> Request<Body> {
    tracing::debug!(method = %request.method(), uri = %request.uri(), "requesting");
    request
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;
    use kube::Client;
    use socket2::{SockFilter, SockRef};
    use std::io::ErrorKind;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    /// A program of the kernel's packet filter that drops every packet: it returns 0 for the length to keep.
    const DROP: [SockFilter; 1] = [SockFilter::new(0x06, 0, 0, 0)];
    /// Limits with which a test need not wait for long.
    const SHORT: Keepalive = Keepalive {
        idle: Duration::from_secs(1),
        interval: Duration::from_secs(1),
        probes: 1,
        unacknowledged: Duration::from_millis(1_500),
    };
    /// Time limit of a test.
    const PATIENCE: Duration = Duration::from_secs(60);

    async fn listen() -> (TcpListener, Client) {
        // Another test may have installed it.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        config.default_retry = false;
        // No certificate is needed, and this machine may have none.
        config.root_cert = Some(Vec::new());
        (listener, limited(config, SHORT).unwrap().build())
    }

    /// Reads a request to its end.
    async fn read_request(stream: &mut TcpStream) {
        let mut text = Vec::new();
        while !text.ends_with(b"\r\n\r\n") {
            text.push(stream.read_u8().await.unwrap());
        }
    }

    async fn request(client: &Client) -> Result<String, Error> {
        client.request_text(Request::get("/version").body(Vec::new()).unwrap()).await
    }

    /// Returns true if a connection failed because the other end did not acknowledge in time.
    fn is_timeout(error: &(dyn std::error::Error + 'static)) -> bool {
        let mut next = Some(error);
        while let Some(error) = next {
            if error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::TimedOut) {
                return true;
            }
            next = error.source();
        }
        false
    }

    /// Asserts that a request fails if the server drops all packets from the moment on when it has read the request, or before.
    async fn expect_timeout(reads: bool) {
        let (listener, client) = listen().await;
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            if reads {
                read_request(&mut stream).await;
            }
            SockRef::from(&stream).attach_filter(&DROP).unwrap();
            stream
        };
        let (stream, result) =
            tokio::time::timeout(PATIENCE, async { tokio::join!(server, request(&client)) }).await.unwrap();
        let error = result.unwrap_err();
        assert!(is_timeout(&error), "{error:?}");
        drop(stream);
    }

    #[tokio::test]
    async fn a_request_fails_when_the_packets_of_its_connection_are_dropped() {
        tokio::join!(expect_timeout(true), expect_timeout(false));
    }

    #[tokio::test]
    async fn a_quiet_connection_to_a_living_server_is_kept() {
        let (listener, client) = listen().await;
        let server = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await;
            // Longer than the limits; nothing but the kernel answers meanwhile.
            tokio::time::sleep(2 * SHORT.unacknowledged).await;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
            stream
        };
        let (_stream, result) =
            tokio::time::timeout(PATIENCE, async { tokio::join!(server, request(&client)) }).await.unwrap();
        assert_eq!(result.unwrap(), "{}");
    }
}
