//! Metrics that every process has: its version, and its use of resources, under the names that all Prometheus clients
//! use.

use super::about::{About, Label, MetricKind, label};
use procfs::process::{LimitValue, Process};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

/// The metrics of a process.
pub const PROCESS: &[About] = &[CPU, RESIDENT, VIRTUAL, OPEN_FDS, MAX_FDS, THREADS, START];

const CPU: About =
    About::counter("process_cpu_seconds_total", "User and system CPU time of the process, in seconds", &[]);
const RESIDENT: About = About::gauge("process_resident_memory_bytes", "Resident memory", &[]);
const VIRTUAL: About = About::gauge("process_virtual_memory_bytes", "Virtual memory", &[]);
const OPEN_FDS: About = About::gauge("process_open_fds", "Open file descriptors", &[]);
const MAX_FDS: About = About::gauge("process_max_fds", "Maximum number of open file descriptors", &[]);
const THREADS: About = About::gauge("process_threads", "Threads", &[]);
const START: About =
    About::gauge("process_start_time_seconds", "When the process was started, in seconds since 1970", &[]);

/// Returns the description of the metric that has this name and states the program's version in a label.
pub const fn build_info(name: &'static str) -> About {
    const LABELS: &[Label] = &[label("version", "the program's version")];
    About::gauge(name, "Always 1; the labels describe the build", LABELS)
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BuildLabels {
    version: &'static str,
}

/// Registers the metrics of the process (CPU, memory, files), and a metric with the description `build` that states `version`.
pub fn register(registry: &mut Registry, build: &About, version: &'static str) {
    let info: Family<BuildLabels, Gauge> = Family::default();
    info.get_or_create(&BuildLabels { version }).set(1);
    build.register(registry, info);
    registry.register_collector(Box::new(ProcessCollector));
}

/// Reads `/proc/self` at each scrape; without it, as on other systems than Linux, these metrics are missing.
#[derive(Debug)]
struct ProcessCollector;

impl ProcessCollector {
    /// Reads the metrics of this process from `/proc`, each with its description; `None` if that fails.
    #[allow(clippy::cast_precision_loss)]
    fn read() -> Option<[(About, f64); 7]> {
        let process = Process::myself().ok()?;
        let stat = process.stat().ok()?;
        let ticks = procfs::ticks_per_second() as f64;
        let most = match process.limits().ok()?.max_open_files.soft_limit {
            LimitValue::Value(most) => most as f64,
            LimitValue::Unlimited => f64::INFINITY,
        };
        let started = procfs::boot_time_secs().ok()? as f64 + stat.starttime as f64 / ticks;
        Some([
            (CPU, (stat.utime + stat.stime) as f64 / ticks),
            (RESIDENT, (stat.rss * procfs::page_size()) as f64),
            (VIRTUAL, stat.vsize as f64),
            (OPEN_FDS, process.fd_count().ok()? as f64),
            (MAX_FDS, most),
            (THREADS, stat.num_threads as f64),
            (START, started),
        ])
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        for (about, value) in Self::read().into_iter().flatten() {
            let kind = if about.kind == MetricKind::Counter { MetricType::Counter } else { MetricType::Gauge };
            let metric = encoder.encode_descriptor(about.stem(), &format!("{}.", about.help), None, kind)?;
            match about.kind {
                MetricKind::Counter => ConstCounter::new(value).encode(metric)?,
                MetricKind::Gauge | MetricKind::Histogram => ConstGauge::new(value).encode(metric)?,
            }
        }
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_shows_its_build_its_memory_and_when_it_began() {
        let mut registry = Registry::default();
        register(&mut registry, &build_info("test_build_info"), "1.2.3");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("test_build_info{version=\"1.2.3\"} 1\n"), "{text}");
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name} is not in:\n{text}")).parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1e6);
        assert!(value("process_open_fds") >= 3.0 && value("process_max_fds") >= value("process_open_fds"));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let age = now - value("process_start_time_seconds");
        assert!((-5.0..86_400.0).contains(&age), "{age} s old");
        for about in PROCESS {
            assert!(value(about.name) >= 0.0);
        }
    }
}
