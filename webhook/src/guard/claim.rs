//! What the guard writes before it permits a deletion: claims on the disruptions that budgets allow, with the pods that they are
//! used for, and marks of preempted pods in the status of their PodGroup.
//!
//! Any client that reaches the webhook's port can send a review, so a review alone uses no disruption: the pod is first
//! read from the API server and must have the announcement that kube-scheduler stores before it deletes a victim.
//!
//! A permitted victim is added to its budget's `status.disruptedPods`, and `disruptionsAllowed` is lowered, as the
//! Eviction API does before it deletes a pod. Guarantees: the write fails if the budget changed since it was read, so
//! no disruption is used twice by another replica of the webhook, a drain or Giveway's operator. The same pod is
//! counted once. The disruption controller removes the entry when the pod has terminated, or after two minutes if it
//! has not.

use crate::deadline::Deadline;
use giveway_admission::rules::guard::facts::{Allowance, PodObject, RequestedVictim};
use giveway_admission::wording::guard::{NO_ANSWER, changed_in_between};
use giveway_crds::PodGroup;
use giveway_crds::pod_group::PreemptedPod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;
use tokio::sync::Mutex;

/// Time limit of one claim, all attempts included.
const LIMIT: Duration = Duration::from_secs(3);
/// Time limit of the write of a mark, for which the scheduler waits.
const LONGEST_MARK: Duration = Duration::from_secs(1);
/// Maximum number of attempts if the budget changes concurrently.
const ATTEMPTS: usize = 10;

/// Result of a claim: of the attempt to make a budget count a pod as disrupted.
#[derive(Clone, Debug, PartialEq)]
pub enum LedgerAnswer {
    /// This claim counts the pod as disrupted.
    Made,
    /// The pod is already counted as disrupted, or the budget does not count it.
    NotNeeded,
    /// The budget allows no more disruptions.
    Spent(Box<Allowance>),
    /// It is unknown whether the pod is counted; the error.
    Failed(String),
}

impl LedgerAnswer {
    /// Returns the result of a claim on a budget as the value of a metric's label, such as `made`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Made => "made",
            Self::NotNeeded => "not_needed",
            Self::Spent(_) => "spent",
            Self::Failed(_) => "failed",
        }
    }
}

/// A pod as stored in the API server.
pub type Stored = PodObject<true>;

/// Reads pods, and stores what the guard permits: claims in the status of budgets (the budget counts a pod as disrupted), and marks in the
/// status of PodGroups (a member was preempted).
pub trait Ledger: Send + Sync + 'static {
    /// Reads the pod `namespace/pod` from the API server, not from a cache; `None` if it does not exist. The error is for the log.
    fn read(
        &self,
        namespace: &str,
        pod: &str,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Option<Stored>, String>> + Send;

    /// Makes the PodDisruptionBudget `namespace/budget` count a pod as disrupted. If it allows no disruption, a `guaranteed` budget is not
    /// changed ([`LedgerAnswer::Spent`]), and any other one counts the pod nevertheless.
    fn claim(
        &self,
        namespace: &str,
        budget: &str,
        pod: &RequestedVictim,
        guaranteed: bool,
        deadline: Deadline,
    ) -> impl Future<Output = LedgerAnswer> + Send;

    /// Takes a [`claim`](Self::claim) back, because the preemption of the pod is rejected after all: the budget no longer counts the pod as
    /// disrupted. A failure is only logged.
    fn release(&self, namespace: &str, budget: &str, pod: &RequestedVictim) -> impl Future<Output = ()> + Send;

    /// Writes into the status of the PodGroup `namespace/group` that the scheduler was permitted to preempt `pod`, a member. The error is
    /// for the log.
    fn mark(
        &self,
        namespace: &str,
        group: &str,
        pod: &RequestedVictim,
        deadline: Deadline,
    ) -> impl Future<Output = Result<(), String>> + Send;
}

/// Changes the status of a budget, in memory, so that it counts the pod as disrupted since `now`. It is changed only if the result is
/// [`LedgerAnswer::Made`]. A `guaranteed` budget must allow one more disruption.
pub fn claim_on(
    object: &mut PodDisruptionBudget,
    pod: &RequestedVictim,
    guaranteed: bool,
    now: Timestamp,
) -> LedgerAnswer {
    let Some(allowance) = Allowance::from_object(object) else { return LedgerAnswer::NotNeeded };
    if !allowance.counts(pod) || allowance.has_counted(pod) {
        return LedgerAnswer::NotNeeded;
    }
    if guaranteed && allowance.allowed() == 0 {
        return LedgerAnswer::Spent(Box::new(allowance));
    }
    let status = object.status.get_or_insert_default();
    status.disruptions_allowed = (status.disruptions_allowed - 1).max(0);
    status.disrupted_pods.get_or_insert_default().insert(pod.name.to_string(), Time(now));
    LedgerAnswer::Made
}

/// Stores claims in the budgets' status.
pub struct ApiLedger {
    client: Client,
    /// Serializes the claims of one process, which would conflict otherwise.
    turn: Mutex<()>,
}

impl ApiLedger {
    /// Creates a ledger that reads pods, and writes the status of budgets and PodGroups, through `client`.
    pub fn new(client: Client) -> Self {
        Self { client, turn: Mutex::default() }
    }

    /// Reads a budget, applies `change` to it and writes its status; repeats this if another client changed the budget meanwhile. If
    /// `change` returns an error, nothing is written and the result is `Ok(Err(..))` with that error. Does nothing if the budget does not
    /// exist.
    ///
    /// # Errors
    /// The API server cannot be reached or rejects a call, or the budget changed at each attempt.
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
        Err(changed_in_between(ATTEMPTS))
    }
}

/// Returns the merge patch for the status of a PodGroup that records a member which the scheduler was permitted to preempt at `now`.
fn marking(pod: &RequestedVictim, now: Timestamp) -> Value {
    let pods = BTreeMap::from([(&pod.uid, PreemptedPod { name: pod.name.to_string(), time: Time(now) })]);
    json!({ "status": { "preemptedPods": pods } })
}

/// Returns the deadline of one call of the API server: the given one, or [`LIMIT`] from now if that is earlier.
fn bounded(deadline: Deadline) -> Deadline {
    deadline.or_earlier(Deadline::after(LIMIT).at())
}

impl Ledger for ApiLedger {
    async fn read(&self, namespace: &str, pod: &str, deadline: Deadline) -> Result<Option<Stored>, String> {
        let api: Api<Stored> = Api::namespaced(self.client.clone(), namespace);
        match bounded(deadline).limit(api.get_opt(pod)).await {
            Some(read) => read.map_err(|error| error.to_string()),
            None => Err(NO_ANSWER.to_owned()),
        }
    }

    async fn claim(
        &self,
        namespace: &str,
        budget: &str,
        pod: &RequestedVictim,
        guaranteed: bool,
        deadline: Deadline,
    ) -> LedgerAnswer {
        let change =
            self.change(namespace, budget, |object| match claim_on(object, pod, guaranteed, Timestamp::now()) {
                LedgerAnswer::Made => Ok(()),
                other => Err(other),
            });
        match bounded(deadline).limit(change).await {
            Some(Ok(Ok(()))) => LedgerAnswer::Made,
            Some(Ok(Err(other))) => other,
            Some(Err(error)) => LedgerAnswer::Failed(error),
            None => LedgerAnswer::Failed(NO_ANSWER.to_owned()),
        }
    }

    async fn release(&self, namespace: &str, budget: &str, pod: &RequestedVictim) {
        let change = self.change(namespace, budget, |object| {
            let disrupted = object.status.as_mut().and_then(|status| status.disrupted_pods.as_mut());
            // The disruption controller recalculates the status when it sees this change.
            disrupted.and_then(|pods| pods.remove(&*pod.name)).map(|_| ()).ok_or(())
        });
        if !matches!(tokio::time::timeout(LIMIT, change).await, Ok(Ok(_))) {
            tracing::warn!(namespace, budget, pod = &*pod.name, "a claim is not taken back; it ends in two minutes");
        }
    }

    async fn mark(
        &self,
        namespace: &str,
        group: &str,
        pod: &RequestedVictim,
        deadline: Deadline,
    ) -> Result<(), String> {
        let api: Api<PodGroup> = Api::namespaced(self.client.clone(), namespace);
        let patch = Patch::Merge(marking(pod, Timestamp::now()));
        let params = PatchParams { field_manager: Some("giveway-webhook".to_owned()), ..PatchParams::default() };
        let write = api.patch_status(group, &params, &patch);
        match deadline.or_earlier(Deadline::after(LONGEST_MARK).at()).limit(write).await {
            Some(written) => written.map(drop).map_err(|error| error.to_string()),
            None => Err(NO_ANSWER.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::testing::{asked, budget, running};
    use serde_json::json;

    fn pod() -> RequestedVictim {
        asked(running("api-1", json!({}))).victim
    }

    fn now() -> Timestamp {
        "2026-01-01T00:01:00Z".parse().unwrap()
    }

    #[test]
    fn a_claim_lowers_the_allowance_and_names_the_pod_once() {
        let mut object = budget("api", 1, json!({}));
        assert_eq!(claim_on(&mut object, &pod(), true, now()), LedgerAnswer::Made);
        let status = object.status.clone().unwrap();
        assert_eq!(status.disruptions_allowed, 0);
        assert_eq!(status.disrupted_pods.unwrap()["api-1"].0, now());
        assert_eq!(claim_on(&mut object, &pod(), true, now()), LedgerAnswer::NotNeeded, "the same victim once more");
        let other = asked(running("api-2", json!({}))).victim;
        assert!(
            matches!(claim_on(&mut object, &other, true, now()), LedgerAnswer::Spent(_)),
            "another one finds it spent"
        );
    }

    #[test]
    fn a_budget_without_a_guarantee_counts_the_pod_and_rejects_no_preemption() {
        let mut object = budget("api", 0, json!({}));
        assert_eq!(claim_on(&mut object, &pod(), false, now()), LedgerAnswer::Made);
        let status = object.status.unwrap();
        assert_eq!((status.disruptions_allowed, status.disrupted_pods.unwrap().len()), (0, 1));
    }

    #[test]
    fn a_mark_is_an_entry_for_one_pod_and_leaves_other_fields_and_entries() {
        let mut group =
            json!({"status": {"observedGeneration": 2, "preemptedPods": {"u-0": {"name": "other", "time": "t"}}}});
        json_patch::merge(&mut group, &marking(&pod(), now()));
        let marks = json!({
            "u-0": {"name": "other", "time": "t"},
            "uid-api-1": {"name": "api-1", "time": "2026-01-01T00:01:00Z"},
        });
        assert_eq!(group, json!({"status": {"observedGeneration": 2, "preemptedPods": marks}}));
    }

    #[test]
    fn a_pod_that_a_budget_does_not_count_is_not_claimed() {
        let mut object = budget("api", 0, json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}}));
        let before = object.clone();
        assert_eq!(claim_on(&mut object, &pod(), true, now()), LedgerAnswer::NotNeeded);
        assert_eq!(object, before);
    }
}
