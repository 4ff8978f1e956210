//! Giveway's mode of operation: the chart value `mode` sets it, and a ConfigMap in Giveway's namespace can override it
//! at run time. Write access to that ConfigMap therefore allows switching Giveway off.

use std::fmt;
use std::str::FromStr;

/// Name of the ConfigMap, in Giveway's namespace.
pub const CONFIG_MAP: &str = "giveway-mode";
/// The key in its data that holds the mode.
pub const KEY: &str = "mode";

/// Giveway's mode of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// It plans and evicts.
    #[default]
    Enforce,
    /// It plans and stores the plans, but evicts no pod; gangs that fit are ungated.
    Observe,
    /// It gates no pod and evicts no pod.
    Off,
}

impl Mode {
    /// Every mode.
    pub const ALL: [Self; 3] = [Self::Enforce, Self::Observe, Self::Off];

    /// Returns the mode as it is written in the ConfigMap and on the command line, such as `enforce`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Observe => "observe",
            Self::Off => "off",
        }
    }

    /// Returns true if pods may be evicted in this mode.
    pub fn evicts(self) -> bool {
        self == Self::Enforce
    }

    /// Returns the beginning of a sentence that says why no pod is evicted in this mode.
    pub fn restraint(self) -> &'static str {
        match self {
            Self::Enforce => "Giveway preempts",
            Self::Observe => "Giveway is in mode observe and evicts no pods",
            Self::Off => "Giveway is switched off: it gates no pods and evicts none",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Error: the text is not a mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?}: must be enforce, observe or off")]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        // The line end of a value that a user wrote by hand is not an error.
        let word = text.trim();
        Self::ALL.into_iter().find(|mode| mode.as_str() == word).ok_or_else(|| UnknownMode(shortened(text)))
    }
}

/// Returns the beginning of an invalid value, for an error that quotes it; the value may be as large as a ConfigMap.
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
    fn an_invalid_mode_is_quoted_and_shortened() {
        let error = |text: &str| text.parse::<Mode>().unwrap_err().to_string();
        assert_eq!(error("Off"), r#""Off": must be enforce, observe or off"#);
        assert_eq!(error(""), r#""": must be enforce, observe or off"#);
        assert_eq!(error(&"x".repeat(1_000_000)).len(), 40 + r#""": must be enforce, observe or off"#.len());
    }
}
