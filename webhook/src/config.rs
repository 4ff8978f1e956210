//! The command line.

use crate::view::Settings;
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Parser, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Admission webhook of Giveway: resolves priorities of pod groups, holds members of gangs, and protects what belongs
/// to Giveway on pods and priority classes.
///
/// The API server is found as kubectl finds it: by KUBECONFIG, or by the service account of the pod.
#[derive(Clone, Debug, Parser)]
#[command(name = "giveway-webhook", version)]
pub struct Config {
    /// Address of the HTTPS server: /mutate, /validate, /guard, /healthz, /readyz.
    #[arg(long, default_value = "0.0.0.0:9443", value_name = "ADDRESS:PORT")]
    pub address: SocketAddr,

    /// Address of the plain HTTP server: /metrics, /healthz, /readyz.
    #[arg(long, default_value = "0.0.0.0:9090", value_name = "ADDRESS:PORT")]
    pub metrics_address: SocketAddr,

    /// Directory with tls.crt (certificate chain) and tls.key; read again every second, so that a renewed certificate
    /// is used without a restart.
    #[arg(long, value_name = "DIRECTORY")]
    pub tls_directory: PathBuf,

    /// Giveway's own namespace. Nothing in it is touched, as in kube-system.
    #[arg(long, default_value = "giveway-system", value_parser = NonEmptyStringValueParser::new())]
    pub namespace: String,

    /// User name of the operator: the only one who may remove the gate from members of gangs, and change Giveway's
    /// annotations on pods.
    #[arg(long, default_value = "system:serviceaccount:giveway-system:giveway-operator", value_name = "USER", value_parser = NonEmptyStringValueParser::new())]
    pub operator_user: String,

    /// Make every new PriorityClass a managed one, except system- classes and those annotated
    /// scheduling.giveway.dev/managed: "false".
    #[arg(long)]
    pub manage_new_classes: bool,

    /// Guard pods against preemption by schedulers that ask no budget: serve /guard, and watch pods and
    /// PodDisruptionBudgets for it.
    #[arg(long, default_value_t = true, action = ArgAction::Set, value_name = "true|false")]
    pub guard: bool,

    /// Seconds for which the guard holds a refusal; below the time-out of its webhook configuration. One that comes at
    /// once makes kube-scheduler ask again at once.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(0..=28), value_name = "SECONDS")]
    pub guard_hold_seconds: u64,

    /// The most seconds for which a refusal is held when there are many: answers go out at most four a second then.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(0..=28), value_name = "SECONDS")]
    pub guard_longest_hold_seconds: u64,

    /// How many refusals the guard holds at the same time; those above are answered at once. Each occupies a seat of the
    /// API server's priority level workload-high, which has about 98 of them and serves kube-controller-manager too.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=100_000), value_name = "COUNT")]
    pub guard_max_held: u32,

    /// Form of the log lines.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// What is logged: a level (error, warn, info, debug, trace) or directives such as info,giveway_webhook=debug.
    #[arg(long, default_value = "info", value_name = "FILTER")]
    pub log_level: String,
}

/// Form of the log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Config {
    /// What the rules have to know.
    pub fn settings(&self) -> Settings {
        Settings {
            namespace: self.namespace.clone(),
            operator_user: self.operator_user.clone(),
            manage_new_classes: self.manage_new_classes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed_and_has_the_documented_defaults() {
        Config::command().debug_assert();
        let config = Config::parse_from(["giveway-webhook", "--tls-directory", "/tls"]);
        assert_eq!(config.address.to_string(), "0.0.0.0:9443");
        assert_eq!(config.metrics_address.to_string(), "0.0.0.0:9090");
        assert_eq!(config.namespace, "giveway-system");
        assert_eq!(config.operator_user, "system:serviceaccount:giveway-system:giveway-operator");
        assert_eq!((config.guard, config.guard_hold_seconds, config.guard_max_held), (true, 8, 30));
    }

    #[test]
    fn an_empty_operator_user_would_match_nameless_requests_and_is_refused() {
        let arguments = ["giveway-webhook", "--tls-directory", "/tls", "--operator-user", ""];
        let error = Config::try_parse_from(arguments).unwrap_err().to_string();
        assert!(error.contains("a value is required for '--operator-user <USER>'"), "{error}");
    }
}
