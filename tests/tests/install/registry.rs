//! A local image registry (crane), and pulling from it.

use crate::run;
use giveway_tests::control_plane::ports::Block;
use giveway_tests::paths;
use giveway_tests::wait::wait_for;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The images and their programs.
pub(crate) const IMAGES: [(&str, &str); 3] = [
    ("giveway-operator", "giveway-operator"),
    ("giveway-webhook", "giveway-webhook"),
    ("giveway-cli", "kubectl-giveway"),
];

/// A registry process that is killed when the value is dropped.
pub(crate) struct Registry {
    child: Child,
    _ports: Block,
    pub(crate) address: String,
}

impl Registry {
    /// Starts a registry and waits until it answers.
    pub(crate) async fn start() -> Self {
        let ports = Block::claim().unwrap();
        let address = format!("127.0.0.1:{}", ports.additional());
        let mut command = Command::new(crane());
        command.args(["registry", "serve", "--address", &address]).stdout(Stdio::null()).stderr(Stdio::null());
        let registry = Self { child: command.spawn().unwrap(), _ports: ports, address: address.clone() };
        wait_for("the registry answers", Duration::from_secs(30), async || {
            tokio::net::TcpStream::connect(&address).await.map(drop).map_err(|error| error.to_string())
        })
        .await;
        registry
    }

    /// Pushes the images and the chart of a release.
    pub(crate) fn push_release(&self) {
        let helm = paths::control_plane_program("helm").unwrap().display().to_string();
        let env = [("HELM", helm.as_str()), ("HELM_PUSH", "--plain-http")];
        run(&paths::repository().join("packaging/push.sh"), &["target/dist", &self.address], &env);
    }

    /// Returns the reference of an image in this registry.
    pub(crate) fn reference(&self, image: &str) -> String {
        format!("{}/{image}:{}", self.address, crate::VERSION)
    }

    /// Pulls an image and unpacks its file system into this directory.
    pub(crate) fn unpack(&self, image: &str, root: &Path) {
        std::fs::create_dir_all(root).unwrap();
        let tar = root.with_extension("tar").display().to_string();
        run(&crane(), &["export", &self.reference(image), &tar], &[]);
        run(Path::new("tar"), &["--extract", "--file", &tar, "--directory", &root.display().to_string()], &[]);
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Returns the path of `crane`, which `make packaging-tools` builds.
pub(crate) fn crane() -> PathBuf {
    let path = paths::repository().join("target/packaging/bin/crane");
    assert!(path.is_file(), "{} is missing: run `make packaging-tools` first", path.display());
    path
}
