//! What makes sure that nothing is left behind: a small process of its own that ends every process of a control
//! plane, and removes its directory, cgroups and links, as soon as the program that started them is gone, however that happened.
//!
//! Destructors do not run after Ctrl-C or `kill -9`; the end of a pipe is noticed always.

use super::ports::Block;
use anyhow::{Context as _, Result};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

const SCRIPT: &str = include_str!("guard.sh");

/// The handle of the guard of one directory; its last clone that is dropped lets the guard do its work and waits
/// until that is done.
#[derive(Clone)]
pub struct Guard(Arc<Inner>);

struct Inner {
    child: Mutex<Child>,
    pipe: Mutex<Option<ChildStdin>>,
}

impl Guard {
    /// Starts the guard of this directory, which holds the lock of these ports until it has ended.
    ///
    /// # Errors
    /// There is no `/bin/sh`, or it cannot be started.
    pub(super) fn start(directory: &Path, ports: &Block) -> Result<Self> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "giveway-guard"])
            .arg(directory)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::from(ports.lock()?))
            .stderr(Stdio::null())
            .spawn()
            .context("starting /bin/sh as the guard of a control plane")?;
        let pipe = child.stdin.take();
        Ok(Self(Arc::new(Inner { child: Mutex::new(child), pipe: Mutex::new(pipe) })))
    }

    /// From now on the process group that `pid` leads is ended with the rest.
    pub(super) fn add(&self, pid: u32) {
        self.say("add", &pid.to_string());
    }

    /// The process has been waited for; its number may belong to another one soon.
    pub(super) fn gone(&self, pid: u32) {
        self.say("gone", &pid.to_string());
    }

    /// Leaves everything as it is when this program ends.
    pub(super) fn keep(&self) {
        self.say("keep", "");
    }

    /// This cgroup and those below it are removed once every process is gone.
    pub(super) fn cgroup(&self, path: &Path) {
        self.say("cgroup", &path.display().to_string());
    }

    /// This network link of the host is removed in the end.
    pub(super) fn link(&self, name: &str) {
        self.say("link", name);
    }

    fn say(&self, word: &str, about: &str) {
        let mut pipe = self.0.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipe) = pipe.as_mut() {
            // A guard that is gone cannot be helped here; the processes are ended by their own destructors as well.
            drop(writeln!(pipe, "{word} {about}").and_then(|()| pipe.flush()));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        drop(self.pipe.lock().unwrap_or_else(PoisonError::into_inner).take());
        drop(self.child.lock().unwrap_or_else(PoisonError::into_inner).wait());
    }
}
