//! Promise 5: at rest no scheduling gate, finalizer, nomination, taint or unfinished `Preemption` is left without a reason. The audit log
//! shows which user wrote a nomination; everything else is read from the API server.

use super::OPERATOR;
use super::history::History;
use crate::cluster::{scheduling_gates, stored_plans};
use crate::wait::{self, TimedOut};
use giveway_crds::condition::{self, PENDING_AGAIN, Reason, types};
use giveway_crds::plan::{PlanState, StoredPlan};
use giveway_crds::{PodGroup, keys};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use std::time::{Duration, Instant};

/// The cluster is at rest if [`Objects::left_over`] returned nothing for this time.
const REST: Duration = Duration::from_secs(1);

/// The objects of the cluster at one time.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// All pods.
    pub pods: Vec<Pod>,
    /// All PodGroups.
    pub groups: Vec<PodGroup>,
    /// All nodes.
    pub nodes: Vec<Node>,
    /// All plans, in any state.
    pub plans: Vec<StoredPlan>,
    /// Events of pods whose PodGroup does not exist. Empty if there is no such pod.
    pub events: Vec<Event>,
}

impl Objects {
    /// Reads the objects from the API server.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn look(client: &Client) -> Result<Self, kube::Error> {
        let all = ListParams::default();
        let mut objects = Self {
            pods: list(client, &all).await?,
            groups: list(client, &all).await?,
            nodes: list(client, &all).await?,
            plans: stored_plans(client).await.or_else(none)?,
            events: Vec::new(),
        };
        if objects.pods.iter().any(|pod| has_gate(pod) && objects.group_of(pod).is_none()) {
            let not_found = all.fields(&format!("reason={}", Reason::PodGroupNotFound.as_str()));
            objects.events = list(client, &not_found).await?;
        }
        Ok(objects)
    }

    /// Returns one message for each object that must not exist at rest.
    pub fn left_over(&self, history: &History) -> Vec<String> {
        let mut left: Vec<String> = self.plans.iter().filter_map(|plan| self.idle(plan)).collect();
        left.extend(self.pods.iter().filter_map(|pod| self.gated(pod, history)));
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

    /// Returns a message about a plan in flight without a reason. A plan with a preemptor may be in flight only while one of its members is
    /// pending. Before its victims have terminated, one of them must exist.
    fn idle(&self, plan: &StoredPlan) -> Option<String> {
        let members = || plan.placements.iter().filter_map(|placement| self.pod(&placement.uid));
        let pending = || !plan.cause.is_plan() || members().any(|pod| node(pod).is_none());
        let victim_exists = || plan.victims.iter().flat_map(|unit| &unit.pods).any(|pod| self.pod(&pod.uid).is_some());
        let live = match plan.state {
            PlanState::Planned | PlanState::Ungating => pending(),
            PlanState::Evicting | PlanState::WaitingForVictims => pending() && victim_exists(),
            PlanState::Completed | PlanState::Cancelled | PlanState::Failed | PlanState::Observed => true,
        };
        let (id, state) = (&plan.id, plan.state.as_str());
        (!live).then(|| format!("plan {id} is still {state} without a pending member or a victim: {}", plan.message))
    }

    /// Returns a message about a pod that has the scheduling gate without a reason: its gang must have a condition with the reason, or an
    /// event must report that its PodGroup does not exist.
    fn gated(&self, pod: &Pod, history: &History) -> Option<String> {
        if !has_gate(pod) || pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        if !pod.labels().contains_key(keys::LABEL_POD_GROUP) {
            return Some(format!("pod {name} has the scheduling gate but no PodGroup label"));
        }
        let Some(group) = self.group_of(pod) else {
            let reason = Reason::PodGroupNotFound.as_str();
            let about = |event: &&Event| event.involved_object.uid == pod.metadata.uid;
            let reported = self.events.iter().filter(about).any(|event| event.reason.as_deref() == Some(reason));
            return (!reported).then(|| {
                format!("pod {name} has the scheduling gate, its PodGroup does not exist, and no event reports that")
            });
        };
        let conditions = group.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        // The condition reports that the gate of this pod stays: its priority is below that of its PodGroup.
        if condition::is_true(conditions, types::PODS_NOT_MATCHING_PRIORITY) && is_below_its_group(pod, group, history)
        {
            return None;
        }
        if group.spec.scheduling_policy.gang.is_none() {
            return Some(format!("pod {name} has the scheduling gate, but its PodGroup is not a gang"));
        }
        // `True` does not explain a scheduling gate, unless the message reports that the PodGroup is pending again.
        let explained = condition::find(conditions, types::INITIALLY_SCHEDULED).is_some_and(|condition| {
            let is_pending = condition.status != "True" || condition.message.starts_with(PENDING_AGAIN);
            is_pending && !condition.message.is_empty()
        });
        (!explained).then(|| format!("pod {name} has the scheduling gate, and its PodGroup reports no reason"))
    }

    /// Returns a message about a nomination without a reason. A nomination belongs to a plan in flight, or another user wrote it to this
    /// pod, and not to an earlier pod of its name.
    fn nominated(&self, pod: &Pod, history: &History) -> Option<String> {
        let nominated = pod.status.as_ref()?.nominated_node_name.as_ref().filter(|node| !node.is_empty())?;
        let (key, uid) = ((pod.namespace()?, pod.name_any()), pod.metadata.uid.as_deref()?);
        let since = history.pods.get(uid).map(|pod| pod.created);
        let mut written = history.nominations.iter().rev().filter(|it| it.pod == key);
        let last = written.next().filter(|last| since.is_none_or(|since| last.at >= since));
        let foreign = last.is_some_and(|last| last.user != OPERATOR && last.node.as_ref() == Some(nominated));
        let planned = self.in_flight().flat_map(|plan| &plan.placements).any(|placement| placement.uid == uid);
        let stray = node(pod).is_none() && !foreign && !planned;
        stray.then(|| format!("pod {} is nominated to {nominated} without a plan in flight", key.1))
    }

    /// Returns a message about a PodGroup that has the finalizer although it has no members.
    fn protected(&self, group: &PodGroup) -> Option<String> {
        let has_finalizer = group.finalizers().iter().any(|finalizer| finalizer == keys::FINALIZER_PROTECTION);
        let member = |pod: &&Pod| {
            let of_it = pod.labels().get(keys::LABEL_POD_GROUP) == Some(&group.name_any());
            of_it && pod.namespace() == group.namespace()
        };
        let name = group.name_any();
        (has_finalizer && !self.pods.iter().any(|pod| member(&pod)))
            .then(|| format!("PodGroup {name} has a finalizer but no member"))
    }

    /// Returns a message about each taint by the operator without a plan in flight for the pod in its value.
    fn tainted(&self, node: &Node, history: &History) -> Vec<String> {
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let ours = taints.filter(|taint| taint.key == keys::TAINT_CRITICAL).filter_map(|taint| taint.value.clone());
        let planned = |uid: &String| self.in_flight().any(|plan| plan.preemptor.uid == *uid);
        let name = node.name_any();
        ours.filter(|uid| history.tainted_with(uid) && !planned(uid))
            .map(|uid| format!("node {name} has a taint for {uid} without a plan in flight"))
            .collect()
    }
}

/// Lists the objects of a kind. Objects that do not match their type are left out: a test may have created them.
async fn list<K>(client: &Client, params: &ListParams) -> Result<Vec<K>, kube::Error>
where
    K: kube::Resource<DynamicType = ()> + DeserializeOwned,
{
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<K>(&()));
    let all = objects.list(params).await.map(|all| all.items).or_else(none)?;
    Ok(all.into_iter().filter_map(|object| object.try_parse().ok()).collect())
}

/// Returns an empty list if the kind does not exist.
fn none<T>(error: kube::Error) -> Result<Vec<T>, kube::Error> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(Vec::new()),
        error => Err(error),
    }
}

fn has_gate(pod: &Pod) -> bool {
    scheduling_gates(pod).iter().any(|gate| gate == keys::GATE)
}

/// Returns true if the priority of a pod is below that of its PodGroup.
fn is_below_its_group(pod: &Pod, group: &PodGroup, history: &History) -> bool {
    let key = (group.namespace().unwrap_or_default(), group.name_any());
    let own = pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
    group.spec.priority.or_else(|| history.priority_of_group(&key)).is_some_and(|asked| own < asked)
}

fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Waits until the cluster has been at rest for a second.
///
/// # Errors
/// The cluster is not at rest at the deadline; the error names the objects.
pub async fn reached(client: &Client, history: &History, limit: Duration) -> Result<(), TimedOut> {
    let mut clean: Option<Instant> = None;
    wait::until("the cluster is at rest", limit, async || {
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
        Err("at rest for less than a second".to_owned())
    })
    .await
}

#[cfg(test)]
#[path = "rest_tests.rs"]
mod tests;
