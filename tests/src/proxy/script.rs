//! What a test wants to go wrong.

use std::time::Duration;

/// A request of the daemon.
#[derive(Clone, Debug)]
pub struct Call {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// Whether it is a watch.
    pub watch: bool,
    /// The how-manieth write it is since the script began; 0 for reads, and for the writes of the lease.
    pub write: u64,
}

impl Call {
    /// Whether it reads or writes the lease.
    pub fn lease(&self) -> bool {
        self.path.contains("/leases")
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It goes through.
    None,
    /// It is answered with this status, and is not carried out; with `Retry-After: 1` where that is 429 or 503.
    Answer(u16),
    /// It is never answered, and not carried out.
    Hang,
    /// Its connection breaks, and it is not carried out: as if nobody listened.
    Break,
    /// It is carried out so much later.
    Delay(Duration),
    /// It is carried out, and answered so much later.
    LateAnswer(Duration),
    /// It is carried out, and the connection breaks before the answer.
    LoseAnswer,
    /// What is answered breaks off after so long: for watches.
    CutAfter(Duration),
    /// It is answered, and nothing more is heard of it, nor that its connection is gone: for watches.
    Silence,
    /// The daemon is killed (SIGKILL), and the request is not carried out.
    KillBefore,
    /// The request is carried out, and the daemon is killed before it hears of it.
    KillAfter,
}

impl Fault {
    /// Its kind, for a tally.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::None => "passed",
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

/// Everything goes through.
pub fn calm() -> Script {
    Box::new(|_| Fault::None)
}
