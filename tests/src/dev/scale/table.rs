//! The table of results.

use super::Size;
use super::process::Ran;
use std::fmt;
use std::time::Duration;

/// A program that was started on the large cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Started {
    /// Until it was ready.
    pub(super) ready: Duration,
    /// Peak of its resident memory until then in MiB.
    pub(super) peak: f64,
}

/// Goal of the command line on the largest cluster.
const OF_PLAN: &str = "5 s, 400 MiB";

/// All results.
#[derive(Clone, Copy, Debug)]
pub(super) struct Results {
    pub(super) size: Size,
    /// Time of lists of the same kinds, without decoding them.
    pub(super) listing: Duration,
    pub(super) operator: Started,
    pub(super) webhook: Started,
    /// Processor time of the operator for one created pod.
    pub(super) event: Duration,
    /// From SIGKILL of the leader to the first plan of the next one, less the duration of the Lease.
    pub(super) killed: Duration,
    /// From SIGTERM to the leader to the first plan of the next one.
    pub(super) terminated: Duration,
    /// Peaks of the operator at the end, in MiB.
    pub(super) operator_peak: f64,
    /// `plan` on the live cluster, on its own snapshot, and on lists of the API server in a file.
    pub(super) plan_live: Ran,
    pub(super) plan_own: Ran,
    pub(super) plan_raw: Ran,
}

impl Results {
    /// Returns true if operator and webhook needed at most the memory that is documented for a cluster of this size.
    pub(super) fn needs_little_memory(&self) -> bool {
        let operator = self.operator.peak.max(self.operator_peak);
        operator <= self.size.operator_memory() && self.webhook.peak <= self.size.webhook_memory()
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size { nodes, pods, groups } = self.size;
        let ran = |ran: Ran| format!("{:.1} s, {} MiB", ran.time.as_secs_f64(), ran.peak);
        let (seconds, mebibytes) =
            (|time: Duration| format!("{:.1} s", time.as_secs_f64()), |peak: f64| format!("{peak:.0} MiB"));
        let (of_operator, of_webhook) = (mebibytes(self.size.operator_memory()), mebibytes(self.size.webhook_memory()));
        let ratio = self.operator.ready.as_secs_f64() / self.listing.as_secs_f64().max(0.001);
        let lines = [
            ("operator, peak resident after a cold start", mebibytes(self.operator.peak), of_operator.as_str()),
            ("operator, peak resident after all measurements", mebibytes(self.operator_peak), of_operator.as_str()),
            ("webhook, peak resident after a cold start", mebibytes(self.webhook.peak), of_webhook.as_str()),
            (
                "operator, cold start to ready",
                format!("{} ({ratio:.2})", seconds(self.operator.ready)),
                "1.5 of the lists",
            ),
            ("lists alone", seconds(self.listing), ""),
            ("webhook, cold start to ready", seconds(self.webhook.ready), ""),
            ("processor time of the operator for one created pod", milliseconds(self.event), "0.25 ms"),
            ("SIGKILL of the leader to the next plan, without the Lease", milliseconds(self.killed), "2,000 ms"),
            ("SIGTERM to the leader to the next plan", milliseconds(self.terminated), "1,000 ms"),
            ("`kubectl giveway plan`, live", ran(self.plan_live), OF_PLAN),
            ("`kubectl giveway plan`, own snapshot", ran(self.plan_own), OF_PLAN),
            ("`kubectl giveway plan`, lists in a file", ran(self.plan_raw), OF_PLAN),
        ];
        writeln!(f, "| {nodes} nodes, {pods} pods, {groups} groups | measured | goal |\n|---|---|---|")?;
        lines.iter().try_for_each(|(what, measured, goal)| writeln!(f, "| {what} | {measured} | {goal} |"))
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_how_often_the_time_of_lists_a_start_takes() {
        let started = |seconds: u64| Started { ready: Duration::from_secs(seconds), peak: 123.4 };
        let ran = Ran { time: Duration::from_millis(2500), peak: 250 };
        let results = Results {
            size: Size { nodes: 10, pods: 100, groups: 5 },
            listing: Duration::from_secs(4),
            operator: started(5),
            webhook: started(1),
            event: Duration::from_micros(240),
            killed: Duration::from_millis(1500),
            terminated: Duration::from_millis(800),
            operator_peak: 150.0,
            plan_live: ran,
            plan_own: ran,
            plan_raw: ran,
        };
        let text = results.to_string();
        for line in [
            "| 10 nodes, 100 pods, 5 groups | measured | goal |",
            "| operator, peak resident after a cold start | 123 MiB | 40 MiB |",
            "| operator, cold start to ready | 5.0 s (1.25) | 1.5 of the lists |",
            "| processor time of the operator for one created pod | 0.24 ms | 0.25 ms |",
            "| `kubectl giveway plan`, live | 2.5 s, 250 MiB | 5 s, 400 MiB |",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!results.needs_little_memory());
        let mut small = results;
        (small.operator.peak, small.operator_peak, small.webhook.peak) = (30.0, 40.0, 10.0);
        assert!(small.needs_little_memory());
    }
}
