//! The cgroups of a machine: one in every hierarchy, below the cgroup of this program, so that the limits of this program apply
//! to the machine.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";

/// Creates a cgroup with this name in every hierarchy.
///
/// # Errors
/// If this program may not create cgroups.
pub(super) fn create(name: &str) -> Result<Vec<PathBuf>> {
    let own = fs::read_to_string("/proc/self/cgroup").context("reading which cgroups this program is in")?;
    paths(&own, name).into_iter().map(|path| create_one(&path).map(|()| path)).collect()
}

/// Returns the paths of the cgroups, from the contents of `/proc/self/cgroup`.
fn paths(own: &str, name: &str) -> Vec<PathBuf> {
    let lines = own.lines().filter_map(|line| line.splitn(3, ':').collect::<Vec<_>>().try_into().ok());
    let hierarchies: Vec<PathBuf> = lines
        .filter(|[_, controllers, _]: &[&str; 3]| !controllers.is_empty())
        .map(|[_, controllers, path]| {
            let folder = controllers.strip_prefix("name=").unwrap_or(controllers);
            Path::new(ROOT).join(folder).join(path.trim_start_matches('/')).join(name)
        })
        .collect();
    // Version 2 enables controllers only below cgroups without processes; the root always works.
    if hierarchies.is_empty() { vec![Path::new(ROOT).join(name)] } else { hierarchies }
}

fn create_one(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("creating the cgroup {}", path.display()))?;
    let parent = path.parent().unwrap_or(path);
    // A cgroup of version 1 accepts processes only after its CPUs are set.
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if path.join(file).exists() && parent.join("cpuset.cpu_exclusive").exists() {
            let value = fs::read_to_string(parent.join(file))?;
            fs::write(path.join(file), value.trim())
                .with_context(|| format!("setting {file} of {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_gets_a_cgroup_in_every_hierarchy_of_version_1() {
        let own = "9:name=systemd:/\n4:memory:/session/a\n2:cpu,cpuacct:/\n0::/\n";
        let paths: Vec<String> = paths(own, "m").iter().map(|path| path.display().to_string()).collect();
        assert_eq!(
            paths,
            ["/sys/fs/cgroup/systemd/m", "/sys/fs/cgroup/memory/session/a/m", "/sys/fs/cgroup/cpu,cpuacct/m"]
        );
    }

    #[test]
    fn a_machine_gets_one_cgroup_at_the_root_of_version_2() {
        assert_eq!(paths("0::/user.slice/session-1.scope\n", "m"), [Path::new("/sys/fs/cgroup/m")]);
    }
}
