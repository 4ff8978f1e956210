//! Promise 5: when nothing happens any more, no gate, finalizer, nomination, taint or unfinished `Preemption` is left without
//! a live reason. The audit log tells who wrote a nomination; the rest is looked up.

use super::OPERATOR;
use super::history::History;
use crate::cluster::{scheduling_gates, stored_plans};
use crate::wait::{self, TimedOut};
use giveway_crds::condition::{self, types};
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_crds::{PodGroup, keys};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant};

/// How long nothing may be left over before the cluster counts as at rest.
const REST: Duration = Duration::from_secs(1);

/// What there is at one moment.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// All pods.
    pub pods: Vec<Pod>,
    /// All PodGroups.
    pub groups: Vec<PodGroup>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// All plans, of whatever state.
    pub plans: Vec<StoredPlan>,
}

impl Objects {
    /// Looks at the cluster.
    ///
    /// # Errors
    /// The API server cannot be asked.
    pub async fn look(client: &Client) -> Result<Self, kube::Error> {
        Ok(Self {
            pods: list(client).await?,
            groups: list(client).await?,
            nodes: list(client).await?,
            plans: stored_plans(client).await.or_else(none)?,
        })
    }

    /// What is left over, as a sentence each.
    pub fn left_over(&self, history: &History) -> Vec<String> {
        let mut left: Vec<String> = self.plans.iter().filter_map(|plan| self.idle(plan)).collect();
        left.extend(self.pods.iter().filter_map(|pod| self.held(pod)));
        left.extend(self.pods.iter().filter_map(|pod| self.nominated(pod, history)));
        left.extend(self.groups.iter().filter_map(|group| self.protected(group)));
        left.extend(self.nodes.iter().flat_map(|node| self.tainted(node, history)));
        left
    }

    fn pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.metadata.uid.as_deref() == Some(uid))
    }

    fn in_flight(&self) -> impl Iterator<Item = &StoredPlan> {
        self.plans.iter().filter(|plan| plan.state.in_flight())
    }

    /// A plan has a reason to be in flight as long as somebody has to go for it, or a member of it waits.
    fn idle(&self, plan: &StoredPlan) -> Option<String> {
        let waits = || plan.placements.iter().filter_map(|place| self.pod(&place.uid)).any(|pod| node(pod).is_none());
        let stays = || plan.victims.iter().flat_map(|unit| &unit.pods).any(|pod| self.pod(&pod.uid).is_some());
        let live = match plan.state {
            PlanState::Planned | PlanState::Releasing => waits(),
            PlanState::Evicting | PlanState::WaitingForVictims => waits() && stays(),
            PlanState::Completed | PlanState::Cancelled | PlanState::Failed | PlanState::Observed => true,
        };
        let (id, state) = (&plan.id, plan.state.as_str());
        (!live).then(|| format!("plan {id} is {state}, and nobody waits for it: {}", plan.message))
    }

    /// A pod is held only for a group that says what it waits for, or that does not exist.
    fn held(&self, pod: &Pod) -> Option<String> {
        let held = scheduling_gates(pod).iter().any(|gate| gate == keys::GATE);
        if !held || pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        let Some(label) = pod.labels().get(keys::LABEL_POD_GROUP) else {
            return Some(format!("pod {name} is held, and is of no group"));
        };
        let group =
            self.groups.iter().find(|group| group.namespace() == pod.namespace() && group.name_any() == *label)?;
        let conditions = group.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let told = condition::find(conditions, types::INITIALLY_SCHEDULED).filter(|told| !told.message.is_empty());
        // Held for good, and told: it does not pay for its group's priority.
        if condition::is_true(conditions, types::PODS_NOT_MATCHING_PRIORITY) {
            return None;
        }
        if group.spec.scheduling_policy.gang.is_none() {
            return Some(format!("pod {name} is held, and its group is no gang"));
        }
        told.is_none().then(|| format!("pod {name} is held, and its group does not say for what"))
    }

    /// A nomination of ours belongs to a plan in flight.
    fn nominated(&self, pod: &Pod, history: &History) -> Option<String> {
        let nominated = pod.status.as_ref()?.nominated_node_name.as_ref().filter(|node| !node.is_empty())?;
        let key = (pod.namespace()?, pod.name_any());
        let last = history.nominations.iter().rev().find(|nomination| nomination.pod == key)?;
        let uid = pod.metadata.uid.as_deref()?;
        let planned = self.in_flight().flat_map(|plan| &plan.placements).any(|place| place.uid == uid);
        let stray = node(pod).is_none() && last.user == OPERATOR && !planned;
        stray.then(|| format!("pod {} is nominated for {nominated}, and no plan is in flight for it", key.1))
    }

    /// A group is protected while it has members.
    fn protected(&self, group: &PodGroup) -> Option<String> {
        let protected = group.finalizers().iter().any(|finalizer| finalizer == keys::FINALIZER_PROTECTION);
        let member = |pod: &&Pod| {
            let of_it = pod.labels().get(keys::LABEL_POD_GROUP) == Some(&group.name_any());
            of_it && pod.namespace() == group.namespace()
        };
        let name = group.name_any();
        (protected && !self.pods.iter().any(|pod| member(&pod)))
            .then(|| format!("group {name} has a finalizer, and no member"))
    }

    /// A taint of ours belongs to a plan in flight for the pod that it names.
    fn tainted(&self, node: &Node, history: &History) -> Vec<String> {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let ours = taints.filter(|taint| taint.key == keys::TAINT_CRITICAL).filter_map(|taint| taint.value.clone());
        let planned = |uid: &String| self.in_flight().any(|plan| plan.preemptor.uid == *uid);
        let name = node.name_any();
        ours.filter(|uid| history.tainted_with(uid) && !planned(uid))
            .map(|uid| format!("node {name} is tainted for {uid}, and no plan is in flight for it"))
            .collect()
    }
}

/// What cannot be read as one of its kind is left out: a test may have put it there.
async fn list<K>(client: &Client) -> Result<Vec<K>, kube::Error>
where
    K: kube::Resource<DynamicType = ()> + DeserializeOwned,
{
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    let all = objects.list(&ListParams::default()).await.map(|all| all.items).or_else(none)?;
    Ok(all.into_iter().filter_map(|object| object.try_parse().ok()).collect())
}

/// Of a kind that was taken away there is nothing.
fn none<T>(error: kube::Error) -> Result<Vec<T>, kube::Error> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(Vec::new()),
        error => Err(error),
    }
}

fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Waits until nothing is left over for a whole second.
///
/// # Errors
/// Something still is when the time is up.
pub async fn reached(client: &Client, history: &History, limit: Duration) -> Result<(), TimedOut> {
    let mut clean: Option<Instant> = None;
    wait::until("nothing is left over", limit, async || {
        let objects = Objects::look(client).await.map_err(|error| error.to_string())?;
        let left = objects.left_over(history);
        if !left.is_empty() {
            clean = None;
            return Err(left.join("; "));
        }
        let since = *clean.get_or_insert_with(Instant::now);
        if since.elapsed() >= REST {
            return Ok(());
        }
        tokio::time::sleep(REST / 4).await;
        Err("nothing is left, for less than a second".to_owned())
    })
    .await
}

#[cfg(test)]
#[path = "rest_tests.rs"]
mod tests;
