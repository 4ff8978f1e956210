//! Replicas of the operator, the Lease that they share, and their calls.

use crate::simulation::process::Process;
use giveway_operator::command::Command;

/// A replica of the operator: one process after the other.
#[derive(Default)]
pub struct Replica {
    pub process: Option<Process>,
    /// How many processes there were.
    pub started: u32,
    /// The renewal of another holder that it saw last, and since when.
    pub observed: Option<(Lease, u64)>,
}

/// The Lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    pub holder: String,
    pub renewed: u64,
}

/// A call that is under way.
pub struct Call {
    pub replica: usize,
    pub process: u32,
    pub term: String,
    pub command: Command,
    pub step: usize,
    /// The time-out of its caller.
    pub deadline: u64,
    /// True if the call is in transit for long: it ends with the connection when its process ends.
    pub late: bool,
}
