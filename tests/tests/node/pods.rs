//! Manifests of single pods and of groups without a Job.

/// Returns the manifest of a pod of one container with these arguments and a grace period of 30 s.
pub fn pod(name: &str, arguments: &[&str]) -> String {
    Member { arguments, grace: 30, ..Member::default() }.manifest(name)
}

/// A pod of one container. The default has no requests and runs until it gets SIGTERM.
pub struct Member<'a> {
    /// Its group, if it has one.
    pub group: Option<&'a str>,
    /// Its priority class; none when empty.
    pub class: &'a str,
    /// Its CPU request.
    pub cpu: &'a str,
    /// Arguments of its container.
    pub arguments: &'a [&'a str],
    /// Image of its container.
    pub image: &'a str,
    /// Its `restartPolicy`.
    pub restart: &'a str,
    /// Its termination grace period in seconds.
    pub grace: u32,
}

impl Default for Member<'_> {
    fn default() -> Self {
        let image = "giveway.test/workload:1";
        Self { group: None, class: "", cpu: "0", arguments: &[], image, restart: "Never", grace: 2 }
    }
}

impl Member<'_> {
    /// Returns the manifest of a pod with this name.
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

/// Returns the manifest of a gang PodGroup with this `minCount`.
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
