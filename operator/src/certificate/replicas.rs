//! Finds out which certificates the replicas of the webhook serve. It connects to each replica like an API server that
//! trusts only one authority.
//!
//! The work is limited: few connections at a time, few seconds for each. A replica that does not answer counts as one
//! that serves the old certificate: an API server may reach it although this process does not.

use super::material::Anchor;
use super::rotation::Replicas;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client};
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Name of the webhook's Service.
pub const SERVICE: &str = "giveway-webhook";
/// Name of the Service's port.
const PORT: &str = "https";
/// Maximum number of connections at the same time.
const AT_ONCE: usize = 8;
/// Timeout of one connection.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum number of EndpointSlices that are listed. A Service has one for every hundred replicas.
const SLICES: u32 = 100;

/// Address of the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookAddress {
    /// The webhook is behind the Service in this namespace.
    Service(String),
    /// The webhook is outside the cluster, at this host and port.
    Outside {
        /// A DNS name or an IP address.
        host: String,
        /// The port.
        port: u16,
    },
}

impl WebhookAddress {
    /// Returns the webhook's address: host and port of `url`, which is `https://HOST[:PORT]` (port 443 if it has none). Without a URL, it
    /// is the webhook's Service in `namespace`.
    ///
    /// # Errors
    /// The URL cannot be parsed, has another scheme, or has a path.
    pub fn new(namespace: &str, url: Option<&str>) -> Result<Self, String> {
        let Some(url) = url else { return Ok(Self::Service(namespace.to_owned())) };
        let uri: warp::http::Uri = url.parse().map_err(|error| format!("{url:?}: {error}"))?;
        if uri.scheme_str() != Some("https") || !matches!(uri.path(), "" | "/") {
            return Err(format!("{url:?} is not the URL of a webhook: it must be https://HOST or https://HOST:PORT"));
        }
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        ServerName::try_from(host.as_str()).map_err(|error| format!("{url:?}: {error}"))?;
        Ok(Self::Outside { host, port: uri.port_u16().unwrap_or(443) })
    }

    /// Returns the server name that API servers use for the webhook, without a port. The certificate must be valid for it.
    pub fn name(&self) -> String {
        match self {
            Self::Service(namespace) => format!("{SERVICE}.{namespace}.svc"),
            Self::Outside { host, .. } => host.clone(),
        }
    }
}

/// Connects to every replica of the webhook like an API server that trusts only the authority `trusted`. Returns `Accepted` if it accepts
/// the certificate of each, and otherwise `Waiting` with the address and the problem of one of the others.
///
/// # Errors
/// The EndpointSlices cannot be listed.
pub async fn check_all(client: &Client, at: &WebhookAddress, trusted: &Anchor) -> Result<Replicas, kube::Error> {
    let addresses = match at {
        WebhookAddress::Outside { host, port } => vec![(host.clone(), *port)],
        WebhookAddress::Service(namespace) => {
            let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
            let params = ListParams::default().labels(&format!("kubernetes.io/service-name={SERVICE}")).limit(SLICES);
            slices.list(&params).await?.iter().flat_map(serving).collect()
        }
    };
    let name = at.name();
    let answers = stream::iter(addresses).map(|(host, port)| {
        let name = name.clone();
        async move {
            let answer = tokio::time::timeout(PATIENCE, handshake(&host, port, &name, trusted)).await;
            let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())));
            answer.map_err(|why| format!("{host}:{port}: {why}"))
        }
    });
    let waiting = answers.buffer_unordered(AT_ONCE).filter_map(|answer| std::future::ready(answer.err()));
    let first = std::pin::pin!(waiting).next().await;
    Ok(first.map_or(Replicas::Accepted, Replicas::Waiting))
}

/// Returns address and port of each webhook replica in the slice to which API servers may send requests: it is ready, its readiness is
/// unknown, or it still serves while it terminates. None if the slice has no port `https`.
fn serving(slice: &EndpointSlice) -> Vec<(String, u16)> {
    let ports = slice.ports.iter().flatten();
    let port = ports.filter(|port| port.name.as_deref() == Some(PORT)).find_map(|port| port.port);
    let Some(port) = port.and_then(|port| u16::try_from(port).ok()) else { return Vec::new() };
    let endpoints = slice.endpoints.iter().filter(|endpoint| {
        endpoint
            .conditions
            .as_ref()
            .is_none_or(|conditions| conditions.ready != Some(false) || conditions.serving == Some(true))
    });
    endpoints.filter_map(|endpoint| endpoint.addresses.first()).map(|address| (address.clone(), port)).collect()
}

/// Connects to a replica of the webhook and makes a TLS handshake for the server name `name` as a client that trusts only `trusted`. The
/// error says why the connection or the handshake failed.
async fn handshake(host: &str, port: u16, name: &str, trusted: &Anchor) -> Result<(), String> {
    let roots = trusted.roots().map_err(|error| error.to_string())?;
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|error| error.to_string())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate::material::Authority;
    use jiff::{SignedDuration, Timestamp};
    use rustls::ServerConfig;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
    use serde_json::json;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    /// Starts a webhook that serves a certificate of this authority, and returns its port.
    async fn webhook(authority: &Authority) -> u16 {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let leaf = authority.issue(&names, Timestamp::now(), SignedDuration::from_hours(1)).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(&leaf.chain).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(&leaf.key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = acceptor.accept(stream).await;
            }
        });
        port
    }

    #[tokio::test]
    async fn a_replica_is_accepted_only_by_clients_that_trust_its_authority() {
        let [mine, other] = [(); 2].map(|()| Authority::make(Timestamp::now(), SignedDuration::from_hours(1)).unwrap());
        let port = webhook(&mine).await;
        assert_eq!(handshake("127.0.0.1", port, "127.0.0.1", mine.anchor()).await, Ok(()));
        let refused = handshake("127.0.0.1", port, "127.0.0.1", other.anchor()).await.unwrap_err();
        assert!(refused.contains("invalid peer certificate"), "{refused}");
        let misnamed =
            handshake("127.0.0.1", port, "giveway-webhook.giveway-system.svc", mine.anchor()).await.unwrap_err();
        assert!(misnamed.contains("not valid for name"), "{misnamed}");
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = silent.local_addr().unwrap().port();
        drop(silent);
        let closed = handshake("127.0.0.1", port, "127.0.0.1", mine.anchor()).await.unwrap_err();
        assert!(closed.contains("refused"), "{closed}");
    }

    #[test]
    fn every_replica_that_may_be_sent_a_request_is_asked() {
        let slice: EndpointSlice = serde_json::from_value(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "metadata": {"name": "a"},
            "ports": [{"name": "metrics", "port": 9090}, {"name": "https", "port": 9443}],
            "endpoints": [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true}},
                {"addresses": ["10.0.0.2"], "conditions": {"ready": false, "serving": true, "terminating": true}},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": false, "serving": false}},
                {"addresses": ["10.0.0.4"]},
            ],
        }))
        .unwrap();
        let asked: Vec<String> = serving(&slice).into_iter().map(|(host, port)| format!("{host}:{port}")).collect();
        assert_eq!(asked, ["10.0.0.1:9443", "10.0.0.2:9443", "10.0.0.4:9443"]);
    }

    #[test]
    fn a_webhook_outside_the_cluster_is_named_by_its_url() {
        let at = |url: &str| WebhookAddress::new("own", Some(url));
        let outside = |host: &str, port| Ok(WebhookAddress::Outside { host: host.to_owned(), port });
        assert_eq!(at("https://127.0.0.1:9443"), outside("127.0.0.1", 9443));
        assert_eq!(at("https://[::1]:9443"), outside("::1", 9443));
        assert_eq!(at("https://webhook.example"), outside("webhook.example", 443));
        assert_eq!(
            at("http://webhook.example").unwrap_err(),
            r#""http://webhook.example" is not the URL of a webhook: it must be https://HOST or https://HOST:PORT"#
        );
        assert!(at("https://a/b").unwrap_err().contains("must be https://HOST"));
        assert!(at("nonsense url").is_err());
        assert_eq!(WebhookAddress::new("own", None).unwrap().name(), "giveway-webhook.own.svc");
    }
}
