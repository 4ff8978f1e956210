//! `kubectl giveway cleanup all`: removes from other objects what Giveway added to them. With `--dry-run` it prints what
//! `helm uninstall` would delete, release and keep.

pub(crate) mod namespace;
mod traces;

use crate::adopt::store::ClassStore;
use crate::args::cleanup::CleanAllArgs;
use crate::connect::{Api, ClusterConnection, GetResult, RequestError, block_on};
use crate::error::CliError;
use crate::job;
use crate::output::{self, Printer};
use crate::taints::{self, store};
use futures::{StreamExt as _, stream};
use giveway_crds::keys::GROUP;
use giveway_crds::names::LEASE;
use giveway_crds::wording::counted;
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use traces::{Cleaning, Leftover};

/// Maximum number of attempts to patch an object that changes concurrently.
const ATTEMPTS: u32 = 10;
const PODS: &str = "/api/v1/pods";
const REQUESTS: &str = "/apis/autoscaling.x-k8s.io/v1/provisioningrequests";
/// Number of objects that are cleaned concurrently.
const AT_ONCE: usize = 16;
const GROUPS: &str = "/apis/scheduling.giveway.dev/v1alpha1/podgroups";
/// Objects that the chart creates with any values, in the order in which helm deletes them; its
/// CustomResourceDefinitions are added.
const OF_THE_CHART: [(&str, &str); 20] = [
    ("mutatingwebhookconfiguration", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
    ("validatingwebhookconfiguration", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"),
    ("validatingadmissionpolicy", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"),
    ("validatingadmissionpolicybinding", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"),
    ("clusterrole", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    ("clusterrolebinding", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    ("role", "/apis/rbac.authorization.k8s.io/v1/roles"),
    ("rolebinding", "/apis/rbac.authorization.k8s.io/v1/rolebindings"),
    ("deployment", "/apis/apps/v1/deployments"),
    ("service", "/api/v1/services"),
    ("serviceaccount", "/api/v1/serviceaccounts"),
    ("networkpolicy", "/apis/networking.k8s.io/v1/networkpolicies"),
    ("poddisruptionbudget", "/apis/policy/v1/poddisruptionbudgets"),
    ("resourcequota", "/api/v1/resourcequotas"),
    ("configmap", "/api/v1/configmaps"),
    ("servicemonitor", "/apis/monitoring.coreos.com/v1/servicemonitors"),
    ("podmonitor", "/apis/monitoring.coreos.com/v1/podmonitors"),
    ("prometheusrule", "/apis/monitoring.coreos.com/v1/prometheusrules"),
    ("certificate", "/apis/cert-manager.io/v1/certificates"),
    ("issuer", "/apis/cert-manager.io/v1/issuers"),
];
/// The Secret of the CA that cert-manager creates for the chart.
const AUTHORITY: &str = "giveway-webhook-authority";
/// Field manager of the operator.
const OPERATOR: &str = "giveway-operator";

/// Runs `kubectl giveway cleanup all`: checks that no operator runs, removes what Giveway left, and prints it. Returns the exit status.
pub(crate) fn run(args: &CleanAllArgs, connection: &ClusterConnection) -> Result<u8, CliError> {
    block_on(async {
        let namespace = connection.api().await?.giveway_namespace().await;
        let work = async || clean(args, &namespace, connection).await;
        job::run(&args.job, Some(&namespace), connection, work).await
    })
}

/// Removes what Giveway left on all objects, and prints it; a dry run only prints. Returns the exit status.
async fn clean(args: &CleanAllArgs, namespace: &str, connection: &ClusterConnection) -> Result<u8, CliError> {
    let mut printer = Printer::default();
    let api = connection.api().await?;
    if args.dry_run {
        print_what_helm_does(&api, namespace, &mut printer).await?;
    } else if !args.force {
        no_operator_runs(&api, namespace).await?;
    }
    let taints = taints::remove_from_all_nodes(connection.api().await?, args.dry_run, &mut printer).await?;
    let mut sweep = Sweep { api: &api, dry_run: args.dry_run, status: taints, done: 0, printer: &mut printer };
    // Pods are cleaned last: there may be more of them than the Job's deadline permits.
    sweep.clean_all(GROUPS, traces::of_group).await?;
    sweep.clean_all(REQUESTS, traces::of_request).await?;
    sweep.delete_operator_objects(namespace).await?;
    sweep.clean_all(PODS, |pod| traces::of_pod(pod, args.ungate_pods)).await?;
    let Sweep { status, done, .. } = sweep;
    if done == 0 {
        printer.print("No pod or group has anything of Giveway's.\n");
    }
    printer.finish()?;
    Ok(status)
}

/// Returns an error if an operator runs: the Deployment of one in any namespace has replicas, or the Lease in `namespace` has a holder
/// and has not expired.
async fn no_operator_runs(api: &Api, namespace: &str) -> Result<(), CliError> {
    let selector = "labelSelector=app.kubernetes.io%2Fname%3Dgiveway%2Capp.kubernetes.io%2Fcomponent%3Doperator";
    let deployments = store::list(api, &format!("/apis/apps/v1/deployments?{selector}")).await?.unwrap_or_default();
    if let Some(one) = deployments.iter().find(|one| one["spec"]["replicas"] != 0) {
        let (namespace, replicas) =
            (one["metadata"]["namespace"].as_str().unwrap_or_default(), &one["spec"]["replicas"]);
        return Err(CliError::StillRuns(format!("replicas of Deployment {namespace}/{} are {replicas}", name(one))));
    }
    match leading_operator(api, namespace).await? {
        Some(sentence) => Err(CliError::StillRuns(sentence)),
        None => Ok(()),
    }
}

/// Returns a sentence that an operator is the leader, if the Lease in `namespace` has a holder and has not expired; otherwise `None`.
async fn leading_operator(api: &Api, namespace: &str) -> Result<Option<String>, CliError> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE}");
    let found: Lease = match api.get(&path).await? {
        GetResult::Found(lease) => lease,
        GetResult::Missing => return Ok(None),
        GetResult::Forbidden(problem) => return Err(CliError::Cluster { what: format!("GET {path}"), problem }),
    };
    Ok(leader(&found, Timestamp::now()).map(|(holder, age)| {
        format!(
            "{holder} is the leader; it renewed the Lease {namespace}/{LEASE} {age} s ago, by the clock of this machine"
        )
    }))
}

/// Returns the holder of this Lease and the seconds since its renewal, or `None` if it has no holder or has expired.
fn leader(lease: &Lease, now: Timestamp) -> Option<(&str, i64)> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
    let age = now.duration_since(spec.renew_time.as_ref()?.0).as_secs();
    (age <= i64::from(spec.lease_duration_seconds?)).then_some((holder, age.max(0)))
}

/// Prints which objects `helm uninstall` would delete or keep, and which PriorityClasses its first Job would release to kube-scheduler.
async fn print_what_helm_does(api: &Api, namespace: &str, printer: &mut Printer) -> Result<(), CliError> {
    let store = ClassStore { api, namespace };
    let failed =
        |error: RequestError| CliError::Cluster { what: "priorityclasses".to_owned(), problem: error.to_string() };
    for class in store.annotated().await.map_err(failed)? {
        printer.print(&format!("priorityclass/{class}: would be given back to kube-scheduler\n"));
    }
    for (kind, path) in OF_THE_CHART {
        let path = format!("{path}?labelSelector=app.kubernetes.io%2Fname%3Dgiveway");
        for object in store::list(api, &path).await?.unwrap_or_default() {
            // One Role, and the dashboard if configured, is in another namespace.
            let elsewhere = object["metadata"]["namespace"].as_str().filter(|one| *one != namespace);
            let place = elsewhere.map(|namespace| format!("{namespace}/")).unwrap_or_default();
            printer.print(&format!("{kind}/{place}{}: would be deleted\n", name(&object)));
        }
    }
    let authority = format!("/api/v1/namespaces/{namespace}/secrets/{AUTHORITY}");
    if let Ok(GetResult::Found(_)) = api.get::<Value>(&authority).await {
        printer
            .print(&format!("secret/{AUTHORITY}: stays, where cert-manager does not delete it with its Certificate\n"));
    }
    let kinds = store::list(api, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions").await?.unwrap_or_default();
    for kind in kinds.iter().filter(|kind| kind["spec"]["group"] == GROUP) {
        let plural = kind["spec"]["names"]["plural"].as_str().unwrap_or_default();
        let mut objects = 0;
        let count = |_| {
            objects += 1;
            None
        };
        store::list_of(api, &format!("/apis/{GROUP}/v1alpha1/{plural}"), count).await?;
        let metadata = &kind["metadata"];
        let kept = metadata["annotations"]["helm.sh/resource-policy"] == "keep"
            || metadata["labels"]["app.kubernetes.io/managed-by"] != "Helm";
        let fate = if kept { "stays" } else { "would be deleted" };
        let objects = counted(objects, "object", "objects");
        printer.print(&format!("customresourcedefinition/{}: {fate}, with {objects}\n", name(kind)));
    }
    Ok(())
}

/// Removes what Giveway left, one kind of objects after another. A failure for one object does not stop the others.
struct Sweep<'a> {
    api: &'a Api,
    dry_run: bool,
    status: u8,
    done: usize,
    printer: &'a mut Printer,
}

impl Sweep<'_> {
    /// Removes what Giveway left on all objects of a kind, and prints it. `list_path` is the API path that lists the objects;
    /// `cleaning` returns what is removed from one of them.
    async fn clean_all(&mut self, list_path: &str, cleaning: impl Fn(&Value) -> Cleaning) -> Result<(), CliError> {
        let marked = |object: Value| (!cleaning(&object).found.is_empty()).then(|| traces::part_of(object));
        let objects = store::list_of(self.api, list_path, marked).await?.unwrap_or_default();
        let (api, dry_run, cleaning) = (self.api, self.dry_run, &cleaning);
        let cleaned = objects.into_iter().map(|object| async move {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
            let (root, plural) = list_path.rsplit_once('/').unwrap_or_default();
            let path = format!("{root}/namespaces/{namespace}/{plural}/{}", name(&object));
            let object_name = format!("{}/{namespace}/{}", plural.trim_end_matches('s'), name(&object));
            let found =
                if dry_run { Ok(cleaning(&object).found) } else { clean_object(api, &path, object, cleaning).await };
            (object_name, found)
        });
        let mut cleaned = stream::iter(cleaned).buffered(AT_ONCE);
        while let Some((object_name, found)) = cleaned.next().await {
            match found {
                Ok(found) => self.print_leftovers(&object_name, &found),
                Err(error) => {
                    let error = CliError::Cluster { what: object_name, problem: error.to_string() };
                    self.status = self.status.max(crate::print_error(&error));
                }
            }
        }
        Ok(())
    }

    /// Counts and prints what Giveway added to one object, and whether it is removed or why not. `object` is its kind, namespace and
    /// name.
    fn print_leftovers(&mut self, object: &str, found: &[Leftover]) {
        self.done += found.len();
        let removed = if self.dry_run { "would be removed" } else { "removed" };
        let mut text = String::new();
        for trace in found {
            text += &match trace {
                Leftover::Gate(true) => format!("{object}: gate {removed}: it starts without its group\n"),
                Leftover::Gate(false) => format!(
                    "{object}: GATED, and no operator will remove the gate: delete it, or uninstall with \
                     uninstall.ungatePods=true\n"
                ),
                Leftover::Nomination(node) => format!("{object}: nomination to node {node} {removed}\n"),
                Leftover::Annotation(key) => format!("{object}: annotation {key} {removed}\n"),
                Leftover::Finalizer => format!("{object}: finalizer {removed}\n"),
                Leftover::ReservesCapacity => format!("{object}: it reserves capacity for a gang: {removed}\n"),
            };
        }
        self.printer.print(&text);
    }

    /// Deletes what the operator created in its own namespace while it ran (Lease, Secrets), and the ConfigMap that sets its mode. A
    /// Secret of the same name that the operator did not create is kept.
    async fn delete_operator_objects(&mut self, namespace: &str) -> Result<(), CliError> {
        let (secrets, leases) = (
            format!("/api/v1/namespaces/{namespace}/secrets"),
            format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"),
        );
        let before = self.done;
        for (kind, path) in [
            ("secret", format!("{secrets}/giveway-webhook-ca")),
            ("secret", format!("{secrets}/giveway-webhook-tls")),
            ("lease", format!("{leases}/{LEASE}")),
            ("configmap", format!("/api/v1/namespaces/{namespace}/configmaps/{}", giveway_crds::mode::CONFIG_MAP)),
        ] {
            let object: Value = match self.api.get(&path).await? {
                GetResult::Found(object) => object,
                GetResult::Missing => continue,
                GetResult::Forbidden(problem) => {
                    return Err(CliError::Cluster { what: format!("GET {path}"), problem });
                }
            };
            let managers = object["metadata"]["managedFields"].as_array().into_iter().flatten();
            if kind == "secret" && !managers.into_iter().any(|entry| entry["manager"] == OPERATOR) {
                continue;
            }
            let deleted = if self.dry_run { "would be deleted" } else { "deleted" };
            if !self.dry_run {
                match self.api.delete(&path, &uid_precondition(&object)).await {
                    Ok(()) => {}
                    Err(error) if error.code() == Some(404) => {}
                    Err(error) => return Err(CliError::Cluster { what: path, problem: error.to_string() }),
                }
            }
            self.done += 1;
            self.printer.print(&format!("{kind}/{namespace}/{}: {deleted}\n", name(&object)));
        }
        // The namespace may have been deleted with the installation, or the flag names the wrong one. Without
        // permission to read namespaces there is no note.
        let place = format!("/api/v1/namespaces/{namespace}");
        if self.done == before && matches!(self.api.get::<Value>(&place).await, Ok(GetResult::Missing)) {
            output::note(&no_namespace(namespace));
        }
        Ok(())
    }
}

/// Removes what Giveway left on the object at this path, as `cleaning` computes it from the object; after a conflict the object is read
/// again. Returns what was found, which is nothing if the object does not exist any more.
async fn clean_object(
    api: &Api,
    path: &str,
    mut object: Value,
    cleaning: &impl Fn(&Value) -> Cleaning,
) -> Result<Vec<Leftover>, RequestError> {
    for attempt in 1.. {
        let Cleaning { found, patch, status, delete } = cleaning(&object);
        let written = match delete {
            true => api.delete(path, &uid_precondition(&object)).await,
            false => write(api, path, &patch, &status).await,
        };
        match written {
            Ok(()) => return Ok(found),
            Err(error) if error.code() == Some(404) => return Ok(Vec::new()),
            Err(error) if error.code() == Some(409) && attempt < ATTEMPTS => {}
            Err(error) => return Err(error),
        }
        object = match api.call::<Value>(Method::GET, path, Vec::new()).await {
            Ok(now) => now,
            Err(error) if error.code() == Some(404) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
    }
    Ok(Vec::new())
}

/// Writes two merge patches to the object at this path, each unless it is null: first `status`, so that the nomination is removed
/// before the gate. Otherwise kube-scheduler would treat it as its own nomination.
async fn write(api: &Api, path: &str, patch: &Value, status: &Value) -> Result<(), RequestError> {
    let mut patch = patch.clone();
    if !status.is_null() {
        let now: Value = api.merge(&format!("{path}/status"), status).await?;
        if !patch.is_null() {
            patch["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"].clone();
        }
    }
    if !patch.is_null() {
        api.merge::<Value>(path, &patch).await?;
    }
    Ok(())
}

/// Returns the note that the namespace of `--giveway-namespace` does not exist, so that objects may remain in another one.
fn no_namespace(namespace: &str) -> String {
    format!(
        "--giveway-namespace: {namespace:?}: not found: what the operator made in another namespace (Lease, Secrets, ConfigMap) \
         stays there: name the one in which Giveway was installed"
    )
}

/// Returns the precondition with which the deletion of `object` fails if another object has its name now: the UID.
fn uid_precondition(object: &Value) -> Value {
    json!({"uid": object["metadata"]["uid"]})
}

/// Returns the name in an object's metadata; an empty string if it has none.
fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_is_not_there_is_named_with_its_flag() {
        assert!(no_namespace("gw").starts_with("--giveway-namespace: \"gw\": not found: "), "{}", no_namespace("gw"));
    }

    #[test]
    fn the_holder_of_a_lease_leads_until_it_expires() {
        let now: Timestamp = "2026-11-21T12:00:15Z".parse().unwrap();
        let lease = |holder: &str, renewed: &str| -> Lease {
            let spec = json!({"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15});
            serde_json::from_value(json!({"metadata": {"name": "giveway-operator"}, "spec": spec})).unwrap()
        };
        assert_eq!(leader(&lease("a-1", "2026-11-21T12:00:12.000000Z"), now), Some(("a-1", 3)));
        assert_eq!(leader(&lease("a-1", "2026-11-21T12:00:20.000000Z"), now), Some(("a-1", 0)), "clocks differ");
        assert_eq!(leader(&lease("a-1", "2026-11-21T11:59:59.000000Z"), now), None, "it has run out");
        assert_eq!(leader(&lease("", "2026-11-21T12:00:12.000000Z"), now), None, "it was given back");
        assert_eq!(leader(&Lease::default(), now), None);
    }
}
