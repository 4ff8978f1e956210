//! The installed version of Giveway: that of this checkout or the previous one.

use crate::paths;
use anyhow::Result;
use std::path::PathBuf;

/// A version of Giveway with its chart, CRDs and daemons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edition {
    /// This checkout.
    #[default]
    Current,
    /// The commit in `tests/predecessor/commit`, which `make predecessor` builds.
    Predecessor,
}

/// Returns why the previous version cannot be used, or `None` if it can.
pub fn predecessor_missing() -> Option<String> {
    let built = std::fs::read_to_string(predecessor().join("commit")).unwrap_or_default();
    let wanted = std::fs::read_to_string(paths::repository().join("tests/predecessor/commit")).unwrap_or_default();
    (built.is_empty() || built != wanted).then(|| {
        "The upgrade is not tested: the previous version is not built. `make predecessor` builds it.".to_owned()
    })
}

fn predecessor() -> PathBuf {
    paths::repository().join("target/predecessor")
}

impl Edition {
    /// Returns a folder of its sources: `crds` or `helm`.
    pub(super) fn folder(self, name: &str) -> PathBuf {
        match self {
            Self::Current => paths::repository().join(name),
            Self::Predecessor => predecessor().join("source").join(name),
        }
    }

    /// Returns the path of one of its programs.
    ///
    /// # Errors
    /// If it has not been built.
    pub(super) fn program(self, name: &str) -> Result<PathBuf> {
        match self {
            Self::Current => paths::giveway_program(name),
            Self::Predecessor => Ok(predecessor().join("bin").join(name)),
        }
    }
}
