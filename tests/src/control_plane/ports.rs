//! TCP ports of the loopback interface for one control plane.
//!
//! The kernel uses ports of its ephemeral range for outgoing connections, so a free port of that range may be in use when a
//! program wants to listen on it. A control plane therefore claims a [`Block`] outside of that range with a file lock, which all
//! control planes of this user respect. The guard of the control plane inherits the lock and keeps it until the last process has
//! ended.

use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};

/// Number of ports of a block.
const SIZE: u16 = 32;
/// Range of the blocks, below and above the ephemeral ranges of Linux (32768 to 60999) and macOS (from 49152).
const FIRST: u16 = 20_000;
const LAST: u16 = 65_000;
/// Number of ports of a block with a fixed use; [`Block::additional`] returns the others.
const FIXED: u16 = 6;

/// Consecutive ports that one control plane uses, from the claim to the end of its last process.
#[derive(Debug)]
pub struct Block {
    first: u16,
    lock: File,
    additional: AtomicU16,
}

impl Block {
    /// Claims a block on which no program listens.
    ///
    /// # Errors
    /// If all blocks are claimed or the lock files cannot be written.
    pub fn claim() -> Result<Self> {
        let locks = lock_directory()?;
        let ephemeral = ephemeral_range();
        for first in (FIRST..LAST - SIZE).step_by(usize::from(SIZE)) {
            let overlaps = first <= *ephemeral.end() && first + SIZE > *ephemeral.start();
            if overlaps {
                continue;
            }
            let path = locks.join(first.to_string());
            let lock = File::options().create(true).append(true).open(&path);
            let lock = lock.with_context(|| format!("opening the lock of a block of ports, {}", path.display()))?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            // Programs of other users do not respect the lock, and a detached control plane has none.
            if (first..first + SIZE).all(is_free) {
                return Ok(Self { first, lock, additional: AtomicU16::new(FIXED) });
            }
        }
        bail!(
            "all blocks of {SIZE} ports between {FIRST} and {LAST} outside of the ephemeral range {ephemeral:?} are in use"
        )
    }

    /// Returns the lock, for a process that inherits it.
    pub(super) fn lock(&self) -> io::Result<File> {
        self.lock.try_clone()
    }

    /// Returns etcd's port for clients.
    pub(super) fn etcd(&self) -> u16 {
        self.first
    }

    /// Returns etcd's port for its peers.
    pub(super) fn etcd_peer(&self) -> u16 {
        self.first + 1
    }

    /// Returns the API server's port.
    pub(super) fn api_server(&self) -> u16 {
        self.first + 2
    }

    /// Returns the webhook's port for admission. It is the same in every world of this control plane, so that a stored webhook
    /// configuration stays valid.
    pub fn webhook(&self) -> u16 {
        self.first + 3
    }

    /// Returns the webhook's port for metrics.
    pub fn webhook_metrics(&self) -> u16 {
        self.first + 4
    }

    /// Returns the operator's port for metrics.
    pub fn operator_metrics(&self) -> u16 {
        self.first + 5
    }

    /// Restarts at the first port without a fixed use; the programs that used these ports have ended.
    pub(super) fn reset_spare(&self) {
        self.additional.store(FIXED, Ordering::Relaxed);
    }

    /// Returns a port for another program of this control plane. The ports repeat after 26 calls.
    pub fn additional(&self) -> u16 {
        let turn = self.additional.fetch_add(1, Ordering::Relaxed) - FIXED;
        self.first + FIXED + turn % (SIZE - FIXED)
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Returns the directory with the locks of this user's control planes.
fn lock_directory() -> Result<PathBuf> {
    // Not below TMPDIR, because processes with different values must respect the same locks.
    let directory = PathBuf::from(format!("/tmp/giveway-ports-{}", rustix::process::getuid().as_raw()));
    fs::create_dir_all(&directory).with_context(|| format!("making {}", directory.display()))?;
    Ok(directory)
}

/// Returns the ports that the kernel uses for outgoing connections and for listeners on port 0.
fn ephemeral_range() -> RangeInclusive<u16> {
    let read = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    parse_range(&read).unwrap_or(32_768..=u16::MAX)
}

fn parse_range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.trim().split_once(char::is_whitespace)?;
    Some(first.parse().ok()?..=last.trim().parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn concurrent_claims_share_no_port_and_avoid_the_ephemeral_range() {
        let ephemeral = ephemeral_range();
        let claims = std::thread::scope(|scope| {
            let claim = || (0..50).map(|_| Block::claim().unwrap()).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(claim)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let ports: Vec<u16> = claims.iter().flat_map(|block| block.first..block.first + SIZE).collect();
        assert_eq!(ports.len(), 200 * usize::from(SIZE));
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len());
        assert!(ports.iter().all(|port| !ephemeral.contains(port)), "{ephemeral:?}");
    }

    #[test]
    fn a_block_on_which_a_program_listens_is_not_claimed() {
        let block = Block::claim().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, block.first + 7)).unwrap();
        let first = block.first;
        drop(block);
        assert_ne!(Block::claim().unwrap().first, first);
        drop(listener);
    }

    #[test]
    fn additional_ports_differ_from_the_fixed_ports() {
        let block = Block::claim().unwrap();
        let fixed = [block.etcd(), block.etcd_peer(), block.api_server(), block.webhook()];
        let fixed: BTreeSet<u16> =
            fixed.into_iter().chain([block.webhook_metrics(), block.operator_metrics()]).collect();
        assert_eq!(fixed.len(), usize::from(FIXED));
        let additional: BTreeSet<u16> = (0..SIZE - FIXED).map(|_| block.additional()).collect();
        assert_eq!(additional.len(), usize::from(SIZE - FIXED));
        assert!(
            additional.is_disjoint(&fixed)
                && additional.iter().all(|port| (block.first..block.first + SIZE).contains(port))
        );
    }

    #[test]
    fn the_ephemeral_range_of_the_kernel_is_parsed() {
        assert_eq!(parse_range("32768\t60999\n"), Some(32_768..=60_999));
        assert_eq!(parse_range(""), None);
    }
}
