//! PodGroups with their pods, and handles that wait for their states.

use super::events::{self, EventRecord};
use super::pods::{default_request, describe, node_of, ready};
use super::{Kit, PodHandle, Shape, Shaped, stored_plans};
use crate::wait::wait_for;
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_crds::policy::{DisruptionMode, SchedulingPolicy};
use giveway_crds::{PodGroup, PodGroupSpec, condition, keys};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use std::time::Duration;

/// Builds a PodGroup and its pods, which request 1 CPU each by default.
#[derive(Clone)]
pub struct GroupBuilder {
    kit: Kit,
    name: String,
    size: usize,
    shape: Shape,
    spec: PodGroupSpec,
    nodes: Vec<String>,
}

impl Shaped for GroupBuilder {
    fn shape(&mut self) -> &mut Shape {
        &mut self.shape
    }
}

impl GroupBuilder {
    /// Returns a builder of a gang of `size` pods with `minCount` `size`.
    pub fn new(kit: Kit, name: &str, size: usize) -> Self {
        let min_count = i32::try_from(size.max(1)).unwrap();
        let spec = PodGroupSpec { scheduling_policy: SchedulingPolicy::gang(min_count), ..PodGroupSpec::default() };
        Self { kit, name: name.to_owned(), size, shape: Shape::default(), spec, nodes: Vec::new() }
    }

    /// Creates the PodGroup without its pods.
    #[must_use]
    pub fn without_pods(mut self) -> Self {
        self.size = 0;
        self
    }

    /// Sets `minCount`.
    #[must_use]
    pub fn min_count(mut self, pods: i32) -> Self {
        self.spec.scheduling_policy = SchedulingPolicy::gang(pods);
        self
    }

    /// Sets the policy `basic`: the pods are scheduled individually.
    #[must_use]
    pub fn basic(mut self) -> Self {
        self.spec.scheduling_policy = SchedulingPolicy::basic();
        self
    }

    /// Sets mode `PodGroup`: the pods of the group are disrupted together.
    #[must_use]
    pub fn whole(self) -> Self {
        self.mode(DisruptionMode::PodGroup)
    }

    /// Sets the disruption mode.
    #[must_use]
    pub fn mode(mut self, mode: DisruptionMode) -> Self {
        self.spec.disruption_mode = mode;
        self
    }

    /// Changes other fields of the PodGroup's spec.
    #[must_use]
    pub fn spec(mut self, change: impl FnOnce(&mut PodGroupSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Binds the pods to these nodes, in turn, at creation.
    #[must_use]
    pub fn on<S: AsRef<str>>(mut self, nodes: &[S]) -> Self {
        self.nodes = nodes.iter().map(|node| node.as_ref().to_owned()).collect();
        self
    }

    /// Returns the PodGroup without creating it.
    pub fn build(&self) -> PodGroup {
        let spec = PodGroupSpec { priority_class_name: self.shape.priority_class.clone(), ..self.spec.clone() };
        PodGroup { metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() }, spec, status: None }
    }

    /// Creates the PodGroup and its pods, and waits until pods that are bound at creation run.
    ///
    /// # Panics
    /// If an object is rejected or a bound pod does not run.
    pub async fn create(self) -> Group {
        let mut group = self.create_group().await;
        group.add_pods(self.size).await;
        group
    }

    /// Creates the PodGroup. [`Group::add_pods`] creates its pods.
    ///
    /// # Panics
    /// If it is rejected.
    pub async fn create_group(&self) -> Group {
        let created = self.kit.api::<PodGroup>().create(&PostParams::default(), &self.build()).await;
        created.unwrap_or_else(|error| panic!("creating PodGroup {}: {error}", self.name));
        self.without_group()
    }

    /// Returns a handle for pods whose PodGroup is created later or by a controller.
    pub fn without_group(&self) -> Group {
        let mut shape = default_request(self.shape.clone());
        shape.labels.insert(keys::LABEL_POD_GROUP.to_owned(), self.name.clone());
        Group { kit: self.kit.clone(), name: self.name.clone(), shape, nodes: self.nodes.clone(), pods: Vec::new() }
    }
}

/// A handle of a group and of the pods that were created through it.
#[derive(Clone)]
pub struct Group {
    kit: Kit,
    /// Its name.
    pub name: String,
    shape: Shape,
    nodes: Vec<String>,
    /// Its pods, in the order in which they were created.
    pub pods: Vec<PodHandle>,
}

impl Group {
    /// Creates more pods of the group, `NAME-0` and so on.
    ///
    /// # Panics
    /// If a pod is rejected, or is bound at creation and does not run.
    pub async fn add_pods(&mut self, count: usize) {
        let pods = (self.pods.len()..self.pods.len() + count).map(|index| self.pod(index)).collect();
        let created = Kit::create_all(&self.kit.api::<Pod>(), pods).await;
        self.pods.extend(created.iter().map(|pod| PodHandle::new(self.kit.clone(), pod)));
        if !self.nodes.is_empty() {
            self.wait_running(Duration::from_secs(60)).await;
        }
    }

    /// Returns the pods that [`Group::add_pods`] would create, so that [`super::FillBuilder`] can create those of many groups
    /// together.
    pub(super) fn planned_pods(&self, count: usize) -> Vec<Pod> {
        (0..count).map(|index| self.pod(index)).collect()
    }

    pub(super) fn adopt(&mut self, created: &[Pod]) {
        self.pods.extend(created.iter().map(|pod| PodHandle::new(self.kit.clone(), pod)));
    }

    fn pod(&self, index: usize) -> Pod {
        let mut shape = self.shape.clone();
        if !self.nodes.is_empty() {
            shape.node = Some(self.nodes[index % self.nodes.len()].clone());
        }
        shape.pod(&format!("{}-{index}", self.name))
    }

    /// Returns the current PodGroup.
    ///
    /// # Panics
    /// If it does not exist.
    pub async fn get(&self) -> PodGroup {
        self.kit.api::<PodGroup>().get(&self.name).await.unwrap()
    }

    /// Returns all current pods of the group, including those of other creators.
    ///
    /// # Errors
    /// If the API server does not answer.
    pub async fn members(&self) -> Result<Vec<Pod>, kube::Error> {
        let selector = format!("{}={}", keys::LABEL_POD_GROUP, self.name);
        Ok(self.kit.api::<Pod>().list(&ListParams::default().labels(&selector)).await?.items)
    }

    /// Waits until every pod that was created through this handle is bound. Returns the nodes in the order of the pods.
    ///
    /// # Panics
    /// If the deadline has passed.
    pub async fn wait_bound(&self, limit: Duration) -> Vec<String> {
        let what = format!("all {} pods of group {} are bound", self.pods.len(), self.name);
        self.wait_members(&what, limit, |pod| node_of(pod).is_some()).await
    }

    /// Waits until every pod that was created through this handle runs.
    ///
    /// # Panics
    /// If the deadline has passed.
    pub async fn wait_running(&self, limit: Duration) {
        let what = format!("all {} pods of group {} run", self.pods.len(), self.name);
        self.wait_members(&what, limit, ready).await;
    }

    async fn wait_members(&self, what: &str, limit: Duration, good: impl Fn(&Pod) -> bool) -> Vec<String> {
        wait_for(what, limit, async || {
            let members = self.members().await.map_err(|error| error.to_string())?;
            let mut nodes = Vec::new();
            let mut bad = Vec::new();
            for pod in &self.pods {
                match members.iter().find(|member| member.metadata.uid.as_deref() == Some(&pod.uid)) {
                    Some(member) if good(member) => nodes.push(node_of(member).unwrap_or_default().to_owned()),
                    Some(member) => bad.push(describe(member)),
                    None => bad.push(format!("{} does not exist", pod.name)),
                }
            }
            if bad.is_empty() { Ok(nodes) } else { Err(self.state(&bad).await) }
        })
        .await
    }

    /// Waits until all pods that were created through this handle are removed.
    ///
    /// # Panics
    /// If the deadline has passed.
    pub async fn wait_removed(&self, limit: Duration) {
        wait_for(&format!("the pods of group {} are removed", self.name), limit, async || {
            let members = self.members().await.map_err(|error| error.to_string())?;
            let mine = |pod: &&Pod| self.pods.iter().any(|p| pod.metadata.uid.as_deref() == Some(&p.uid));
            let left: Vec<String> = members.iter().filter(mine).map(describe).collect();
            if left.is_empty() { Ok(()) } else { Err(self.state(&left).await) }
        })
        .await;
    }

    /// Waits until a condition of the group has this status and reason, and returns its message.
    ///
    /// # Panics
    /// If the deadline has passed.
    pub async fn wait_condition(&self, type_: &str, status: &str, reason: &str, limit: Duration) -> String {
        wait_for(&format!("group {} has {type_}={status} {reason}", self.name), limit, async || {
            let group = self.kit.api::<PodGroup>().get(&self.name).await.map_err(|error| error.to_string())?;
            let conditions = group.status.unwrap_or_default().conditions;
            match condition::find(&conditions, type_) {
                Some(found) if found.status == status && found.reason == reason => Ok(found.message.clone()),
                _ => Err(self.state(&[]).await),
            }
        })
        .await
    }

    /// Waits until a plan for this group is in this state or was in it, and returns the plan.
    ///
    /// # Panics
    /// If the deadline has passed.
    pub async fn wait_plan(&self, state: PlanState, limit: Duration) -> StoredPlan {
        wait_for(&format!("the plan of group {} is {state:?}", self.name), limit, async || {
            let plans = stored_plans(&self.kit.client).await.map_err(|error| error.to_string())?;
            // A departure names the preemptor of the plan before it.
            let its = |plan: &StoredPlan| {
                plan.cause.is_plan()
                    && (plan.preemptor.namespace.as_str(), plan.preemptor.name.as_str())
                        == (self.kit.namespace.as_str(), self.name.as_str())
            };
            // The plan may have left the state before it is probed. A plan without a term has no status yet.
            let as_far = |plan: &StoredPlan| {
                !plan.term.is_empty() && (plan.state == state || (plan.state.in_flight() && plan.state >= state))
            };
            match plans.into_iter().rev().find(its) {
                Some(plan) if as_far(&plan) => Ok(plan),
                _ => Err(self.state(&[]).await),
            }
        })
        .await
    }

    /// Waits for an event with this reason about the group, and returns its message.
    ///
    /// # Panics
    /// If the deadline has passed.
    pub async fn wait_event(&self, reason: &str, limit: Duration) -> String {
        events::wait_for_event(&self.kit, "PodGroup", &self.name, reason, limit).await
    }

    /// Returns the events about the group.
    ///
    /// # Panics
    /// If the API server does not answer.
    pub async fn events(&self) -> Vec<EventRecord> {
        events::events_about(&self.kit, "PodGroup", &self.name).await.unwrap()
    }

    /// Deletes the PodGroup but not its pods.
    ///
    /// # Panics
    /// If the deletion is rejected.
    pub async fn delete(&self) {
        self.kit.api::<PodGroup>().delete(&self.name, &DeleteParams::default()).await.unwrap();
    }

    /// Describes the status of the group and these pods, for messages of failed waits.
    async fn state(&self, pods: &[String]) -> String {
        let mut text = match self.kit.api::<PodGroup>().get_opt(&self.name).await {
            Ok(Some(group)) => {
                let status = group.status.unwrap_or_default();
                let mut text = format!("pods {:?}", status.pods);
                for c in status.conditions {
                    text += &format!("\n  {}={} {}: {}", c.type_, c.status, c.reason, c.message);
                }
                if let Some(plan) = status.preemption {
                    text += &format!("\n  plan {} {:?}: {}", plan.name, plan.state, plan.message);
                }
                text
            }
            Ok(None) => "the PodGroup does not exist".to_owned(),
            Err(error) => error.to_string(),
        };
        for pod in pods.iter().take(5) {
            text += &format!("\n  {pod}");
        }
        if pods.len() > 5 {
            text += &format!("\n  and {} more pods", pods.len() - 5);
        }
        text
    }
}
