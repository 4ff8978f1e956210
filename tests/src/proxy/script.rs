//! Scripts of faults.

use std::time::Duration;

/// A request of the daemon.
#[derive(Clone, Debug)]
pub struct Call {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// Whether the request is a watch.
    pub watch: bool,
    /// Whether the query asks for a dry run.
    pub dry_run: bool,
    /// The number of the write since the script was set, from 1; 0 for reads and for writes of the lease.
    pub write: u64,
}

impl Call {
    /// Returns true if the request reads or writes the lease.
    pub fn lease(&self) -> bool {
        self.path.contains("/leases")
    }
}

/// The handling of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is forwarded.
    None,
    /// The request is not carried out and is answered with this status (429 and 503 with `Retry-After: 1`).
    Answer(u16),
    /// The request is not carried out and never answered.
    Hang,
    /// The request is not carried out and its connection is closed, as if the server were down.
    Break,
    /// The request is carried out after this delay.
    Delay(Duration),
    /// The request is carried out and answered after this delay.
    LateAnswer(Duration),
    /// The request is carried out and the connection is closed before the answer.
    LoseAnswer,
    /// The answer is cut after this time; for watches.
    CutAfter(Duration),
    /// After the first answer no more data and no end of the connection is sent; for watches.
    Silence,
    /// The daemon is killed (SIGKILL) and the request is not carried out.
    KillBefore,
    /// The request is carried out and the daemon is killed before it receives the answer.
    KillAfter,
}

impl Fault {
    /// Returns the name of the kind, for the counts.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::None => "passed",
            Self::Answer(404) => "404",
            Self::Answer(409) => "409",
            Self::Answer(410) => "410",
            Self::Answer(429) => "429",
            Self::Answer(500) => "500",
            Self::Answer(503) => "503",
            Self::Answer(_) => "other answer",
            Self::Hang => "hang",
            Self::Break => "broken connection",
            Self::Delay(_) => "delay",
            Self::LateAnswer(_) => "late answer",
            Self::LoseAnswer => "lost answer",
            Self::CutAfter(_) => "cut watch",
            Self::Silence => "silent watch",
            Self::KillBefore => "killed before a write",
            Self::KillAfter => "killed after a write",
        }
    }
}

/// Decides on each request.
pub type Script = Box<dyn FnMut(&Call) -> Fault + Send>;

/// Returns a script without faults.
pub fn no_faults() -> Script {
    Box::new(|_| Fault::None)
}
