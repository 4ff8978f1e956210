//! What the two witnesses of a world, audit log and watches, tell of a test.

use super::logs::daemon_logs;
use super::{LOG, World};
use crate::audit::budgets::{Judgement, judge};
use crate::audit::{History, Promises, log, rest, unanswered};
use crate::cluster::stored_plans;
use giveway_crds::plan::StoredPlan;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use std::fs;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::MutexGuard;

/// How long a cluster may take to come to rest.
const TO_REST: Duration = Duration::from_secs(60);

impl World {
    /// What the audit log tells so far.
    ///
    /// # Panics
    /// The log cannot be read.
    pub async fn audit(&self) -> History {
        let mut history = unanswered::history_of(self.caught_up().await.lines());
        let mut gone = unanswered::perhaps_removed(&history);
        if !gone.is_empty() {
            // What the log does not tell of a request that a killed process left, the pod does.
            let pods = Api::<Pod>::all(self.client()).list(&ListParams::default()).await.unwrap();
            for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
                gone.remove(&pod.uid().unwrap_or_default());
            }
            unanswered::accept(&mut history, &gone);
        }
        history
    }

    /// The audit log as far as it goes now, and at least up to everything that was answered before this call.
    ///
    /// # Panics
    /// The log cannot be read.
    pub async fn audit_lines(&self) -> Vec<log::Line> {
        self.caught_up().await.lines().to_vec()
    }

    async fn caught_up(&self) -> MutexGuard<'_, log::Reader> {
        let mut log = self.log.lock().await;
        log.catch_up(&self.kit.client, LOG).await.unwrap();
        log
    }

    /// Skips the oracle, for a test that writes with the operator's token: the oracle would take those writes for the operator's.
    pub fn writes_as_the_operator(&self) {
        self.judged.store(true, Ordering::Relaxed);
    }

    /// Checks every promise, once the cluster has come to rest: to be called at the end of each test. A world with Giveway that
    /// was not asked fails when it is dropped.
    ///
    /// # Panics
    /// One was broken.
    pub async fn check_promises(&self) {
        self.check(&Promises::new()).await;
    }

    /// Checks the promises as configured.
    ///
    /// # Panics
    /// One was broken.
    pub async fn check(&self, promises: &Promises) {
        let mut broken = self.broken(promises).await;
        if broken.is_empty() {
            return;
        }
        let plans = stored_plans(&self.kit.client).await.unwrap_or_default();
        let concerned = |plan: &&StoredPlan| broken.iter().any(|sentence| sentence.contains(&plan.preemptor.name));
        let told = |plan: &StoredPlan| {
            let victims = plan.victims.iter().flat_map(|unit| &unit.pods).map(|pod| pod.name.as_str());
            let (victims, state) = (victims.collect::<Vec<_>>().join(", "), plan.state.as_str());
            format!("Plan {} for {} to evict {victims}: {state}. {}", plan.id, plan.preemptor.name, plan.message)
        };
        let plans: Vec<String> = plans.iter().filter(concerned).map(told).collect();
        broken.extend(plans);
        panic!("promises were broken:\n  {}", broken.join("\n  "));
    }

    /// The promises that were broken, as a sentence each, once the cluster has come to rest.
    ///
    /// # Panics
    /// The log cannot be read.
    pub async fn broken(&self, promises: &Promises) -> Vec<String> {
        self.judged.store(true, Ordering::Relaxed);
        let mut broken = Vec::new();
        // Without an operator nothing comes to rest.
        let runs = self.giveway.as_ref().is_none_or(|giveway| giveway.operator.pid().is_some());
        if runs && let Err(left) = rest::reached(&self.kit.client, &self.audit().await, TO_REST).await {
            broken.push(left.to_string());
        }
        let promises = promises.clone().protecting(self.protected.iter().cloned());
        let judgement = self.judgement(&promises).await;
        broken.extend(promises.broken(&self.audit().await));
        broken.extend(judgement.broken);
        broken
    }

    /// What both witnesses prove about budgets so far. Where the second one missed something, because the test interrupted etcd or the
    /// API server, nothing is judged, and the output of the test says so.
    ///
    /// # Panics
    /// The watches do not catch up, or the log cannot be read.
    pub async fn judgement(&self, promises: &Promises) -> Judgement {
        let Some(chronicler) = &self.chronicler else { return Judgement::default() };
        let chronicle = chronicler.read().await;
        if !chronicle.gap {
            return judge(&chronicle, &self.audit().await, promises);
        }
        let gap = "the watch of pods and budgets broke off, and what happened meanwhile is not known";
        if self.plane.interrupted() {
            println!("budgets are not judged: {gap}");
            return Judgement::default();
        }
        Judgement { broken: vec![gap.to_owned()], ..Judgement::default() }
    }

    /// Promise 7: no daemon has ended by itself, and none has panicked; as a sentence each.
    pub(super) fn ended(&mut self) -> Vec<String> {
        let mut told = self.controllers.ended();
        let daemons = self.giveway.iter_mut().flat_map(|giveway| [&mut giveway.operator, &mut giveway.webhook]);
        for daemon in daemons {
            let name = daemon.program().name.clone();
            if let Some(status) = daemon.exited() {
                told.push(format!("{name} has ended by itself ({status})"));
            }
        }
        told.append(&mut self.ends.lock().unwrap_or_else(PoisonError::into_inner));
        // Also those of operators that the test started beside.
        for log in daemon_logs(self.plane.directory()) {
            let name = log.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read(&log).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let panics = text.lines().filter(|line| name.starts_with("giveway-") && line.contains("panicked at"));
            told.extend(panics.map(|line| format!("{name}: {line}")));
        }
        told
    }
}
