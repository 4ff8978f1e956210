//! Saved contents of etcd, and restoring them while the processes of the control plane run.
//!
//! Two states of each etcd are saved: [`State::Bare`], the objects of a new API server, and [`State::Giveway`], which also has
//! the CRDs and the chart of this checkout. Objects are restored directly in etcd, byte for byte; watches report these changes
//! like any others. Finalizers and graceful termination do not apply, so a restore takes a fraction of a second.

use super::http_get;
use super::store::{Contents, Store};
use crate::wait;
use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use giveway_crds::preemption::PreemptionSpec;
use giveway_crds::{Preemption, keys};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Deadline for the API server and the controllers to observe a change.
const NOTICED: Duration = Duration::from_secs(60);
/// Time without a change before a state is saved. Controllers complete the objects of the chart, such as aggregated roles and the
/// status of policies.
const SETTLED: Duration = Duration::from_secs(1);
/// Number of concurrent deletions in etcd.
const CONCURRENCY: usize = 16;
/// Admission configuration and quotas. They are restored first, so that the API server no longer enforces those of a test.
const ADMISSION: [&[u8]; 7] = [
    b"/registry/mutatingwebhookconfigurations/",
    b"/registry/validatingwebhookconfigurations/",
    b"/registry/mutatingadmissionpolicies/",
    b"/registry/mutatingadmissionpolicybindings/",
    b"/registry/validatingadmissionpolicies/",
    b"/registry/validatingadmissionpolicybindings/",
    b"/registry/resourcequotas/",
];
/// Owners of pods. They are deleted before the pods, because their controllers would recreate the pods.
const OWNERS: [&[u8]; 6] = [
    b"/registry/cronjobs/",
    b"/registry/daemonsets/",
    b"/registry/deployments/",
    b"/registry/jobs/",
    b"/registry/replicasets/",
    b"/registry/statefulsets/",
];
/// Time without a difference before a restore counts as complete, because a process may have a write in transit.
const UNCHANGED: Duration = Duration::from_millis(300);
/// Objects that a new API server creates, some of them after it is ready.
const BOOTSTRAP: [&str; 6] = [
    "/registry/namespaces/default",
    "/registry/namespaces/kube-node-lease",
    "/registry/namespaces/kube-public",
    "/registry/namespaces/kube-system",
    "/registry/configmaps/kube-system/extension-apiserver-authentication",
    "/registry/services/specs/default/kubernetes",
];
/// Objects that the API server creates for Giveway's CRDs.
const API_SERVICE: &str = "/registry/apiregistration.k8s.io/apiservices/v1alpha1.scheduling.giveway.dev";
const SCHEDULER_LEASE: &[u8] = b"/registry/leases/kube-system/kube-scheduler";
const CRDS: &[u8] = b"/registry/apiextensions.k8s.io/customresourcedefinitions/";

/// A state to which a control plane can be restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Kubernetes without Giveway.
    #[default]
    Bare,
    /// With Giveway's CRDs and chart, without its daemons.
    Giveway,
}

/// The saved states of one etcd and its address.
pub(super) struct Foundation {
    store: Store,
    bare: Contents,
    giveway: Option<Contents>,
}

impl Foundation {
    /// Saves the bare state of a new control plane, which has no controllers yet.
    ///
    /// # Errors
    /// If etcd does not answer or the API server does not create its objects.
    pub(super) async fn remember_bare(store: Store) -> Result<Self> {
        let bare = wait::until("the API server has created its own objects", NOTICED, async || {
            let found = store.contents(false).await.map_err(|error| format!("{error:#}"))?;
            let missing = BOOTSTRAP.iter().find(|key| !found.contains_key(key.as_bytes()));
            missing.map_or(Ok(found), |key| Err(format!("{key} does not exist")))
        });
        Ok(Self { bare: bare.await?, giveway: None, store })
    }

    /// Waits until the contents of etcd no longer change and saves them as the state with Giveway.
    ///
    /// # Errors
    /// If etcd does not answer or its contents keep changing.
    pub(super) async fn remember_giveway(&mut self) -> Result<()> {
        let mut before = (BTreeMap::new(), Instant::now());
        let settled = wait::until("the controllers have completed the objects of the chart", NOTICED, async || {
            let found = self.store.contents(false).await.map_err(|error| format!("{error:#}"))?;
            let changing = found.iter().filter(|(key, _)| !is_written_by_a_process(key, false));
            let versions: BTreeMap<_, _> = changing.map(|(key, now)| (key.clone(), now.mod_revision.clone())).collect();
            if versions != before.0 {
                before = (versions, Instant::now());
            }
            match found.contains_key(API_SERVICE.as_bytes()) && before.1.elapsed() >= SETTLED {
                true => Ok(found),
                false => Err(format!("{} objects, the last change {:?} ago", before.0.len(), before.1.elapsed())),
            }
        });
        self.giveway = Some(settled.await?);
        Ok(())
    }

    /// Returns true if a state is saved.
    pub(super) fn remembers(&self, state: State) -> bool {
        self.contents(state).is_some()
    }

    fn contents(&self, state: State) -> Option<&Contents> {
        match state {
            State::Bare => Some(&self.bare),
            State::Giveway => self.giveway.as_ref(),
        }
    }

    /// Restores a saved state. With `daemons` Giveway's daemons keep running and keep their Lease. Returns true if admission
    /// configuration or quotas were restored.
    ///
    /// # Errors
    /// If etcd does not answer, a process keeps writing, or the state is not saved.
    pub(super) async fn restore(&self, state: State, client: &Client, daemons: bool) -> Result<bool> {
        let Some(target) = self.contents(state) else { anyhow::bail!("the state {state:?} is not saved") };
        let starts = |key: &[u8], kinds: &[&[u8]]| kinds.iter().any(|kind| key.starts_with(kind));
        let admission = !self.put_back(target, daemons, |key| starts(key, &ADMISSION)).await?.is_empty();
        if state == State::Bare {
            wait::until("no webhook, policy or quota is enforced", NOTICED, async || not_enforced(client).await)
                .await?;
        }
        let kinds = !self.put_back(target, daemons, |key| key.starts_with(CRDS)).await?.is_empty();
        self.put_back(target, daemons, |key| starts(key, &OWNERS)).await?;
        let mut unchanged: Option<Instant> = None;
        wait::until("the contents of etcd are restored", NOTICED, async || {
            let changed = self.put_back(target, daemons, |_| true).await.map_err(|error| format!("{error:#}"))?;
            if !changed.is_empty() {
                unchanged = None;
                return Err(format!(
                    "{} objects differed: {}",
                    changed.len(),
                    changed[..changed.len().min(5)].join(", ")
                ));
            }
            match unchanged.get_or_insert_with(Instant::now).elapsed() {
                elapsed if elapsed >= UNCHANGED => Ok(()),
                elapsed => Err(format!("no object has differed for {elapsed:?}")),
            }
        })
        .await?;
        if kinds || state == State::Bare {
            wait::until("Giveway's kinds are served as in that state", NOTICED, async || {
                served(client, state == State::Giveway).await
            })
            .await?;
        }
        Ok(admission)
    }

    /// Restores these keys: deletes objects that are not in the target and writes those that were changed or deleted. Returns the
    /// restored keys.
    async fn put_back(&self, target: &Contents, daemons: bool, of: impl Fn(&[u8]) -> bool) -> Result<Vec<String>> {
        let now = self.store.contents(true).await?;
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let unknown = now.keys().filter(|key| {
            !target.contains_key(*key)
                && of(key)
                && !is_written_by_a_process(key, daemons)
                && !is_completed_by_a_controller(key, target)
        });
        let unknown: Vec<&Vec<u8>> = unknown.collect();
        let mut changed: Vec<String> = unknown.iter().map(|key| text(key)).collect();
        // The objects are written one by one: the API server ends a watch that falls behind, and a watch that is resumed at a
        // revision skips other events of that revision.
        let deletions = unknown.into_iter().map(|key| self.store.delete(key));
        stream::iter(deletions).buffer_unordered(CONCURRENCY).try_collect::<()>().await?;
        for (key, first) in target.iter().filter(|(key, _)| of(key) && !is_written_by_a_process(key, daemons)) {
            let found = now.get(key);
            let same = found.is_some_and(|now| now.mod_revision == first.mod_revision);
            let completed = found.is_some() && is_completed_by_a_controller(key, target);
            if !same && !completed && self.store.value(key).await?.as_ref() != Some(&first.value) {
                self.store.put(key, &first.value).await?;
                changed.push(text(key));
            }
        }
        Ok(changed)
    }

    /// Deletes an object that kube-controller-manager recreates, so that the next one can be waited for.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub(super) async fn forget_controller_manager(&self) -> Result<()> {
        self.store.delete(b"/registry/serviceaccounts/default/default").await
    }

    /// Deletes the Lease of a kube-scheduler that has ended, so that the next one leads immediately.
    ///
    /// # Errors
    /// If etcd does not answer.
    pub(super) async fn forget_scheduler(&self) -> Result<()> {
        self.store.delete(SCHEDULER_LEASE).await
    }
}

/// Returns true if a running process renews this key periodically.
fn is_written_by_a_process(key: &[u8], daemons: bool) -> bool {
    let leases: [&[u8]; 3] = [b"/registry/leases/kube-system/apiserver-", SCHEDULER_LEASE, b"/registry/masterleases/"];
    leases.iter().any(|prefix| key.starts_with(prefix))
        || (daemons && key.starts_with(b"/registry/leases/giveway-system/"))
}

/// Returns true if kube-controller-manager or the API server derives this object from others in the target: ServiceAccounts, the
/// certificate authority of each namespace, aggregated roles, APIServices, the default range of Services.
fn is_completed_by_a_controller(key: &[u8], target: &Contents) -> bool {
    let Ok(key) = std::str::from_utf8(key) else { return false };
    let Some(path) = key.strip_prefix("/registry/") else { return false };
    let in_target = |namespace: &str| target.contains_key(format!("/registry/namespaces/{namespace}").as_bytes());
    match path.split('/').collect::<Vec<_>>()[..] {
        ["serviceaccounts", "kube-system", _] => true,
        ["serviceaccounts", namespace, "default"] | ["configmaps", namespace, "kube-root-ca.crt"] => {
            in_target(namespace)
        }
        ["clusterroles", "admin" | "edit" | "view"] | ["servicecidrs", "kubernetes"] => true,
        ["clustertrustbundles", name] => name.starts_with("kubernetes.io:"),
        ["apiregistration.k8s.io", "apiservices", _] => true,
        _ => false,
    }
}

/// Returns `Ok` if the API server no longer enforces webhooks and policies of Giveway.
async fn not_enforced(client: &Client) -> Result<(), String> {
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "probe", "labels": { keys::LABEL_POD_GROUP: "probe" } },
        "spec": { "containers": [{ "name": "main", "image": "none" }] },
    }));
    let pod = pod.map_err(|error| error.to_string())?;
    match pods.create(&dry_run, &pod).await {
        Ok(pod) if pod.spec.as_ref().is_some_and(|spec| spec.scheduling_gates.is_none()) => {}
        // kube-controller-manager, which may not run yet, recreates the ServiceAccount of pods.
        Err(kube::Error::Api(status)) if status.message.contains("error looking up service account") => {}
        answer => return Err(format!("the answer to a pod is {answer:?}")),
    }
    let preemptions: Api<Preemption> = Api::all(client.clone());
    let plan = Preemption::new("probe", PreemptionSpec { part: 1, parts: 1, ..PreemptionSpec::default() });
    match preemptions.create(&dry_run, &plan).await {
        Err(kube::Error::Api(status)) if status.message.contains("ValidatingAdmissionPolicy") => Err(status.message),
        _ => Ok(()),
    }
}

/// Returns `Ok` if the API server serves Giveway's kinds, or does not, as wanted.
async fn served(client: &Client, wanted: bool) -> Result<(), String> {
    let paths = match wanted {
        true => ["podgroups", "workloads", "preemptions"]
            .map(|kind| format!("/apis/{}/v1alpha1/{kind}", keys::GROUP))
            .to_vec(),
        false => vec![format!("/apis/{}", keys::GROUP)],
    };
    for path in paths {
        let request = http_get(&path).map_err(|error| error.to_string())?;
        match client.request_text(request).await {
            Ok(_) if wanted => {}
            Err(kube::Error::Api(status)) if status.code == 404 && !wanted => {}
            answer => return Err(format!("the answer to {path} is {answer:?}")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control_plane::store::Stored;

    #[test]
    fn derived_objects_are_recognized_by_key_and_namespace() {
        let target = Contents::from([(b"/registry/namespaces/default".to_vec(), Stored::default())]);
        let completed = |key: &str| is_completed_by_a_controller(key.as_bytes(), &target);
        for key in ["serviceaccounts/default/default", "configmaps/default/kube-root-ca.crt", "clusterroles/edit"] {
            assert!(completed(&format!("/registry/{key}")), "{key}");
        }
        for key in
            ["serviceaccounts/other/default", "serviceaccounts/default/mine", "clusterroles/mine", "pods/default/a"]
        {
            assert!(!completed(&format!("/registry/{key}")), "{key}");
        }
    }
}
