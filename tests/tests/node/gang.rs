//! Jobs whose pods are gangs, and what is seen of their pods.

use crate::LIMIT;
use giveway_crds::condition;
use giveway_crds::keys::LABEL_POD_GROUP;
use giveway_tests::World;
use giveway_tests::cluster::{Group, ready, scheduling_gates};
use giveway_tests::wait::wait_for;
use k8s_openapi::api::batch::v1::{Job, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;

/// A Job of pods that a PodGroup of the same name holds together.
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
    /// A gang of four pods of 400m CPU each, so that the node holds one gang beside Giveway and not two. Each runs until it
    /// is told to end, for which it has 5 s.
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

    /// Half as many members, which ask for twice as much. A Job makes two pods anew after 20 s, and four after 80 s.
    pub fn of_two(mut self) -> Self {
        (self.size, self.cpu) = (2, "800m".to_owned());
        self
    }

    /// What every member's program is told.
    pub fn arguments(self, arguments: &[&str]) -> Self {
        self.container(&format!("args: {arguments:?}"))
    }

    /// One more line for the container of every member.
    pub fn container(mut self, line: &str) -> Self {
        self.container += &format!("\n        {line}");
        self
    }

    /// One more line for the specification of every member.
    pub fn pod(mut self, line: &str) -> Self {
        self.pod += &format!("\n      {line}");
        self
    }

    /// The memory that a member may use.
    pub fn memory_limit(mut self, limit: &str) -> Self {
        self.limits = format!(", limits: {{memory: {limit}}}");
        self
    }

    /// The seconds that a member has to stop.
    pub fn grace(mut self, seconds: u32) -> Self {
        self.grace = seconds;
        self
    }

    /// Applies the PodGroup and the Job.
    ///
    /// # Panics
    /// They are refused.
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

/// A gang that was applied.
pub struct Running {
    /// Its name, and that of its Job.
    pub name: String,
    /// Its group.
    pub group: Group,
}

impl Running {
    /// Its pods as they are now, also those that have ended.
    pub async fn pods(&self, world: &World) -> Vec<Pod> {
        let selector = format!("{LABEL_POD_GROUP}={}", self.name);
        world.kit().api::<Pod>().list(&ListParams::default().labels(&selector)).await.unwrap().items
    }

    /// Waits until so many of its pods are ready; returns them.
    pub async fn wait_ready(&self, world: &World, count: usize) -> Vec<Pod> {
        wait_for(&format!("{count} pods of {} are ready", self.name), LIMIT, async || {
            let pods = self.pods(world).await;
            let good: Vec<Pod> = pods.iter().filter(|pod| ready(pod) && lives(pod)).cloned().collect();
            if good.len() == count { Ok(good) } else { Err(self.told(&pods).await) }
        })
        .await
    }

    /// Waits until it has so many pods that are held, and no others that live.
    pub async fn wait_held(&self, world: &World, count: usize) {
        wait_for(&format!("{count} pods of {} are held", self.name), LIMIT, async || {
            let pods = self.pods(world).await;
            let held = |pod: &&Pod| !scheduling_gates(pod).is_empty();
            let live = pods.iter().filter(|pod| lives(pod)).count();
            if live == count && pods.iter().filter(held).count() == count {
                Ok(())
            } else {
                Err(self.told(&pods).await)
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
                Err(format!("{status:?}\n{}", self.told(&self.pods(world).await).await))
            }
        })
        .await
    }

    /// Waits until a condition of the group says this.
    pub async fn wait_told(&self, condition: &str, text: &str) {
        wait_for(&format!("{} tells: {text}", self.name), LIMIT, async || {
            let conditions = self.group.get().await.status.unwrap_or_default().conditions;
            let found = condition::find(&conditions, condition).map(|found| found.message.clone()).unwrap_or_default();
            if found.contains(text) { Ok(()) } else { Err(found) }
        })
        .await;
    }

    /// The Job's status.
    pub async fn job(&self, world: &World) -> JobStatus {
        world.kit().api::<Job>().get(&self.name).await.unwrap().status.unwrap_or_default()
    }

    /// Tells the program of a member something, through the API server's proxy.
    pub async fn tell(&self, world: &World, pod: &str, path: &str) -> Result<String, String> {
        world.kubectl(&["get", "--raw", &format!("/api/v1/namespaces/default/pods/{pod}:8080/proxy{path}")]).await
    }

    async fn told(&self, pods: &[Pod]) -> String {
        let mut text = String::new();
        for pod in pods {
            let status = pod.status.clone().unwrap_or_default();
            let phase = status.phase.unwrap_or_default();
            let gone = if pod.metadata.deletion_timestamp.is_some() { ", being deleted" } else { "" };
            text += &format!("\n  {} {phase}{gone}, gates {:?}", uid(pod), scheduling_gates(pod));
        }
        let status = self.group.get().await.status.unwrap_or_default();
        for condition in status.conditions {
            text +=
                &format!("\n  {}={} {}: {}", condition.type_, condition.status, condition.reason, condition.message);
        }
        text
    }
}

/// Whether a pod neither has ended nor is being deleted.
pub fn lives(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    !matches!(phase, "Succeeded" | "Failed") && pod.metadata.deletion_timestamp.is_none()
}

/// The UID of a pod.
pub fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

/// The name of a pod.
pub fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}
