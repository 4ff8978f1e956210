//! The objects of the large cluster, as JSON texts. Pods have what those of real clusters have: 10 labels, an owner, two containers with
//! 10 variables each, and 3 volumes.

use super::Size;
use serde_json::{Value, json};

/// Class of the pods that fill the cluster.
pub(super) const LOW: &str = "scale-low";
/// Class of the gangs that preempt.
pub(super) const HIGH: &str = "scale-high";
/// Number of namespaces.
pub(super) const TEAMS: usize = 20;
/// Every how many-th group has a PodDisruptionBudget.
pub(super) const BUDGETED: usize = 10;

/// Number of pools of nodes. The groups of one pool have no pods in another one.
const POOLS: usize = 3;
/// Label of a node with its pool.
const POOL: &str = "example.com/pool";

/// A request that creates or changes an object.
pub(super) struct Write {
    /// Path of the request.
    pub(super) path: String,
    pub(super) body: String,
}

impl Write {
    fn new(path: String, body: &Value) -> Self {
        Self { path, body: body.to_string() }
    }
}

/// Returns the name of a namespace.
pub(super) fn team(group: usize) -> String {
    format!("team-{:02}", group % TEAMS)
}

fn group_name(group: usize) -> String {
    format!("train-model-{group:05}")
}

/// Returns a namespace and its ServiceAccount, which kube-controller-manager creates elsewhere.
pub(super) fn namespaces() -> Vec<[Write; 2]> {
    (0..TEAMS)
        .map(|number| {
            let name = team(number);
            let account = json!({"metadata": {"name": "default"}});
            [
                Write::new("/api/v1/namespaces".to_owned(), &json!({"metadata": {"name": name}})),
                Write::new(format!("/api/v1/namespaces/{name}/serviceaccounts"), &account),
            ]
        })
        .collect()
}

/// Returns the class of the pods that fill the cluster.
pub(super) fn low_class() -> Write {
    let class = json!({"metadata": {"name": LOW}, "value": 10});
    Write::new("/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(), &class)
}

/// Returns the class of the gangs that preempt.
pub(super) fn high_class() -> Write {
    let class =
        json!({"metadata": {"name": HIGH, "annotations": {"scheduling.giveway.dev/managed": "true"}}, "value": 1000});
    Write::new("/apis/scheduling.k8s.io/v1/priorityclasses".to_owned(), &class)
}

/// Returns a node that the pods fill.
pub(super) fn node(size: Size, number: usize) -> Write {
    let name = node_name(number);
    let offers = json!({"cpu": size.pods_per_node().to_string(), "memory": "512Gi", "pods": "250"});
    let condition = json!({"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": STARTED,
        "lastTransitionTime": STARTED});
    let node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
            "topology.kubernetes.io/zone": format!("zone-{}", number % 3), "node.kubernetes.io/instance-type": "large",
            POOL: pool(number / size.pods_per_group())}},
        "status": {"capacity": offers, "allocatable": offers, "conditions": [condition]},
    });
    Write::new("/api/v1/nodes".to_owned(), &node)
}

/// Returns the label value of a pool of nodes. Numbers count on: after the last pool comes the first one.
fn pool(number: usize) -> String {
    format!("pool-{}", number % POOLS)
}

fn node_name(number: usize) -> String {
    format!("ip-10-{}-{}-17.eu-west-1.compute.internal", number / 250, number % 250)
}

/// When the pods started.
const STARTED: &str = "2026-01-02T03:04:05Z";

/// Returns a PodGroup of the pods that fill the cluster, with the fields that admission sets.
pub(super) fn group(size: Size, number: usize) -> Write {
    let group = json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup", "metadata": {"name": group_name(number)},
        "spec": {"priorityClassName": LOW, "priority": 10, "preemptionPolicy": "PreemptLowerPriority", "disruptionMode": "PodGroup",
            "schedulingPolicy": {"gang": {"minCount": size.pods_per_group()}}},
    });
    Write::new(groups_in(&team(number)), &group)
}

fn groups_in(namespace: &str) -> String {
    format!("/apis/scheduling.giveway.dev/v1alpha1/namespaces/{namespace}/podgroups")
}

/// Returns the PodDisruptionBudget of a group.
pub(super) fn budget(number: usize) -> Write {
    let name = group_name(number);
    let selector = json!({"matchLabels": {"batch.kubernetes.io/job-name": name}});
    let budget = json!({"metadata": {"name": name}, "spec": {"maxUnavailable": 1, "selector": selector}});
    Write::new(format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", team(number)), &budget)
}

/// Makes the pods that fill the cluster from one text.
pub(super) struct Pods {
    size: Size,
    pod: String,
    status: String,
}

impl Pods {
    pub(super) fn new(size: Size) -> Self {
        let variable = |number: usize| json!({"name": format!("SETTING_{number}"), "value": format!("a value of the setting {number}")});
        let env: Vec<Value> = (0..10).map(variable).collect();
        let container = |name: &str, cpu: &str| {
            json!({"name": name, "image": format!("registry.example/research/{name}:2026.01.02"), "env": env,
                "args": ["--config=/etc/train/config.yaml", "--checkpoints=/data/checkpoints"],
                "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
                "volumeMounts": [{"name": "config", "mountPath": "/etc/train"}, {"name": "scratch", "mountPath": "/data"}]})
        };
        let pod = json!({
            "metadata": {
                "name": "@GROUP-@INDEX-x7k2p",
                "labels": {
                    "app.kubernetes.io/name": "trainer", "app.kubernetes.io/part-of": "research", "app.kubernetes.io/version": "2026.01.02",
                    "app.kubernetes.io/managed-by": "pipelines", "team": "@TEAM", "cost-center": "cc-4711",
                    "batch.kubernetes.io/job-name": "@GROUP", "batch.kubernetes.io/controller-uid": "@OWNER",
                    "batch.kubernetes.io/job-completion-index": "@INDEX", "scheduling.giveway.dev/pod-group": "@GROUP",
                },
                "annotations": {"batch.kubernetes.io/job-completion-index": "@INDEX", "example.com/note": "written by a pipeline"},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "@GROUP", "uid": "@OWNER",
                    "controller": true, "blockOwnerDeletion": false}],
            },
            "spec": {
                "nodeName": "@NODE", "priorityClassName": LOW, "restartPolicy": "Never", "automountServiceAccountToken": false,
                "containers": [container("trainer", "900m"), container("proxy", "100m")],
                "volumes": [{"name": "config", "configMap": {"name": "@GROUP"}}, {"name": "scratch", "emptyDir": {}},
                    {"name": "credentials", "secret": {"secretName": "@GROUP"}}],
            },
        });
        let condition = |of_type: &str| json!({"type": of_type, "status": "True", "lastTransitionTime": STARTED});
        let running = |name: &str| {
            json!({"name": name, "ready": true, "restartCount": 0, "image": format!("registry.example/research/{name}:2026.01.02"),
                "imageID": format!("registry.example/research/{name}@sha256:0123456789abcdef"), "started": true,
                "containerID": "containerd://0123456789abcdef", "state": {"running": {"startedAt": STARTED}}})
        };
        let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
        let status = json!({"status": {
            "phase": "Running", "startTime": STARTED, "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}],
            "conditions": conditions,
            "containerStatuses": [running("trainer"), running("proxy")],
        }});
        Self { size, pod: pod.to_string(), status: status.to_string() }
    }

    /// Returns the creation of a pod, and the path and body of the patch after which it runs.
    pub(super) fn pod(&self, number: usize) -> (Write, Write) {
        let (group, index) = (number / self.size.pods_per_group(), number % self.size.pods_per_group());
        let (name, namespace) = (group_name(group), team(group));
        let body = (self.pod)
            .replace("@GROUP", &name)
            .replace("@INDEX", &index.to_string())
            .replace("@TEAM", &namespace)
            .replace("@OWNER", &format!("00000000-0000-4000-8000-{group:012}"))
            .replace("@NODE", &node_name(number % self.size.nodes));
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let status = format!("{path}/{name}-{index}-x7k2p/status");
        (Write { path, body }, Write { path: status, body: self.status.clone() })
    }

    /// Returns the creation of another pod of the first group, on a node.
    pub(super) fn another(&self, number: usize) -> Write {
        let body = (self.pod)
            .replace("@GROUP-@INDEX-x7k2p", &format!("event-{number:05}"))
            .replace("@GROUP", &group_name(0))
            .replace("@INDEX", &number.to_string())
            .replace("@TEAM", &team(0))
            .replace("@OWNER", "00000000-0000-4000-8000-000000000000")
            .replace("@NODE", &node_name(number % self.size.nodes));
        Write { path: format!("/api/v1/namespaces/{}/pods", team(0)), body }
    }
}

/// Number of pods of a gang that preempts.
const MEMBERS: usize = 8;

/// Returns the PodGroup of a gang that preempts in one pool of nodes, and its pods. Victims never terminate here, as nodes have no kubelet: in
/// a pool of its own a gang does not wait for the victims of another one.
pub(super) fn gang(name: &str, of_pool: usize) -> (Write, Vec<Write>) {
    let group = json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup", "metadata": {"name": name},
        "spec": {"priorityClassName": HIGH, "disruptionMode": "PodGroup", "schedulingPolicy": {"gang": {"minCount": MEMBERS}}},
    });
    let pod = |index: usize| {
        let container =
            json!({"name": "main", "image": "registry.example/fake:1", "resources": {"requests": {"cpu": "1"}}});
        let pod = json!({
            "metadata": {"name": format!("{name}-{index}"), "labels": {"scheduling.giveway.dev/pod-group": name}},
            "spec": {"priorityClassName": HIGH, "automountServiceAccountToken": false, "containers": [container],
                "nodeSelector": {POOL: pool(of_pool)}},
        });
        Write::new("/api/v1/namespaces/default/pods".to_owned(), &pod)
    };
    (Write::new(groups_in("default"), &group), (0..MEMBERS).map(pod).collect())
}

/// Returns the manifest for which the command line plans: a gang of 64 pods.
pub(super) fn manifest() -> String {
    let group = json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup", "metadata": {"name": "planned"},
        "spec": {"priorityClassName": HIGH, "disruptionMode": "PodGroup", "schedulingPolicy": {"gang": {"minCount": 64}}},
    });
    let container =
        json!({"name": "main", "image": "registry.example/fake:1", "resources": {"requests": {"cpu": "1"}}});
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "planned"},
        "spec": {"completionMode": "Indexed", "completions": 64, "parallelism": 64, "template": {
            "metadata": {"labels": {"scheduling.giveway.dev/pod-group": "planned"}},
            "spec": {"priorityClassName": HIGH, "restartPolicy": "Never", "containers": [container]}}},
    });
    format!("{group}\n---\n{job}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_spread_over_nodes_and_groups_and_have_what_real_pods_have() {
        let size = Size { nodes: 4, pods: 40, groups: 5 };
        let pods = Pods::new(size);
        let (create, run) = pods.pod(13);
        assert_eq!(create.path, "/api/v1/namespaces/team-01/pods");
        assert_eq!(run.path, "/api/v1/namespaces/team-01/pods/train-model-00001-5-x7k2p/status");
        assert!(!create.body.contains('@'), "{}", create.body);
        let pod: Value = serde_json::from_str(&create.body).unwrap();
        assert_eq!(pod["metadata"]["labels"].as_object().unwrap().len(), 10);
        assert_eq!(pod["spec"]["nodeName"], "ip-10-0-1-17.eu-west-1.compute.internal");
        let containers = pod["spec"]["containers"].as_array().unwrap();
        assert!(containers.len() == 2 && containers.iter().all(|one| one["env"].as_array().unwrap().len() == 10));
        assert_eq!(pod["spec"]["volumes"].as_array().unwrap().len(), 3);
        assert!(!pods.another(7).body.contains('@'));
    }
}
