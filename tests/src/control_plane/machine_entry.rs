//! How programs get into a [machine](super::machine).

use std::path::{Path, PathBuf};
use std::process::Command;

const RUN: &str = include_str!("machine_entry.sh");

/// The way into a machine.
#[derive(Clone, Debug)]
pub struct MachineEntry {
    first: u32,
    folder: PathBuf,
}

impl MachineEntry {
    /// The entry of the machine with this folder; `first` is its first process as the host sees it.
    pub(super) fn new(first: u32, folder: PathBuf) -> Self {
        Self { first, folder }
    }

    /// The command that runs this program inside, without arguments.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", RUN, "giveway-run"]).arg(&self.folder).arg(self.first.to_string()).arg(program);
        command
    }
}
