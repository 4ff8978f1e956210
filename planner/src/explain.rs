//! Why there is no room, as a sentence with numbers.

use std::fmt;

/// Why a preemptor is unschedulable. `Display` is the sentence for a condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shortfall {
    /// Pods that have to be placed together.
    pub needed: usize,
    /// Pods that fit now.
    pub fit_now: usize,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pods needed, {} fit now.", self.needed, self.fit_now)
    }
}
