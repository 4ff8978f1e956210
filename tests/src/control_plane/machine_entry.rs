//! Starts programs in a [machine](super::machine).

use std::path::{Path, PathBuf};
use std::process::Command;

const RUN: &str = include_str!("machine_entry.sh");

/// Entry to a machine.
#[derive(Clone, Debug)]
pub struct MachineEntry {
    first: u32,
    folder: PathBuf,
}

impl MachineEntry {
    /// Returns the entry of the machine with this folder; `first` is the host's process id of its first process.
    pub(super) fn new(first: u32, folder: PathBuf) -> Self {
        Self { first, folder }
    }

    /// Returns the command that runs this program in the machine, without arguments.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", RUN, "giveway-run"]).arg(&self.folder).arg(self.first.to_string()).arg(program);
        command
    }
}
