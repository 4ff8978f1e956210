//! Free TCP ports of the loopback interface.
//!
//! A port is free at the moment it is asked for; whoever gets it must be prepared to find it taken and ask again.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// Returns `N` different ports that nobody listens on.
///
/// # Errors
/// The operating system has none left.
pub fn free<const N: usize>() -> io::Result<[u16; N]> {
    let mut listeners = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}
