//! Replicas of the operator, the Lease that they share, and their calls.

use crate::simulation::process::Process;
use giveway_operator::messages::command::Command;

/// A replica of the operator, in which processes run one after the other.
#[derive(Default)]
pub struct Replica {
    pub process: Option<Process>,
    /// Number of processes until now.
    pub started: u32,
    /// The last observed renewal of the Lease by another holder, and the time of the observation.
    pub observed: Option<(Lease, u64)>,
}

/// The Lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    pub holder: String,
    pub renewed: u64,
}

/// A call in transit.
pub struct Call {
    pub replica: usize,
    pub process: u32,
    pub term: String,
    pub command: Command,
    pub step: usize,
    /// Time limit of the caller, in milliseconds.
    pub deadline: u64,
    /// True if the call is in transit for a long time: it is lost with the connection if its process ends.
    pub late: bool,
    /// The version of the pod that a repeated eviction has read, which is a precondition of its next calls.
    pub version: Option<String>,
}
