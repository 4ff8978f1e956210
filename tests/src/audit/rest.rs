//! Promise 5: when nothing happens any more, no gate, finalizer, nomination, taint or unfinished `Preemption` is left without
//! a live reason. The audit log tells who wrote a nomination; the rest is looked up.

use super::OPERATOR;
use super::history::History;
use crate::cluster::{scheduling_gates, stored_plans};
use crate::wait::{self, TimedOut};
use giveway_crds::condition::{self, Reason, types};
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_crds::{PodGroup, keys};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
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
    /// Events that tell pods that their group does not exist, where there are such pods.
    pub events: Vec<Event>,
}

impl Objects {
    /// Looks at the cluster.
    ///
    /// # Errors
    /// The API server cannot be asked.
    pub async fn look(client: &Client) -> Result<Self, kube::Error> {
        let all = ListParams::default();
        let mut objects = Self {
            pods: list(client, &all).await?,
            groups: list(client, &all).await?,
            nodes: list(client, &all).await?,
            plans: stored_plans(client).await.or_else(none)?,
            events: Vec::new(),
        };
        if objects.pods.iter().any(|pod| is_held(pod) && objects.group_of(pod).is_none()) {
            let told = all.fields(&format!("reason={}", Reason::PodGroupNotFound.as_str()));
            objects.events = list(client, &told).await?;
        }
        Ok(objects)
    }

    /// What is left over, as a sentence each.
    pub fn left_over(&self, history: &History) -> Vec<String> {
        let mut left: Vec<String> = self.plans.iter().filter_map(|plan| self.idle(plan)).collect();
        left.extend(self.pods.iter().filter_map(|pod| self.held(pod, history)));
        left.extend(self.pods.iter().filter_map(|pod| self.nominated(pod, history)));
        left.extend(self.groups.iter().filter_map(|group| self.protected(group)));
        left.extend(self.nodes.iter().flat_map(|node| self.tainted(node, history)));
        left
    }

    fn pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.metadata.uid.as_deref() == Some(uid))
    }

    fn group_of(&self, pod: &Pod) -> Option<&PodGroup> {
        let label = pod.labels().get(keys::LABEL_POD_GROUP)?;
        self.groups.iter().find(|group| group.namespace() == pod.namespace() && group.name_any() == *label)
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

    /// A pod is held only for a group that says what it waits for, or that does not exist, which an event says.
    fn held(&self, pod: &Pod, history: &History) -> Option<String> {
        if !is_held(pod) || pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        if !pod.labels().contains_key(keys::LABEL_POD_GROUP) {
            return Some(format!("pod {name} is held, and is of no group"));
        }
        let Some(group) = self.group_of(pod) else {
            let reason = Reason::PodGroupNotFound.as_str();
            let about = |event: &&Event| event.involved_object.uid == pod.metadata.uid;
            let told = self.events.iter().filter(about).any(|event| event.reason.as_deref() == Some(reason));
            return (!told).then(|| format!("pod {name} is held, its group does not exist, and no event says so"));
        };
        let conditions = group.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        // Held for good, and told: it does not pay for its group's priority.
        if condition::is_true(conditions, types::PODS_NOT_MATCHING_PRIORITY) && pays_less(pod, group, history) {
            return None;
        }
        if group.spec.scheduling_policy.gang.is_none() {
            return Some(format!("pod {name} is held, and its group is no gang"));
        }
        // That it was scheduled says nothing of those who wait.
        let says = |told: &&Condition| !told.message.is_empty() && told.reason != Reason::Scheduled.as_str();
        let told = condition::find(conditions, types::INITIALLY_SCHEDULED).filter(says);
        told.is_none().then(|| format!("pod {name} is held, and its group does not say for what"))
    }

    /// A nomination belongs to a plan in flight, or kube-scheduler wrote it, to this very pod.
    fn nominated(&self, pod: &Pod, history: &History) -> Option<String> {
        let nominated = pod.status.as_ref()?.nominated_node_name.as_ref().filter(|node| !node.is_empty())?;
        let (key, uid) = ((pod.namespace()?, pod.name_any()), pod.metadata.uid.as_deref()?);
        let since = history.pods.get(uid).map(|pod| pod.created);
        let mut written = history.nominations.iter().rev().filter(|it| it.pod == key);
        let last = written.next().filter(|last| since.is_none_or(|since| last.at >= since));
        let theirs = last.is_some_and(|last| last.user != OPERATOR && last.node.as_ref() == Some(nominated));
        let planned = self.in_flight().flat_map(|plan| &plan.placements).any(|place| place.uid == uid);
        let stray = node(pod).is_none() && !theirs && !planned;
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
async fn list<K>(client: &Client, params: &ListParams) -> Result<Vec<K>, kube::Error>
where
    K: kube::Resource<DynamicType = ()> + DeserializeOwned,
{
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    let all = objects.list(params).await.map(|all| all.items).or_else(none)?;
    Ok(all.into_iter().filter_map(|object| object.try_parse().ok()).collect())
}

/// Of a kind that was taken away there is nothing.
fn none<T>(error: kube::Error) -> Result<Vec<T>, kube::Error> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(Vec::new()),
        error => Err(error),
    }
}

fn is_held(pod: &Pod) -> bool {
    scheduling_gates(pod).iter().any(|gate| gate == keys::GATE)
}

/// Whether a pod has a lower priority than its group asks for.
fn pays_less(pod: &Pod, group: &PodGroup, history: &History) -> bool {
    let key = (group.namespace().unwrap_or_default(), group.name_any());
    let own = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
    group.spec.priority.or_else(|| history.priority_of_group(&key)).is_some_and(|asked| own < asked)
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
