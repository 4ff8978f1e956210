//! Memory and processor time of processes, from `/proc`.

use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Unit of the times in `/proc/PID/stat`.
const TICK: Duration = Duration::from_millis(10);
/// Interval in which the memory of a process is read: its peak just before its end can be missed.
const INTERVAL: Duration = Duration::from_millis(5);

/// Returns the processor time of a process.
///
/// # Errors
/// If it does not run.
pub(super) fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("reading the processor time of a process")?;
    ticks(&stat).map(|ticks| TICK * ticks).context("the processor time of a process is unknown")
}

/// Returns user and system time, the 14th and 15th field. The second one, the name, may contain blanks.
fn ticks(stat: &str) -> Option<u32> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u32>().ok()? + fields.next()?.parse::<u32>().ok()?)
}

/// Time and peak memory of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ran {
    pub(super) time: Duration,
    /// Peak of its resident memory in MiB.
    pub(super) peak: u64,
}

/// Runs a program of the command line to its end.
///
/// # Errors
/// If it fails.
pub(super) async fn run(program: &Path, args: &[&str], kubeconfig: &Path) -> Result<Ran> {
    let start = Instant::now();
    let mut child = Command::new(program)
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .with_context(|| format!("starting {}", program.display()))?;
    let mut peak = 0;
    loop {
        peak = peak.max(peak_of(child.id()).unwrap_or_default());
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "{} {} has failed: {status}", program.display(), args.join(" "));
            return Ok(Ran { time: start.elapsed(), peak: peak / 1024 });
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Returns the peak of the resident memory of a process in KiB.
fn peak_of(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_also_if_the_name_has_blanks() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 123 456 789";
        assert_eq!(ticks(stat), Some(300));
        assert!(cpu_time(std::process::id()).is_ok() && peak_of(std::process::id()).is_some_and(|peak| peak > 0));
        assert_eq!(ticks("nothing"), None);
    }
}
