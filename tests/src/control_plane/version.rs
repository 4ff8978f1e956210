//! The supported versions of Kubernetes.

use crate::paths;
use anyhow::{Context as _, Result, bail};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Environment variable with the default version, such as `1.33`.
pub const CHOICE: &str = "GIVEWAY_KUBERNETES";

/// A minor version of Kubernetes 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u32);

impl Version {
    /// All versions with a Go module, the oldest first.
    pub const ALL: [Self; 5] = [Self(33), Self(34), Self(35), Self(36), Self(37)];
    /// The oldest version.
    pub const OLDEST: Self = Self::ALL[0];
    /// The newest version. Its etcd, kwok, kubectl and helm are used with all versions.
    pub const NEWEST: Self = Self::ALL[4];
    /// First version with `scheduling.k8s.io/v1beta1` and preemption by kube-scheduler for these groups.
    const WITH_GROUPS: Self = Self(37);

    /// First version with pod-level resources without a feature gate.
    const WITH_POD_RESOURCES: Self = Self(34);

    /// First version with `resource.k8s.io/v1`.
    const WITH_DEVICES: Self = Self(34);

    /// First version whose kube-scheduler allocates devices for extended resources without a feature gate.
    const WITH_RESOURCES_BY_DEVICES: Self = Self(36);

    /// Returns the version in the environment, or the newest one.
    ///
    /// # Errors
    /// If it is not in [`Version::ALL`].
    pub fn chosen() -> Result<Self> {
        match std::env::var(CHOICE) {
            Ok(text) => text.parse::<Self>().with_context(|| CHOICE),
            Err(_) => Ok(Self::NEWEST),
        }
    }

    /// Returns true if it has native groups in the API version that the tests use.
    pub fn has_groups(self) -> bool {
        self >= Self::WITH_GROUPS
    }

    /// Returns true if it has pod-level resources.
    pub fn has_pod_resources(self) -> bool {
        self >= Self::WITH_POD_RESOURCES
    }

    /// Returns true if it has devices in the API version that Giveway reads.
    pub fn has_devices(self) -> bool {
        self >= Self::WITH_DEVICES
    }

    /// Returns true if DeviceClasses serve extended resources.
    pub fn has_resources_by_devices(self) -> bool {
        self >= Self::WITH_RESOURCES_BY_DEVICES
    }

    /// Returns the path of its API server, controller manager or scheduler.
    ///
    /// # Errors
    /// If the program has not been built.
    pub fn program(self, name: &str) -> Result<PathBuf> {
        if self == Self::NEWEST {
            return paths::control_plane_program(name);
        }
        let path = paths::repository().join(format!("target/controlplane/versions/{self}/bin/{name}"));
        if !path.is_file() {
            bail!("{} is missing: run `make controlplane VERSION={self}` first", path.display());
        }
        Ok(path)
    }
}

impl Default for Version {
    fn default() -> Self {
        Self::NEWEST
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "1.{}", self.0)
    }
}

impl FromStr for Version {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|version| version.to_string() == text);
        let Some(known) = known else {
            let all = Self::ALL.map(|version| version.to_string()).join(", ");
            bail!("Invalid value: \"{text}\": must be one of {all}");
        };
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_with_a_module_are_parsed() {
        assert_eq!("1.33".parse::<Version>().unwrap(), Version::OLDEST);
        let said = "1.33.4".parse::<Version>().unwrap_err().to_string();
        assert_eq!(said, "Invalid value: \"1.33.4\": must be one of 1.33, 1.34, 1.35, 1.36, 1.37");
        for version in Version::ALL {
            let module = match version {
                Version::NEWEST => "tests/controlplane".to_owned(),
                version => format!("tests/controlplane/versions/{version}"),
            };
            let module = std::fs::read_to_string(paths::repository().join(module).join("go.mod")).unwrap();
            assert!(module.contains(&format!("\tk8s.io/kubernetes v{version}.")), "{version}");
        }
    }
}
