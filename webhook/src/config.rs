//! The command line.

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Parser};
use giveway_admission::view::Settings;
use giveway_crds::wording::Names;
use giveway_serving::process::LogOptions;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Admission webhook of Giveway: resolves priorities of pod groups, gates members of gangs, and protects what belongs
/// to Giveway on pods and priority classes.
///
/// The API server is found as kubectl finds it: by KUBECONFIG, or by the service account of the pod.
#[derive(Clone, Debug, Parser)]
#[command(name = "giveway-webhook", version, args_override_self = true)]
pub struct Config {
    /// Address of the HTTPS server: /mutate, /templates, /validate, /guard, /healthz, /readyz.
    #[arg(long, default_value = "0.0.0.0:9443", value_name = "ADDRESS:PORT")]
    pub address: SocketAddr,

    /// Address of the plain HTTP server: /metrics, /healthz, /readyz.
    #[arg(long, default_value = "0.0.0.0:9090", value_name = "ADDRESS:PORT")]
    pub metrics_address: SocketAddr,

    /// Directory with tls.crt (certificate chain) and tls.key; read again every second, so that a renewed certificate
    /// is used without a restart.
    #[arg(long, value_name = "DIRECTORY", required_unless_present = "tls_secret", conflicts_with = "tls_secret")]
    pub tls_directory: Option<PathBuf>,

    /// Secret in Giveway's own namespace with tls.crt (certificate chain) and tls.key; watched, so that the webhook starts
    /// before there is one, and a renewed certificate is used at once.
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub tls_secret: Option<String>,

    /// Giveway's own namespace. Admission ignores the objects in it and in kube-system.
    #[arg(long, default_value = "giveway-system", value_parser = NonEmptyStringValueParser::new())]
    pub namespace: String,

    /// Make every new PriorityClass a managed one, except system- classes and those annotated
    /// scheduling.giveway.dev/managed: "false".
    #[arg(long)]
    pub manage_new_classes: bool,

    /// Give Jobs of gangs a podFailurePolicy that does not count preemptions as failures. Without it such Jobs get a warning.
    #[arg(long)]
    pub default_pod_failure_policy: bool,

    /// Give Indexed Jobs of gangs a back-off for each index, with the limit of the whole Job. Without it such Jobs get a
    /// warning if they wait for minutes after a preemption.
    #[arg(long)]
    pub default_backoff_limit_per_index: bool,

    /// Write names of objects into events in other namespaces. Without it such events contain the kind and the UID.
    #[arg(long)]
    pub names_across_namespaces: bool,

    /// Protect pods from preemption by schedulers that ignore budgets: serve /guard, and watch pods and
    /// PodDisruptionBudgets for it.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "true|false")]
    pub guard: bool,

    /// Seconds for which the guard delays a rejection; below the timeout of its webhook configuration. kube-scheduler
    /// retries at once when it is rejected at once.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(0..=28), value_name = "SECONDS")]
    pub guard_delay_seconds: u64,

    /// Maximum number of seconds for which a rejection is delayed when there are many: then at most four rejections a
    /// second are sent, unless that would delay one for longer.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(0..=28), value_name = "SECONDS")]
    pub guard_max_delay_seconds: u64,

    /// Maximum number of rejections that the guard delays at the same time; others are sent at once. Each occupies a
    /// seat of the API server's priority level workload-high, which has about 98 of them and serves
    /// kube-controller-manager too, and a connection. API servers may share one address, of which 256 requests may arrive
    /// at the same time, so at most 200.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=MOST_DELAYED), value_name = "COUNT")]
    pub guard_max_delayed: u32,

    /// Remove expired taints that reserve nodes for critical add-ons, while no operator runs that would remove them.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "true|false")]
    pub critical_addons: bool,

    /// Seconds after which a taint that reserves a node for a critical add-on is removed, counted from when this webhook first observed it. A running operator removes it
    /// after ten minutes at the latest.
    #[arg(long, default_value_t = 900, value_parser = clap::value_parser!(u64).range(1..), value_name = "SECONDS")]
    pub kept_node_seconds: u64,

    /// Maximum number of seconds in which a review arrives and is answered, whatever its caller asks for: the timeout of the
    /// chart's webhook configurations.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=30), value_name = "SECONDS")]
    pub timeout_seconds: u64,

    /// Maximum number of seconds in which a review of the guard arrives and is answered.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=30), value_name = "SECONDS")]
    pub guard_timeout_seconds: u64,

    /// Certificates of authorities (PEM). With it, reviews are answered only to clients with a certificate that one of
    /// them has signed, and all others get status 401. Read at the start.
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,

    /// Bytes of request bodies above 32 KiB that may be in memory at the same time; further requests wait until memory is
    /// free. Requests of one client address that have not arrived completely get a quarter of it.
    #[arg(long, default_value_t = 64 << 20, value_parser = clap::value_parser!(u32).range(1 << 20..), value_name = "BYTES")]
    pub body_budget_bytes: u32,

    /// The log.
    #[command(flatten)]
    pub log: LogOptions,
}

/// Largest number of rejections that may be delayed at the same time. Each has a connection of its own, and all of them may
/// arrive at once from one address: then they and other reviews still are fewer than
/// [`Limits::unfinished`](giveway_serving::Limits::unfinished), so that none of them is dismissed.
const MOST_DELAYED: i64 = 200;

/// Seconds that are left of the guard's timeout when a delayed rejection is sent.
const MARGIN_SECONDS: u64 = 5;

impl Config {
    /// Checks flags that depend on each other: the guard's delays must be at least 5 seconds below its timeout.
    ///
    /// # Errors
    /// A delay is longer; the error names the flag. The API server would not wait for a rejection, and permit the preemption.
    pub fn check(&self) -> Result<(), String> {
        let limit = self.guard_timeout_seconds.saturating_sub(MARGIN_SECONDS);
        let delays = [
            ("--guard-delay-seconds", self.guard_delay_seconds),
            ("--guard-max-delay-seconds", self.guard_max_delay_seconds),
        ];
        match delays.into_iter().find(|(_, seconds)| self.guard && *seconds > limit) {
            None => Ok(()),
            Some((flag, seconds)) => Err(format!(
                "{flag} is {seconds}: it must be at most {limit}, {MARGIN_SECONDS} seconds below --guard-timeout-seconds ({})",
                self.guard_timeout_seconds
            )),
        }
    }

    /// Returns the settings of the admission rules, from the flags.
    pub fn settings(&self) -> Settings {
        Settings {
            namespace: self.namespace.clone(),
            manage_new_classes: self.manage_new_classes,
            default_pod_failure_policy: self.default_pod_failure_policy,
            default_backoff_limit_per_index: self.default_backoff_limit_per_index,
            names: Names { across: self.names_across_namespaces },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use giveway_serving::Limits;

    #[test]
    fn the_command_line_is_well_formed_and_has_the_documented_defaults() {
        Config::command().debug_assert();
        let config = Config::parse_from(["giveway-webhook", "--tls-directory", "/tls"]);
        assert_eq!(config.address.to_string(), "0.0.0.0:9443");
        assert_eq!(config.metrics_address.to_string(), "0.0.0.0:9090");
        assert_eq!(config.namespace, "giveway-system");
        assert_eq!(config.body_budget_bytes, 64 * 1024 * 1024);
        assert_eq!((config.timeout_seconds, config.guard_timeout_seconds, config.client_ca_file), (10, 30, None));
        assert_eq!((config.guard, config.guard_delay_seconds, config.guard_max_delayed), (true, 8, 30));
        assert_eq!((config.critical_addons, config.kept_node_seconds), (true, 900));
    }

    #[test]
    fn the_guard_delays_rejections_for_less_than_the_api_server_waits() {
        let checked =
            |flags: &[&str]| Config::parse_from([&["giveway-webhook", "--tls-secret", "tls"], flags].concat()).check();
        assert_eq!(checked(&[]), Ok(()));
        assert_eq!(checked(&["--guard-delay-seconds=25", "--guard-max-delay-seconds=25"]), Ok(()));
        let words = "--guard-delay-seconds is 26: it must be at most 25, 5 seconds below --guard-timeout-seconds (30)";
        assert_eq!(checked(&["--guard-delay-seconds=26"]), Err(words.to_owned()));
        let words =
            "--guard-max-delay-seconds is 24: it must be at most 15, 5 seconds below --guard-timeout-seconds (20)";
        assert_eq!(checked(&["--guard-timeout-seconds=20"]), Err(words.to_owned()));
        assert_eq!(checked(&["--guard-timeout-seconds=20", "--guard=false"]), Ok(()));
    }

    #[test]
    fn no_more_rejections_are_delayed_than_one_address_may_send_at_once() {
        let delaying = |count: &str| {
            Config::try_parse_from(["giveway-webhook", "--tls-secret", "tls", "--guard-max-delayed", count])
        };
        assert_eq!(delaying("200").unwrap().guard_max_delayed, 200);
        let error = delaying("201").unwrap_err().to_string();
        assert!(
            error.contains("invalid value '201' for '--guard-max-delayed <COUNT>': 201 is not in 0..=200"),
            "{error}"
        );
        // A fifth of the unfinished requests of an address is left for other reviews.
        let unfinished = Limits::default().unfinished;
        assert_eq!(unfinished, 256, "the text of the flag has this number");
        assert!(usize::try_from(MOST_DELAYED).unwrap() <= unfinished - unfinished / 5);
    }

    #[test]
    fn the_certificate_comes_from_one_place() {
        let error = |arguments: &[&str]| {
            Config::try_parse_from([&["giveway-webhook"], arguments].concat()).unwrap_err().to_string()
        };
        assert!(error(&[]).contains("required arguments were not provided:\n  --tls-directory <DIRECTORY>"));
        let both = error(&["--tls-directory", "/tls", "--tls-secret", "a"]);
        assert!(both.contains("'--tls-directory <DIRECTORY>' cannot be used with '--tls-secret <NAME>'"), "{both}");
        let config = Config::parse_from(["giveway-webhook", "--tls-secret", "a"]);
        assert_eq!((config.tls_directory, config.tls_secret.as_deref()), (None, Some("a")));
    }
}
