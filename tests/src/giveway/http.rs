//! A minimal HTTP client for `/readyz` and `/metrics` of a daemon.

use crate::control_plane::Process;
use crate::wait;
use anyhow::{Result, anyhow, bail};
use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Sends a GET request to a port of this machine. Returns status and body.
///
/// # Errors
/// If there is no answer or it is not HTTP.
pub(super) async fn get(port: u16, path: &str) -> io::Result<(u16, String)> {
    let answer = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        io::Result::Ok(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = tokio::time::timeout(Duration::from_secs(5), answer).await.map_err(io::Error::other)??;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no HTTP answer: {head}")))?;
    Ok((status, body.to_owned()))
}

/// Waits until `/readyz` of a process answers 200 on this port.
///
/// # Errors
/// If the process has ended or the deadline has passed.
pub(crate) async fn wait_ready(
    process: &mut Process,
    name: &str,
    port: u16,
    path: &str,
    limit: Duration,
) -> Result<()> {
    let ready = wait::until(&format!("{name} is ready"), limit, async || {
        if let Some(status) = process.exited() {
            return Ok(Err(anyhow!("{name} has ended ({status}): {}", process.first_error())));
        }
        match get(port, path).await {
            Ok((200, _)) => Ok(Ok(())),
            Ok((status, body)) => Err(format!("{path} answers {status}: {body}")),
            Err(error) => Err(format!("{path}: {error}")),
        }
    })
    .await;
    match ready {
        Ok(ready) => ready,
        Err(error) => bail!("{error}; the end of its log:\n{}", process.log_tail(20)),
    }
}
