//! Allowances in flight, and the pods that they are spent for.
//!
//! Whoever reaches the webhook's port can send it a review, so a review alone spends nothing: the pod is read from the
//! API server first, and has to have the announcement that kube-scheduler stores before it deletes.
//!
//! A permitted victim is written into its budget's `status.disruptedPods`, and `disruptionsAllowed` is lowered: what
//! the eviction API does before it deletes a pod. Guarantees: the write fails when the budget changed since it was
//! read, so that no allowance is spent twice, whether by another replica of the webhook, by a drain or by Giveway's
//! operator; the same pod is counted once; the disruption controller drops the entry when the pod is gone, and two
//! minutes later when it is not.

use super::facts::{Allowance, Bound, PodObject};
use crate::deadline::Deadline;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use std::future::Future;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long one claim may take, all attempts included.
const LIMIT: Duration = Duration::from_secs(3);
/// Why nothing is known.
const TOO_LATE: &str = "the API server did not answer in time";
/// How often a budget that changes in between is read again.
const ATTEMPTS: usize = 10;

/// How a budget took it.
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// The pod is counted as gone, by this claim.
    Made,
    /// The pod is counted as gone already, or the budget does not count it.
    NotNeeded,
    /// The budget allows no more disruptions.
    Spent(Box<Allowance>),
    /// It is not known whether the pod is counted.
    Failed(String),
}

/// A pod as the API server has it.
pub type Stored = PodObject<true>;

/// Where allowances in flight are kept.
pub trait Ledger: Send + Sync + 'static {
    /// Reads a pod as it is stored at this moment; `None` when it does not exist.
    fn read(
        &self,
        namespace: &str,
        pod: &str,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Option<Stored>, String>> + Send;

    /// Lets a budget count a pod as gone. One that allows no disruption refuses when it is `guaranteed`.
    fn claim(
        &self,
        namespace: &str,
        budget: &str,
        pod: &Bound,
        guaranteed: bool,
        deadline: Deadline,
    ) -> impl Future<Output = Claim> + Send;

    /// Takes a claim back.
    fn release(&self, namespace: &str, budget: &str, pod: &Bound) -> impl Future<Output = ()> + Send;
}

/// Changes the status so that it counts the pod as gone. Nothing is changed unless the claim is made.
pub fn claim_on(object: &mut PodDisruptionBudget, pod: &Bound, guaranteed: bool, now: Timestamp) -> Claim {
    let Some(allowance) = Allowance::from_object(object) else { return Claim::NotNeeded };
    if !allowance.counts(pod) || allowance.has_counted(pod) {
        return Claim::NotNeeded;
    }
    if guaranteed && allowance.allowed() == 0 {
        return Claim::Spent(Box::new(allowance));
    }
    let status = object.status.get_or_insert_default();
    status.disruptions_allowed = (status.disruptions_allowed - 1).max(0);
    status.disrupted_pods.get_or_insert_default().insert(pod.name.clone(), Time(now));
    Claim::Made
}

/// Keeps claims in the budgets themselves.
pub struct ApiLedger {
    client: Client,
    /// Claims of one process do not get in each other's way.
    turn: Mutex<()>,
}

impl ApiLedger {
    /// Writes through `client`.
    pub fn new(client: Client) -> Self {
        Self { client, turn: Mutex::default() }
    }

    /// Reads, changes and writes until nobody came in between.
    async fn change<T>(
        &self,
        namespace: &str,
        budget: &str,
        change: impl Fn(&mut PodDisruptionBudget) -> Result<(), T>,
    ) -> Result<Result<(), T>, String> {
        let api: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), namespace);
        let _turn = self.turn.lock().await;
        for _ in 0..ATTEMPTS {
            let Some(mut object) = api.get_opt(budget).await.map_err(|error| error.to_string())? else {
                return Ok(Ok(()));
            };
            if let Err(unchanged) = change(&mut object) {
                return Ok(Err(unchanged));
            }
            match api.replace_status(budget, &PostParams::default(), &object).await {
                Ok(_) => return Ok(Ok(())),
                Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(format!("it changed {ATTEMPTS} times in between"))
    }
}

/// Until when one call may take.
fn bounded(deadline: Deadline) -> Deadline {
    deadline.or_earlier(Deadline::after(LIMIT).at())
}

impl Ledger for ApiLedger {
    async fn read(&self, namespace: &str, pod: &str, deadline: Deadline) -> Result<Option<Stored>, String> {
        let api: Api<Stored> = Api::namespaced(self.client.clone(), namespace);
        match bounded(deadline).limit(api.get_opt(pod)).await {
            Some(read) => read.map_err(|error| error.to_string()),
            None => Err(TOO_LATE.to_owned()),
        }
    }

    async fn claim(&self, namespace: &str, budget: &str, pod: &Bound, guaranteed: bool, deadline: Deadline) -> Claim {
        let change =
            self.change(namespace, budget, |object| match claim_on(object, pod, guaranteed, Timestamp::now()) {
                Claim::Made => Ok(()),
                other => Err(other),
            });
        match bounded(deadline).limit(change).await {
            Some(Ok(Ok(()))) => Claim::Made,
            Some(Ok(Err(other))) => other,
            Some(Err(error)) => Claim::Failed(error),
            None => Claim::Failed(TOO_LATE.to_owned()),
        }
    }

    async fn release(&self, namespace: &str, budget: &str, pod: &Bound) {
        let change = self.change(namespace, budget, |object| {
            let disrupted = object.status.as_mut().and_then(|status| status.disrupted_pods.as_mut());
            // The disruption controller counts anew when it sees this.
            disrupted.and_then(|pods| pods.remove(&pod.name)).map(|_| ()).ok_or(())
        });
        if !matches!(tokio::time::timeout(LIMIT, change).await, Ok(Ok(_))) {
            tracing::warn!(namespace, budget, pod = pod.name, "a claim is not taken back; it ends in two minutes");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::testing::{asked, budget, running};
    use serde_json::json;

    fn pod() -> Bound {
        asked(running("api-1", json!({}))).victim
    }

    fn now() -> Timestamp {
        "2026-01-01T00:01:00Z".parse().unwrap()
    }

    #[test]
    fn a_claim_lowers_the_allowance_and_names_the_pod_once() {
        let mut object = budget("api", 1, json!({}));
        assert_eq!(claim_on(&mut object, &pod(), true, now()), Claim::Made);
        let status = object.status.clone().unwrap();
        assert_eq!(status.disruptions_allowed, 0);
        assert_eq!(status.disrupted_pods.unwrap()["api-1"].0, now());
        assert_eq!(claim_on(&mut object, &pod(), true, now()), Claim::NotNeeded, "the same victim once more");
        let other = asked(running("api-2", json!({}))).victim;
        assert!(matches!(claim_on(&mut object, &other, true, now()), Claim::Spent(_)), "another one finds it spent");
    }

    #[test]
    fn a_budget_that_is_a_preference_counts_the_pod_and_refuses_nobody() {
        let mut object = budget("api", 0, json!({}));
        assert_eq!(claim_on(&mut object, &pod(), false, now()), Claim::Made);
        let status = object.status.unwrap();
        assert_eq!((status.disruptions_allowed, status.disrupted_pods.unwrap().len()), (0, 1));
    }

    #[test]
    fn what_a_budget_does_not_count_is_not_claimed() {
        let mut object = budget("api", 0, json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}}));
        let before = object.clone();
        assert_eq!(claim_on(&mut object, &pod(), true, now()), Claim::NotNeeded);
        assert_eq!(object, before);
    }
}
