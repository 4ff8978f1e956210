//! The owners of pods, which create and recreate them: Jobs, ReplicaSets and StatefulSets, including the changes of
//! admission.

use crate::simulation::object::{Kind, Pod};
use crate::simulation::server::Server;
use giveway_crds::keys;
use giveway_tests::audit::ADMIN;
use serde_json::{Value, json};

/// How the pods of an owner are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bond {
    /// As single pods.
    Single,
    /// As a gang with this `minCount`; `whole` if its pods are disrupted together.
    Gang { min_count: usize, whole: bool },
    /// As a basic group.
    Basic,
}

/// An owner of pods.
#[derive(Clone, Debug)]
pub struct Owner {
    pub name: String,
    pub bond: Bond,
    /// Number of wanted pods.
    pub pods: usize,
    /// CPU request of each pod.
    pub cpus: usize,
    pub priority: i32,
    /// The priority from which on a preemptor may violate its budget.
    pub threshold: Option<i32>,
    /// Termination grace period of its pods, in seconds.
    pub grace: u64,
    /// `preemptionDelaySeconds` of its group: the time between a plan and its first eviction.
    pub delay: u64,
    /// True if its class is managed; otherwise its class never preempts.
    pub managed: bool,
    /// True if a replacement pod has the name of the pod that it replaces.
    pub stateful: bool,
    /// True if the owner was deleted and creates no more pods.
    pub deleted: bool,
    /// Number of created pods.
    pub made: usize,
}

impl Owner {
    /// Creates its group.
    pub fn begin(&self, server: &mut Server) {
        let policy = match self.bond {
            Bond::Single => return,
            Bond::Gang { min_count, .. } => json!({"gang": {"minCount": min_count}}),
            Bond::Basic => json!({"basic": {}}),
        };
        let whole = matches!(self.bond, Bond::Gang { whole: true, .. });
        let mut group = json!({
            "metadata": {"name": self.name},
            "spec": {"schedulingPolicy": policy, "disruptionMode": if whole { "PodGroup" } else { "Pod" },
                "priority": self.priority, "preemptionPolicy": "PreemptLowerPriority"}
        });
        if self.delay > 0 {
            group["spec"]["preemptionDelaySeconds"] = json!(self.delay);
        }
        server.create(ADMIN, Kind::Group, group).expect("a new name");
    }

    /// Creates the missing pods.
    pub fn replace(&mut self, server: &mut Server) {
        let own = |server: &Server| {
            let pods = server.list(Kind::Pod).filter(|pod| Pod(pod).owner() == self.name && Pod(pod).live());
            pods.map(|pod| Pod(pod).name().to_owned()).collect::<Vec<_>>()
        };
        while !self.deleted && own(server).len() < self.pods {
            let name = if self.stateful {
                let names = (0..self.pods).map(|index| format!("{}-{index}", self.name));
                let mut free = names.filter(|name| server.get(Kind::Pod, name).is_none());
                // The earlier pods with the other names have not been removed yet.
                let Some(name) = free.next() else { return };
                name
            } else {
                format!("{}-{}", self.name, self.made)
            };
            self.made += 1;
            server.create(ADMIN, Kind::Pod, self.pod(&name)).expect("a free name");
        }
    }

    fn pod(&self, name: &str) -> Value {
        let reference = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": self.name,
            "uid": format!("owner-{}", self.name), "controller": true});
        let mut labels = json!({"app": self.name});
        let mut annotations = json!({});
        let mut spec = json!({
            "priority": self.priority, "preemptionPolicy": "Never", "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": self.grace,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": self.cpus.to_string()}}}]
        });
        match self.bond {
            Bond::Single => {}
            _ => labels[keys::LABEL_POD_GROUP] = json!(self.name),
        }
        if self.managed {
            annotations[keys::ANNOTATION_PREEMPTION_POLICY] = json!("PreemptLowerPriority");
        }
        if matches!(self.bond, Bond::Gang { .. }) {
            spec["schedulingGates"] = json!([{"name": keys::GATE}]);
        }
        if let Some(threshold) = self.threshold {
            annotations[keys::ANNOTATION_THRESHOLD] = json!(threshold.to_string());
        }
        if self.managed || self.threshold.is_some() {
            // Only pods of a class have its annotations. The model does not know this class.
            spec["priorityClassName"] = json!("any");
        }
        let metadata =
            json!({"name": name, "labels": labels, "annotations": annotations, "ownerReferences": [reference]});
        json!({"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "conditions": []}})
    }
}
