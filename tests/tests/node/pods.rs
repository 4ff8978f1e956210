//! Manifests of single pods and of groups that no Job makes.

/// The manifest of a pod of one container that runs with these arguments, and has half a minute to stop.
pub fn pod(name: &str, arguments: &[&str]) -> String {
    Member { arguments, grace: 30, ..Member::default() }.manifest(name)
}

/// A pod of one container; by default one that asks for nothing and runs until it is told to end.
pub struct Member<'a> {
    /// Its group, where it has one.
    pub group: Option<&'a str>,
    /// Its priority class; none when empty.
    pub class: &'a str,
    /// The CPU that it asks for.
    pub cpu: &'a str,
    /// What its program is told.
    pub arguments: &'a [&'a str],
    /// The image.
    pub image: &'a str,
    /// When its container is started again.
    pub restart: &'a str,
    /// Seconds to stop.
    pub grace: u32,
}

impl Default for Member<'_> {
    fn default() -> Self {
        let image = "giveway.test/workload:1";
        Self { group: None, class: "", cpu: "0", arguments: &[], image, restart: "Never", grace: 2 }
    }
}

impl Member<'_> {
    /// The manifest of a pod with this name.
    pub fn manifest(&self, name: &str) -> String {
        let Self { class, cpu, arguments, image, restart, grace, .. } = self;
        let labels = self.group.map(|group| format!("scheduling.giveway.dev/pod-group: {group}")).unwrap_or_default();
        format!(
            "
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{{labels}}}}}
spec:
  priorityClassName: '{class}'
  restartPolicy: {restart}
  terminationGracePeriodSeconds: {grace}
  containers:
  - {{name: main, image: '{image}', imagePullPolicy: Never, args: {arguments:?}, resources: {{requests: {{cpu: {cpu}}}}}}}
"
        )
    }
}

/// The manifest of a PodGroup of which so many members start together.
pub fn group(name: &str, class: &str, min_count: u32) -> String {
    format!(
        "
---
apiVersion: scheduling.giveway.dev/v1alpha1
kind: PodGroup
metadata: {{name: {name}}}
spec: {{priorityClassName: {class}, schedulingPolicy: {{gang: {{minCount: {min_count}}}}}}}
"
    )
}
