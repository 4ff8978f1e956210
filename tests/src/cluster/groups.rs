//! PodGroups with their pods, and handles to wait on them.

use super::events::{self, Happened};
use super::pods::{default_request, describe, node_of, ready};
use super::{Kit, PodHandle, Shape, Shaped, stored_plans};
use crate::wait::wait_for;
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_crds::policy::{DisruptionMode, SchedulingPolicy};
use giveway_crds::{PodGroup, PodGroupSpec, condition, keys};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use std::time::Duration;

/// Describes a PodGroup and its pods, of 1 CPU each unless they ask for something else.
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
    /// A gang of `size` pods, all of which it needs.
    pub fn new(kit: Kit, name: &str, size: usize) -> Self {
        let min_count = i32::try_from(size.max(1)).unwrap();
        let spec = PodGroupSpec { scheduling_policy: SchedulingPolicy::gang(min_count), ..PodGroupSpec::default() };
        Self { kit, name: name.to_owned(), size, shape: Shape::default(), spec, nodes: Vec::new() }
    }

    /// Without pods: they are needed, and nobody creates them.
    #[must_use]
    pub fn without_pods(mut self) -> Self {
        self.size = 0;
        self
    }

    /// How many pods must have a place before any starts.
    #[must_use]
    pub fn min_count(mut self, pods: i32) -> Self {
        self.spec.scheduling_policy = SchedulingPolicy::gang(pods);
        self
    }

    /// The policy `basic`: the pods are scheduled one by one.
    #[must_use]
    pub fn basic(mut self) -> Self {
        self.spec.scheduling_policy = SchedulingPolicy::basic();
        self
    }

    /// Makes the group give way whole or not at all (mode `PodGroup`).
    #[must_use]
    pub fn whole(self) -> Self {
        self.mode(DisruptionMode::PodGroup)
    }

    /// What of the group is evicted together.
    #[must_use]
    pub fn mode(mut self, mode: DisruptionMode) -> Self {
        self.spec.disruption_mode = mode;
        self
    }

    /// Changes the PodGroup's spec in any other way.
    #[must_use]
    pub fn spec(mut self, change: impl FnOnce(&mut PodGroupSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Binds the pods to these nodes, in turn, when they are created.
    #[must_use]
    pub fn on<S: AsRef<str>>(mut self, nodes: &[S]) -> Self {
        self.nodes = nodes.iter().map(|node| node.as_ref().to_owned()).collect();
        self
    }

    /// The PodGroup as it would be created, to change by hand.
    pub fn build(&self) -> PodGroup {
        let spec = PodGroupSpec { priority_class_name: self.shape.priority_class.clone(), ..self.spec.clone() };
        PodGroup { metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() }, spec, status: None }
    }

    /// Creates the PodGroup and its pods. Bound ones are waited for until they run.
    ///
    /// # Panics
    /// One of them is refused, or does not run.
    pub async fn create(self) -> Group {
        let mut group = self.create_group().await;
        group.add_pods(self.size).await;
        group
    }

    /// Creates the PodGroup and leaves the pods to [`Group::add_pods`].
    ///
    /// # Panics
    /// It is refused.
    pub async fn create_group(&self) -> Group {
        let created = self.kit.api::<PodGroup>().create(&PostParams::default(), &self.build()).await;
        created.unwrap_or_else(|error| panic!("creating PodGroup {}: {error}", self.name));
        self.without_group()
    }

    /// A handle for pods whose PodGroup is created later, or never.
    pub fn without_group(&self) -> Group {
        let mut shape = default_request(self.shape.clone());
        shape.labels.insert(keys::LABEL_POD_GROUP.to_owned(), self.name.clone());
        Group { kit: self.kit.clone(), name: self.name.clone(), shape, nodes: self.nodes.clone(), pods: Vec::new() }
    }
}

/// A group that was created, with the pods that were created for it.
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
    /// Creates more pods for the group, `NAME-0` and so on.
    ///
    /// # Panics
    /// One of them is refused, or is bound and does not run.
    pub async fn add_pods(&mut self, count: usize) {
        let pods = (self.pods.len()..self.pods.len() + count).map(|index| self.pod(index)).collect();
        let created = Kit::create_all(&self.kit.api::<Pod>(), pods).await;
        self.pods.extend(created.iter().map(|pod| PodHandle::new(self.kit.clone(), pod)));
        if !self.nodes.is_empty() {
            self.wait_running(Duration::from_secs(60)).await;
        }
    }

    /// The pods that [`Group::add_pods`] would create now, for [`super::FillBuilder`] to create in one go.
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

    /// The PodGroup as it is now.
    ///
    /// # Panics
    /// It is gone.
    pub async fn get(&self) -> PodGroup {
        self.kit.api::<PodGroup>().get(&self.name).await.unwrap()
    }

    /// The pods of the group that exist now, whoever created them.
    ///
    /// # Errors
    /// The API server cannot be asked.
    pub async fn members(&self) -> Result<Vec<Pod>, kube::Error> {
        let selector = format!("{}={}", keys::LABEL_POD_GROUP, self.name);
        Ok(self.kit.api::<Pod>().list(&ListParams::default().labels(&selector)).await?.items)
    }

    /// Waits until every pod that was created through this handle has a node; returns the nodes, pod by pod.
    ///
    /// # Panics
    /// The time is up.
    pub async fn wait_bound(&self, limit: Duration) -> Vec<String> {
        let what = format!("all {} pods of group {} are bound", self.pods.len(), self.name);
        self.wait_members(&what, limit, |pod| node_of(pod).is_some()).await
    }

    /// Waits until every pod that was created through this handle runs.
    ///
    /// # Panics
    /// The time is up.
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
                    None => bad.push(format!("{} is gone", pod.name)),
                }
            }
            if bad.is_empty() { Ok(nodes) } else { Err(self.state(&bad).await) }
        })
        .await
    }

    /// Waits until none of the pods that were created through this handle exists any more.
    ///
    /// # Panics
    /// The time is up.
    pub async fn wait_gone(&self, limit: Duration) {
        wait_for(&format!("the pods of group {} are gone", self.name), limit, async || {
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
    /// The time is up.
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

    /// Waits until the preemption for this group has come as far as this, and returns the stored plan.
    ///
    /// # Panics
    /// The time is up.
    pub async fn wait_plan(&self, state: PlanState, limit: Duration) -> StoredPlan {
        wait_for(&format!("the plan of group {} is {state:?}", self.name), limit, async || {
            let plans = stored_plans(&self.kit.client).await.map_err(|error| error.to_string())?;
            let its = |plan: &StoredPlan| {
                (plan.preemptor.namespace.as_str(), plan.preemptor.name.as_str())
                    == (self.kit.namespace.as_str(), self.name.as_str())
            };
            // A state may be over before it is looked for.
            let as_far = |plan: &StoredPlan| plan.state == state || (plan.state.in_flight() && plan.state >= state);
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
    /// The time is up.
    pub async fn wait_event(&self, reason: &str, limit: Duration) -> String {
        events::wait_for_event(&self.kit, "PodGroup", &self.name, reason, limit).await
    }

    /// The events about the group.
    ///
    /// # Panics
    /// The API server cannot be asked.
    pub async fn events(&self) -> Vec<Happened> {
        events::about(&self.kit, "PodGroup", &self.name).await.unwrap()
    }

    /// Deletes the PodGroup, not its pods.
    ///
    /// # Panics
    /// The deletion is refused.
    pub async fn delete(&self) {
        self.kit.api::<PodGroup>().delete(&self.name, &DeleteParams::default()).await.unwrap();
    }

    /// What the group says of itself, and the pods that are not as they should be: for messages.
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
            Ok(None) => "there is no such PodGroup".to_owned(),
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
