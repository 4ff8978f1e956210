//! A client that costs as little as possible: one connection over TLS, one request after another.

use super::process::Place;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::io::{Error, ErrorKind, Result};
use std::net::Ipv4Addr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::client::TlsStream;

/// One connection.
pub struct Client {
    stream: TlsStream<TcpStream>,
    received: Vec<u8>,
    sent: Vec<u8>,
}

impl Client {
    pub async fn connect(place: &Place) -> Result<Self> {
        Self::connect_from(place, Ipv4Addr::LOCALHOST).await
    }

    /// Connects from this address of the machine.
    pub async fn connect_from(place: &Place, source: Ipv4Addr) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(place.authority.clone()).map_err(Error::other)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(Error::other)?.with_root_certificates(roots).with_no_client_auth();
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        let stream = socket.connect(place.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").map_err(Error::other)?;
        let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        Ok(Self { stream, received: Vec::new(), sent: Vec::new() })
    }

    /// Sends a request, with the headers that an API server sends, and reads its answer.
    pub async fn send(&mut self, method: &str, path: &str, body: &[u8]) -> Result<(u16, Vec<u8>)> {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: {}\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n",
            body.len()
        );
        self.sent.clear();
        self.sent.extend_from_slice(head.as_bytes());
        self.sent.extend_from_slice(body);
        self.stream.write_all(&self.sent).await?;
        self.stream.flush().await?;
        self.received.clear();
        loop {
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            if let Some(answer) = parsed(&self.received) {
                return Ok(answer);
            }
        }
    }
}

fn parsed(bytes: &[u8]) -> Option<(u16, Vec<u8>)> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse::<usize>().ok()?;
    let body = &bytes[end + 4..];
    (body.len() >= length).then(|| (status, body.to_vec()))
}
