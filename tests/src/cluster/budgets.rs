//! PodDisruptionBudgets.

use super::Kit;
use crate::wait::wait_for;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{ObjectMeta, PostParams};
use std::time::Duration;

/// Describes a budget.
#[derive(Clone)]
pub struct BudgetBuilder {
    kit: Kit,
    name: String,
    selector: LabelSelector,
    min_available: Option<IntOrString>,
    max_unavailable: Option<IntOrString>,
    unhealthy_policy: Option<String>,
}

impl BudgetBuilder {
    /// Returns a builder of a budget that selects all pods of the namespace and allows all disruptions.
    pub fn new(kit: Kit, name: &str) -> Self {
        Self {
            kit,
            name: name.to_owned(),
            selector: LabelSelector::default(),
            min_available: None,
            max_unavailable: None,
            unhealthy_policy: None,
        }
    }

    /// Adds a label to the selector of its pods.
    #[must_use]
    pub fn matching(mut self, key: &str, value: &str) -> Self {
        self.selector.match_labels.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets `minAvailable`. Budgets over pods without a controller support only this rule.
    #[must_use]
    pub fn min_available(mut self, pods: i32) -> Self {
        self.min_available = Some(IntOrString::Int(pods));
        self
    }

    /// Sets `minAvailable` in percent.
    #[must_use]
    pub fn min_available_percent(mut self, percent: usize) -> Self {
        self.min_available = Some(IntOrString::String(format!("{percent}%")));
        self
    }

    /// Sets `maxUnavailable`.
    #[must_use]
    pub fn max_unavailable(mut self, pods: i32) -> Self {
        self.max_unavailable = Some(IntOrString::Int(pods));
        self
    }

    /// Sets `maxUnavailable` in percent.
    #[must_use]
    pub fn max_unavailable_percent(mut self, percent: usize) -> Self {
        self.max_unavailable = Some(IntOrString::String(format!("{percent}%")));
        self
    }

    /// Sets `unhealthyPodEvictionPolicy`: `IfHealthyBudget` or `AlwaysAllow`.
    #[must_use]
    pub fn unhealthy_pods(mut self, policy: &str) -> Self {
        self.unhealthy_policy = Some(policy.to_owned());
        self
    }

    /// Creates the budget and waits until the disruption controller has counted its pods.
    ///
    /// # Panics
    /// If it is rejected or its status is not written.
    pub async fn create(self) -> PodDisruptionBudget {
        let name = self.name.clone();
        let counted = |status: &PodDisruptionBudgetStatus| status.observed_generation.is_some();
        self.create_until(&format!("the pods of budget {name} are counted"), counted).await
    }

    /// Creates the budget and waits until it allows exactly this number of disruptions.
    ///
    /// # Panics
    /// If it is rejected or does not allow this number.
    pub async fn create_allowing(self, disruptions: i32) -> PodDisruptionBudget {
        let what = format!("budget {} allows {disruptions} disruptions", self.name);
        let allows = |status: &PodDisruptionBudgetStatus| {
            status.observed_generation.is_some() && status.disruptions_allowed == disruptions
        };
        self.create_until(&what, allows).await
    }

    async fn create_until(self, what: &str, good: impl Fn(&PodDisruptionBudgetStatus) -> bool) -> PodDisruptionBudget {
        let api = self.kit.api::<PodDisruptionBudget>();
        let none = self.min_available.is_none() && self.max_unavailable.is_none();
        let budget = PodDisruptionBudget {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: Some(PodDisruptionBudgetSpec {
                min_available: self.min_available.or(none.then_some(IntOrString::Int(0))),
                max_unavailable: self.max_unavailable,
                selector: Some(self.selector),
                unhealthy_pod_eviction_policy: self.unhealthy_policy,
            }),
            status: None,
        };
        api.create(&PostParams::default(), &budget).await.unwrap();
        wait_for(what, Duration::from_secs(60), async || {
            let budget = api.get(&self.name).await.map_err(|error| error.to_string())?;
            match &budget.status {
                Some(status) if good(status) => Ok(budget),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    }
}
