//! etcd and API servers that serve one test after the other: starting them takes longer than most tests.
//!
//! Whose test ended well leaves its two behind, without anybody else's processes. The next one gets them with what was stored
//! when they were new, to the byte, with empty logs, and with a controller manager, a scheduler and fake kubelets of its own, so
//! nothing remembers the test before.

use super::guard::Guard;
use super::options::Options;
use super::pki::Pki;
use super::process::Process;
use super::store::{Contents, Store};
use super::version::Version;
use crate::wait;
use anyhow::Result;
use giveway_crds::preemption::PreemptionSpec;
use giveway_crds::{Preemption, keys};
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The processes that serve on.
pub(super) const LASTING: [&str; 2] = ["etcd", "kube-apiserver"];
/// How long the API server may take to notice what is gone.
const NOTICED: Duration = Duration::from_secs(60);
/// What the two, and those who work with them, need of their directory.
const STAYS: [&str; 8] = [
    "audit.log",
    "etcd",
    "kube-controller-manager.kubeconfig",
    "kube-scheduler.kubeconfig",
    "kubeconfig",
    "kwok.kubeconfig",
    "logs",
    "pki",
];
/// A variable that has every test start its own, to see whether a failure comes from a test before.
const FRESH: &str = "GIVEWAY_FRESH";
/// What decides about requests: gone first, because the rest could not be checked with it.
const DECIDING: [&[u8]; 7] = [
    b"/registry/mutatingwebhookconfigurations/",
    b"/registry/validatingwebhookconfigurations/",
    b"/registry/mutatingadmissionpolicies/",
    b"/registry/mutatingadmissionpolicybindings/",
    b"/registry/validatingadmissionpolicies/",
    b"/registry/validatingadmissionpolicybindings/",
    b"/registry/resourcequotas/",
];

/// What the API server makes of itself, some of it after it says that it is ready.
const OWN: [&str; 6] = [
    "/registry/namespaces/default",
    "/registry/namespaces/kube-node-lease",
    "/registry/namespaces/kube-public",
    "/registry/namespaces/kube-system",
    "/registry/configmaps/kube-system/extension-apiserver-authentication",
    "/registry/services/specs/default/kubernetes",
];

/// Both, with nobody in them.
pub(super) struct Idle {
    pub(super) processes: BTreeMap<String, Process>,
    pub(super) guard: Guard,
    pub(super) directory: PathBuf,
    pub(super) pki: Arc<Pki>,
    pub(super) server: String,
    pub(super) kubernetes: Version,
    pub(super) foundation: Foundation,
}

/// What a new API server has, and where it is.
#[derive(Clone)]
pub(super) struct Foundation {
    store: Store,
    first: Arc<Contents>,
}

/// Not more than tests that ran at a time. They end with the program: their guards see to that.
static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

/// Whether a test with these options shares them with others.
pub(super) fn shares(options: &Options) -> bool {
    options.lasting() && std::env::var_os(FRESH).is_none()
}

/// One for a test, if there is one.
pub(super) fn take(kubernetes: Version) -> Option<Idle> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = idle.iter().position(|idle| idle.kubernetes == kubernetes)?;
    Some(idle.swap_remove(place))
}

/// One that no test needs any more.
pub(super) fn give(idle: Idle) {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(idle);
}

impl Foundation {
    /// What a new control plane has.
    ///
    /// # Errors
    /// etcd does not answer, or the API server does not make what it should.
    pub(super) async fn of(store: Store) -> Result<Self> {
        let first = wait::until("the API server has made its own objects", NOTICED, async || {
            let found = store.contents(false).await.map_err(|error| format!("{error:#}"))?;
            let missing = OWN.iter().find(|key| !found.contains_key(key.as_bytes()));
            missing.map_or(Ok(found), |key| Err(format!("there is no {key}")))
        });
        Ok(Self { first: Arc::new(first.await?), store })
    }

    /// Puts everything back as it was.
    ///
    /// # Errors
    /// etcd does not answer, or somebody still writes.
    pub(super) async fn restore(&self, client: &Client) -> Result<()> {
        self.delete(|key| DECIDING.iter().any(|kind| key.starts_with(kind))).await?;
        wait::until("nobody decides about requests any more", NOTICED, async || undecided(client).await).await?;
        wait::until("everything is as it was", NOTICED, async || match self.delete(|_| true).await {
            Ok(0) => Ok(()),
            Ok(count) => Err(format!("{count} objects were not")),
            Err(error) => Err(format!("{error:#}")),
        })
        .await?;
        wait::until("the API server serves no kinds of ours", NOTICED, async || {
            let request = super::http_get("/apis/scheduling.giveway.dev").map_err(|error| error.to_string())?;
            match client.request_text(request).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                answer => Err(format!("it answers {answer:?}")),
            }
        })
        .await?;
        Ok(())
    }

    /// Deletes what was not there and puts back what was changed or deleted, of these keys; returns how many there were.
    async fn delete(&self, of: impl Fn(&[u8]) -> bool) -> Result<usize> {
        let now = self.store.contents(true).await?;
        let (mut count, mut run) = (0, None::<(&[u8], &[u8])>);
        for key in now.keys() {
            if !self.first.contains_key(key) && of(key) && !is_alive(key) {
                run = Some((run.map_or(key, |(first, _)| first), key));
                count += 1;
            } else if let Some((first, last)) = run.take() {
                self.store.delete(first, last).await?;
            }
        }
        if let Some((first, last)) = run {
            self.store.delete(first, last).await?;
        }
        for (key, first) in self.first.iter().filter(|(key, _)| of(key) && !is_alive(key)) {
            let same = now.get(key).is_some_and(|now| now.mod_revision == first.mod_revision);
            if !same && self.store.value(key).await?.as_ref() != Some(&first.value) {
                self.store.put(key, &first.value).await?;
                count += 1;
            }
        }
        Ok(count)
    }
}

/// Whether a key is the API server's sign of life, which it writes again and again.
fn is_alive(key: &[u8]) -> bool {
    key.starts_with(b"/registry/leases/kube-system/apiserver-") || key.starts_with(b"/registry/masterleases/")
}

/// Whether webhooks and policies of the test before are out of force.
async fn undecided(client: &Client) -> Result<(), String> {
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "probe", "labels": { keys::LABEL_POD_GROUP: "probe" } },
        "spec": { "containers": [{ "name": "main", "image": "none" }] },
    }));
    let pod = pod.map_err(|error| error.to_string())?;
    match pods.create(&dry_run, &pod).await {
        Ok(pod) if pod.spec.as_ref().is_some_and(|spec| spec.scheduling_gates.is_none()) => {}
        answer => return Err(format!("a pod is answered with {answer:?}")),
    }
    let preemptions: Api<Preemption> = Api::all(client.clone());
    let plan = Preemption::new("probe", PreemptionSpec { part: 1, parts: 1, ..PreemptionSpec::default() });
    match preemptions.create(&dry_run, &plan).await {
        Err(kube::Error::Api(status)) if status.message.contains("ValidatingAdmissionPolicy") => Err(status.message),
        _ => Ok(()),
    }
}

/// Removes what a test left in the directory, but what the two need, and empties their logs, which they append to.
///
/// # Errors
/// Something cannot be removed.
pub(super) fn sweep(directory: &Path) -> Result<()> {
    remove_others(directory, |name| STAYS.contains(&name))?;
    remove_others(&directory.join("logs"), |name| LASTING.iter().any(|lasting| name == format!("{lasting}.log")))?;
    for log in ["audit.log", "logs/etcd.log", "logs/kube-apiserver.log"] {
        File::options().write(true).truncate(true).create(true).open(directory.join(log))?;
    }
    Ok(())
}

fn remove_others(directory: &Path, stays: impl Fn(&str) -> bool) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if stays(&entry.file_name().to_string_lossy()) {
            continue;
        }
        let path = entry.path();
        if entry.file_type()?.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
    }
    Ok(())
}
