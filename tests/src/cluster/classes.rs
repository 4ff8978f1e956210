//! Priority classes that can be used immediately after creation.

use super::Kit;
use super::shape::Shape;
use crate::wait::wait_for;
use giveway_crds::keys;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use std::time::Duration;

/// Builds a priority class; [`ClassBuilder::create`] creates it.
#[derive(Clone)]
pub struct ClassBuilder {
    kit: Kit,
    class: PriorityClass,
}

impl ClassBuilder {
    /// Returns a builder of an unmanaged class, for whose pods kube-scheduler preempts.
    pub fn new(kit: Kit, name: &str, value: i32) -> Self {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        Self { kit, class: PriorityClass { metadata, value, ..PriorityClass::default() } }
    }

    /// Makes the class managed, so that Giveway preempts for its pods.
    #[must_use]
    pub fn managed(self) -> Self {
        self.annotation(keys::ANNOTATION_MANAGED, "true")
    }

    /// Sets the threshold: preemptors of lower priority cannot violate budgets of its pods (KEP-3280).
    #[must_use]
    pub fn threshold(self, priority: i32) -> Self {
        self.annotation(keys::ANNOTATION_THRESHOLD, &priority.to_string())
    }

    /// Sets `preemptionPolicy: Never`.
    #[must_use]
    pub fn never(mut self) -> Self {
        self.class.preemption_policy = Some("Never".to_owned());
        self
    }

    /// Sets `globalDefault`.
    #[must_use]
    pub fn global_default(mut self) -> Self {
        self.class.global_default = Some(true);
        self
    }

    /// Sets an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.class.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// Creates the class and waits until pods of it are admitted, because the API server reads classes from a cache.
    ///
    /// # Panics
    /// If the class is rejected, or its pods are rejected until the deadline.
    pub async fn create(self) -> PriorityClass {
        let api: Api<PriorityClass> = Api::all(self.kit.client.clone());
        let name = self.class.metadata.name.clone().unwrap_or_default();
        let created = api.create(&PostParams::default(), &self.class).await;
        let created = created.unwrap_or_else(|error| panic!("creating PriorityClass {name}: {error}"));
        let pods: Api<Pod> = self.kit.api();
        let mut shape = Shape { priority_class: Some(name.clone()), ..Shape::default() };
        shape.node = Some("nowhere".to_owned());
        let probe = shape.pod("giveway-class-probe");
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        wait_for(&format!("pods of class {name} are admitted"), Duration::from_secs(20), async || {
            let pod = pods.create(&dry_run, &probe).await.map_err(|error| error.to_string())?;
            // The cache may still have a deleted class of this name with other values.
            let spec = pod.spec.unwrap_or_default();
            let threshold = pod.metadata.annotations.and_then(|mut all| all.remove(keys::ANNOTATION_THRESHOLD));
            let wanted = created.metadata.annotations.as_ref().and_then(|all| all.get(keys::ANNOTATION_THRESHOLD));
            let same = spec.priority == Some(created.value)
                && spec.preemption_policy == created.preemption_policy
                && threshold.as_ref().is_none_or(|threshold| Some(threshold) == wanted);
            if same { Ok(()) } else { Err(format!("{:?} {:?} {threshold:?}", spec.priority, spec.preemption_policy)) }
        })
        .await;
        created
    }
}
