//! Images of one program and its shared libraries, without a registry.

use super::tar::Tar;
use anyhow::{Context as _, Result, bail};
use aws_lc_rs::digest::{SHA256, digest};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A container image of one program at `/usr/bin/NAME`.
pub(super) struct Image<'a> {
    /// Name with tag, such as `giveway.test/workload:1`.
    pub(super) reference: &'a str,
    /// The path of the program on this machine; it is the entrypoint.
    pub(super) program: &'a Path,
    /// Its user and group.
    pub(super) user: &'a str,
}

impl Image<'_> {
    /// Returns an archive for `ctr images import`: manifest, configuration and one layer.
    ///
    /// # Errors
    /// If the program or one of its libraries cannot be read.
    pub(super) fn archive(&self) -> Result<Vec<u8>> {
        let name = self.program.file_name().context("a program has a name")?.to_string_lossy();
        let target = format!("/usr/bin/{name}");
        let layer = layer(self.program, &target)?;
        let hash: String = digest(&SHA256, &layer).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {"Entrypoint": [target], "Env": ["PATH=/usr/bin"], "User": self.user},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{hash}")]},
        });
        let manifest = json!([{"Config": "config.json", "RepoTags": [self.reference], "Layers": ["layer.tar"]}]);
        let mut tar = Tar::default();
        tar.file("manifest.json", manifest.to_string().as_bytes());
        tar.file("config.json", config.to_string().as_bytes());
        tar.file("layer.tar", &layer);
        Ok(tar.finish())
    }
}

fn layer(program: &Path, target: &str) -> Result<Vec<u8>> {
    let mut files = vec![(program.to_path_buf(), target.to_owned())];
    files.extend(libraries(program)?.into_iter().map(|path| (path.clone(), path.display().to_string())));
    let mut folders = BTreeSet::new();
    for (_, target) in &files {
        folders.extend(Path::new(target).ancestors().skip(1).filter(|path| *path != Path::new("/")).map(PathBuf::from));
    }
    let mut tar = Tar::default();
    let inside = |path: &str| path.trim_start_matches('/').to_owned();
    // A folder sorts before its contents.
    for folder in &folders {
        tar.folder(&(inside(&folder.display().to_string()) + "/"));
    }
    for (source, target) in &files {
        let content = fs::read(source).with_context(|| format!("reading {}", source.display()))?;
        tar.file(&inside(target), &content);
    }
    Ok(tar.finish())
}

/// Returns the paths of a program's shared libraries and loader; empty for a static program.
fn libraries(program: &Path) -> Result<BTreeSet<PathBuf>> {
    let said = Command::new("ldd").arg(program).output().context("starting ldd")?;
    let text = String::from_utf8_lossy(&said.stdout);
    if !said.status.success() {
        let error = String::from_utf8_lossy(&said.stderr);
        if error.contains("not a dynamic executable") {
            return Ok(BTreeSet::new());
        }
        bail!("ldd {}: {}", program.display(), error.trim());
    }
    if let Some(line) = text.lines().find(|line| line.contains("not found")) {
        bail!("{} misses a library: {}", program.display(), line.trim());
    }
    Ok(text.lines().filter_map(library).collect())
}

/// Returns the path in a line of ldd, such as `libc.so.6 => /lib/libc.so.6 (0x7f…)` or `/lib64/ld-linux.so.2 (0x7f…)`.
fn library(line: &str) -> Option<PathBuf> {
    let found = line.split_once("=> ").map_or(line, |(_, path)| path);
    let path = found.split_whitespace().next()?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// Returns this machine's architecture in the notation of images.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_parsed_from_the_output_of_ldd() {
        let path = |line| library(line).map(|path| path.display().to_string());
        assert_eq!(path("\tlinux-vdso.so.1 (0x00007ffd)"), None);
        assert_eq!(
            path("\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)"),
            Some("/lib/x86_64-linux-gnu/libc.so.6".to_owned())
        );
        assert_eq!(path("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)"), Some("/lib64/ld-linux-x86-64.so.2".to_owned()));
    }
}
