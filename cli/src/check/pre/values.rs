//! The values of the chart with which Giveway will be installed: the defaults, and files as helm reads them.

use crate::error::CliError;
use crate::files;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The defaults of the chart.
const DEFAULTS: &str = include_str!("../../../../helm/values.yaml");

/// The values of the chart.
#[derive(Clone, Debug)]
pub(super) struct Values(Value);

/// Reads files of values over the defaults of the chart; a later file overrides an earlier one. helm's schema checks their types, so a
/// value of another type counts as not set here.
///
/// # Errors
/// A file cannot be read, or is no YAML.
pub(super) fn read(paths: &[PathBuf]) -> Result<Values, CliError> {
    let mut values = Value::Null;
    let defaults = files::documents("helm/values.yaml", DEFAULTS)?;
    defaults.into_iter().for_each(|document| merge(&mut values, document));
    for path in paths {
        let (file, text) = files::read_text(path)?;
        let documents = files::documents(&file, &text)?;
        documents.into_iter().filter(|document| !document.is_null()).for_each(|document| merge(&mut values, document));
    }
    Ok(Values(values))
}

/// Overrides `base` by `over`: maps are merged key by key, everything else is replaced.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

impl Values {
    /// Returns the text at a JSON pointer in the values; an empty string if there is none.
    fn text(&self, path: &str) -> &str {
        self.0.pointer(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns true if the value at a JSON pointer is `true`.
    fn is_true(&self, path: &str) -> bool {
        self.0.pointer(path).and_then(Value::as_bool).unwrap_or_default()
    }

    /// Returns the value `webhook.port`: the port of the webhook's pods; 0 if it is no number.
    pub(super) fn port(&self) -> i64 {
        self.0.pointer("/webhook/port").and_then(Value::as_i64).unwrap_or_default()
    }

    /// Returns true if the webhook's pods use the network of their node.
    pub(super) fn host_network(&self) -> bool {
        self.is_true("/webhook/hostNetwork")
    }

    /// Returns the URL of a webhook outside the cluster; empty if API servers call the Service.
    pub(super) fn url(&self) -> &str {
        self.text("/webhook/url")
    }

    /// Returns true if an annotation of the webhook configurations disables the admissions enforcer of AKS for them.
    pub(super) fn enforcer_disabled(&self) -> bool {
        self.text("/webhook/configurationAnnotations/admissions.enforcer~1disabled") == "true"
    }

    /// Returns the value `security.runAsUser`: the UID of the containers' user, if it is set.
    pub(super) fn user(&self) -> Option<i64> {
        self.0.pointer("/security/runAsUser").and_then(Value::as_i64)
    }

    /// Returns the names of the priority classes of the chart's pods; an empty name for none.
    pub(super) fn classes(&self) -> BTreeSet<&str> {
        [self.text("/pods/priorityClassName")].into()
    }

    /// Returns true if the chart creates a ResourceQuota that permits pods of its system classes.
    pub(super) fn quota(&self) -> bool {
        self.is_true("/priorityClassQuota/enabled")
    }

    /// Returns the Lease of kube-scheduler, `NAMESPACE/NAME`, if the operator reads it: only for critical add-ons, which are off unless
    /// a value enables them. Otherwise returns `None`.
    pub(super) fn scheduler_lease(&self) -> Option<&str> {
        self.is_true("/criticalAddons/enabled").then(|| self.text("/criticalAddons/schedulerLease"))
    }

    /// Returns the method by which the operator requests capacity from cluster autoscalers, such as `Placeholder`; `None` if it
    /// requests none.
    pub(super) fn provisioning(&self) -> Option<&str> {
        Some(self.text("/provisioning/method")).filter(|method| *method != "off" && !method.is_empty())
    }

    /// Returns the webhook's image with its tag, by default the version of this program.
    pub(super) fn image(&self) -> String {
        let tag = match self.text("/image/tag") {
            "" => env!("CARGO_PKG_VERSION"),
            tag => tag,
        };
        format!("{}/giveway-webhook:{tag}", self.text("/image/repository"))
    }

    /// Returns the value `webhook.resources`: requests and limits of the webhook's container.
    pub(super) fn resources(&self) -> Value {
        self.0.pointer("/webhook/resources").cloned().unwrap_or_default()
    }

    /// Returns the APIs that the chart needs with these values: path of the API version, such as `/apis/policy/v1`, and resource.
    pub(super) fn apis(&self) -> Vec<(&'static str, &'static str)> {
        let mut needed = vec![
            ("/apis/admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations"),
            ("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicies"),
            ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions"),
            ("/apis/coordination.k8s.io/v1", "leases"),
            ("/apis/discovery.k8s.io/v1", "endpointslices"),
            ("/apis/events.k8s.io/v1", "events"),
            ("/apis/policy/v1", "poddisruptionbudgets"),
            ("/apis/scheduling.k8s.io/v1", "priorityclasses"),
        ];
        let optional = [
            ("/webhook/certManager/enabled", "/apis/cert-manager.io/v1", "certificates"),
            ("/metrics/prometheusRule/enabled", "/apis/monitoring.coreos.com/v1", "prometheusrules"),
        ];
        needed.extend(optional.iter().filter(|(value, ..)| self.is_true(value)).map(|(_, path, name)| (*path, *name)));
        match self.text("/metrics/monitor") {
            "ServiceMonitor" => needed.push(("/apis/monitoring.coreos.com/v1", "servicemonitors")),
            "PodMonitor" => needed.push(("/apis/monitoring.coreos.com/v1", "podmonitors")),
            _ => {}
        }
        if self.provisioning() == Some("ProvisioningRequest") {
            needed.push(("/apis/autoscaling.x-k8s.io/v1", "provisioningrequests"));
        }
        needed
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::path::Path;

    /// Returns the values of the chart with a file of its folder.
    pub(in super::super) fn of_platform(name: &str) -> Values {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../helm");
        read(&[folder.join(format!("values-{name}.yaml"))]).unwrap()
    }

    /// Returns the default values of the chart with critical add-ons enabled, for tests.
    pub(in super::super) fn with_critical_addons() -> Values {
        let mut values = read(&[]).unwrap();
        values.0["criticalAddons"]["enabled"] = true.into();
        values
    }

    #[test]
    fn a_file_overrides_single_values_and_keeps_the_others() {
        let (defaults, gke) = (read(&[]).unwrap(), of_platform("gke"));
        assert_eq!((defaults.port(), defaults.quota()), (9443, false));
        assert_eq!((gke.port(), gke.quota()), (10_250, true));
        for values in [defaults, gke] {
            assert_eq!(values.classes(), BTreeSet::from(["system-cluster-critical"]));
            assert_eq!(values.scheduler_lease(), None, "critical add-ons are off unless a file turns them on");
            assert_eq!((values.url(), values.provisioning(), values.user()), ("", None, None));
        }
        assert!(of_platform("eks").host_network() && of_platform("aks").enforcer_disabled());
        assert_eq!(with_critical_addons().scheduler_lease(), Some("kube-system/kube-scheduler"));
    }

    #[test]
    fn a_later_file_overrides_an_earlier_one_and_optional_apis_are_needed_with_their_values() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let first = file(
            "first.yaml",
            "webhook: {port: 8443, certManager: {enabled: true}}\ncriticalAddons: {enabled: true, schedulerLease: control/own}\n",
        );
        let second = file("second.yaml", "webhook: {port: 8444}\n");
        let files = [first, second, file("empty.yaml", "{}\n")];
        let values = read(&files).unwrap();
        assert_eq!((values.port(), values.scheduler_lease()), (8444, Some("control/own")));
        for (name, unset) in [("false.yaml", "false"), ("null.yaml", "null")] {
            let last = file(name, &format!("criticalAddons: {{enabled: {unset}}}\n"));
            let values = read(&[&files[..], &[last]].concat()).unwrap();
            assert_eq!(values.scheduler_lease(), None, "{unset}");
        }
        assert!(values.apis().contains(&("/apis/cert-manager.io/v1", "certificates")));
        assert!(!read(&[]).unwrap().apis().contains(&("/apis/cert-manager.io/v1", "certificates")));
        let error = read(&[file("wrong.yaml", "webhook: {")]).unwrap_err().to_string();
        assert!(error.contains("wrong.yaml: is neither JSON nor YAML"), "{error}");
    }
}
