//! The oracle of a world: checks the promises against the audit log and the watches.

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

/// Deadline for the cluster to come to rest.
const TO_REST: Duration = Duration::from_secs(60);

impl World {
    /// Returns the history in the audit log so far.
    ///
    /// # Panics
    /// If the log cannot be read.
    pub async fn audit(&self) -> History {
        let mut history = unanswered::history_of(self.caught_up().await.lines());
        let mut removed = unanswered::perhaps_removed(&history);
        if !removed.is_empty() {
            // The pods show whether a request without a response, left by a killed process, was carried out.
            let pods = Api::<Pod>::all(self.client()).list(&ListParams::default()).await.unwrap();
            for pod in pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
                removed.remove(&pod.uid().unwrap_or_default());
            }
            unanswered::accept(&mut history, &removed);
        }
        history
    }

    /// Returns the lines of the audit log, including all requests that were answered before this call.
    ///
    /// # Panics
    /// If the log cannot be read.
    pub async fn audit_lines(&self) -> Vec<log::Line> {
        self.caught_up().await.lines().to_vec()
    }

    async fn caught_up(&self) -> MutexGuard<'_, log::Reader> {
        let mut log = self.log.lock().await;
        log.catch_up(&self.kit.client, LOG).await.unwrap();
        log
    }

    /// Ends the test without a check by the oracle, for a test that writes with the operator's token: the oracle cannot
    /// distinguish these writes from those of the operator.
    pub fn writes_as_the_operator(&self) {
        self.judged.store(true, Ordering::Relaxed);
    }

    /// Waits until the cluster is at rest and checks all promises. Each test calls it at its end; otherwise dropping a world with
    /// Giveway panics.
    ///
    /// # Panics
    /// If a promise was broken.
    pub async fn check_promises(&self) {
        self.check(&Promises::new()).await;
    }

    /// Waits until the cluster is at rest and checks the promises with these excuses.
    ///
    /// # Panics
    /// If a promise was broken.
    pub async fn check(&self, promises: &Promises) {
        let mut broken = self.broken(promises).await;
        if broken.is_empty() {
            return;
        }
        let plans = stored_plans(&self.kit.client).await.unwrap_or_default();
        let concerned = |plan: &&StoredPlan| broken.iter().any(|sentence| sentence.contains(&plan.preemptor.name));
        let describe = |plan: &StoredPlan| {
            let victims = plan.victims.iter().flat_map(|unit| &unit.pods).map(|pod| pod.name.as_str());
            let (victims, state) = (victims.collect::<Vec<_>>().join(", "), plan.state.as_str());
            format!("Plan {} for {} to evict {victims}: {state}. {}", plan.id, plan.preemptor.name, plan.message)
        };
        let plans: Vec<String> = plans.iter().filter(concerned).map(describe).collect();
        broken.extend(plans);
        panic!("promises were broken:\n  {}", broken.join("\n  "));
    }

    /// Waits until the cluster is at rest and returns a message for each broken promise.
    ///
    /// # Panics
    /// If the log cannot be read.
    pub async fn broken(&self, promises: &Promises) -> Vec<String> {
        self.judged.store(true, Ordering::Relaxed);
        let mut broken = Vec::new();
        // Without an operator the cluster does not come to rest.
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

    /// Checks the promises about budgets with the audit log and the watches. If the test interrupted etcd or the API server, the
    /// watches may have missed events; then nothing is checked and the output of the test says so.
    ///
    /// # Panics
    /// If the watches do not catch up or the log cannot be read.
    pub async fn judgement(&self, promises: &Promises) -> Judgement {
        let Some(chronicler) = &self.chronicler else { return Judgement::default() };
        let chronicle = chronicler.read().await;
        if !chronicle.gap {
            return judge(&chronicle, &self.audit().await, promises);
        }
        let gap = "the watch of pods and budgets was interrupted, so events may be missing";
        if self.plane.interrupted() {
            println!("budgets are not checked: {gap}");
            return Judgement::default();
        }
        Judgement { broken: vec![gap.to_owned()], ..Judgement::default() }
    }

    /// Returns a message for each daemon that has ended by itself or panicked (promise 7).
    pub(super) fn ended(&mut self) -> Vec<String> {
        let mut describe = self.controllers.ended();
        let daemons = self.giveway.iter_mut().flat_map(|giveway| [&mut giveway.operator, &mut giveway.webhook]);
        for daemon in daemons {
            let name = daemon.program().name.clone();
            if let Some(status) = daemon.exited() {
                describe.push(format!("{name} has ended by itself ({status})"));
            }
        }
        describe.append(&mut self.ends.lock().unwrap_or_else(PoisonError::into_inner));
        // Includes further operators that the test started.
        for log in daemon_logs(self.plane.directory()) {
            let name = log.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read(&log).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let panics = text.lines().filter(|line| name.starts_with("giveway-") && line.contains("panicked at"));
            describe.extend(panics.map(|line| format!("{name}: {line}")));
        }
        describe
    }
}
