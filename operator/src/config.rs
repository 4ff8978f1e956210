//! Command line of the operator.

use crate::rates::Most;
use crate::words::Names;
use clap::{Parser, ValueEnum};
use giveway_crds::mode::Mode;
use giveway_planner::{ObjectKey, Terms};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::jiff::SignedDuration;
use std::net::SocketAddr;
use std::time::Duration;

/// The operator of Giveway: decides for whole pod groups what is evicted, and carries it out.
///
/// It finds the API server as kubectl does: KUBECONFIG, or the service account inside a cluster.
#[derive(Clone, Debug, Parser)]
#[command(name = "giveway-operator", version, about, long_about, args_override_self = true)]
pub struct Config {
    /// Namespace of the operator itself: its lease lives there.
    #[arg(long, env = "POD_NAMESPACE", default_value = "giveway-system")]
    pub namespace: String,

    /// What to do: enforce; observe (decide, store what would be done, and evict nobody); or off (release every pod, and evict
    /// nobody). The ConfigMap giveway-mode in the operator's namespace overrides it, without a restart.
    #[arg(long, default_value_t = Mode::Enforce)]
    pub mode: Mode,

    /// Name of the Lease by which replicas elect a leader.
    #[arg(long, default_value = "giveway-operator")]
    pub lease_name: String,

    /// Identity in the election; a random suffix is added. Default: the host name.
    #[arg(long, env = "GIVEWAY_IDENTITY")]
    pub identity: Option<String>,

    /// Seconds that a lease is valid without renewal: the longest time without a leader after a crash.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub lease_duration_seconds: u64,

    /// Address of /metrics, /healthz and /readyz (plain HTTP).
    #[arg(long, default_value = "0.0.0.0:9091")]
    pub metrics_address: SocketAddr,

    /// Collector that is told of every preemption by a trace (OTLP over HTTP, JSON), such as
    /// http://otel-collector:4318/v1/traces. Default: nobody is.
    #[arg(long, value_parser = parse_collector)]
    pub traces_endpoint: Option<String>,

    /// Schedulers for whose pods Giveway preempts, separated by commas. Pods of others only occupy room.
    #[arg(long, value_delimiter = ',', default_value = "default-scheduler")]
    pub scheduler_names: Vec<String>,

    /// Most evictions a second.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub evictions_per_second: u32,

    /// How many plans that evict pods may be in flight for preemptors of the same or a higher priority. A preemptor waits while there are so
    /// many: the time and memory that plans take are bounded for each priority.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_plans: u32,

    /// Most evictions a minute in one namespace, that of the victims; 0 forbids them all. Default: no limit.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub evictions_per_minute_per_namespace: Option<u32>,

    /// Most evictions a minute in the cluster; 0 forbids them all. Default: no limit.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub evictions_per_minute_per_cluster: Option<u32>,

    /// Most API calls at the same time. Evictions come on top: up to three times as many.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub concurrent_calls: u32,

    /// Seconds that released pods may take to be bound before the placement is looked at again.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub release_timeout_seconds: u64,

    /// How long a node may be not ready before plans that have begun to evict are cancelled for it, such as 60s. 0s: at once.
    #[arg(long, default_value = "60s", value_parser = parse_duration)]
    pub node_outage_grace: Duration,

    /// How long a gang may be partially scheduled, with members that are bound and others that cannot be, before its ungated pods are
    /// evicted so that the pods that replace them start together, such as 10m. 0s: for ever.
    #[arg(long, default_value = "10m", value_parser = parse_duration)]
    pub half_bound_timeout: Duration,

    /// How long a group that was made from a template is kept when no pod names it any more, such as 10m.
    #[arg(long, default_value = "10m", value_parser = parse_duration)]
    pub unused_group_timeout: Duration,

    /// How long a Preemption that is over is kept, such as 168h or 30m.
    #[arg(long, default_value = "168h", value_parser = parse_duration)]
    pub preemption_history: Duration,

    /// How many Preemptions that are over are kept at most.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub preemption_history_limit: u32,

    /// Tell victims and preemptors of other namespaces each other's names, and not only kind and UID.
    #[arg(long)]
    pub names_across_namespaces: bool,

    /// Make room for critical add-ons that kube-scheduler cannot place: pods with a priority of 2000000000 or more, and
    /// annotated ones in some namespaces.
    #[arg(long, action = clap::ArgAction::Set, default_value_t = true)]
    pub critical_addons: bool,

    /// How long a critical add-on is Unschedulable before somebody is evicted for it, such as 30s.
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    pub critical_addons_after: Duration,

    /// Namespaces in which the annotation scheduling.giveway.dev/critical-addon: "true" counts, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "kube-system")]
    pub critical_addons_namespaces: Vec<String>,

    /// A critical add-on that can run on one node only may displace critical pods of its own priority that have a place
    /// elsewhere.
    #[arg(long)]
    pub critical_addons_stranded: bool,

    /// Lease of kube-scheduler, as NAMESPACE/NAME: nobody is evicted for a critical add-on unless it is renewed.
    #[arg(long, default_value = "kube-system/kube-scheduler", value_parser = parse_lease)]
    pub scheduler_lease: ObjectKey,

    /// Namespaces in which nobody is evicted, separated by commas; beside them those that are annotated
    /// scheduling.giveway.dev/never-evict: "true".
    #[arg(long, value_delimiter = ',')]
    pub protected_namespaces: Vec<String>,

    /// In which namespaces groups are served, as a LabelSelector in JSON, such as {"matchLabels": {"team": "ml"}}. Default: in all.
    #[arg(long, value_name = "JSON", value_parser = parse_selector)]
    pub served_namespaces: Option<LabelSelector>,

    /// Who makes the webhook's certificate. With `operator` the leader keeps it in the Secrets giveway-webhook-tls and
    /// giveway-webhook-ca, and writes caBundle of the webhook configurations named giveway.
    #[arg(long, value_enum, default_value_t = Certificates::External)]
    pub certificates: Certificates,

    /// URL of a webhook that runs outside the cluster, https://HOST:PORT; its certificate is made for this host. Default:
    /// the Service giveway-webhook.
    #[arg(long)]
    pub webhook_url: Option<String>,

    /// Seconds in which every API server learns of a changed webhook configuration: so long a new certificate authority is
    /// announced before it signs.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub ca_settle_seconds: u64,

    /// How a cluster autoscaler is asked for room for a gang that waits for it.
    #[arg(long, value_enum, default_value_t = ProvisioningMethod::Off)]
    pub provisioning_method: ProvisioningMethod,

    /// How long a gang waits for room before an autoscaler is asked, such as 30s.
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    pub provisioning_after: Duration,

    /// Ask at once where a plan stands that would evict somebody after the group's preemptionDelaySeconds.
    #[arg(long)]
    pub provisioning_first: bool,

    /// For no gang is room asked of which more pods wait.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub provisioning_limit: u32,

    /// Image of placeholders: a program that does nothing and ends when it is told to.
    #[arg(long, default_value = "registry.k8s.io/pause:3.10")]
    pub placeholder_image: String,

    /// Format of the log.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// What is logged: a level, or a filter such as `info,giveway_operator=debug`.
    #[arg(long, default_value = "info")]
    pub log_level: String,
}

/// How a cluster autoscaler is asked for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProvisioningMethod {
    /// Not at all.
    Off,
    /// By a ProvisioningRequest, which cluster-autoscaler carries out.
    ProvisioningRequest,
    /// By pods that any autoscaler sees.
    Placeholder,
}

/// Who makes the webhook's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Certificates {
    /// The operator.
    Operator,
    /// Somebody else, such as cert-manager.
    External,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Config {
    /// Who may know which names.
    pub fn names(&self) -> Names {
        Names { across: self.names_across_namespaces }
    }

    /// The limits of evictions in a minute.
    pub fn evictions_per_minute(&self) -> Most {
        Most { namespace: self.evictions_per_minute_per_namespace, cluster: self.evictions_per_minute_per_cluster }
    }

    /// Which pods are critical add-ons, and what may be done for them; `None` when nothing may.
    pub fn critical_addons(&self) -> Option<Terms> {
        self.critical_addons.then(|| Terms {
            namespaces: self.critical_addons_namespaces.iter().cloned().collect(),
            stranded: self.critical_addons_stranded,
        })
    }

    /// The identity to use in the election: differs from start to start, because it also names the term of a plan.
    pub fn identity(&self) -> String {
        let host = || std::env::var("HOSTNAME").unwrap_or_else(|_| "giveway-operator".to_owned());
        format!("{}-{:08x}", self.identity.clone().unwrap_or_else(host), unique())
    }
}

/// Reads a time such as `168h` or `90s`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let read: Result<SignedDuration, _> = text.parse();
    let positive = read.ok().and_then(|time| Duration::try_from(time).ok());
    positive.ok_or_else(|| "it must be a time such as 168h, 30m or 90s".to_owned())
}

/// Reads the URL of a collector. What goes to it goes without TLS.
fn parse_collector(text: &str) -> Result<String, String> {
    let url: Option<http::Uri> = text.parse().ok();
    let plain = url.filter(|url| url.scheme_str() == Some("http") && url.host().is_some_and(|host| !host.is_empty()));
    let problem = "it must be an http:// URL of a collector, such as http://otel-collector:4318/v1/traces";
    plain.map(|_| text.to_owned()).ok_or_else(|| problem.to_owned())
}

/// Reads a LabelSelector in JSON.
fn parse_selector(text: &str) -> Result<LabelSelector, String> {
    let selector: LabelSelector = serde_json::from_str(text).map_err(|error| {
        format!("it must be a LabelSelector in JSON, such as {{\"matchLabels\": {{\"team\": \"ml\"}}}}: {error}")
    })?;
    for rule in selector.match_expressions.iter().flatten() {
        let values = rule.values.as_ref().map_or(0, Vec::len);
        let right = match rule.operator.as_str() {
            "In" | "NotIn" => values > 0,
            "Exists" | "DoesNotExist" => values == 0,
            operator => return Err(format!("operator {operator:?}: must be In, NotIn, Exists or DoesNotExist")),
        };
        if !right {
            return Err(format!("key {}: In and NotIn need values, Exists and DoesNotExist take none", rule.key));
        }
    }
    Ok(selector)
}

/// Reads `NAMESPACE/NAME`.
fn parse_lease(text: &str) -> Result<ObjectKey, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(ObjectKey::new(namespace, name))
        }
        _ => Err("it must be NAMESPACE/NAME, such as kube-system/kube-scheduler".to_owned()),
    }
}

/// A number that differs between two starts: `RandomState` is seeded by the operating system.
fn unique() -> u32 {
    use std::hash::{BuildHasher, Hasher};
    let hash = std::collections::hash_map::RandomState::new().build_hasher().finish();
    u32::try_from(hash >> 32).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_has_a_namespace_and_a_name() {
        assert_eq!(parse_lease("kube-system/kube-scheduler"), Ok(ObjectKey::new("kube-system", "kube-scheduler")));
        for wrong in ["", "kube-scheduler", "/a", "a/", "a/b/c"] {
            let words = "it must be NAMESPACE/NAME, such as kube-system/kube-scheduler";
            assert_eq!(parse_lease(wrong).unwrap_err(), words);
        }
    }

    #[test]
    fn a_collector_is_reached_by_plain_http() {
        let endpoint = |url: &str| {
            let config = Config::try_parse_from(["giveway-operator", &format!("--traces-endpoint={url}")]);
            config.map(|config| config.traces_endpoint).map_err(|error| error.to_string())
        };
        let url = "http://otel-collector.monitoring:4318/v1/traces";
        assert_eq!(endpoint(url), Ok(Some(url.to_owned())));
        for wrong in ["", "otel-collector:4318", "https://otel-collector:4318/v1/traces", "http://"] {
            let error = endpoint(wrong).unwrap_err();
            let why = "it must be an http:// URL of a collector, such as http://otel-collector:4318/v1/traces";
            assert!(error.contains(why) && error.contains("--traces-endpoint"), "{wrong}: {error}");
        }
    }

    #[test]
    fn namespaces_are_selected_by_json_that_is_checked() {
        let read = parse_selector(r#"{"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}"#);
        assert_eq!(read.unwrap().match_expressions.unwrap()[0].key, "a");
        let error = |operator: &str| {
            parse_selector(&format!(r#"{{"matchExpressions": [{{"key": "a", "operator": "{operator}"}}]}}"#))
        };
        assert_eq!(error("Is").unwrap_err(), "operator \"Is\": must be In, NotIn, Exists or DoesNotExist");
        assert_eq!(error("In").unwrap_err(), "key a: In and NotIn need values, Exists and DoesNotExist take none");
        assert!(parse_selector("team=ml").unwrap_err().starts_with("it must be a LabelSelector in JSON"));
    }

    #[test]
    fn the_history_is_a_time_with_a_unit() {
        assert_eq!(parse_duration("168h"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(parse_duration("90s"), Ok(Duration::from_secs(90)));
        for wrong in ["", "7", "-1h", "7 weeks"] {
            assert_eq!(parse_duration(wrong).unwrap_err(), "it must be a time such as 168h, 30m or 90s");
        }
    }
}
