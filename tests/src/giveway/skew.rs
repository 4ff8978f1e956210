//! Programs with a wrong clock: a preloaded library adds an offset to the wall clock.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The monotonic clock is not changed.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    const char *ahead = getenv("CLOCK_AHEAD");
    long answer = syscall(SYS_clock_gettime, clock, time);
    if (answer == 0 && clock == CLOCK_REALTIME && ahead) {
        time->tv_sec += atol(ahead);
    }
    return (int)answer;
}
"#;

/// Compiles the library in a directory and returns its path.
///
/// # Errors
/// If there is no C compiler or it fails.
pub fn library(directory: &Path) -> Result<PathBuf> {
    let (source, library) = (directory.join("skew.c"), directory.join("skew.so"));
    std::fs::write(&source, SOURCE)?;
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
    let output = cc.output().context("cc cannot be started: install gcc")?;
    ensure!(output.status.success(), "cc: {}", String::from_utf8_lossy(&output.stderr));
    Ok(library)
}
