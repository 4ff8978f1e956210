//! The file with the configuration of kube-scheduler, for the command lines of operator and plugin.

use giveway_crds::scheduler_config::SchedulerConfig;

/// Reads the configuration of kube-scheduler from the file at `path`.
///
/// # Errors
/// The file cannot be read, or is not a configuration that Giveway can use; then the error names field and value.
pub fn read(path: &str) -> Result<SchedulerConfig, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("the file cannot be read: {error}"))?;
    SchedulerConfig::parse(&text).map_err(|error| error.to_string())
}
