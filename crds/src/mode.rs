//! What Giveway does: the chart says it (`mode`), and a ConfigMap in Giveway's namespace may say otherwise at run time. Who may
//! write that ConfigMap may switch Giveway.

use std::fmt;
use std::str::FromStr;

/// Name of the ConfigMap, in Giveway's namespace.
pub const CONFIG_MAP: &str = "giveway-mode";
/// The key in its data under which the mode stands.
pub const KEY: &str = "mode";

/// What Giveway does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// It decides and preempts.
    #[default]
    Enforce,
    /// It decides, stores what it would do, and evicts nobody; groups that fit start.
    Observe,
    /// It holds nobody and evicts nobody.
    Off,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Enforce, Self::Observe, Self::Off];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Observe => "observe",
            Self::Off => "off",
        }
    }

    /// Whether somebody may be evicted.
    pub fn evicts(self) -> bool {
        self == Self::Enforce
    }

    /// Why nobody is evicted, as the beginning of a sentence.
    pub fn restraint(self) -> &'static str {
        match self {
            Self::Enforce => "Giveway preempts",
            Self::Observe => "Giveway observes and evicts nobody",
            Self::Off => "Giveway is switched off: it holds nobody and evicts nobody",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A mode that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?}: must be enforce, observe or off")]
pub struct Unknown(pub String);

impl FromStr for Mode {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Self, Unknown> {
        // The line end of a value that somebody wrote by hand is no mistake.
        let word = text.trim();
        Self::ALL.into_iter().find(|mode| mode.as_str() == word).ok_or_else(|| Unknown(shortened(text)))
    }
}

/// What is cited of a value, which may be as large as a ConfigMap.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_read_as_it_is_written() {
        for mode in Mode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert_eq!("off\n".parse(), Ok(Mode::Off));
    }

    #[test]
    fn what_is_no_mode_is_cited_and_shortened() {
        let error = |text: &str| text.parse::<Mode>().unwrap_err().to_string();
        assert_eq!(error("Off"), r#""Off": must be enforce, observe or off"#);
        assert_eq!(error(""), r#""": must be enforce, observe or off"#);
        assert_eq!(error(&"x".repeat(1_000_000)).len(), 40 + r#""": must be enforce, observe or off"#.len());
    }
}
