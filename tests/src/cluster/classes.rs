//! Priority classes, usable at once.

use super::Kit;
use super::shape::Shape;
use crate::wait::wait_for;
use giveway_crds::keys;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use std::time::Duration;

/// Describes a priority class; [`ClassBuilder::create`] makes it.
#[derive(Clone)]
pub struct ClassBuilder {
    kit: Kit,
    class: PriorityClass,
}

impl ClassBuilder {
    /// An ordinary class: its pods preempt by the stock scheduler.
    pub fn new(kit: Kit, name: &str, value: i32) -> Self {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        Self { kit, class: PriorityClass { metadata, value, ..PriorityClass::default() } }
    }

    /// Gives preemption for this class into Giveway's hands.
    #[must_use]
    pub fn managed(self) -> Self {
        self.annotation(keys::ANNOTATION_MANAGED, "true")
    }

    /// Guarantees the budgets of its pods against preemptors of lower priority than this (KEP-3280).
    #[must_use]
    pub fn threshold(self, priority: i32) -> Self {
        self.annotation(keys::ANNOTATION_THRESHOLD, &priority.to_string())
    }

    /// Asks for `preemptionPolicy: Never`.
    #[must_use]
    pub fn never(mut self) -> Self {
        self.class.preemption_policy = Some("Never".to_owned());
        self
    }

    /// Makes it the class of pods that name none.
    #[must_use]
    pub fn global_default(mut self) -> Self {
        self.class.global_default = Some(true);
        self
    }

    /// Sets any annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.class.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// Creates the class and waits until admission knows it: the API server looks classes up in a cache.
    ///
    /// # Panics
    /// The class is refused, or pods of it stay refused.
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
            // A class of this name, with other values, may have been deleted a moment ago.
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
