//! A domain of topology.

use smol_str::SmolStr;

/// The nodes with this value of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Domain {
    /// Key of the node label.
    pub key: SmolStr,
    /// Its value.
    pub value: SmolStr,
}

/// As node selectors are written on the command line: `KEY=VALUE`.
impl std::fmt::Display for Domain {
    /// Writes `KEY=VALUE`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}
