//! PodDisruptionBudgets.

use super::Kit;
use crate::wait::wait_for;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{ObjectMeta, PostParams};
use std::collections::BTreeMap;
use std::time::Duration;

/// Describes a budget. It counts pods, not percentages, because pods without a controller can be counted only so.
#[derive(Clone)]
pub struct BudgetBuilder {
    kit: Kit,
    name: String,
    labels: BTreeMap<String, String>,
    min_available: i32,
}

impl BudgetBuilder {
    /// A budget that matches every pod of the namespace and allows any disruption.
    pub fn new(kit: Kit, name: &str) -> Self {
        Self { kit, name: name.to_owned(), labels: BTreeMap::new(), min_available: 0 }
    }

    /// A label of the pods that it protects.
    #[must_use]
    pub fn matching(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// How many pods must stay available.
    #[must_use]
    pub fn min_available(mut self, pods: i32) -> Self {
        self.min_available = pods;
        self
    }

    /// Creates the budget and waits until it allows exactly this number of disruptions.
    ///
    /// # Panics
    /// It is refused, or it comes to allow another number.
    pub async fn create_allowing(self, disruptions: i32) -> PodDisruptionBudget {
        let api = self.kit.api::<PodDisruptionBudget>();
        let budget = PodDisruptionBudget {
            metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
            spec: Some(PodDisruptionBudgetSpec {
                min_available: Some(IntOrString::Int(self.min_available)),
                selector: Some(LabelSelector { match_labels: Some(self.labels.clone()), match_expressions: None }),
                ..PodDisruptionBudgetSpec::default()
            }),
            status: None,
        };
        api.create(&PostParams::default(), &budget).await.unwrap();
        wait_for(
            &format!("budget {} allows {disruptions} disruptions", self.name),
            Duration::from_secs(60),
            async || {
                let budget = api.get(&self.name).await.map_err(|error| error.to_string())?;
                match &budget.status {
                    Some(status)
                        if status.observed_generation.is_some() && status.disruptions_allowed == disruptions =>
                    {
                        Ok(budget)
                    }
                    other => Err(format!("{other:?}")),
                }
            },
        )
        .await
    }
}
