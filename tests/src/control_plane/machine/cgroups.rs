//! The cgroups of a machine: one in every hierarchy, below the one that this program is in, so that the limits of whoever
//! started it hold for the machine too.

use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";

/// Makes a cgroup with this name in every hierarchy.
///
/// # Errors
/// This program may not make cgroups.
pub(super) fn create(name: &str) -> Result<Vec<PathBuf>> {
    let own = fs::read_to_string("/proc/self/cgroup").context("reading which cgroups this program is in")?;
    paths(&own, name).into_iter().map(|path| create_one(&path).map(|()| path)).collect()
}

/// Where the cgroups belong, after a text as in `/proc/self/cgroup`.
fn paths(own: &str, name: &str) -> Vec<PathBuf> {
    let lines = own.lines().filter_map(|line| line.splitn(3, ':').collect::<Vec<_>>().try_into().ok());
    let hierarchies: Vec<PathBuf> = lines
        .filter(|[_, controllers, _]: &[&str; 3]| !controllers.is_empty())
        .map(|[_, controllers, path]| {
            let folder = controllers.strip_prefix("name=").unwrap_or(controllers);
            Path::new(ROOT).join(folder).join(path.trim_start_matches('/')).join(name)
        })
        .collect();
    // Version 2 hands controllers down only through cgroups without processes: the root is the one that always does.
    if hierarchies.is_empty() { vec![Path::new(ROOT).join(name)] } else { hierarchies }
}

fn create_one(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("making the cgroup {}", path.display()))?;
    let parent = path.parent().unwrap_or(path);
    // Version 1 lets nobody into a cgroup that was not told its CPUs.
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
