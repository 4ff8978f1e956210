//! Which Giveway is installed: the one of this checkout, or the one before it, from which it is upgraded.

use crate::paths;
use anyhow::Result;
use std::path::PathBuf;

/// A Giveway with its chart, its kinds and its daemons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edition {
    /// This checkout.
    #[default]
    Current,
    /// The commit that `tests/predecessor/commit` names, as `make predecessor` built it.
    Predecessor,
}

/// Why the predecessor cannot be tried; `None` when it can.
pub fn predecessor_missing() -> Option<String> {
    let built = std::fs::read_to_string(predecessor().join("commit")).unwrap_or_default();
    let wanted = std::fs::read_to_string(paths::repository().join("tests/predecessor/commit")).unwrap_or_default();
    (built.is_empty() || built != wanted)
        .then(|| "The upgrade is not tried: there is no predecessor. `make predecessor` builds it.".to_owned())
}

fn predecessor() -> PathBuf {
    paths::repository().join("target/predecessor")
}

impl Edition {
    /// A folder of its sources: `crds` or `helm`.
    pub(super) fn folder(self, name: &str) -> PathBuf {
        match self {
            Self::Current => paths::repository().join(name),
            Self::Predecessor => predecessor().join("source").join(name),
        }
    }

    /// One of its programs.
    ///
    /// # Errors
    /// It has not been built.
    pub(super) fn program(self, name: &str) -> Result<PathBuf> {
        match self {
            Self::Current => paths::giveway_program(name),
            Self::Predecessor => Ok(predecessor().join("bin").join(name)),
        }
    }
}
