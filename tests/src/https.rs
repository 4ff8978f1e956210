//! HTTPS servers inside the test process: the proxy, and webhooks.

use crate::control_plane::pki::Pki;
use anyhow::{Context as _, Result};
use http::{Request, Response};
use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use socket2::{SockFilter, SockRef};
use std::error::Error;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// A program of the kernel's packet filter that drops every packet: it returns 0 for the length to keep.
const DROP: [SockFilter; 1] = [SockFilter::new(0x06, 0, 0, 0)];

/// The connection of a request, which is among the request's extensions.
#[derive(Clone)]
pub(crate) struct Connection(Arc<OwnedFd>);

impl Connection {
    /// Drops every packet that arrives from now on. The kernel does not acknowledge them either, as if the machine had failed.
    pub(crate) fn drop_packets(&self) -> io::Result<()> {
        SockRef::from(&*self.0).attach_filter(&DROP)
    }
}

/// A running server for HTTP/1.1 on 127.0.0.1, which ends when the value is dropped.
pub(crate) struct Server {
    port: u16,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server with a certificate of this authority. `answer` is called for each request; an error breaks the connection.
    ///
    /// # Errors
    /// If no port is free or the certificate cannot be created.
    pub(crate) async fn start<A, F, B>(pki: &Pki, answer: A) -> Result<Self>
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Result<Response<B>>> + Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let identity = pki.server(&[])?;
        let chain = CertificateDer::pem_slice_iter(identity.certificate.as_bytes()).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
        let mut tls = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("a port for a server of the test")?;
        let port = listener.local_addr()?.port();
        Ok(Self { port, task: tokio::spawn(accept(listener, acceptor, answer)) })
    }

    /// Returns the URL of the server, without a path.
    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Accepts connections until the server is dropped.
async fn accept<A, F, B>(listener: TcpListener, acceptor: TlsAcceptor, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, answer) = (acceptor.clone(), answer.clone());
        connections.spawn(async move {
            let Ok(socket) = stream.as_fd().try_clone_to_owned() else { return };
            let connection = Connection(Arc::new(socket));
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(connection.clone());
                answer(request)
            });
            // Broken connections are expected.
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        });
        while connections.try_join_next().is_some() {}
    }
}
