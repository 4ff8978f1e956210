//! Jobs whose pods are gangs, and functions that wait for the state of their pods.

use crate::LIMIT;
use giveway_crds::condition;
use giveway_crds::keys::LABEL_POD_GROUP;
use giveway_tests::World;
use giveway_tests::cluster::{Group, ready, scheduling_gates};
use giveway_tests::wait::wait_for;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

/// A Job whose pods belong to a PodGroup of the same name.
#[derive(Clone, Debug)]
pub struct Gang {
    name: String,
    class: String,
    size: usize,
    cpu: String,
    grace: u32,
    pod: String,
    container: String,
    limits: String,
}

impl Gang {
    /// Returns a gang of four pods that request 400m CPU each, so that one gang fits on the node beside Giveway but not two. The
    /// pods run until SIGTERM and have a grace period of 5 s.
    pub fn new(name: &str, class: &str) -> Self {
        let (name, class) = (name.to_owned(), class.to_owned());
        Self {
            name,
            class,
            size: 4,
            cpu: "400m".to_owned(),
            grace: 5,
            pod: String::new(),
            container: String::new(),
            limits: String::new(),
        }
    }

    /// Sets two members with twice the request. The Job controller recreates two pods after 20 s, but four after 80 s.
    pub fn of_two(mut self) -> Self {
        (self.size, self.cpu) = (2, "800m".to_owned());
        self
    }

    /// Sets the arguments of every member's container.
    pub fn arguments(self, arguments: &[&str]) -> Self {
        self.container(&format!("args: {arguments:?}"))
    }

    /// Adds a line to the container of every member.
    pub fn container(mut self, line: &str) -> Self {
        self.container += &format!("\n        {line}");
        self
    }

    /// Adds a line to the pod spec of every member.
    pub fn pod(mut self, line: &str) -> Self {
        self.pod += &format!("\n      {line}");
        self
    }

    /// Sets the memory limit of every member.
    pub fn memory_limit(mut self, limit: &str) -> Self {
        self.limits = format!(", limits: {{memory: {limit}}}");
        self
    }

    /// Sets the termination grace period of every member, in seconds.
    pub fn grace(mut self, seconds: u32) -> Self {
        self.grace = seconds;
        self
    }

    /// Applies the PodGroup and the Job.
    ///
    /// # Panics
    /// If they are rejected.
    pub async fn apply(&self, world: &World) -> Running {
        world.apply(&self.manifest()).await.unwrap();
        let group = world.gang(&self.name, self.size).without_group();
        Running { name: self.name.clone(), group }
    }

    fn manifest(&self) -> String {
        let Self { name, class, size, cpu, grace, pod, container, limits } = self;
        format!(
            "
apiVersion: scheduling.giveway.dev/v1alpha1
kind: PodGroup
metadata: {{name: {name}}}
spec:
  priorityClassName: {class}
  disruptionMode: PodGroup
  schedulingPolicy: {{gang: {{minCount: {size}}}}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  parallelism: {size}
  completions: {size}
  backoffLimit: 20
  podFailurePolicy:
    rules:
    - {{action: Ignore, onPodConditions: [{{type: DisruptionTarget}}]}}
  template:
    metadata:
      labels: {{scheduling.giveway.dev/pod-group: {name}}}
    spec:
      priorityClassName: {class}
      restartPolicy: Never
      terminationGracePeriodSeconds: {grace}{pod}
      containers:
      - name: main
        image: giveway.test/workload:1
        imagePullPolicy: Never
        resources: {{requests: {{cpu: {cpu}}}{limits}}}{container}
"
        )
    }
}

/// A gang whose objects exist.
pub struct Running {
    /// Name of the group and of the Job.
    pub name: String,
    /// Its group.
    pub group: Group,
}

impl Running {
    /// Returns its current pods, including those that have ended.
    pub async fn pods(&self, world: &World) -> Vec<Pod> {
        let selector = format!("{LABEL_POD_GROUP}={}", self.name);
        world.kit().api::<Pod>().list(&ListParams::default().labels(&selector)).await.unwrap().items
    }

    /// Waits until `count` of its pods are ready; returns them.
    pub async fn wait_ready(&self, world: &World, count: usize) -> Vec<Pod> {
        wait_for(&format!("{count} pods of {} are ready", self.name), LIMIT, async || {
            let pods = self.pods(world).await;
            let good: Vec<Pod> = pods.iter().filter(|pod| ready(pod) && lives(pod)).cloned().collect();
            if good.len() == count { Ok(good) } else { Err(self.describe(&pods).await) }
        })
        .await
    }

    /// Waits until it has `count` gated pods and no other live pods.
    pub async fn wait_gated(&self, world: &World, count: usize) {
        wait_for(&format!("{count} pods of {} are gated", self.name), LIMIT, async || {
            let pods = self.pods(world).await;
            let gated = |pod: &&Pod| !scheduling_gates(pod).is_empty();
            let live = pods.iter().filter(|pod| lives(pod)).count();
            if live == count && pods.iter().filter(gated).count() == count {
                Ok(())
            } else {
                Err(self.describe(&pods).await)
            }
        })
        .await;
    }

    /// Waits until the Job's status is as wanted; returns it.
    pub async fn wait_job(&self, world: &World, what: &str, good: impl Fn(&JobStatus) -> bool) -> JobStatus {
        wait_for(&format!("the Job {} {what}", self.name), LIMIT, async || {
            let status = self.job(world).await;
            if good(&status) {
                Ok(status)
            } else {
                Err(format!("{status:?}\n{}", self.describe(&self.pods(world).await).await))
            }
        })
        .await
    }

    /// Waits until the message of a condition of the group contains `text`.
    pub async fn wait_message(&self, condition: &str, text: &str) {
        wait_for(&format!("condition {condition} of {} says: {text}", self.name), LIMIT, async || {
            let conditions = self.group.get().await.status.unwrap_or_default().conditions;
            let found = condition::find(&conditions, condition).map(|found| found.message.clone()).unwrap_or_default();
            if found.contains(text) { Ok(()) } else { Err(found) }
        })
        .await;
    }

    /// Returns the Job's status.
    pub async fn job(&self, world: &World) -> JobStatus {
        world.kit().api::<Job>().get(&self.name).await.unwrap().status.unwrap_or_default()
    }

    /// Sends an HTTP request to the program of a member through the API server's proxy.
    pub async fn request(&self, world: &World, pod: &str, path: &str) -> Result<String, String> {
        world.kubectl(&["get", "--raw", &format!("/api/v1/namespaces/default/pods/{pod}:8080/proxy{path}")]).await
    }

    /// Describes the pods and the conditions of the group, for messages of failed waits.
    async fn describe(&self, pods: &[Pod]) -> String {
        let mut text = String::new();
        for pod in pods {
            let status = pod.status.clone().unwrap_or_default();
            let phase = status.phase.unwrap_or_default();
            let terminating = if pod.metadata.deletion_timestamp.is_some() { ", terminating" } else { "" };
            text += &format!("\n  {} {phase}{terminating}, gates {:?}", uid(pod), scheduling_gates(pod));
        }
        let status = self.group.get().await.status.unwrap_or_default();
        for condition in status.conditions {
            text +=
                &format!("\n  {}={} {}: {}", condition.type_, condition.status, condition.reason, condition.message);
        }
        text
    }
}

/// Returns true if a pod has not ended and is not terminating.
pub fn lives(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    !matches!(phase, "Succeeded" | "Failed") && pod.metadata.deletion_timestamp.is_none()
}

/// Returns the UID of a pod.
pub fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

/// Returns the name of a pod.
pub fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}
