//! The command line of the operator.

use crate::limits::rates::EvictionLimits;
use clap::{Parser, ValueEnum};
use giveway_cluster::scheduler_config;
use giveway_crds::mode::Mode;
use giveway_crds::scheduler_config::SchedulerConfig;
use giveway_crds::wording::Names;
use giveway_planner::{ObjectKey, Terms};
use giveway_serving::process::LogOptions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::jiff::SignedDuration;
use std::net::SocketAddr;
use std::time::Duration;

/// The operator of Giveway: decides for whole PodGroups which pods are evicted, and evicts them.
///
/// It finds the API server like kubectl: by KUBECONFIG, or by the service account inside a cluster.
#[derive(Clone, Debug, Parser)]
#[command(name = "giveway-operator", version, about, long_about, args_override_self = true)]
pub struct Config {
    /// Namespace of the operator, with its Lease.
    #[arg(long, env = "POD_NAMESPACE", default_value = "giveway-system")]
    pub namespace: String,

    /// Mode of Giveway: enforce; observe (make plans and store them, but evict no pod); or off (remove the scheduling
    /// gate from every pod, and evict no pod). The ConfigMap giveway-mode in the operator's namespace overrides it
    /// without a restart.
    #[arg(long, default_value_t = Mode::Enforce)]
    pub mode: Mode,

    /// Identity in the leader election, to which a random suffix is added. Default: the host name.
    #[arg(long, env = "GIVEWAY_IDENTITY")]
    pub identity: Option<String>,

    /// Seconds for which a lease is valid without renewal. After a crash there is no leader for at most this time.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub lease_duration_seconds: u64,

    /// Address of /metrics, /healthz and /readyz (plain HTTP).
    #[arg(long, default_value = "0.0.0.0:9091")]
    pub metrics_address: SocketAddr,

    /// Collector that gets a trace of every preemption (OTLP over HTTP, JSON), such as
    /// http://otel-collector:4318/v1/traces. Default: no traces are sent.
    #[arg(long, value_parser = parse_collector)]
    pub traces_endpoint: Option<String>,

    /// Schedulers for whose pods Giveway preempts, separated by commas. Pods of other schedulers only use capacity.
    #[arg(long, value_delimiter = ',', default_value = "default-scheduler")]
    pub scheduler_names: Vec<String>,

    /// Configuration of kube-scheduler, a KubeSchedulerConfiguration in YAML or JSON, with a profile for each scheduler. Read
    /// are the resources that it ignores, the node affinity that it adds, and its default topology spread constraints.
    /// Default: the one that kube-scheduler has by itself.
    #[arg(long, value_name = "FILE", value_parser = scheduler_config::read)]
    pub scheduler_config: Option<SchedulerConfig>,

    /// Maximum number of evictions per second.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub evictions_per_second: u32,

    /// Maximum number of plans that evict pods and are in flight for preemptors of the same or a higher priority.
    /// Further preemptors wait. This limits the time and memory that plans use for each priority.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub max_plans: u32,

    /// Maximum number of evictions per minute in one namespace of victims; 0 prevents all evictions. Default: no limit.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub evictions_per_minute_per_namespace: Option<u32>,

    /// Maximum number of evictions per minute in the cluster; 0 prevents all evictions. Default: no limit.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub evictions_per_minute_per_cluster: Option<u32>,

    /// Maximum number of API calls at the same time, not counting evictions, of which up to three times as many are
    /// made.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub concurrent_calls: u32,

    /// Seconds that ungated pods may take to be bound in any case before their placement is checked again. They get more
    /// time while kube-scheduler binds other pods.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub binding_timeout_seconds: u64,

    /// How long a node may be not ready before plans that have evicted pods are cancelled because of it, such as 60s.
    /// 0s: at once.
    #[arg(long, default_value = "60s", value_parser = parse_duration)]
    pub node_outage_grace: Duration,

    /// How long a gang may be partially scheduled, with members that are bound and others that cannot be, before its ungated pods are
    /// evicted so that the pods that replace them start together, such as 10m. 0s: for ever.
    #[arg(long, default_value = "10m", value_parser = parse_duration)]
    pub partially_scheduled_timeout: Duration,

    /// How long a PodGroup that was created from a template is kept after its last pod, such as 10m.
    #[arg(long, default_value = "10m", value_parser = parse_duration)]
    pub unused_group_timeout: Duration,

    /// How long the Preemption of an ended plan is kept, such as 168h or 30m.
    #[arg(long, default_value = "168h", value_parser = parse_duration)]
    pub preemption_history: Duration,

    /// Maximum number of Preemptions of ended plans that are kept.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub preemption_history_limit: u32,

    /// Show the names of victims and preemptors in other namespaces. Without it only their kind and UID are shown.
    #[arg(long)]
    pub names_across_namespaces: bool,

    /// Preempt for critical add-ons that kube-scheduler cannot schedule: in some namespaces, pods with a priority of
    /// 2000000000 or more, and annotated pods.
    #[arg(long, action = clap::ArgAction::Set, default_value_t = true)]
    pub critical_addons: bool,

    /// How long a critical add-on must be unschedulable before pods are evicted for it, such as 30s.
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    pub critical_addons_after: Duration,

    /// Namespaces of critical add-ons, separated by commas: pods are evicted only for pods there, and only there the
    /// annotation scheduling.giveway.dev/critical-addon: "true" is respected.
    #[arg(long, value_delimiter = ',', default_value = "kube-system")]
    pub critical_addons_namespaces: Vec<String>,

    /// A critical add-on that can run on only one node may displace critical pods of the same priority that fit on
    /// another node.
    #[arg(long)]
    pub critical_addons_stranded: bool,

    /// Lease of kube-scheduler, as NAMESPACE/NAME. Pods are evicted for a critical add-on only while this Lease is
    /// renewed.
    #[arg(long, default_value = "kube-system/kube-scheduler", value_parser = parse_lease)]
    pub scheduler_lease: ObjectKey,

    /// Namespaces in which no pod is evicted, separated by commas, in addition to namespaces with the annotation
    /// scheduling.giveway.dev/never-evict: "true".
    #[arg(long, value_delimiter = ',')]
    pub protected_namespaces: Vec<String>,

    /// Namespaces whose PodGroups are handled, as a LabelSelector in JSON, such as {"matchLabels": {"team": "ml"}}.
    /// Default: all.
    #[arg(long, value_name = "JSON", value_parser = parse_selector)]
    pub served_namespaces: Option<LabelSelector>,

    /// Which component creates the webhook's certificate. With `operator`, the leader stores it in the Secrets
    /// giveway-webhook-tls and giveway-webhook-ca, and writes caBundle of the webhook configurations named giveway.
    #[arg(long, value_enum, default_value_t = Certificates::External)]
    pub certificates: Certificates,

    /// URL of a webhook outside the cluster, https://HOST:PORT, for whose host the certificate is created. Default: the
    /// Service giveway-webhook.
    #[arg(long)]
    pub webhook_url: Option<String>,

    /// Seconds within which every API server notices a changed webhook configuration. A new certificate authority signs
    /// only after this time.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub ca_settle_seconds: u64,

    /// How capacity for a pending gang is requested from a cluster autoscaler.
    #[arg(long, value_enum, default_value_t = ProvisioningMethod::Off)]
    pub provisioning_method: ProvisioningMethod,

    /// How long a gang must be pending before capacity is requested, such as 30s.
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    pub provisioning_after: Duration,

    /// Request capacity at once if a plan exists that would evict pods after the PodGroup's preemptionDelaySeconds.
    #[arg(long)]
    pub provisioning_first: bool,

    /// Maximum number of pending pods of a gang for which capacity is requested.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub provisioning_limit: u32,

    /// Image of placeholder pods: a program that does nothing and ends on SIGTERM.
    #[arg(long, default_value = "registry.k8s.io/pause:3.10")]
    pub placeholder_image: String,

    /// The log.
    #[command(flatten)]
    pub log: LogOptions,
}

/// How capacity is requested from a cluster autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProvisioningMethod {
    /// No capacity is requested.
    Off,
    /// By a ProvisioningRequest, which cluster-autoscaler handles.
    ProvisioningRequest,
    /// By placeholder pods, which work with every autoscaler.
    Placeholder,
}

/// Which component creates the webhook's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Certificates {
    /// The operator.
    Operator,
    /// Another component, such as cert-manager.
    External,
}

impl Config {
    /// Returns in which namespaces texts for users may contain the names of objects of other namespaces.
    pub fn names(&self) -> Names {
        Names { across: self.names_across_namespaces }
    }

    /// Returns the limits on evictions per minute in a namespace and in the cluster; `None` for no limit.
    pub fn evictions_per_minute(&self) -> EvictionLimits {
        EvictionLimits {
            namespace: self.evictions_per_minute_per_namespace,
            cluster: self.evictions_per_minute_per_cluster,
        }
    }

    /// Returns which pods are critical add-ons and which victims are permitted for them; `None` if preemption for them is switched off.
    pub fn critical_addons(&self) -> Option<Terms> {
        self.critical_addons.then(|| Terms {
            namespaces: self.critical_addons_namespaces.iter().cloned().collect(),
            stranded: self.critical_addons_stranded,
        })
    }

    /// Returns the identity of this process in the leader election. It differs at every start, because stored plans contain it as the term
    /// of their leader.
    pub fn identity(&self) -> String {
        let host = || std::env::var("HOSTNAME").unwrap_or_else(|_| "giveway-operator".to_owned());
        format!("{}-{:08x}", self.identity.clone().unwrap_or_else(host), unique())
    }
}

/// Parses a positive duration such as `168h` or `90s`. The error says what is valid.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let read: Result<SignedDuration, _> = text.parse();
    let positive = read.ok().and_then(|time| Duration::try_from(time).ok());
    positive.ok_or_else(|| "it must be a time such as 168h, 30m or 90s".to_owned())
}

/// Checks the URL of a collector of traces, and returns it. Traces are sent without TLS, so only `http` is allowed. The error says what is
/// valid.
fn parse_collector(text: &str) -> Result<String, String> {
    let url: Option<http::Uri> = text.parse().ok();
    let plain = url.filter(|url| url.scheme_str() == Some("http") && url.host().is_some_and(|host| !host.is_empty()));
    let problem = "it must be an http:// URL of a collector, such as http://otel-collector:4318/v1/traces";
    plain.map(|_| text.to_owned()).ok_or_else(|| problem.to_owned())
}

/// Parses a flag that is a LabelSelector in JSON. The error says what is valid.
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

/// Parses `NAMESPACE/NAME` of a Lease. The error says what is valid.
fn parse_lease(text: &str) -> Result<ObjectKey, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(ObjectKey::new(namespace, name))
        }
        _ => Err("it must be NAMESPACE/NAME, such as kube-system/kube-scheduler".to_owned()),
    }
}

/// Returns a random number, which differs between two starts of the process: the operating system seeds `RandomState`.
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
    fn an_error_in_the_configuration_of_kube_scheduler_names_flag_field_and_value() {
        let path = std::env::temp_dir().join(format!("giveway-scheduler-config-{}", std::process::id()));
        let config = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let flag = format!("--scheduler-config={}", path.display());
            let config = Config::try_parse_from(["giveway-operator", &flag]).map_err(|error| error.to_string());
            std::fs::remove_file(&path).unwrap();
            config.map(|config| config.scheduler_config.unwrap().profiles.len())
        };
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        assert_eq!(config(&format!("{head}profiles: [{{schedulerName: a}}, {{schedulerName: b}}]")), Ok(2));
        let error = config("apiVersion: v1").unwrap_err();
        let words = "apiVersion: Invalid value: \"v1\": must be kubescheduler.config.k8s.io/v1";
        assert!(error.contains(words) && error.contains("--scheduler-config"), "{error}");
        let missing = Config::try_parse_from(["giveway-operator", "--scheduler-config=/none"]).unwrap_err().to_string();
        assert!(missing.contains("the file cannot be read"), "{missing}");
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
